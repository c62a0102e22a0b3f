// wgmma.mma_async for every N and every operand pair from one macro: the registers of an m64nN accumulator
// are N/2 a thread, four for each eight columns, so the operand lists grow by four from one N to the next;
// the types are text, chosen at compile time (constraint "C"). Accumulator layout (PTX ISA, "wgmma register
// fragments"): thread t of the warpgroup holds, for the j-th group of eight columns, d[4j..4j+3] = (r, c),
// (r, c+1), (r+8, c), (r+8, c+1) with r = 16*(t/32) + (t%32)/4, c = 8j + 2*(t%4).
#pragma once
#include "cuda/ptx.cuh"

namespace scalegemm::cuda {

// A shared-memory operand whose rows are 128 bytes of K, 128-byte swizzle: atoms of 8 rows, 1,024 bytes apart
// (PTX ISA, "matrix descriptor": address/16 in bits 0-13, stride between atoms/16 in bits 32-45, swizzle mode
// 1 in bits 62-63). Advancing K by 32 bytes inside the atom adds 2; advancing eight rows adds 64.
constexpr u64 kDescriptorBase = (u64{1} << 62) | (u64{1024 >> 4} << 32) | (u64{1} << 16);
constexpr u32 kDescriptorPerMma = kMmaBytes / 16;
SG_DEVICE u64 operand_descriptor(u32 address) {
  return kDescriptorBase | (address >> 4);
}
// From the low word, the only one that depends on the address: in this form sums with constants stay in
// uniform registers.
SG_DEVICE u64 whole_descriptor(u32 low) {
  u64 d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "n"(static_cast<u32>(kDescriptorBase >> 32)));
  return d;
}

// Text of ".kK.<accumulator>.<a>.<b>" and of the operands behind the predicate.
template <Type kA, Type kB>
struct MmaText;
#define SG_MMA_TEXT(A, B, ACC, TEXT, TAIL_SS, TAIL_RS) \
  template <>                                          \
  struct MmaText<Type::A, Type::B> {                   \
    using Acc = ACC;                                   \
    static constexpr char kTypes[] = TEXT;             \
    static constexpr char kTailSs[] = TAIL_SS;         \
    static constexpr char kTailRs[] = TAIL_RS;         \
  }
SG_MMA_TEXT(kE4m3, kE4m3, float, "k32.f32.e4m3.e4m3", ", 1, 1", ", 1, 1");
SG_MMA_TEXT(kE4m3, kE5m2, float, "k32.f32.e4m3.e5m2", ", 1, 1", ", 1, 1");
SG_MMA_TEXT(kE5m2, kE4m3, float, "k32.f32.e5m2.e4m3", ", 1, 1", ", 1, 1");
SG_MMA_TEXT(kE5m2, kE5m2, float, "k32.f32.e5m2.e5m2", ", 1, 1", ", 1, 1");
SG_MMA_TEXT(kBf16, kBf16, float, "k16.f32.bf16.bf16", ", 1, 1, 0, 0", ", 1, 1, 0");
SG_MMA_TEXT(kF16, kF16, float, "k16.f32.f16.f16", ", 1, 1, 0, 0", ", 1, 1, 0");
SG_MMA_TEXT(kInt8, kInt8, i32, "k32.s32.s8.s8", "", "");
#undef SG_MMA_TEXT

// Register lists: SG_R<n> is the text "%0,...,%n-1", SG_D<n>(C) the operands d[0..n-1] with constraint C.
#define SG_R4 "%0,%1,%2,%3"
#define SG_D4(C) C(d[0]), C(d[1]), C(d[2]), C(d[3])
#define SG_R8 SG_R4 ",%4,%5,%6,%7"
#define SG_D8(C) SG_D4(C), C(d[4]), C(d[5]), C(d[6]), C(d[7])
#define SG_R12 SG_R8 ",%8,%9,%10,%11"
#define SG_D12(C) SG_D8(C), C(d[8]), C(d[9]), C(d[10]), C(d[11])
#define SG_R16 SG_R12 ",%12,%13,%14,%15"
#define SG_D16(C) SG_D12(C), C(d[12]), C(d[13]), C(d[14]), C(d[15])
#define SG_R20 SG_R16 ",%16,%17,%18,%19"
#define SG_D20(C) SG_D16(C), C(d[16]), C(d[17]), C(d[18]), C(d[19])
#define SG_R24 SG_R20 ",%20,%21,%22,%23"
#define SG_D24(C) SG_D20(C), C(d[20]), C(d[21]), C(d[22]), C(d[23])
#define SG_R28 SG_R24 ",%24,%25,%26,%27"
#define SG_D28(C) SG_D24(C), C(d[24]), C(d[25]), C(d[26]), C(d[27])
#define SG_R32 SG_R28 ",%28,%29,%30,%31"
#define SG_D32(C) SG_D28(C), C(d[28]), C(d[29]), C(d[30]), C(d[31])
#define SG_R36 SG_R32 ",%32,%33,%34,%35"
#define SG_D36(C) SG_D32(C), C(d[32]), C(d[33]), C(d[34]), C(d[35])
#define SG_R40 SG_R36 ",%36,%37,%38,%39"
#define SG_D40(C) SG_D36(C), C(d[36]), C(d[37]), C(d[38]), C(d[39])
#define SG_R44 SG_R40 ",%40,%41,%42,%43"
#define SG_D44(C) SG_D40(C), C(d[40]), C(d[41]), C(d[42]), C(d[43])
#define SG_R48 SG_R44 ",%44,%45,%46,%47"
#define SG_D48(C) SG_D44(C), C(d[44]), C(d[45]), C(d[46]), C(d[47])
#define SG_R52 SG_R48 ",%48,%49,%50,%51"
#define SG_D52(C) SG_D48(C), C(d[48]), C(d[49]), C(d[50]), C(d[51])
#define SG_R56 SG_R52 ",%52,%53,%54,%55"
#define SG_D56(C) SG_D52(C), C(d[52]), C(d[53]), C(d[54]), C(d[55])
#define SG_R60 SG_R56 ",%56,%57,%58,%59"
#define SG_D60(C) SG_D56(C), C(d[56]), C(d[57]), C(d[58]), C(d[59])
#define SG_R64 SG_R60 ",%60,%61,%62,%63"
#define SG_D64(C) SG_D60(C), C(d[60]), C(d[61]), C(d[62]), C(d[63])
#define SG_R68 SG_R64 ",%64,%65,%66,%67"
#define SG_D68(C) SG_D64(C), C(d[64]), C(d[65]), C(d[66]), C(d[67])
#define SG_R72 SG_R68 ",%68,%69,%70,%71"
#define SG_D72(C) SG_D68(C), C(d[68]), C(d[69]), C(d[70]), C(d[71])
#define SG_R76 SG_R72 ",%72,%73,%74,%75"
#define SG_D76(C) SG_D72(C), C(d[72]), C(d[73]), C(d[74]), C(d[75])
#define SG_R80 SG_R76 ",%76,%77,%78,%79"
#define SG_D80(C) SG_D76(C), C(d[76]), C(d[77]), C(d[78]), C(d[79])
#define SG_R84 SG_R80 ",%80,%81,%82,%83"
#define SG_D84(C) SG_D80(C), C(d[80]), C(d[81]), C(d[82]), C(d[83])
#define SG_R88 SG_R84 ",%84,%85,%86,%87"
#define SG_D88(C) SG_D84(C), C(d[84]), C(d[85]), C(d[86]), C(d[87])
#define SG_R92 SG_R88 ",%88,%89,%90,%91"
#define SG_D92(C) SG_D88(C), C(d[88]), C(d[89]), C(d[90]), C(d[91])
#define SG_R96 SG_R92 ",%92,%93,%94,%95"
#define SG_D96(C) SG_D92(C), C(d[92]), C(d[93]), C(d[94]), C(d[95])
#define SG_R100 SG_R96 ",%96,%97,%98,%99"
#define SG_D100(C) SG_D96(C), C(d[96]), C(d[97]), C(d[98]), C(d[99])
#define SG_R104 SG_R100 ",%100,%101,%102,%103"
#define SG_D104(C) SG_D100(C), C(d[100]), C(d[101]), C(d[102]), C(d[103])
#define SG_R108 SG_R104 ",%104,%105,%106,%107"
#define SG_D108(C) SG_D104(C), C(d[104]), C(d[105]), C(d[106]), C(d[107])
#define SG_R112 SG_R108 ",%108,%109,%110,%111"
#define SG_D112(C) SG_D108(C), C(d[108]), C(d[109]), C(d[110]), C(d[111])
#define SG_R116 SG_R112 ",%112,%113,%114,%115"
#define SG_D116(C) SG_D112(C), C(d[112]), C(d[113]), C(d[114]), C(d[115])
#define SG_R120 SG_R116 ",%116,%117,%118,%119"
#define SG_D120(C) SG_D116(C), C(d[116]), C(d[117]), C(d[118]), C(d[119])
#define SG_R124 SG_R120 ",%120,%121,%122,%123"
#define SG_D124(C) SG_D120(C), C(d[120]), C(d[121]), C(d[122]), C(d[123])
#define SG_R128 SG_R124 ",%124,%125,%126,%127"
#define SG_D128(C) SG_D124(C), C(d[124]), C(d[125]), C(d[126]), C(d[127])

// Wgmma<N, A, B>::ss multiplies two shared operands, rs takes A from registers; accumulate == 0 starts from
// zero.
template <u32 kN, Type kA, Type kB>
struct Wgmma;

// Operand numbers behind the accumulators: the literals R .. R+6, handed in because asm text cannot add.
#define SG_ASM_SS(N, R, C, O0, O1, O2, O3, O4)                                                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #O2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "%" #O3 \
               " {" SG_R##R "}, %" #O0 ", %" #O1 ", p%" #O4 ";\n}"                                           \
               : SG_D##R(C)                                                                                  \
               : "l"(a), "l"(b), "r"(accumulate), "C"(Text::kTypes), "C"(Text::kTailSs))
#define SG_ASM_RS(N, R, C, O0, O1, O2, O3, O4, O5, O6, O7)                                                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #O5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "%" #O6 \
               " {" SG_R##R "}, {%" #O0 ",%" #O1 ",%" #O2 ",%" #O3 "}, %" #O4 ", p%" #O7 ";\n}"              \
               : SG_D##R(C)                                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "C"(Text::kTypes),     \
                 "C"(Text::kTailRs))
#define SG_WGMMA(N, R, O0, O1, O2, O3, O4, O5, O6, O7)                                  \
  template <Type kA, Type kB>                                                           \
  struct Wgmma<N, kA, kB> {                                                             \
    using Text = MmaText<kA, kB>;                                                       \
    using Acc = typename Text::Acc;                                                     \
    SG_DEVICE static void ss(float (&d)[R], u64 a, u64 b, u32 accumulate) {             \
      SG_ASM_SS(N, R, SG_FLOAT, O0, O1, O2, O3, O4);                                    \
    }                                                                                   \
    SG_DEVICE static void ss(i32 (&d)[R], u64 a, u64 b, u32 accumulate) {               \
      SG_ASM_SS(N, R, SG_INT, O0, O1, O2, O3, O4);                                      \
    }                                                                                   \
    SG_DEVICE static void rs(float (&d)[R], const u32 (&a)[4], u64 b, u32 accumulate) { \
      SG_ASM_RS(N, R, SG_FLOAT, O0, O1, O2, O3, O4, O5, O6, O7);                        \
    }                                                                                   \
  }
#define SG_FLOAT(x) "+f"(x)
#define SG_INT(x) "+r"(x)
SG_WGMMA(8, 4, 4, 5, 6, 7, 8, 9, 10, 11);
SG_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14, 15);
SG_WGMMA(24, 12, 12, 13, 14, 15, 16, 17, 18, 19);
SG_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22, 23);
SG_WGMMA(40, 20, 20, 21, 22, 23, 24, 25, 26, 27);
SG_WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30, 31);
SG_WGMMA(56, 28, 28, 29, 30, 31, 32, 33, 34, 35);
SG_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38, 39);
SG_WGMMA(72, 36, 36, 37, 38, 39, 40, 41, 42, 43);
SG_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46, 47);
SG_WGMMA(88, 44, 44, 45, 46, 47, 48, 49, 50, 51);
SG_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54, 55);
SG_WGMMA(104, 52, 52, 53, 54, 55, 56, 57, 58, 59);
SG_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62, 63);
SG_WGMMA(120, 60, 60, 61, 62, 63, 64, 65, 66, 67);
SG_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70, 71);
SG_WGMMA(136, 68, 68, 69, 70, 71, 72, 73, 74, 75);
SG_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78, 79);
SG_WGMMA(152, 76, 76, 77, 78, 79, 80, 81, 82, 83);
SG_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86, 87);
SG_WGMMA(168, 84, 84, 85, 86, 87, 88, 89, 90, 91);
SG_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94, 95);
SG_WGMMA(184, 92, 92, 93, 94, 95, 96, 97, 98, 99);
SG_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102, 103);
SG_WGMMA(200, 100, 100, 101, 102, 103, 104, 105, 106, 107);
SG_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110, 111);
SG_WGMMA(216, 108, 108, 109, 110, 111, 112, 113, 114, 115);
SG_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118, 119);
SG_WGMMA(232, 116, 116, 117, 118, 119, 120, 121, 122, 123);
SG_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126, 127);
SG_WGMMA(248, 124, 124, 125, 126, 127, 128, 129, 130, 131);
SG_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134, 135);
#undef SG_WGMMA
#undef SG_ASM_RS
#undef SG_ASM_SS

}  // namespace scalegemm::cuda
