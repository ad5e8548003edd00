// Rows of a matrix that stream through a GPU: pieces of 2 to 16 bytes a thread, loads and stores
// with a choice of how the caches shall treat them, and sums over the threads that share a row.
#pragma once

#include <gk/reduce.cuh>
#include <gk/types.cuh>

namespace gk
{

// How caches treat loads. In the order of the parameters LOAD and REUSE of the templates.
//   kAll         L1 and L2 keep the lines as they see fit
//   kL2          L2 alone: what is read once does not push anything out of L1
//   kEvictFirst  not in L1, first to go from L2: leaves L2 to what is read again
//   kEvictLast   last to go from both: for what every row reads
//   kL2Ahead     L2 alone, which brings 256 bytes where 32 are asked for: for copies to shared
//                memory
enum class CacheUse : u32 { kAll, kL2, kEvictFirst, kEvictLast, kL2Ahead };

// How caches treat stores: kKeep leaves the lines in L2 for a reader to come, kStream lets them go
// first.
enum class StoreUse : u32 { kKeep, kStream };

namespace ptx
{

// PTX ISA, createpolicy and ld: eviction priorities of L2 come by a policy, those of L1 by a
// qualifier.
template <CacheUse use> GK_DEVICE u64 cache_policy()
{
    u64 policy = 0;
    if constexpr (use == CacheUse::kEvictFirst) {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    } else if constexpr (use == CacheUse::kEvictLast) {
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    }
    return policy;
}

// The four uses of one form of load, done only where `taken`: by a predicate, so that loads behind
// one another leave together, where a branch around each would wait for the one before.
#define GK_LOAD_OF(use, type, outputs, address, taken, hint, ...)                                  \
    if constexpr (use == CacheUse::kAll) {                                                         \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " taken ", 0; "                                \
                     "@p ld.global.ca" type " " outputs ", " address ";}" __VA_ARGS__);            \
    } else if constexpr (use == CacheUse::kL2 || use == CacheUse::kL2Ahead) {                      \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " taken ", 0; "                                \
                     "@p ld.global.cg" type " " outputs ", " address ";}" __VA_ARGS__);            \
    } else if constexpr (use == CacheUse::kEvictFirst) {                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " taken ", 0; "                                \
                     "@p ld.global.L1::no_allocate.L2::cache_hint" type " " outputs ", " address   \
                     ", " hint ";}" __VA_ARGS__);                                                  \
    } else {                                                                                       \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " taken ", 0; "                                \
                     "@p ld.global.L1::evict_last.L2::cache_hint" type " " outputs ", " address    \
                     ", " hint ";}" __VA_ARGS__);                                                  \
    }

// What is not taken stays as it is, and its address may be any.
template <CacheUse use>
GK_DEVICE void load_if(bool taken, u32 (&w)[4], const void *from, u64 policy)
{
    GK_LOAD_OF(use, ".v4.b32", "{%0, %1, %2, %3}", "[%4]", "%6", "%5",
               : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
               : "l"(from), "l"(policy), "r"(static_cast<u32>(taken))
               : "memory")
}

template <CacheUse use>
GK_DEVICE void load_if(bool taken, u32 (&w)[2], const void *from, u64 policy)
{
    GK_LOAD_OF(use, ".v2.b32", "{%0, %1}", "[%2]", "%4", "%3",
               : "+r"(w[0]), "+r"(w[1])
               : "l"(from), "l"(policy), "r"(static_cast<u32>(taken))
               : "memory")
}

template <CacheUse use>
GK_DEVICE void load_if(bool taken, u32 (&w)[1], const void *from, u64 policy)
{
    GK_LOAD_OF(use, ".b32", "%0", "[%1]", "%3", "%2",
               : "+r"(w[0])
               : "l"(from), "l"(policy), "r"(static_cast<u32>(taken))
               : "memory")
}

template <CacheUse use> GK_DEVICE void load_if(bool taken, u16 &v, const void *from, u64 policy)
{
    GK_LOAD_OF(use, ".b16", "%0", "[%1]", "%3", "%2",
               : "+h"(v)
               : "l"(from), "l"(policy), "r"(static_cast<u32>(taken))
               : "memory")
}

#undef GK_LOAD_OF

template <CacheUse use, u32 kWords>
GK_DEVICE void load(u32 (&w)[kWords], const void *from, u64 policy)
{
#pragma unroll
    for (u32 i = 0; i < kWords; ++i) {
        w[i] = 0;
    }
    load_if<use>(true, w, from, policy);
}

template <CacheUse use> GK_DEVICE u16 load_u16(const void *from, u64 policy)
{
    u16 v = 0;
    load_if<use>(true, v, from, policy);
    return v;
}

template <StoreUse use> GK_DEVICE void store(void *to, const u32 (&w)[4])
{
    if constexpr (use == StoreUse::kStream) {
        st_global_v4_cs(to, make_uint4(w[0], w[1], w[2], w[3]));
    } else {
        st_global_v4(to, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

template <StoreUse use> GK_DEVICE void store(void *to, const u32 (&w)[2])
{
    if constexpr (use == StoreUse::kStream) {
        asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};"
                     :
                     : "l"(to), "r"(w[0]), "r"(w[1])
                     : "memory");
    } else {
        st_global_v2(to, w[0], w[1]);
    }
}

template <StoreUse use> GK_DEVICE void store(void *to, const u32 (&w)[1])
{
    if constexpr (use == StoreUse::kStream) {
        asm volatile("st.global.cs.b32 [%0], %1;" : : "l"(to), "r"(w[0]) : "memory");
    } else {
        st_global_u32(to, w[0]);
    }
}

} // namespace ptx

// kBytes of a row in one thread's hands, as floats. `at` counts elements and is a multiple of
// kCount; `end` is the row's length: what lies behind it is not touched and reads as `beyond`.
//
// A load has two halves: fetch() sends it off, open() makes floats of what came. A thread that
// needs several pieces fetches all of them before it opens the first one: what is on its way
// together is what the speed of memory depends on.
template <typename T, u32 kBytes> struct Piece {
    static_assert(is_pow2(kBytes) && kBytes >= sizeof(T) && kBytes <= kChunkBytes,
                  "a piece is one access of one thread");
    static constexpr u32 kCount = kBytes / sizeof(T);
    static constexpr u32 kWords = kBytes < 4 ? 1 : kBytes / 4;
    float v[kCount];

    struct Raw {
        u32 w[kWords];
    };

    template <CacheUse use>
    static GK_DEVICE Raw fetch(const T *row, i32 at, i32 end, u64 policy, float beyond = 0.0f)
    {
        const bool whole = at + static_cast<i32>(kCount) <= end;
        Raw raw;
        if constexpr (kBytes == 2) {
            u16 one = from_float<T>(beyond).bits;
            ptx::load_if<use>(whole, one, row + at, policy);
            raw.w[0] = one;
        } else {
#pragma unroll
            for (u32 w = 0; w < kWords; ++w) {
                raw.w[w] = bits_of(beyond, beyond);
            }
            ptx::load_if<use>(whole, raw.w, row + at, policy);
        }
        return raw;
    }

    // The end of a row that is no whole piece is read here, element by element.
    template <CacheUse use>
    GK_DEVICE void open(const Raw &raw, const T *row, i32 at, i32 end, u64 policy)
    {
        if constexpr (kBytes == 2) {
            v[0] = to_float(T{static_cast<u16>(raw.w[0])});
        } else {
#pragma unroll
            for (u32 w = 0; w < kWords; ++w) {
                if constexpr (sizeof(T) == 2) {
                    unpack_pair<T>(raw.w[w], v[2 * w], v[(2 * w + 1) % kCount]);
                } else {
                    v[w] = __uint_as_float(raw.w[w]);
                }
            }
        }
        if (ragged(at, end)) {
#pragma unroll
            for (u32 i = 0; i + 1 < kCount; ++i) {
                if (at + static_cast<i32>(i) < end) {
                    v[i] = load_one<use>(row + at + i, policy);
                }
            }
        }
    }

    template <CacheUse use>
    GK_DEVICE void load(const T *row, i32 at, i32 end, u64 policy, float beyond = 0.0f)
    {
        const Raw raw = fetch<use>(row, at, end, policy, beyond);
        open<use>(raw, row, at, end, policy);
    }

    template <StoreUse use> GK_DEVICE void store(T *row, i32 at, i32 end) const
    {
        if (kCount > 1 && at + static_cast<i32>(kCount) <= end) {
            store_whole<use>(row + at);
            return;
        }
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            if (at + static_cast<i32>(i) < end) {
                row[at + i] = from_float<T>(v[i]);
            }
        }
    }

    // To the element type and back; two at a time, which costs half an instruction an element.
    GK_DEVICE void round()
    {
        if constexpr (sizeof(T) == 2 && kCount % 2 == 0) {
#pragma unroll
            for (u32 i = 0; i < kCount; i += 2) {
                unpack_pair<T>(pack_pair<T>(v[i], v[i + 1]), v[i], v[i + 1]);
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < kCount; ++i) {
                v[i] = to_float(from_float<T>(v[i]));
            }
        }
    }

  private:
    static GK_DEVICE bool ragged(i32 at, i32 end)
    {
        return kCount > 1 && at < end && at + static_cast<i32>(kCount) > end;
    }

    static GK_DEVICE u32 bits_of(float low, float high)
    {
        if constexpr (sizeof(T) == 2) {
            return pack_pair<T>(low, high);
        } else {
            return __float_as_uint(low);
        }
    }

    template <CacheUse use> static GK_DEVICE float load_one(const T *from, u64 policy)
    {
        if constexpr (sizeof(T) == 2) {
            return to_float(T{ptx::load_u16<use>(from, policy)});
        } else {
            u32 word[1] = {0};
            ptx::load_if<use>(true, word, from, policy);
            return __uint_as_float(word[0]);
        }
    }

    template <StoreUse use> GK_DEVICE void store_whole(T *to) const
    {
        u32 words[kWords];
#pragma unroll
        for (u32 w = 0; w < kWords; ++w) {
            words[w] = bits_of(v[sizeof(T) == 2 ? 2 * w : w], v[(2 * w + 1) % kCount]);
        }
        ptx::store<use>(to, words);
    }
};

// What another SM wrote: past L1.
GK_DEVICE float load_past_l1(const float *from)
{
    u32 word[1];
    ptx::load<CacheUse::kL2>(word, from, 0);
    return __uint_as_float(word[0]);
}

GK_DEVICE float2 load_past_l1(const float2 *from)
{
    u32 word[2];
    ptx::load<CacheUse::kL2>(word, from, 0);
    return make_float2(__uint_as_float(word[0]), __uint_as_float(word[1]));
}

// kPieces pieces of one thread in a row, `stride` elements apart, all on their way.
template <typename P, u32 kPieces> struct Fetched {
    typename P::Raw raw[kPieces];

    template <CacheUse use, typename T>
    GK_DEVICE void fetch(const T *row, i32 first, i32 stride, i32 end, u64 policy,
                         float beyond = 0.0f)
    {
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            raw[p] = P::template fetch<use>(row, first + static_cast<i32>(p) * stride, end, policy,
                                            beyond);
        }
    }
};

// a / b of numbers that are not negative, b > 0: a division of 64 bits costs a hundred instructions
// and is seldom needed.
GK_DEVICE i64 quotient(i64 a, i32 b)
{
    if (static_cast<u64>(a) <= 0xffffffffu) {
        return static_cast<u32>(a) / static_cast<u32>(b);
    }
    return a / b;
}

// kCount elements of another matrix or row for the same columns, in accesses of at most kMost
// bytes: its addresses are aligned no better than those of the first.
template <typename T, u32 kCount, u32 kMost>
using PieceBeside = Piece<T, max_of<u32>(sizeof(T), min_of<u32>(kCount * sizeof(T), kMost))>;

// A value of each warp of a block, for the others.
struct alignas(kChunkBytes) WarpValues {
    float of[kBlockWarpsMax];
};

// Over groups of kGroup neighbouring threads of a block of kThreads; every thread gets its group's
// result. Where a group is more than a warp the whole block must call it, in step. A caller that
// reduces again hands in another `scratch`, so that no barrier is needed between the reads of one
// call and the writes of the next.
//
// Up to eight warps' values are read by every thread, in two accesses of 16 bytes, where shuffles
// would each wait for the one before: 256 rows of 4,096 columns take 3.64 us instead of 3.66 on an
// H200. More warps than that would be as many accesses as shuffles.
template <typename Op, u32 kGroup, u32 kThreads>
GK_DEVICE float group_reduce(float value, WarpValues &scratch)
{
    static_assert(is_pow2(kGroup) && kThreads % kGroup == 0, "a block is whole groups");
    if constexpr (kGroup <= kWarpSize) {
        return warp_reduce<Op, kGroup>(value);
    } else {
        constexpr u32 kWarps = kGroup / kWarpSize;
        constexpr u32 kRead = 8;
        const u32 first = threadIdx.x / kGroup * kWarps;
        value = warp_reduce<Op>(value);
        if (lane_index() == 0) {
            scratch.of[threadIdx.x / kWarpSize] = value;
        }
        __syncthreads();
        if constexpr (kWarps <= kRead) {
            float values[kWarps];
#pragma unroll
            for (u32 i = 0; i < kWarps; ++i) {
                values[i] = scratch.of[first + i];
            }
#pragma unroll
            for (u32 half = kWarps / 2; half > 0; half /= 2) {
#pragma unroll
                for (u32 i = 0; i < half; ++i) {
                    values[i] = Op::apply(values[i], values[i + half]);
                }
            }
            return values[0];
        } else {
            return warp_reduce<Op, kWarps>(scratch.of[first + lane_index() % kWarps]);
        }
    }
}

} // namespace gk
