// Attention whose keys are split over blocks: where the parts of a request's keys begin and how
// many there are, what a part leaves in the workspace, and how parts become a row of the output.
//
// A request's keys are cut into chunks of `chunk` keys; a prefix that requests share is cut
// likewise, and its parts come first. A row of a part is its sum of values weighted by 2^(score -
// most), not divided, and (most, sum): scores are in units of log2 e, so that exponentials are
// powers of two. A row that sees no key of the part has most = -inf and sums of 0. Who reads the
// workspace counts parts by the same rule as those who write it, so nothing is read that no block
// of this run wrote.
#pragma once

#include <gk/rows.cuh>

namespace gk
{

constexpr float kLn2 = 0.69314718055994531f;
constexpr u32 kPartsMax = 1024; // of a row

// Of a request: chunks that hold a key.
GK_DEVICE i32 parts_of(i32 keys, i32 chunk)
{
    return ceil_div(keys, chunk);
}

// 2^(part - all), where all is at least part: 0 of a part without keys, though both be -inf.
GK_DEVICE float weight_of(float part, float all)
{
    return part == MaxOp::neutral() ? 0.0f : ptx::exp2_approx(part - all);
}

// The natural logarithm of the sum of exponentials; -inf where there was no key.
GK_DEVICE float natural_lse(float most, float sum)
{
    return sum == 0.0f ? MaxOp::neutral() : (most + __log2f(sum)) * kLn2;
}

// What divides the sums of a row. A NaN stays one.
GK_DEVICE float inverse_of(float sum)
{
    return sum == 0.0f ? 0.0f : 1.0f / sum;
}

// The workspace: sums [part][row][dim], stats [part][row], row = (request, query, head).
struct Partial {
    float *sums;
    float2 *stats;
    i64 rows;

    GK_DEVICE i64 place(i32 part, i64 row) const
    {
        return part * rows + row;
    }
};

// The outputs.
template <typename T, u32 kDim> struct Output {
    T *out;
    float *lse; // may be null

    GK_DEVICE void store(i64 row, u32 column, const float (&v)[4]) const
    {
        static_assert(sizeof(T) == 2, "four elements are two registers");
        ptx::st_global_v2(out + row * kDim + column, pack_pair<T>(v[0], v[1]),
                          pack_pair<T>(v[2], v[3]));
    }
    GK_DEVICE void store_lse(i64 row, float most, float sum) const
    {
        if (lse != nullptr) {
            lse[row] = natural_lse(most, sum);
        }
    }
};

// Stats of a part; of one past the last, those of a part without keys.
GK_DEVICE float2 load_stats(const Partial &partial, i64 row, i32 part, i32 parts)
{
    return part < parts ? load_past_l1(partial.stats + partial.place(part, row))
                        : make_float2(MaxOp::neutral(), 0.0f);
}

// One warp: weights of a row's parts, 2^(most of the part - most of all), and the row's own stats.
// `own`: those of the lane's first part, which it has asked for already.
GK_DEVICE float2 weigh_parts(const Partial &partial, i64 row, i32 parts, float2 own, float *weights)
{
    const i32 lane = static_cast<i32>(lane_index()), warp = static_cast<i32>(kWarpSize);
    float most = own.x, sum = 0.0f;
#pragma unroll 4
    for (i32 part = lane + warp; part < parts; part += warp) {
        most = fmaxf(most, load_stats(partial, row, part, parts).x);
    }
    most = warp_reduce<MaxOp>(most);
#pragma unroll 4
    for (i32 part = lane; part < parts; part += warp) {
        const float2 stats = part == lane ? own : load_stats(partial, row, part, parts);
        const float weight = weight_of(stats.x, most);
        weights[part] = weight;
        sum += weight * stats.y;
    }
    return make_float2(most, warp_reduce<SumOp>(sum));
}

// Four columns of a row, of parts first, first + step, ... added in that order. The first kAhead of
// them are asked for before anybody knows their weights, so that one read of L2 does not wait for
// another. `use` says how caches treat the parts, which nobody reads again; never by L1, as another
// SM wrote them.
template <u32 kDim, CacheUse use, u32 kAhead> class PartsOfColumns
{
    static_assert(use == CacheUse::kL2 || use == CacheUse::kEvictFirst, "not by L1");

    const float *sums_; // of the row's first part
    i64 stride_;        // from part to part
    i32 first_, step_, parts_;
    u64 policy_ = ptx::cache_policy<use>();
    u32 ahead_[max_of(1u, kAhead)][4];

    static GK_DEVICE void add(float (&v)[4], const u32 (&word)[4], float weight)
    {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            v[i] += weight * __uint_as_float(word[i]);
        }
    }

  public:
    GK_DEVICE PartsOfColumns(const Partial &partial, i64 row, u32 column, i32 first, i32 step,
                             i32 parts)
        : sums_(partial.sums + row * kDim + column), stride_(partial.rows * kDim), first_(first),
          step_(step), parts_(parts)
    {
#pragma unroll
        for (u32 n = 0; n < kAhead; ++n) {
            const i32 part = first + static_cast<i32>(n) * step;
            if (part < parts) {
                ptx::load<use>(ahead_[n], sums_ + part * stride_, policy_);
            }
        }
    }

    GK_DEVICE void add_to(float (&v)[4], const float *weights) const
    {
#pragma unroll
        for (u32 n = 0; n < kAhead; ++n) {
            const i32 part = first_ + static_cast<i32>(n) * step_;
            if (part < parts_) {
                add(v, ahead_[n], weights[part]);
            }
        }
#pragma unroll 4
        for (i32 part = first_ + static_cast<i32>(kAhead) * step_; part < parts_; part += step_) {
            u32 word[4];
            ptx::load<use>(word, sums_ + part * stride_, policy_);
            add(v, word, weights[part]);
        }
    }
};

// A second launch that adds the parts of each row, one row a block of dim / 4 x kSlices threads.
template <typename T, u32 kDimOfRow, u32 kSlicesOfBlock, CacheUse use> struct PartsOfRow {
    static constexpr u32 kDim = kDimOfRow, kSlices = kSlicesOfBlock;
    static constexpr u32 kColumns = 4; // of a thread
    static constexpr u32 kAhead = 4;   // parts of a thread; reads in flight, of four registers each
    static constexpr u32 kRowThreads = kDim / kColumns;
    static constexpr u32 kThreads = kRowThreads * kSlices;

    static_assert(kThreads % kWarpSize == 0, "whole warps");

    struct Shared {
        float weights[kPartsMax];
        float4 slices[kSlices][kRowThreads];
        float inverse;
    };

    // Warp 0 weighs the parts; then a thread has four columns and every kSlices-th part, and the
    // first slice adds what the others found. The order is fixed, so a result is the same bit for
    // bit in every run.
    static GK_DEVICE void add(Shared &shared, const Partial &partial, const Output<T, kDim> &output,
                              i64 row, i32 parts)
    {
        const bool weighs = warp_index() == 0;
        float2 own = make_float2(0.0f, 0.0f);
        if (weighs) {
            own = load_stats(partial, row, static_cast<i32>(lane_index()), parts);
        }
        const u32 slice = threadIdx.x / kRowThreads, piece = threadIdx.x % kRowThreads;
        const PartsOfColumns<kDim, use, kAhead> columns(partial, row, piece * kColumns,
                                                        static_cast<i32>(slice), kSlices, parts);
        if (weighs) {
            const float2 stats = weigh_parts(partial, row, parts, own, shared.weights);
            if (lane_index() == 0) {
                shared.inverse = inverse_of(stats.y);
                output.store_lse(row, stats.x, stats.y);
            }
        }
        __syncthreads(); // weights are there

        float v[kColumns] = {0.0f, 0.0f, 0.0f, 0.0f};
        columns.add_to(v, shared.weights);
        if constexpr (kSlices > 1) {
            shared.slices[slice][piece] = make_float4(v[0], v[1], v[2], v[3]);
            __syncthreads(); // slices are there
            if (slice != 0) {
                return;
            }
#pragma unroll
            for (u32 i = 1; i < kSlices; ++i) {
                const float4 more = shared.slices[i][piece];
                v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
            }
        }
#pragma unroll
        for (u32 i = 0; i < kColumns; ++i) {
            v[i] *= shared.inverse;
        }
        output.store(row, piece * kColumns, v);
    }
};

} // namespace gk
