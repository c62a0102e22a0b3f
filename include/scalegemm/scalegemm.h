/* scalegemm: block-scaled matrix multiplication for low-precision weights and activations. C ABI.
 *
 * One operation, for every quantisation scheme:
 *
 *   D[m,n] = convert(clamp(act(alpha * sum_k a(m,k) * b(n,k) + beta * C[m,n] + bias[n])))
 *   x(r,k) = (code(r,k) - zero(r/br, k/bk)) * scale(r/br, k/bk) * global
 *
 * A is M x K, B is N x K (one row per output column), D is M x N. A scheme is data: the type of each
 * operand and the type and block (br x bk) of its scales. Everything after the products is fp32; D is
 * rounded once.
 *
 * The usual path:
 *
 *   scalegemm_runtime_create -> scalegemm_problem_init -> scalegemm_pack (weights, once)
 *     -> scalegemm_plan_create -> scalegemm_run (often, from any thread) -> ..._destroy
 *
 * Activations in f32, f16 or bf16 become codes and scales by a quantizer, made once like a plan.
 *
 * Rules that hold everywhere:
 *   - A function that can fail returns a scalegemm_status; scalegemm_last_error() then says which argument
 *     was wrong, what was needed and what was given. No input aborts the process.
 *   - Structures that may grow start with struct_size, which the caller sets to sizeof before every call,
 * also before an _init function and for results, so that an older caller works with a newer library. The
 *     others (tensor, scale_desc, operand_desc, scheme_info, ceiling, kernel_info, file_tensor) are frozen.
 * Fields that are not used must be 0; reserved ones that are not are refused with SCALEGEMM_INVALID_ARGUMENT.
 *   - Pointers that are handed in stay the caller's. Objects that are handed out are freed by their
 *     _destroy function, which accepts NULL.
 *   - All functions are thread-safe; one object may be used by many threads, except while it is destroyed.
 */
#ifndef SCALEGEMM_SCALEGEMM_H_
#define SCALEGEMM_SCALEGEMM_H_

#include <stddef.h>
#include <stdint.h>

#define SCALEGEMM_VERSION_MAJOR 0
#define SCALEGEMM_VERSION_MINOR 1
#define SCALEGEMM_VERSION_PATCH 0

#if defined(__GNUC__)
#define SCALEGEMM_API __attribute__((visibility("default")))
#else
#define SCALEGEMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ status */

typedef enum scalegemm_status {
  SCALEGEMM_OK = 0,
  SCALEGEMM_INVALID_ARGUMENT = 1, /* the call is wrong: the message names the argument */
  SCALEGEMM_UNSUPPORTED = 2,      /* well formed, but no kernel of this device does it */
  SCALEGEMM_NOT_BUILT = 3,        /* a kernel or back end exists but was not compiled in, and cannot be now */
  SCALEGEMM_NO_DEVICE = 4,
  SCALEGEMM_COMPILE_FAILED = 5,
  SCALEGEMM_LAUNCH_FAILED = 6,
  SCALEGEMM_OUT_OF_MEMORY = 7,
  SCALEGEMM_IO_ERROR = 8,
  SCALEGEMM_CORRUPT_DATA = 9,
  SCALEGEMM_INTERNAL = 10
} scalegemm_status;

/* The message of this thread's latest failed call; "" when there was none. Valid until this thread's next
 * call into the library. */
SCALEGEMM_API const char* scalegemm_last_error(void);

/* "ok", "invalid argument", ...; never NULL. */
SCALEGEMM_API const char* scalegemm_status_name(scalegemm_status status);

/* "0.1.0" */
SCALEGEMM_API const char* scalegemm_version(void);

/* ------------------------------------------------------------------------------------------- types */

/* A flavour is always named: e4m3 and e5m2 are the OCP types (e4m3 "fn"), *_FNUZ those of AMD CDNA3.
 * The 4-bit types are stored two codes a byte along K: even k in the low nibble, odd k in the high one. */
typedef enum scalegemm_dtype {
  SCALEGEMM_DTYPE_NONE = 0,
  SCALEGEMM_F32 = 1,
  SCALEGEMM_F16 = 2,
  SCALEGEMM_BF16 = 3,
  SCALEGEMM_E4M3 = 4,
  SCALEGEMM_E4M3_FNUZ = 5,
  SCALEGEMM_E5M2 = 6,
  SCALEGEMM_E5M2_FNUZ = 7,
  SCALEGEMM_E2M1 = 8,
  SCALEGEMM_E8M0 = 9, /* scales only: byte b is 2^(b-127), 255 is NaN */
  SCALEGEMM_INT8 = 10,
  SCALEGEMM_INT4 = 11,  /* two's complement, -8..7 */
  SCALEGEMM_UINT4 = 12, /* 0..15 */
  SCALEGEMM_INT32 = 13  /* output of unscaled int8 x int8 only */
} scalegemm_dtype;

/* "e4m3", "bf16", ...; NULL for a value that is no type. */
SCALEGEMM_API const char* scalegemm_dtype_name(int32_t dtype);
/* The type of that name, or SCALEGEMM_DTYPE_NONE. */
SCALEGEMM_API scalegemm_dtype scalegemm_dtype_from_name(const char* name);
/* Bits of one element (4, 8, 16 or 32); 0 for a value that is no type. */
SCALEGEMM_API int32_t scalegemm_dtype_bits(int32_t dtype);

typedef enum scalegemm_layout {
  SCALEGEMM_ROW = 0, /* the last index of the mathematical matrix (A: M x K, B: K x N) is contiguous */
  SCALEGEMM_COL = 1  /* the first index is; B column-major is the usual N x K weight */
} scalegemm_layout;

typedef enum scalegemm_activation {
  SCALEGEMM_ACT_NONE = 0,
  SCALEGEMM_ACT_RELU = 1,
  SCALEGEMM_ACT_GELU_TANH = 2,
  SCALEGEMM_ACT_GELU_ERF = 3,
  SCALEGEMM_ACT_SILU = 4
} scalegemm_activation;

/* How sums over K are formed; each is a lower bound on care (docs/numerics.md). */
typedef enum scalegemm_accuracy {
  SCALEGEMM_PROMOTED = 0, /* the default: fp32 sums at least every 128 products */
  SCALEGEMM_FAST = 1,     /* the matrix unit's own accumulator end to end */
  SCALEGEMM_EXACT = 2     /* fp32 sums of every scale block */
} scalegemm_accuracy;

/* The scales (and zero points) of one operand with R rows (A: M, B: N): a grid of
 * ceil(R / block_rows) x ceil(K / block_k) values. A last partial block is legal. */
typedef struct scalegemm_scale_desc {
  int32_t dtype;      /* f32, f16, bf16, e8m0 or e4m3; SCALEGEMM_DTYPE_NONE: the operand has no scales */
  int32_t zero_dtype; /* int8, int4 or uint4 zero points of the same grid, one byte each; or NONE */
  int64_t block_rows; /* 0: one block spans all rows */
  int64_t block_k;    /* 0: one block spans all of K */
  int32_t has_global; /* 1: one further f32 factor for the whole operand */
  int32_t reserved;
} scalegemm_scale_desc;

typedef struct scalegemm_operand_desc {
  int32_t dtype;
  int32_t layout; /* scalegemm_layout */
  scalegemm_scale_desc scale;
} scalegemm_operand_desc;

/* How B is given: as raw codes, or as the object made by scalegemm_pack. */
typedef enum scalegemm_packing {
  SCALEGEMM_PACKED =
      -1, /* packed, in the layout the library prefers for this problem (for every M the same) */
  SCALEGEMM_RAW = 0,
  SCALEGEMM_PANEL_K1X32 = 1, /* packed, in this layout */
  SCALEGEMM_PANEL_K4X16 = 2
} scalegemm_packing;

/* What is asked. Fill it with scalegemm_problem_init and change fields, or fill it field by field. */
typedef struct scalegemm_problem {
  uint64_t struct_size;
  int64_t m, n, k; /* >= 1; K even where an operand has a 4-bit type */
  int64_t batch;   /* >= 1 */
  scalegemm_operand_desc a, b;
  int32_t d_dtype;         /* f32, bf16, f16, e4m3, e5m2: fp8 outputs saturate; int32 */
  int32_t b_packing;       /* scalegemm_packing */
  int32_t bias_dtype;      /* f32, bf16, f16, or NONE: no bias */
  int32_t c_dtype;         /* f32, bf16, f16, or NONE: no C */
  int32_t activation;      /* scalegemm_activation */
  int32_t accuracy;        /* scalegemm_accuracy */
  int32_t batch_invariant; /* 1: the bits of a row of D do not depend on M */
  int32_t has_clamp;       /* 1: clamp to [clamp_min, clamp_max] after the activation */
  float clamp_min, clamp_max;
} scalegemm_problem;

/* Fills `problem` for a scheme such as "mxfp4", "rowcol", "abquant:g=128,bn=128" or
 * "bquant:a=bf16,b=int4,g=32,zero=uint4" (see scalegemm_scheme), a layout word for A, B and D ("rcr": A
 * K-contiguous, B K-contiguous, D N-contiguous; "rrr", "crr", "ccr"), and sizes. D is f32. */
SCALEGEMM_API scalegemm_status scalegemm_problem_init(scalegemm_problem* problem, const char* scheme,
                                                      const char* layout, int64_t m, int64_t n, int64_t k);

typedef struct scalegemm_scheme_info {
  const char* name;        /* what scalegemm_problem_init takes */
  const char* description; /* one line */
  double bits_per_weight;  /* of B, scales counted, at large N and K */
  int32_t is_preset;       /* 0: a well-known instance of a preset, such as "bquant:a=bf16,b=int4,g=128" */
  int32_t reserved;
} scalegemm_scheme_info;

SCALEGEMM_API int32_t scalegemm_scheme_count(void);
/* The scheme number `index`, in 0 .. count - 1. Strings live as long as the library. */
SCALEGEMM_API scalegemm_status scalegemm_scheme(int32_t index, scalegemm_scheme_info* info);

/* ----------------------------------------------------------------------------------------- runtime */

/* Everything that is shared: devices, kernels, threads, the disk cache. One a process is enough. */
typedef struct scalegemm_runtime scalegemm_runtime;

typedef struct scalegemm_runtime_options {
  uint64_t struct_size;
  int32_t threads;       /* of the CPU device; 0: one a core this process may use */
  int32_t jit;           /* 0: compile kernels that are not built in when a compiler exists; -1: never */
  const char* cache_dir; /* NULL: $SCALEGEMM_CACHE_DIR, else $XDG_CACHE_HOME/scalegemm, ~/.cache/scalegemm */
  const char* tuned_table; /* CSV (src/dispatch/tuned.h), or NULL */
  int32_t strict;          /* 1: an unknown kernel name in the tuned table is an error, not a warning */
  int32_t reserved;
  const char*
      cpu_target; /* cap on the CPU target ("x86-64-v3"); NULL: $SCALEGEMM_CPU_TARGET, else the best */
} scalegemm_runtime_options;

/* options may be NULL. */
SCALEGEMM_API scalegemm_status scalegemm_runtime_create(const scalegemm_runtime_options* options,
                                                        scalegemm_runtime** runtime);
SCALEGEMM_API void scalegemm_runtime_destroy(scalegemm_runtime* runtime);

/* What stopped nothing and yet deserves a look, one a line, "" when there is nothing: rows of the tuned table
 * whose kernel is unknown (they are left out), a disk cache that could not be used, flags that the compiler
 * refused. Grows while kernels are compiled. text and size as in scalegemm_explain. */
SCALEGEMM_API scalegemm_status scalegemm_runtime_warnings(const scalegemm_runtime* runtime, char* text,
                                                          uint64_t* size);

typedef struct scalegemm_device_info {
  uint64_t struct_size;
  char name[64];      /* "cpu", "cuda:0": what plan options take */
  char model[128];    /* "AMD EPYC ..." */
  char target[32];    /* the best target of this device: "avx512" */
  char features[256]; /* instruction sets found, separated by spaces */
  int32_t cores;
  int32_t reserved;
  uint64_t l1_bytes, l2_bytes, l3_bytes, memory_bytes;
} scalegemm_device_info;

SCALEGEMM_API int32_t scalegemm_device_count(const scalegemm_runtime* runtime);
SCALEGEMM_API scalegemm_status scalegemm_device(const scalegemm_runtime* runtime, int32_t index,
                                                scalegemm_device_info* info);

/* Something that the hardware cannot exceed, measured. Strings are valid during the visit.
 *
 * CPU, instruction rates of one thread times the threads, "GFLOP/s" or "GOP/s": "f32_fma" (from registers),
 * "f32_fma_fed" (operands loaded from L1), "bf16_dot" (where the instruction is), "int8_dot",
 * "int8_dot_fed"; "read", "GB/s" of memory well beyond the caches with all threads, bytes 0; "launch", "us"
 * of an empty parallel region.
 *
 * CUDA, event-timed launches: "launch", "us" of an empty kernel; "read", "GB/s" of a cold read of `bytes` in
 * one launch, launch included, for ten sizes; on compute capability 9.0 also matrix rates with operands that
 * lie in shared memory, "GFLOP/s" or "GOP/s": "e4m3_n128_zeros" and "e4m3_n128_normal" (type, columns of the
 * instruction, data), "e4m3_promoted_..." with f32 promotion every 128 products. */
typedef struct scalegemm_ceiling {
  const char* name;
  const char* unit;
  double value;
  uint64_t bytes; /* of a read of one size; else 0 */
} scalegemm_ceiling;
/* Measures now: about 0.3 s on the CPU, 3 s on a GPU (and once the compilation of the probes). Calls visit
 * for each ceiling until it returns non-zero. device NULL: "cpu". threads: of the CPU; 0: the runtime's. */
SCALEGEMM_API scalegemm_status
scalegemm_measure_ceilings(scalegemm_runtime* runtime, const char* device, int32_t threads,
                           int32_t (*visit)(const scalegemm_ceiling* ceiling, void* user), void* user);

/* ----------------------------------------------------------------------------------------- tensors */

/* A view of at most three dimensions: batch, rows, columns. Rows and columns: A is M x K, B is N x K, C and
 * D are M x N, scale and zero grids as in scalegemm_scale_desc, bias is 1 x N. Shapes are logical (K counts
 * codes). Strides count storage elements: of the 4-bit types a storage element is one byte with two codes, so
 * a contiguous N x K int4 matrix has strides {N*K/2, K/2, 1}. Zero points are stored one a byte. Nothing
 * beyond element alignment is required. `bytes` is the extent of the memory behind data; a shape that does
 * not fit into it is refused. An absent tensor has data NULL. */
typedef struct scalegemm_tensor {
  void* data;
  uint64_t bytes;
  int32_t dtype;
  int32_t reserved;
  int64_t shape[3];
  int64_t stride[3];
} scalegemm_tensor;

/* A contiguous rows x cols tensor (batch 1) of that type. */
SCALEGEMM_API scalegemm_tensor scalegemm_matrix(void* data, int32_t dtype, int64_t rows, int64_t cols);

/* ------------------------------------------------------------------------------------------- plans */

typedef struct scalegemm_plan_options {
  uint64_t struct_size;
  const char* device; /* "cpu", "cuda:0"; NULL: "cpu" */
  const char* kernel; /* a kernel name to use instead of the dispatcher's choice; NULL: choose */
  int32_t threads;    /* at most this many; 0: the runtime's */
  int32_t reserved;
} scalegemm_plan_options;

/* Can it run, with which kernel? Compiles nothing. */
typedef struct scalegemm_support {
  uint64_t struct_size;
  int32_t supported;      /* 1 or 0 */
  int32_t needs_compiler; /* 1: the kernel is not built in and would be compiled now */
  uint64_t
      workspace_bytes; /* of scalegemm_run; 0 when needs_compiler and on GPUs: known once there is a plan */
  char kernel[256];    /* "" when unsupported */
  char reason[1024];   /* why not, or why this kernel */
} scalegemm_support;
SCALEGEMM_API scalegemm_status scalegemm_query(scalegemm_runtime* runtime, const scalegemm_problem* problem,
                                               const scalegemm_plan_options* options,
                                               scalegemm_support* support);

/* An immutable, thread-safe choice: kernel, launch shape, workspace size; it may outlive its runtime. Options
 * may be NULL. */
typedef struct scalegemm_plan scalegemm_plan;
SCALEGEMM_API scalegemm_status scalegemm_plan_create(scalegemm_runtime* runtime,
                                                     const scalegemm_problem* problem,
                                                     const scalegemm_plan_options* options,
                                                     scalegemm_plan** plan);
SCALEGEMM_API void scalegemm_plan_destroy(scalegemm_plan* plan);
/* Bytes that scalegemm_run needs as workspace, 64-byte aligned. */
SCALEGEMM_API uint64_t scalegemm_plan_workspace_bytes(const scalegemm_plan* plan);
/* Valid as long as the plan. */
SCALEGEMM_API const char* scalegemm_plan_kernel(const scalegemm_plan* plan);

/* ----------------------------------------------------------------------------------- packed weights */

/* B in the order a kernel family reads it, with its scales: self-describing, made only by scalegemm_pack or
 * scalegemm_packed_load. */
typedef struct scalegemm_packed scalegemm_packed;

typedef struct scalegemm_pack_args {
  uint64_t struct_size;
  scalegemm_tensor b, scale_b, zero_b; /* as in scalegemm_run_args */
  float* global_b; /* one f32 where the operand has a global factor; kept with the weights */
} scalegemm_pack_args;

typedef struct scalegemm_packed_info {
  uint64_t struct_size;
  int32_t layout; /* scalegemm_packing */
  int32_t reserved;
  int64_t n, k, batch;
  scalegemm_operand_desc operand;
  uint64_t bytes;  /* in memory and in a file */
  char digest[33]; /* 128-bit XXH3 of the contents, hex */
} scalegemm_packed_info;

/* Packs the B of `problem` (of which M is ignored) for `options->device`. problem->b_packing must be
 * SCALEGEMM_PACKED or a layout. */
SCALEGEMM_API scalegemm_status scalegemm_pack(scalegemm_runtime* runtime, const scalegemm_problem* problem,
                                              const scalegemm_plan_options* options,
                                              const scalegemm_pack_args* args, scalegemm_packed** packed);
SCALEGEMM_API void scalegemm_packed_destroy(scalegemm_packed* packed);
SCALEGEMM_API scalegemm_status scalegemm_packed_describe(const scalegemm_packed* packed,
                                                         scalegemm_packed_info* info);
/* Back to raw contiguous row-major (N x K) codes, scales and zero points (int8), and the global factor, into
 * the caller's memory; absent tensors are left out. Exact. */
SCALEGEMM_API scalegemm_status scalegemm_unpack(const scalegemm_packed* packed,
                                                const scalegemm_pack_args* out);
/* The file is complete or absent, never half-written. Loading verifies the digest. */
SCALEGEMM_API scalegemm_status scalegemm_packed_save(const scalegemm_packed* packed, const char* path);
SCALEGEMM_API scalegemm_status scalegemm_packed_load(const char* path, scalegemm_packed** packed);

/* --------------------------------------------------------------------------------------------- run */

typedef struct scalegemm_run_args {
  uint64_t struct_size;
  scalegemm_tensor a;
  scalegemm_tensor b;               /* absent when packed_b is set */
  const scalegemm_packed* packed_b; /* for problems whose b_packing is not RAW */
  scalegemm_tensor scale_a, zero_a;
  scalegemm_tensor scale_b, zero_b; /* absent when packed_b is set */
  const float* global_a;            /* one f32 in the device's memory, where has_global is 1 */
  const float* global_b;            /* NULL when packed_b is set, which holds its own */
  scalegemm_tensor c, bias, d;
  float alpha;     /* scalegemm_run_args_init sets 1 */
  float beta;      /* 0: C is not read */
  void* workspace; /* scalegemm_plan_workspace_bytes of memory, 64-byte aligned; one a concurrent run */
  uint64_t workspace_bytes;
  void*
      stream; /* CUstream of the caller (NULL: the default one); must be NULL for a plan of the CPU device */
} scalegemm_run_args;

/* Everything 0 but struct_size and alpha. */
SCALEGEMM_API scalegemm_status scalegemm_run_args_init(scalegemm_run_args* args);

/* Runs the plan: on the CPU, D is complete on return; on a GPU all pointers are device memory and the work is
 * enqueued on the stream, also while that is captured into a graph. Checks the arguments, allocates nothing.
 * D must not overlap an input, except C when C is D itself. */
SCALEGEMM_API scalegemm_status scalegemm_run(const scalegemm_plan* plan, const scalegemm_run_args* args);

/* ------------------------------------------------------------------------------------ quantisation */

typedef enum scalegemm_scale_rounding { /* of e8m0 scales: which power of two for an amax between two */
                                        SCALEGEMM_SCALE_FLOOR = 0, /* OCP MX v1.0 6.3 */
                                        SCALEGEMM_SCALE_EVEN = 1,
                                        SCALEGEMM_SCALE_CEIL = 2
} scalegemm_scale_rounding;

typedef struct scalegemm_quantize_options {
  uint64_t struct_size;
  int32_t scale_rounding; /* scalegemm_scale_rounding */
  int32_t reserved;
} scalegemm_quantize_options;

/* Quantises src (f32, rows x K, any strides) into contiguous row-major codes, scales and zero points, which
 * the caller allocates: rows x K codes, grids as in scalegemm_scale_desc; absent where the operand has
 * none. *global receives the global factor when has_global. The scale used is the scale stored. NaN and
 * infinities: docs/numerics.md. */
SCALEGEMM_API scalegemm_status scalegemm_quantize(const scalegemm_operand_desc* operand,
                                                  const scalegemm_tensor* src,
                                                  const scalegemm_quantize_options* options,
                                                  const scalegemm_tensor* codes,
                                                  const scalegemm_tensor* scales,
                                                  const scalegemm_tensor* zeros, float* global);
/* The inverse, into a contiguous or strided f32 tensor. */
SCALEGEMM_API scalegemm_status scalegemm_dequantize(const scalegemm_operand_desc* operand,
                                                    const scalegemm_tensor* codes,
                                                    const scalegemm_tensor* scales,
                                                    const scalegemm_tensor* zeros, const float* global,
                                                    const scalegemm_tensor* dst);

/* What a quantizer does, on any device with the same bits as scalegemm_quantize. Operands: scales of single
 * rows (block_rows 1), no zero points, no global factor. On a GPU: e4m3, e5m2, e2m1 and int8 codes with f32
 * or e8m0 scales and block_k 16, 32, 64, 128, 256 or 0 (all of K); on the CPU any type and block. Scales of
 * more rows, and the global factor, are known only after all rows were read: scalegemm_quantize makes those.
 */
typedef struct scalegemm_quantizer_desc {
  uint64_t struct_size;
  scalegemm_operand_desc operand; /* the layout plays no part */
  int32_t source_dtype;           /* f32, f16, bf16 */
  int32_t scale_rounding;         /* scalegemm_scale_rounding */
} scalegemm_quantizer_desc;

/* An immutable, thread-safe quantiser of activations; it may outlive its runtime. Of the options, which may
 * be NULL, the device counts; kernel must be NULL. Its code is compiled when it is not cached. */
typedef struct scalegemm_quantizer scalegemm_quantizer;
SCALEGEMM_API scalegemm_status scalegemm_quantizer_create(scalegemm_runtime* runtime,
                                                          const scalegemm_quantizer_desc* desc,
                                                          const scalegemm_plan_options* options,
                                                          scalegemm_quantizer** quantizer);
SCALEGEMM_API void scalegemm_quantizer_destroy(scalegemm_quantizer* quantizer);

/* Matrices (batch 1) of rows x K source values and codes, both contiguous along K with any row stride, and a
 * scale grid as in scalegemm_scale_desc with any strides: what scalegemm_run is given as a and scale_a can be
 * written in place, also the lines that GPU kernels like best (f32 1 x k scales contiguous along rows, each
 * column of the grid padded to 4; docs/hopper.md). Rows at multiples of 16 bytes are fastest. */
typedef struct scalegemm_quantizer_args {
  uint64_t struct_size;
  scalegemm_tensor src, codes, scales;
  void* stream; /* as in scalegemm_run_args */
} scalegemm_quantizer_args;

/* Quantises: on the CPU, on this thread, codes and scales are complete on return; on a GPU all pointers are
 * device memory and the work is enqueued on the stream, also while that is captured into a graph; nothing is
 * allocated and nothing waited for. Outputs must not overlap src or each other. Padding is left alone. */
SCALEGEMM_API scalegemm_status scalegemm_quantizer_run(const scalegemm_quantizer* quantizer,
                                                       const scalegemm_quantizer_args* args);

/* ------------------------------------------------------------------------- kernels, dispatch, cache */

/* Why this kernel: the choice, the runners-up with predicted times, every decline with rule, needed and got;
 * as text, or JSON when json is 1. options->device may be a target name without a device ("sm_90a").
 * *size is the capacity of `text` on entry and the bytes needed (with the final 0) on return; a text that
 * does not fit is cut and still ends with 0. `text` may be NULL to ask for the size. */
SCALEGEMM_API scalegemm_status scalegemm_explain(scalegemm_runtime* runtime, const scalegemm_problem* problem,
                                                 const scalegemm_plan_options* options, int32_t json,
                                                 char* text, uint64_t* size);

typedef struct scalegemm_kernel_info {
  const char* name;
  const char* target;
  const char* id;   /* 128-bit identity, hex; "" when it is not known without compiling */
  int32_t built_in; /* 1: in the library; 0: legal, compiled on first use */
  int32_t cached;   /* 1: in the disk cache */
} scalegemm_kernel_info;
/* Calls visit for each kernel whose name contains `filter` (NULL: all) until it returns non-zero. */
SCALEGEMM_API scalegemm_status scalegemm_kernels(scalegemm_runtime* runtime, const char* filter,
                                                 int32_t (*visit)(const scalegemm_kernel_info* info,
                                                                  void* user),
                                                 void* user);
/* Generates, compiles and stores the named kernel now. force 1: also when it is built in or cached. */
SCALEGEMM_API scalegemm_status scalegemm_kernel_build(scalegemm_runtime* runtime, const char* name,
                                                      int32_t force);
/* The source of the named kernel's translation unit; text and size as in scalegemm_explain. */
SCALEGEMM_API scalegemm_status scalegemm_kernel_source(scalegemm_runtime* runtime, const char* name,
                                                       char* text, uint64_t* size);

typedef struct scalegemm_cache_info {
  uint64_t struct_size;
  char path[1024];
  int64_t entries;
  uint64_t bytes;
  int32_t writable;
  int32_t reserved;
} scalegemm_cache_info;
SCALEGEMM_API scalegemm_status scalegemm_cache(scalegemm_runtime* runtime, scalegemm_cache_info* info);
SCALEGEMM_API scalegemm_status scalegemm_cache_clear(scalegemm_runtime* runtime);

typedef struct scalegemm_toolchain_info {
  uint64_t struct_size;
  char name[32];     /* "host c++", "nvrtc" */
  char version[256]; /* what it says of itself; "" when absent */
  char problem[512]; /* why it cannot be used and what to do, "" when it can */
} scalegemm_toolchain_info;
SCALEGEMM_API int32_t scalegemm_toolchain_count(const scalegemm_runtime* runtime);
SCALEGEMM_API scalegemm_status scalegemm_toolchain(scalegemm_runtime* runtime, int32_t index,
                                                   scalegemm_toolchain_info* info);

/* ------------------------------------------------------------------------------------------- files */

/* A safetensors or npy file, mapped read-only. Hostile files are refused with SCALEGEMM_CORRUPT_DATA. */
typedef struct scalegemm_file scalegemm_file;

typedef struct scalegemm_file_tensor {
  const char* name; /* valid as long as the file is open */
  const char* type; /* the file's own word: "BF16", "F8_E4M3", "I64" */
  int32_t dtype;    /* SCALEGEMM_DTYPE_NONE where there is no equal type here */
  int32_t rank;
  int64_t shape[8]; /* outermost first; of a tensor with more dimensions the first 8 */
  const void* data; /* little-endian; a safetensors file does not align it to its elements */
  uint64_t bytes;
  int32_t fortran_order; /* npy only: 1: the first index runs fastest */
  int32_t reserved;
} scalegemm_file_tensor;

SCALEGEMM_API scalegemm_status scalegemm_file_open(const char* path, scalegemm_file** file);
SCALEGEMM_API void scalegemm_file_close(scalegemm_file* file);
SCALEGEMM_API int64_t scalegemm_file_tensor_count(const scalegemm_file* file);
SCALEGEMM_API scalegemm_status scalegemm_file_get(const scalegemm_file* file, int64_t index,
                                                  scalegemm_file_tensor* tensor);
/* Writes contiguous row-major tensors: as npy when the path ends in ".npy" (then one tensor), else as
 * safetensors. The file is complete or absent. `type` is the format's word ("F8_E4M3", "U8"; npy: "f4",
 * "u1"); NULL: that of dtype, which fails for types the format does not have. */
SCALEGEMM_API scalegemm_status scalegemm_file_write(const char* path, const scalegemm_file_tensor* tensors,
                                                    int64_t count);

/* ------------------------------------------------------------------------------------- checkpoints */

/* A model as others store it, mapped read-only: a safetensors or GGUF file, or a
 * folder of safetensors files with their index and config.json. docs/checkpoints.md lists the formats. Which
 * tensors are which layer follows from types, shapes and the quantisation config together; what fits no
 * reading, or more than one, is a layer with a `problem`, never a guess. Hostile files are refused with
 * SCALEGEMM_CORRUPT_DATA. */
typedef struct scalegemm_checkpoint scalegemm_checkpoint;

/* A weight, or several of one shape in one tensor (experts). Strings live as long as the checkpoint. */
typedef struct scalegemm_layer_info {
  uint64_t struct_size;
  const char* name;               /* "model.layers.0.mlp.down_proj" */
  const char* format;             /* "DeepSeek e4m3", "GPTQ v1", "GGUF Q4_0" */
  const char* scheme;             /* what runs it, for scalegemm_problem_init; "" with a problem */
  const char* note;               /* what a user must know, such as rows that alternate; often "" */
  const char* problem;            /* why it cannot be read: what was needed, what was found; "": it can */
  int64_t n, k, count;            /* count matrices of N x K */
  uint64_t bytes;                 /* of its tensors in the file */
  scalegemm_operand_desc operand; /* the B of the scheme */
} scalegemm_layer_info;

SCALEGEMM_API scalegemm_status scalegemm_checkpoint_open(const char* path, scalegemm_checkpoint** checkpoint);
SCALEGEMM_API void scalegemm_checkpoint_close(scalegemm_checkpoint* checkpoint);
SCALEGEMM_API int64_t scalegemm_checkpoint_layer_count(const scalegemm_checkpoint* checkpoint);
SCALEGEMM_API scalegemm_status scalegemm_checkpoint_layer(const scalegemm_checkpoint* checkpoint,
                                                          int64_t index, scalegemm_layer_info* info);
/* Calls visit for each tensor that is part of no layer until it returns non-zero: its name, type and shape in
 * words, and why. Strings are valid during the visit. */
SCALEGEMM_API scalegemm_status scalegemm_checkpoint_left_out(
    const scalegemm_checkpoint* checkpoint,
    int32_t (*visit)(const char* name, const char* type, const char* reason, void* user), void* user);

/* One matrix of a layer, as scalegemm_pack and scalegemm_run take B: tensors over the map of the file where
 * it has that form, else over memory of the weight. Read-only, though scalegemm_tensor has no const. Valid
 * until the weight is destroyed, and the checkpoint must stay open as long. */
typedef struct scalegemm_weight scalegemm_weight;

typedef struct scalegemm_weight_view {
  uint64_t struct_size;
  scalegemm_operand_desc operand;
  int64_t n, k;
  scalegemm_tensor codes, scales, zeros; /* absent ones have data NULL */
  float* global;                         /* NULL: the operand has no global factor */
  /* Act-order: column j of the codes is column columns[j] of the weight, so A[:, columns[j]] belongs there; K
   * entries. NULL: the columns are in order. */
  const int32_t* columns;
} scalegemm_weight_view;

/* Matrix `member` (of info.count, from 0) of a layer. SCALEGEMM_UNSUPPORTED with the layer's problem. */
SCALEGEMM_API scalegemm_status scalegemm_weight_read(const scalegemm_checkpoint* checkpoint, int64_t layer,
                                                     int64_t member, scalegemm_weight** weight);
SCALEGEMM_API void scalegemm_weight_destroy(scalegemm_weight* weight);
SCALEGEMM_API scalegemm_status scalegemm_weight_describe(const scalegemm_weight* weight,
                                                         scalegemm_weight_view* view);

typedef enum scalegemm_conversion {
  SCALEGEMM_COPIED = 0,   /* byte for byte */
  SCALEGEMM_CARRIED = 1,  /* the same codes and scales in other tensors */
  SCALEGEMM_QUANTISED = 2 /* new codes */
} scalegemm_conversion;

typedef struct scalegemm_convert_options {
  uint64_t struct_size;
  const char* scheme;        /* what weights become: its B; NULL: each keeps its codes */
  const char* const* ignore; /* names of dense layers that stay as they are; * stands for any text */
  int64_t ignore_count;
  int32_t scale_rounding; /* scalegemm_scale_rounding, of e8m0 scales */
  int32_t threads;        /* 0: one a core */
} scalegemm_convert_options;

/* A matrix that was converted, or a tensor that is no weight. Strings are valid during the visit. */
typedef struct scalegemm_converted {
  uint64_t struct_size;
  const char* name;
  const char* from; /* the layer's format; "" for what is no weight */
  const char* to;   /* a format of compressed-tensors, or "dense" */
  int32_t how;      /* scalegemm_conversion */
  int32_t exact;    /* 1: what was written, read back, decodes to the bits that it should: of a carried weight
                       those of the source */
  double sqnr_db;   /* of a quantised weight against its source; infinite where they are equal */
  uint64_t bytes;   /* written */
  int32_t resumed;  /* 1: an earlier call had written it (exact, sqnr_db and bytes are not known then) */
  int64_t done, total;
} scalegemm_converted;

/* Writes the model in the tensors of compressed-tensors: to `output` where that ends in ".safetensors" (its
 * quantization_config in the metadata), else to a folder with model.safetensors, config.json and the source's
 * other files. Layer by layer: memory for one matrix a thread. Calls visit (may be NULL) after each, one at a
 * time, until it returns non-zero: then the conversion stops, *finished is 0, and a later call with the same
 * input and options goes on from there, as after a crash; what there is meanwhile lies in output.partial.
 * SCALEGEMM_UNSUPPORTED for a layer that cannot be read, or whose weight the format does not have. */
SCALEGEMM_API scalegemm_status scalegemm_checkpoint_convert(
    const scalegemm_checkpoint* checkpoint, const char* output, const scalegemm_convert_options* options,
    int32_t (*visit)(const scalegemm_converted* converted, void* user), void* user, int32_t* finished);

/* --------------------------------------------------------------------------------------------- ABI */

/* sizeof of a structure in this library, for bindings: "problem", "run_args", ...; 0 for an unknown name. */
SCALEGEMM_API uint64_t scalegemm_struct_size(const char* structure);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SCALEGEMM_SCALEGEMM_H_ */
