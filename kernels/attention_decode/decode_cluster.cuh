// Parts of a row that meet in the shared memory of a cluster (COMBINE = cluster, sm_90): the blocks
// of a cluster are the parts of the same rows, its rank the number of the part. No sum goes through
// global memory, and no second launch waits for the first.
//
// Each warp leaves sums and stats of its rows where its own ring lay, so no warp waits for another
// of its block before; then the cluster meets. A piece of a row (four columns) belongs to a group
// of neighbouring lanes, one a rank: a lane reads what the warps of its rank left, and the group
// adds. Pieces are dealt out to all blocks. A part without keys leaves neutral stats and sums of
// zero like any other, and reads its share: barriers of a cluster want every block.
//
// Barriers  cluster, sums are left -> read; cluster, all are read -> a block may end, and its
//           memory with it. A block comes to the second as soon as it has read its last piece,
//           before it stores it.
//
// Included behind decode_rows.cuh.
#pragma once

#include <gk/cluster_read.cuh>

namespace decode
{

// What a warp leaves. Rows lie eight banks apart: four of them are stored by half a warp at once.
struct alignas(16) Left {
    float sums[Config::kRows][Config::kDim + 8];
    float2 stats[Config::kRows]; // greatest score, sum of exponentials
};

// The rows that there are, below `rows`, to `left`. The warp's lanes have nothing on its way there.
GK_DEVICE void leave_sums(Left &left, State &state, i32 rows)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < kHalves; ++h) {
            const u32 row = i * kMmaM + h * (kMmaM / 2) + lane_index() / 4;
            const float sum = warp_reduce<SumOp, 4>(state.sum[i][h]);
            if (static_cast<i32>(row) >= rows) {
                continue;
            }
            if (lane_index() % 4 == 0) {
                left.stats[row] = make_float2(state.most[i][h], sum);
            }
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; j += 2) {
                const FragmentD &a = state.sums[i][j], &b = state.sums[i][j + 1];
                float *to = &left.sums[row][column_of(j, 0)];
                if constexpr (Config::kNarrow) {
                    *reinterpret_cast<float4 *>(to) =
                        make_float4(a.v[2 * h], b.v[2 * h], a.v[2 * h + 1], b.v[2 * h + 1]);
                } else {
                    *reinterpret_cast<float2 *>(to) = make_float2(a.v[2 * h], a.v[2 * h + 1]);
                    *reinterpret_cast<float2 *>(to + kMmaN) =
                        make_float2(b.v[2 * h], b.v[2 * h + 1]);
                }
            }
        }
    }
}

// Over groups of `lanes` neighbouring lanes, a power of two; every lane gets its group's result.
template <typename Op> GK_DEVICE float reduce_lanes(float value, u32 lanes)
{
#pragma unroll 1
    for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
        value = Op::apply(value, ptx::shuffle_xor(value, distance));
    }
    return value;
}

// A piece of a row, added over the group's lanes: four columns, and the row's stats.
struct Piece {
    float v[kFour];
    float most, sum;
};

// What one rank's warps left of a piece, from `left` on, every kStride bytes; where `there` is
// false it is nothing. All lanes of a warp call it.
template <u32 kStride>
GK_DEVICE Piece add_piece(u32 left, u32 row, u32 column, bool there, u32 lanes)
{
    const u32 from = left + (row * (Config::kDim + 8) + column) * sizeof(float);
    const u32 stats_from = left + sizeof(Left::sums) + row * sizeof(float2);
    float2 stats[Config::kWarps];
    float4 sums[Config::kWarps];
    float most = MaxOp::neutral();
#pragma unroll
    for (u32 w = 0; w < Config::kWarps; ++w) {
        stats[w] = make_float2(MaxOp::neutral(), 0.0f);
        sums[w] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (there) {
            stats[w] = cluster_load_f32x2(stats_from + w * kStride);
            sums[w] = cluster_load_f32x4(from + w * kStride);
        }
    }
#pragma unroll
    for (u32 w = 0; w < Config::kWarps; ++w) {
        most = fmaxf(most, stats[w].x);
    }
    Piece piece = {{0.0f, 0.0f, 0.0f, 0.0f}, reduce_lanes<MaxOp>(most, lanes), 0.0f};
#pragma unroll
    for (u32 w = 0; w < Config::kWarps; ++w) {
        const float weight = weight_of(stats[w].x, piece.most);
        piece.sum += weight * stats[w].y;
        piece.v[0] += weight * sums[w].x;
        piece.v[1] += weight * sums[w].y;
        piece.v[2] += weight * sums[w].z;
        piece.v[3] += weight * sums[w].w;
    }
    piece.sum = reduce_lanes<SumOp>(piece.sum, lanes);
#pragma unroll
    for (u32 i = 0; i < kFour; ++i) {
        piece.v[i] = reduce_lanes<SumOp>(piece.v[i], lanes);
    }
    return piece;
}

// The block's share of the rows' pieces, from what all blocks left: `left` is the first warp's.
template <u32 kStride>
GK_DEVICE void combine_cluster(const Left &left, const Problem &problem,
                               const Output<Config::Element, Config::kDim> &output, i32 first,
                               i32 rows, i32 kv_head, float value_scale)
{
    const u32 ranks = gridDim.x; // as many as parts, of which the last may have no keys
    const u32 shift = 32 - static_cast<u32>(__clz(static_cast<i32>(ranks - 1)));
    const u32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
    const u32 groups = Config::kThreads >> shift, group = threadIdx.x >> shift;
    const u32 count = static_cast<u32>(rows) * kRowPieces;
    const u32 from = cluster_address(ptx::shared_address(&left), min_of(lane, ranks - 1));
    const u32 share = blockIdx.x * groups;
    cluster_sync(); // sums of all warps of all blocks are left
    if (share >= count) {
        cluster_arrive();
    }
#pragma unroll 1
    for (u32 base = share; base < count; base += ranks * groups) {
        const u32 index = base + group;
        const u32 row = index / kRowPieces, column = index % kRowPieces * kFour;
        const Piece piece =
            add_piece<kStride>(from, row, column, index < count && lane < ranks, lanes);
        if (base + ranks * groups >= count) {
            cluster_arrive(); // this was the last: what others left is not needed any more
        }
        if (index < count && lane == 0) {
            const i64 to = find_row(problem, first + static_cast<i32>(row), kv_head).index;
            const float factor = value_scale * inverse_of(piece.sum);
            output.store(to, column,
                         {piece.v[0] * factor, piece.v[1] * factor, piece.v[2] * factor,
                          piece.v[3] * factor});
            if (column == 0) {
                output.store_lse(to, piece.most, piece.sum);
            }
        }
    }
    cluster_wait(); // all have read what this block left
}

} // namespace decode
