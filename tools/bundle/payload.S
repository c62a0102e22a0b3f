# The files that payload.h hands out, as read-only data. Paths come from CMakeLists.txt.
    .section .rodata
.macro payload name, path
    .globl scalegemm_payload_\name\()_begin, scalegemm_payload_\name\()_end
    .hidden scalegemm_payload_\name\()_begin, scalegemm_payload_\name\()_end
    .balign 16
scalegemm_payload_\name\()_begin:
    .incbin "\path"
scalegemm_payload_\name\()_end:
    .byte 0
.endm
    payload core, SCALEGEMM_CORE
    payload c, SCALEGEMM_C_HEADER
    payload cpp, SCALEGEMM_CPP_HEADER
    .section .note.GNU-stack,"",%progbits
