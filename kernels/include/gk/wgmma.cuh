// Tensor-core products of a warpgroup, sm_90a: D[64 x N] (+)= A[64 x K] B[K x N] with fp32 sums, N
// = 8
// .. 256 in steps of 8, K = 16 for bf16 and f16, 32 for e4m3. B comes from shared memory, A from
// shared memory or registers, D stays in the registers of the warpgroup's 128 threads.
//
// Sums       Warp w of the warpgroup holds rows 16 w .. 16 w + 15. With g = lane / 4, t = lane % 4,
//            d[4 j .. 4 j + 3] are (g, 8 j + 2 t), (g, 8 j + 2 t + 1), (g + 8, 8 j + 2 t) and
//            (g + 8, 8 j + 2 t + 1) of its 16 rows: as mma.m16n8k16, and as stmatrix wants them.
// A in registers   As mma.m16n8k16: a[0] (g, 2 t ..), a[1] (g + 8, 2 t ..), a[2] (g, 2 t + 8 ..),
//            a[3] (g + 8, 2 t + 8 ..), two 16-bit elements each; four 8-bit ones (4 t ..) for
//            e4m3, whose a[2] and a[3] begin at k = 16.
// Order      The products are asynchronous. wgmma_fence comes before the first product that uses
//            registers written since; products commit in groups; wgmma_wait<N> returns when at
//            most the N youngest groups are unfinished. Until then nobody reads or writes their
//            sums, their A registers or their shared memory. Products on the same sums follow one
//            another without a wait. Shared memory that threads wrote (a copy by TMA needs nothing)
//            is ordered by fence_async_shared and a barrier.
// Descriptor An operand in shared memory is an array of core matrices, 8 rows of 16 bytes. Where
//            they lie is told by a swizzle of S = 16 (none), 32, 64 or 128 bytes and two byte
//            distances. With chunks of 16 bytes, and the swizzle of gk/tma.cuh applied to
//            addresses:
//            - K-major (rows of M or N, k runs along them), swizzled: a row is S bytes, 8 rows are
//              packed at S bytes each; `stride` is the distance from 8 rows to the next 8,
//              `leading` is not used. A step of K inside the S bytes is a plain addition to the
//              start address.
//            - K-major, not swizzled: 8 rows of one chunk are packed (128 bytes); `leading` is the
//              distance to the next chunk along K, `stride` to the next 8 rows.
//            - MN-major (rows of k, M or N runs along them; 16-bit types only), swizzled: a row
//              is S bytes of M or N, 8 steps of k are packed at S bytes each; `leading` is the
//              distance to the next S bytes of M or N, `stride` to the next 8 steps of k.
//            - MN-major, not swizzled: 8 steps of k of one chunk are packed; `leading` is the
//              distance to the next 8 steps of k, `stride` to the next chunk of M or N.
//            Tiles begin where TMA wants them: at a multiple of 8 S bytes.
//
// PTX ISA: "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", wgmma.
#pragma once

#include <gk/types.cuh>

#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "wgmma exists on sm_90a alone"
#endif

namespace gk
{

constexpr u32 kWgmmaM = 64;

// Steps of K of one product: 32 bytes of each row.
template <typename T> constexpr u32 kWgmmaK = 32 / sizeof(T);

// ---------------------------------------------------------------------------- descriptors

enum class Swizzle : u32 { kNone = 0, k128 = 1, k64 = 2, k32 = 3 }; // the descriptor's codes

// Of an operand that starts at shared address `address`. Distances as explained above, multiples of
// 16 bytes below 256 KB.
GK_DEVICE u64 wgmma_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes, Swizzle swizzle)
{
    constexpr u32 kField = 0x3fff; // 14 bits, in units of 16 bytes
    return static_cast<u64>(address / 16 & kField) |
           static_cast<u64>(leading_bytes / 16 & kField) << 16 |
           static_cast<u64>(stride_bytes / 16 & kField) << 32 | static_cast<u64>(swizzle) << 62;
}

// Of a K-major tile as TMA brings it: rows of 128 bytes, swizzled by 128.
GK_DEVICE u64 wgmma_descriptor_k128(u32 address)
{
    return wgmma_descriptor(address, 16, 8 * kBankLineBytes, Swizzle::k128);
}

// The same operand, `bytes` further on (a multiple of 16, below the end of shared memory).
GK_DEVICE u64 wgmma_advance(u64 descriptor, u32 bytes)
{
    return descriptor + bytes / 16;
}

// ---------------------------------------------------------------------------- order

GK_DEVICE void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

GK_DEVICE void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

template <u32 kPending> GK_DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kPending) : "memory");
}

// Keeps the compiler from moving reads and writes of these registers across this point; no
// instruction. Before the first product on them and after the wait: what a product does to its sums
// later on the compiler does not know.
template <u32 kCount> GK_DEVICE void pin_registers(float (&d)[kCount])
{
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(d[i]) : : "memory");
    }
}

template <u32 kCount> GK_DEVICE void pin_registers(u32 (&a)[kCount])
{
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        asm volatile("" : "+r"(a[i]) : : "memory");
    }
}

// ---------------------------------------------------------------------------- products
// Wgmma<T, N>::multiply adds to `d`, or overwrites it if `accumulate` is false. kAlongM, kAlongN:
// that operand's tile is MN-major. Generated for each N by macros, since the instruction names
// every register: GK_WGMMA_R<n> are the first 4 n sums' names, GK_WGMMA_D<n> the operands.

template <typename T, u32 kN> struct Wgmma;

// clang-format off
#define GK_WGMMA_R1 "%0, %1, %2, %3"
#define GK_WGMMA_R2 GK_WGMMA_R1 ", " "%4, %5, %6, %7"
#define GK_WGMMA_R3 GK_WGMMA_R2 ", " "%8, %9, %10, %11"
#define GK_WGMMA_R4 GK_WGMMA_R3 ", " "%12, %13, %14, %15"
#define GK_WGMMA_R5 GK_WGMMA_R4 ", " "%16, %17, %18, %19"
#define GK_WGMMA_R6 GK_WGMMA_R5 ", " "%20, %21, %22, %23"
#define GK_WGMMA_R7 GK_WGMMA_R6 ", " "%24, %25, %26, %27"
#define GK_WGMMA_R8 GK_WGMMA_R7 ", " "%28, %29, %30, %31"
#define GK_WGMMA_R9 GK_WGMMA_R8 ", " "%32, %33, %34, %35"
#define GK_WGMMA_R10 GK_WGMMA_R9 ", " "%36, %37, %38, %39"
#define GK_WGMMA_R11 GK_WGMMA_R10 ", " "%40, %41, %42, %43"
#define GK_WGMMA_R12 GK_WGMMA_R11 ", " "%44, %45, %46, %47"
#define GK_WGMMA_R13 GK_WGMMA_R12 ", " "%48, %49, %50, %51"
#define GK_WGMMA_R14 GK_WGMMA_R13 ", " "%52, %53, %54, %55"
#define GK_WGMMA_R15 GK_WGMMA_R14 ", " "%56, %57, %58, %59"
#define GK_WGMMA_R16 GK_WGMMA_R15 ", " "%60, %61, %62, %63"
#define GK_WGMMA_R17 GK_WGMMA_R16 ", " "%64, %65, %66, %67"
#define GK_WGMMA_R18 GK_WGMMA_R17 ", " "%68, %69, %70, %71"
#define GK_WGMMA_R19 GK_WGMMA_R18 ", " "%72, %73, %74, %75"
#define GK_WGMMA_R20 GK_WGMMA_R19 ", " "%76, %77, %78, %79"
#define GK_WGMMA_R21 GK_WGMMA_R20 ", " "%80, %81, %82, %83"
#define GK_WGMMA_R22 GK_WGMMA_R21 ", " "%84, %85, %86, %87"
#define GK_WGMMA_R23 GK_WGMMA_R22 ", " "%88, %89, %90, %91"
#define GK_WGMMA_R24 GK_WGMMA_R23 ", " "%92, %93, %94, %95"
#define GK_WGMMA_R25 GK_WGMMA_R24 ", " "%96, %97, %98, %99"
#define GK_WGMMA_R26 GK_WGMMA_R25 ", " "%100, %101, %102, %103"
#define GK_WGMMA_R27 GK_WGMMA_R26 ", " "%104, %105, %106, %107"
#define GK_WGMMA_R28 GK_WGMMA_R27 ", " "%108, %109, %110, %111"
#define GK_WGMMA_R29 GK_WGMMA_R28 ", " "%112, %113, %114, %115"
#define GK_WGMMA_R30 GK_WGMMA_R29 ", " "%116, %117, %118, %119"
#define GK_WGMMA_R31 GK_WGMMA_R30 ", " "%120, %121, %122, %123"
#define GK_WGMMA_R32 GK_WGMMA_R31 ", " "%124, %125, %126, %127"
#define GK_WGMMA_D1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define GK_WGMMA_D2 GK_WGMMA_D1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define GK_WGMMA_D3 GK_WGMMA_D2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define GK_WGMMA_D4 GK_WGMMA_D3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define GK_WGMMA_D5 GK_WGMMA_D4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define GK_WGMMA_D6 GK_WGMMA_D5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define GK_WGMMA_D7 GK_WGMMA_D6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define GK_WGMMA_D8 GK_WGMMA_D7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define GK_WGMMA_D9 GK_WGMMA_D8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define GK_WGMMA_D10 GK_WGMMA_D9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define GK_WGMMA_D11 GK_WGMMA_D10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define GK_WGMMA_D12 GK_WGMMA_D11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define GK_WGMMA_D13 GK_WGMMA_D12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define GK_WGMMA_D14 GK_WGMMA_D13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define GK_WGMMA_D15 GK_WGMMA_D14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define GK_WGMMA_D16 GK_WGMMA_D15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define GK_WGMMA_D17 GK_WGMMA_D16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define GK_WGMMA_D18 GK_WGMMA_D17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define GK_WGMMA_D19 GK_WGMMA_D18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define GK_WGMMA_D20 GK_WGMMA_D19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define GK_WGMMA_D21 GK_WGMMA_D20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define GK_WGMMA_D22 GK_WGMMA_D21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define GK_WGMMA_D23 GK_WGMMA_D22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define GK_WGMMA_D24 GK_WGMMA_D23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define GK_WGMMA_D25 GK_WGMMA_D24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define GK_WGMMA_D26 GK_WGMMA_D25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define GK_WGMMA_D27 GK_WGMMA_D26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define GK_WGMMA_D28 GK_WGMMA_D27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define GK_WGMMA_D29 GK_WGMMA_D28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define GK_WGMMA_D30 GK_WGMMA_D29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define GK_WGMMA_D31 GK_WGMMA_D30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define GK_WGMMA_D32 GK_WGMMA_D31, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// One product: operands A and B as text, the register of `accumulate`, what follows the predicate.
#define GK_WGMMA_TEXT(SHAPE, TYPES, D, A, B, ACCUMULATE, REST)                                     \
    "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %" #ACCUMULATE ", 0;\n"                    \
    "wgmma.mma_async.sync.aligned.m64n" SHAPE ".f32." TYPES " {" D "}, " A ", %" #B                \
    ", accumulate, 1, 1" REST ";\n}"

// C is the number of 8-column blocks, N = 8 C; P0 .. P6 are 4 C .. 4 C + 6, the operands after d.
#define GK_WGMMA_16(T, NAME, C, N, P0, P1, P2, P3, P4, P5, P6)                                     \
    template <> struct Wgmma<T, N> {                                                               \
        template <bool kAlongM = false, bool kAlongN = false>                                      \
        static GK_DEVICE void multiply(float (&d)[4 * C], u64 a, u64 b, bool accumulate)           \
        {                                                                                          \
            asm volatile(GK_WGMMA_TEXT(#N "k16", NAME "." NAME, GK_WGMMA_R##C, "%" #P0, P1, P2,    \
                                       ", %" #P3 ", %" #P4)                                        \
                         : GK_WGMMA_D##C                                                           \
                         : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)),                      \
                           "n"(static_cast<u32>(kAlongM)), "n"(static_cast<u32>(kAlongN))          \
                         : "memory");                                                              \
        }                                                                                          \
        template <bool kAlongN = false>                                                            \
        static GK_DEVICE void multiply(float (&d)[4 * C], const u32 (&a)[4], u64 b,                \
                                       bool accumulate)                                            \
        {                                                                                          \
            asm volatile(GK_WGMMA_TEXT(#N "k16", NAME "." NAME, GK_WGMMA_R##C,                     \
                                       "{%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}", P4, P5,         \
                                       ", %" #P6)                                                  \
                         : GK_WGMMA_D##C                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                     \
                           "r"(static_cast<u32>(accumulate)), "n"(static_cast<u32>(kAlongN))       \
                         : "memory");                                                              \
        }                                                                                          \
    };

#define GK_WGMMA_8(T, NAME, C, N, P0, P1, P2, P3, P4, P5)                                          \
    template <> struct Wgmma<T, N> {                                                               \
        static GK_DEVICE void multiply(float (&d)[4 * C], u64 a, u64 b, bool accumulate)           \
        {                                                                                          \
            asm volatile(GK_WGMMA_TEXT(#N "k32", NAME "." NAME, GK_WGMMA_R##C, "%" #P0, P1, P2,    \
                                       "")                                                         \
                         : GK_WGMMA_D##C                                                           \
                         : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate))                       \
                         : "memory");                                                              \
        }                                                                                          \
        static GK_DEVICE void multiply(float (&d)[4 * C], const u32 (&a)[4], u64 b,                \
                                       bool accumulate)                                            \
        {                                                                                          \
            asm volatile(GK_WGMMA_TEXT(#N "k32", NAME "." NAME, GK_WGMMA_R##C,                     \
                                       "{%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}", P4, P5, "")     \
                         : GK_WGMMA_D##C                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                     \
                           "r"(static_cast<u32>(accumulate))                                       \
                         : "memory");                                                              \
        }                                                                                          \
    };

#define GK_WGMMA(C, N, P0, P1, P2, P3, P4, P5, P6)                                                 \
    GK_WGMMA_16(bf16, "bf16", C, N, P0, P1, P2, P3, P4, P5, P6)                                    \
    GK_WGMMA_16(f16, "f16", C, N, P0, P1, P2, P3, P4, P5, P6)                                      \
    GK_WGMMA_8(e4m3, "e4m3", C, N, P0, P1, P2, P3, P4, P5)

GK_WGMMA(1, 8, 4, 5, 6, 7, 8, 9, 10)
GK_WGMMA(2, 16, 8, 9, 10, 11, 12, 13, 14)
GK_WGMMA(3, 24, 12, 13, 14, 15, 16, 17, 18)
GK_WGMMA(4, 32, 16, 17, 18, 19, 20, 21, 22)
GK_WGMMA(5, 40, 20, 21, 22, 23, 24, 25, 26)
GK_WGMMA(6, 48, 24, 25, 26, 27, 28, 29, 30)
GK_WGMMA(7, 56, 28, 29, 30, 31, 32, 33, 34)
GK_WGMMA(8, 64, 32, 33, 34, 35, 36, 37, 38)
GK_WGMMA(9, 72, 36, 37, 38, 39, 40, 41, 42)
GK_WGMMA(10, 80, 40, 41, 42, 43, 44, 45, 46)
GK_WGMMA(11, 88, 44, 45, 46, 47, 48, 49, 50)
GK_WGMMA(12, 96, 48, 49, 50, 51, 52, 53, 54)
GK_WGMMA(13, 104, 52, 53, 54, 55, 56, 57, 58)
GK_WGMMA(14, 112, 56, 57, 58, 59, 60, 61, 62)
GK_WGMMA(15, 120, 60, 61, 62, 63, 64, 65, 66)
GK_WGMMA(16, 128, 64, 65, 66, 67, 68, 69, 70)
GK_WGMMA(17, 136, 68, 69, 70, 71, 72, 73, 74)
GK_WGMMA(18, 144, 72, 73, 74, 75, 76, 77, 78)
GK_WGMMA(19, 152, 76, 77, 78, 79, 80, 81, 82)
GK_WGMMA(20, 160, 80, 81, 82, 83, 84, 85, 86)
GK_WGMMA(21, 168, 84, 85, 86, 87, 88, 89, 90)
GK_WGMMA(22, 176, 88, 89, 90, 91, 92, 93, 94)
GK_WGMMA(23, 184, 92, 93, 94, 95, 96, 97, 98)
GK_WGMMA(24, 192, 96, 97, 98, 99, 100, 101, 102)
GK_WGMMA(25, 200, 100, 101, 102, 103, 104, 105, 106)
GK_WGMMA(26, 208, 104, 105, 106, 107, 108, 109, 110)
GK_WGMMA(27, 216, 108, 109, 110, 111, 112, 113, 114)
GK_WGMMA(28, 224, 112, 113, 114, 115, 116, 117, 118)
GK_WGMMA(29, 232, 116, 117, 118, 119, 120, 121, 122)
GK_WGMMA(30, 240, 120, 121, 122, 123, 124, 125, 126)
GK_WGMMA(31, 248, 124, 125, 126, 127, 128, 129, 130)
GK_WGMMA(32, 256, 128, 129, 130, 131, 132, 133, 134)

#undef GK_WGMMA
#undef GK_WGMMA_8
#undef GK_WGMMA_16
#undef GK_WGMMA_TEXT
// clang-format on

} // namespace gk
