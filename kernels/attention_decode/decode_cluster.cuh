// Parts of a row that meet in the shared memory of a cluster (COMBINE = cluster or cluster_send,
// sm_90): the blocks of a cluster are the parts of the same rows, its rank the number of the part.
// No sum goes through global memory, and no second launch waits for the first.
//
// Each warp leaves sums and stats of its rows where its own ring lay, so no warp waits for another
// of its block before. Pieces of rows (four columns) are dealt out to the blocks; a piece belongs
// to a group of neighbouring lanes, which have its ranks among them. A part without keys leaves
// neutral stats and sums of zero like any other, and has its share of pieces: barriers of a cluster
// want every block.
//
// cluster       A lane reads what the warps of its rank left. Barriers of the cluster: sums are
//               left -> read; all are read -> a block may end, and its memory with it. A block
//               comes to the second as soon as it has read its last piece, before it stores it.
// cluster_send  A block adds its warps' sums itself (one barrier of the block before), and sends
//               each piece to the block that it belongs to, behind Smem, where an mbarrier counts
//               bytes. No block waits for memory that it does not own, none fences, and a block may
//               end when it has what it waits for. A barrier of the cluster says that all have set
//               up their mbarriers: it is arrived at behind the first copies, and waited for at the
//               end.
//
// Included behind decode_rows.cuh.
#pragma once

#include <gk/cluster_exchange.cuh>
#include <gk/mbarrier.cuh>

namespace decode
{

// A piece of a row: four columns, and the row's stats.
struct Piece {
    float v[kFour];
    float most, sum;
};

// A piece from kCount of each lane of a group, `lanes` neighbouring ones, a power of two; every
// lane gets it. All lanes of a warp call it.
template <u32 kCount>
GK_DEVICE Piece add_group(const float2 (&stats)[kCount], const float4 (&sums)[kCount], u32 lanes)
{
    Piece piece = {{0.0f, 0.0f, 0.0f, 0.0f}, MaxOp::neutral(), 0.0f};
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        piece.most = fmaxf(piece.most, stats[i].x);
    }
#pragma unroll 1
    for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
        piece.most = fmaxf(piece.most, ptx::shuffle_xor(piece.most, distance));
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        const float weight = weight_of(stats[i].x, piece.most);
        piece.sum += weight * stats[i].y;
        piece.v[0] += weight * sums[i].x;
        piece.v[1] += weight * sums[i].y;
        piece.v[2] += weight * sums[i].z;
        piece.v[3] += weight * sums[i].w;
    }
#pragma unroll 1
    for (u32 distance = lanes / 2; distance > 0; distance /= 2) { // five shuffles side by side
        piece.sum += ptx::shuffle_xor(piece.sum, distance);
#pragma unroll
        for (u32 i = 0; i < kFour; ++i) {
            piece.v[i] += ptx::shuffle_xor(piece.v[i], distance);
        }
    }
    return piece;
}

// The least power of two that is not less than `count` is 2 to the power of this.
GK_DEVICE u32 log2_up(u32 count)
{
    return 32 - static_cast<u32>(__clz(static_cast<i32>(count - 1)));
}

// Groups of lanes, each of which has up to kRanks ranks: lane, lane + lanes, ...
template <u32 kRanks> struct Groups {
    u32 ranks = gridDim.x; // as many as parts of the longest request
    u32 log = log2_up(ceil_div(ranks, kRanks));
    u32 lanes = 1u << log, count = Config::kThreads >> log;
    u32 lane = threadIdx.x & (lanes - 1), index = threadIdx.x >> log;
};

// The rows of a cluster and where they go.
struct Target {
    const Problem &problem;
    const Output<Config::Element, Config::kDim> &output;
    i32 first, kv_head;
    u32 pieces; // of all its rows
    float value_scale;

    // Piece number `index`.
    GK_DEVICE void store(const Piece &piece, u32 index) const
    {
        const u32 row = index / kRowPieces, column = index % kRowPieces * kFour;
        const i64 to = find_row(problem, first + static_cast<i32>(row), kv_head).index;
        const float factor = value_scale * inverse_of(piece.sum);
        output.store(
            to, column,
            {piece.v[0] * factor, piece.v[1] * factor, piece.v[2] * factor, piece.v[3] * factor});
        if (column == 0) {
            output.store_lse(to, piece.most, piece.sum);
        }
    }
};

// ---------------------------------------------------------------------------- reading

// The block's share of the pieces, from what all blocks left: `left` is the first warp's, others
// lie kStride bytes apart.
template <u32 kStride> GK_DEVICE void read_pieces(const Left &left, const Target &target)
{
    const Groups<1> groups;
    const u32 step = groups.ranks * groups.count, first = blockIdx.x * groups.count;
    const u32 from =
        cluster_address(ptx::shared_address(&left), min_of(groups.lane, groups.ranks - 1));
    cluster_sync(); // sums of all warps of all blocks are left
    if (first >= target.pieces) {
        cluster_arrive();
    }
#pragma unroll 1
    for (u32 base = first; base < target.pieces; base += step) {
        const u32 index = base + groups.index;
        const bool there = index < target.pieces;
        const u32 row = index / kRowPieces, column = index % kRowPieces * kFour;
        float2 stats[Config::kWarps];
        float4 sums[Config::kWarps];
#pragma unroll
        for (u32 w = 0; w < Config::kWarps; ++w) {
            stats[w] = make_float2(MaxOp::neutral(), 0.0f);
            sums[w] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (there && groups.lane < groups.ranks) {
                const u32 warp = from + w * kStride;
                stats[w] = cluster_load_f32x2(warp + sizeof(Left::sums) + row * sizeof(float2));
                sums[w] =
                    cluster_load_f32x4(warp + (row * (Config::kDim + 8) + column) * sizeof(float));
            }
        }
        const Piece piece = add_group(stats, sums, groups.lanes);
        if (base + step >= target.pieces) {
            cluster_arrive(); // this was the last: what others left is not needed any more
        }
        if (there && groups.lane == 0) {
            target.store(piece, index);
        }
    }
    cluster_wait(); // all have read what this block left
}

// ---------------------------------------------------------------------------- sending

// Where a block receives its pieces: sums [rank][piece], then stats; a rank's begin in other banks.
struct Mail {
    u32 log;   // of how many pieces a block has
    u32 own;   // pieces of this block
    u32 pitch; // from rank to rank
    float4 *sums;
    float2 *stats;

    GK_DEVICE Mail(void *memory, u32 pieces)
    {
        log = log2_up(ceil_div(pieces, gridDim.x));
        own = min_of(pieces - min_of(blockIdx.x << log, pieces), 1u << log);
        pitch = (1u << log) + 1;
        sums = static_cast<float4 *>(memory);
        stats = reinterpret_cast<float2 *>(sums + gridDim.x * pitch);
    }
};

// Before the barrier of the block behind which anybody waits for mail.
GK_DEVICE void open_mail(const Mail &mail, Barrier &arrived)
{
    if (threadIdx.x == 0) {
        arrived.init(1);
        fence_barrier_init();
        arrived.arrive_expect_bytes(gridDim.x * mail.own * (sizeof(float4) + sizeof(float2)));
    }
    __syncwarp(); // whole warps arrive
    cluster_arrive_relaxed();
}

// All pieces of this block's part to those who add them.
template <u32 kStride>
GK_DEVICE void send_pieces(const Mail &mail, const Barrier &arrived, const Left &left, u32 pieces)
{
    const u8 *from = reinterpret_cast<const u8 *>(&left);
    cluster_wait();  // all mailboxes are open
    __syncthreads(); // sums of all warps are left
#pragma unroll 1
    for (u32 index = threadIdx.x; index < pieces; index += Config::kThreads) {
        const u32 row = index / kRowPieces, column = index % kRowPieces * kFour;
        float2 stats[Config::kWarps];
        float4 sums[Config::kWarps];
#pragma unroll
        for (u32 w = 0; w < Config::kWarps; ++w) {
            const Left &warp = *reinterpret_cast<const Left *>(from + w * kStride);
            stats[w] = warp.stats[row];
            sums[w] = *reinterpret_cast<const float4 *>(&warp.sums[row][column]);
        }
        const Piece piece = add_group(stats, sums, 1);
        const u32 to = index >> mail.log;
        const u32 place = blockIdx.x * mail.pitch + index - (to << mail.log);
        const u32 counter = cluster_address(arrived.address(), to);
        cluster_send_f32x4(cluster_address(ptx::shared_address(mail.sums + place), to),
                           make_float4(piece.v[0], piece.v[1], piece.v[2], piece.v[3]), counter);
        cluster_send_f32x2(cluster_address(ptx::shared_address(mail.stats + place), to),
                           make_float2(piece.most, piece.sum), counter);
    }
}

// This block's pieces, from what has come.
GK_DEVICE void receive_pieces(const Mail &mail, const Barrier &arrived, const Target &target)
{
    constexpr u32 kRanks = 4; // of a lane: fewer shuffles, one behind the other
    const Groups<kRanks> groups;
    arrived.wait<Scope::kCluster>(0);
#pragma unroll 1
    for (u32 base = 0; base < mail.own; base += groups.count) {
        const u32 slot = base + groups.index;
        const bool there = slot < mail.own;
        float2 stats[kRanks];
        float4 sums[kRanks];
#pragma unroll
        for (u32 i = 0; i < kRanks; ++i) {
            const u32 rank = groups.lane + i * groups.lanes;
            stats[i] = make_float2(MaxOp::neutral(), 0.0f);
            sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (there && rank < groups.ranks) {
                stats[i] = mail.stats[rank * mail.pitch + slot];
                sums[i] = mail.sums[rank * mail.pitch + slot];
            }
        }
        const Piece piece = add_group(stats, sums, groups.lanes);
        if (there && groups.lane == 0) {
            target.store(piece, (blockIdx.x << mail.log) + slot);
        }
    }
}

} // namespace decode
