// C[M, N] = act(alpha * A[M, K] B[N, K]^T + bias[N]) on the tensor cores of sm_90a: wgmma on
// tiles that TMA brings, one persistent block an SM. A and B are bf16 or f16, sums are fp32, C
// is bf16 or f16.
//
// Layouts   A: batch x M rows of K; B: batch x N rows of K; C: batch x M rows of N. Tiles of A
//           and B are kTileK = 64 elements deep, so that a tile row is the 128 bytes of one
//           swizzle span: TMA writes them as wgmma's K-major descriptors read them. Ragged edges
//           are TMA's: it fills what lies outside with zeros and stores nothing there, so what
//           is between rows or behind the matrix is never read or written.
// Grid      As many clusters of kClusterM x kClusterN blocks as fit the GPU. Each walks over
//           cluster tiles c, c + clusters, c + 2 clusters ...; TileOrder says which part of C
//           that is.
// Split K   With kSplits > 1 a tile is worked on kSplits times, each time over a part of K, and
//           sums go to a workspace as they are. The consumer that comes last at its counter adds
//           the parts, in order, so that the result is the same bit for bit in every run.
// Cluster   Its blocks own neighbouring tiles. Those of one tile row need the same tile of A:
//           each copies 1 / kClusterN of it, by multicast to all of them. The same for B along
//           M. Cluster tiles at the edge may reach past C: those blocks work on zeros and store
//           nothing.
// Roles     Warpgroups 0 .. kConsumers - 1 multiply and store; the first warp after them copies:
//           one elected lane starts everything. With two consumers the copying warp is one of a
//           whole warpgroup, because registers move between warpgroups: it gives up what they
//           need.
// Schedule  cooperative: each consumer has kTileM / kConsumers rows of every tile.
//           pingpong: consumers take whole tiles in turn, so that one stores while the other
//           multiplies. A consumer begins when the other has seen all of its stages full:
//           earlier, the parity of a lap to come would be taken for that of a lap just past.
// Stages    A ring of kStages tile pairs, which runs on through all tiles of the block.
// Barriers  full[s]    1 arrival and the bytes of both tiles, copies -> consumers: stage s holds
//                      a tile pair. The arrival is that of this block's copying lane, before its
//                      own copies; bytes come from all blocks that share a tile with this one.
//           empty[s]   1 arrival of each warp that reads the stage, in this block and in every
//                      other of the cluster, consumers -> copying lane: stage s may be
//                      overwritten, here and, since copies go to all, there.
//           turn[c]    1 arrival of each warp of the other consumer (pingpong): c may begin its
//                      next tile.
//           named 1 + c   the 128 threads of consumer c, twice a store: its staging buffer is
//                      free; its staging buffer is written. Twice a part of K: the part is
//                      written; the count of parts is known.
//           cluster    after the barriers are set up, and before the blocks leave: a block that
//                      left could not take its neighbour's arrivals.
// Staging   Sums leave through kStaging buffers a consumer of 64 x 64 elements, stored by TMA:
//           stmatrix writes rows of 128 bytes in the order that the swizzled map of C reads. A
//           tile that is 32 columns wider than a multiple of 64 has a last block half as wide,
//           with a map of its own (rows of 64 bytes).
//
// Parameters (gemm_wgmma.kernel.json has their values and rules): SCHEDULE, BM BN tile,
// CONSUMERS, STAGES, STAGING, CLUSTER_M, CLUSTER_N, SPLITK. GROUP is a run-time argument.

#include <gk/cluster.cuh>
#include <gk/epilogue.cuh>
#include <gk/hopper.cuh>
#include <gk/swizzle.cuh>
#include <gk/tma.cuh>
#include <gk/wgmma.cuh>

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    using Output = GK_DTYPE_OUT;
    static constexpr bool kPingpong = GK_SCHEDULE == GK_SCHEDULE_PINGPONG;
    static constexpr u32 kTileM = GK_BM, kTileN = GK_BN;
    static constexpr u32 kConsumers = GK_CONSUMERS; // warpgroups
    static constexpr u32 kStages = GK_STAGES, kStaging = GK_STAGING;
    static constexpr u32 kClusterM = GK_CLUSTER_M, kClusterN = GK_CLUSTER_N;
    static constexpr i32 kSplits = GK_SPLITK;
    static constexpr bool kHasBias = GK_BIAS;
    static constexpr Activation kActivation = static_cast<Activation>(GK_ACT);

    static constexpr u32 kTileK = kBankLineBytes / sizeof(Element); // one swizzle span
    static constexpr u32 kStepsK = kTileK / kWgmmaK<Element>;
    static constexpr u32 kStepBytes = kBankLineBytes / kStepsK;
    static constexpr u32 kBytesA = kTileM * kBankLineBytes, kBytesB = kTileN * kBankLineBytes;
    static constexpr u32 kCluster = kClusterM * kClusterN; // blocks

    // A consumer's part of a tile: kBlocksM products of 64 rows, each over all columns.
    static constexpr u32 kReaders = kPingpong ? 1 : kConsumers; // consumers of one tile
    static constexpr u32 kRows = kTileM / kReaders;
    static constexpr u32 kBlocksM = kRows / kWgmmaM;
    static constexpr u32 kSums = kTileN * kWgmmaM / kWarpgroupThreads; // of a thread and block
    static constexpr u32 kWarps = kWarpgroupThreads / kWarpSize;

    // Stores are kWgmmaM rows by kStoreN columns, and a narrower one at the right end.
    static constexpr u32 kStoreN = 64, kTailN = kTileN % kStoreN;
    static constexpr u32 kStoreBlocks = kTileN / kStoreN;
    static constexpr u32 kStagingBytes = kWgmmaM * kStoreN * sizeof(Output);

    // A lone consumer shares the register file with one warp, and each thread may have 255.
    static constexpr bool kMovesRegisters = kConsumers > 1;
    static constexpr u32 kCopyThreads = kMovesRegisters ? kWarpgroupThreads : kWarpSize;
    static constexpr u32 kThreads = kConsumers * kWarpgroupThreads + kCopyThreads;
    static constexpr u32 kCopyRegisters = 40, kConsumerRegisters = 232;
    static constexpr u32 kRegistersOfBlock = 65536;
    // Addresses, counters, and what the epilogue holds: biases are kept for all blocks of rows,
    // an activation is computed for many sums at once. Adding parts of K has many loads under way.
    static constexpr bool kPlainEpilogue = kActivation == Activation::kNone && !kHasBias;
    static constexpr u32 kOtherRegisters = kSplits > 1 ? (kPlainEpilogue ? 128 : 144)
                                                       : (kPlainEpilogue ? 40 : 64);
    static constexpr u32 kSharedMax = 232448;

    static_assert(sizeof(Element) == 2 && sizeof(Output) == 2, "16-bit operands and results");
    static_assert(kTileM % (kReaders * kWgmmaM) == 0, "a consumer owns whole products along M");
    static_assert(kTileN % 32 == 0 && kTileN <= 256, "stores and wgmma's N");
    static_assert(!kPingpong || kConsumers == 2, "consumers take turns");
    static_assert(!kPingpong || kSplits == 1, "turns need parts of K that are equally long");
    static_assert(kTileM % (8 * kClusterN) == 0 && kTileN % (8 * kClusterM) == 0,
                  "a part of a tile begins with a swizzle pattern");
    static_assert(kTileM / kClusterN <= 256 && kTileN / kClusterM <= 256, "a box of TMA");
    static_assert(kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kBlocksM * kSums + kOtherRegisters <= kConsumerRegisters,
                  "sums stay in registers");
    static_assert(!kMovesRegisters ||
                      kWarpgroupThreads * (kCopyRegisters + kConsumers * kConsumerRegisters) <=
                          kRegistersOfBlock,
                  "the register file holds what the warpgroups ask for");
    static_assert(kActivation == Activation::kNone || kActivation == Activation::kGelu ||
                      kActivation == Activation::kSilu,
                  "gated activations need two products");
};

struct alignas(1024) Smem {
    u8 a[Config::kStages][Config::kBytesA];
    u8 b[Config::kStages][Config::kBytesB];
    u8 staging[Config::kConsumers][Config::kStaging][Config::kStagingBytes];
    Barrier full[Config::kStages], empty[Config::kStages];
    Barrier turn[2]; // of each consumer, if they take turns
    u32 ticket[2];   // of each consumer, if K is split: how many parts were there before
};
static_assert(sizeof(Smem) <= Config::kSharedMax, "shared memory of a block");

using Ring = RingPosition<Config::kStages>;
using Epilogue = GemmEpilogue<Config::Output, Config::kHasBias, Config::kActivation>;

struct Maps {
    const TensorMap &a, &b, &c, &c_tail;
};

// This block's place in its cluster.
struct Place {
    u32 m, n;
};

// What a block does at a time: the tile of C by its first row and column and the batch entry, and
// the part of K by its first tile and tiles. If K is split, the number of the part and that of the
// cluster's tile among those of one part.
struct Work {
    i32 row, col, batch;
    i32 k_first, k_tiles;
    i32 split, tile;
};

// The walk over C. Cluster tiles are numbered down groups of `group` rows of them, column by column
// inside a group, so that clusters that run together share operands in L2; the last group has as
// many rows as are left. Batch entries come one after another, and parts of K after all of them.
struct TileOrder {
    i32 rows, cols; // of cluster tiles
    i32 count;      // of them in all parts of the whole batch
    i32 batch;
    i32 k_tiles; // all along K
    i32 group;
    i32 first, step; // this cluster's

    GK_DEVICE TileOrder(i32 m, i32 n, i32 k, i32 entries, i32 group_rows)
        : batch(entries), group(group_rows)
    {
        rows = ceil_div(m, static_cast<i32>(Config::kTileM * Config::kClusterM));
        cols = ceil_div(n, static_cast<i32>(Config::kTileN * Config::kClusterN));
        count = rows * cols * batch * Config::kSplits;
        k_tiles = ceil_div(k, static_cast<i32>(Config::kTileK));
        first = static_cast<i32>(blockIdx.x / Config::kCluster);
        step = static_cast<i32>(gridDim.x / Config::kCluster);
    }

    GK_DEVICE Work find(i32 index, Place place) const
    {
        Work work;
        work.batch = index / (rows * cols);
        index -= work.batch * (rows * cols);
        work.split = work.tile = work.k_first = 0;
        work.k_tiles = k_tiles;
        if constexpr (Config::kSplits > 1) {
            const i32 part = ceil_div(k_tiles, Config::kSplits);
            work.split = work.batch / batch;
            work.batch -= work.split * batch;
            work.tile = work.batch * (rows * cols) + index;
            work.k_first = work.split * part;
            work.k_tiles = min_of(part, k_tiles - work.k_first);
        }
        const i32 first_row = index / (group * cols) * group;
        const i32 group_rows = min_of(group, rows - first_row);
        const i32 inside = index - first_row * cols;
        const i32 row = first_row + inside % group_rows;
        const i32 col = inside / group_rows;
        work.row = (row * static_cast<i32>(Config::kClusterM) + static_cast<i32>(place.m)) *
                   static_cast<i32>(Config::kTileM);
        work.col = (col * static_cast<i32>(Config::kClusterN) + static_cast<i32>(place.n)) *
                   static_cast<i32>(Config::kTileN);
        return work;
    }
};

// ---------------------------------------------------------------------------- copies

// A box of kRows rows of the operand, the `part`-th of kParts that make up a tile, to all blocks of
// the cluster that need it.
template <u32 kRows, u32 kParts>
GK_DEVICE void load_part(const TensorMap &map, u8 *tile, i32 k, i32 row, i32 batch, u32 part,
                         u16 blocks, const Barrier &full)
{
    const u32 destination = ptx::shared_address(tile) + part * kRows * kBankLineBytes;
    const i32 at[3] = {k, row + static_cast<i32>(part * kRows), batch};
    if constexpr (kParts == 1) {
        tma_load(destination, map, at, full);
    } else {
        tma_load_multicast(destination, map, at, full, blocks);
    }
}

// One lane: fills stages with the tile pairs of all of this block's tiles, in order.
GK_DEVICE void copy_role(Smem &smem, const Maps &maps, const TileOrder &order, Place place)
{
    // Ranks are m + kClusterM * n. The blocks of this tile row are kClusterM apart.
    u16 blocks_of_row = 0;
#pragma unroll
    for (u32 n = 0; n < Config::kClusterN; ++n) {
        blocks_of_row |= static_cast<u16>(1u << (place.m + n * Config::kClusterM));
    }
    const u16 blocks_of_col =
        static_cast<u16>(((1u << Config::kClusterM) - 1) << (place.n * Config::kClusterM));
    Ring at;
#pragma unroll 1
    for (i32 index = order.first; index < order.count; index += order.step) {
        const Work work = order.find(index, place);
#pragma unroll 1
        for (i32 tile = 0; tile < work.k_tiles; ++tile) {
            const i32 k = (work.k_first + tile) * static_cast<i32>(Config::kTileK);
            Barrier &full = smem.full[at.stage];
            smem.empty[at.stage].wait(at.parity ^ 1);
            full.arrive_expect_bytes(Config::kBytesA + Config::kBytesB);
            load_part<Config::kTileM / Config::kClusterN, Config::kClusterN>(
                maps.a, smem.a[at.stage], k, work.row, work.batch, place.n, blocks_of_row, full);
            load_part<Config::kTileN / Config::kClusterM, Config::kClusterM>(
                maps.b, smem.b[at.stage], k, work.col, work.batch, place.m, blocks_of_col, full);
            at.advance();
        }
    }
}

// ---------------------------------------------------------------------------- products

// A consumer's part of a tile of C.
struct Sums {
    float block[Config::kBlocksM][Config::kSums];

    GK_DEVICE void pin()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kBlocksM; ++i) {
            pin_registers(block[i]);
        }
    }
};

// This warp has read the stage: told to every block that copies into it.
GK_DEVICE void release(Barrier &empty)
{
    const u32 lane = lane_index();
    if constexpr (Config::kCluster == 1) {
        if (lane == 0) {
            empty.arrive();
        }
    } else if (lane < Config::kCluster) {
        empty.arrive_read_at(lane);
    }
}

// Multiplies the tile pairs of one tile of C. While the products of a stage run, those of the next
// are started; a stage is released when the products after it are under way.
GK_DEVICE void multiply_tile(Smem &smem, Sums &sums, Ring &at, u32 first_row, i32 k_tiles,
                             u32 consumer)
{
    u32 previous = 0;
    sums.pin();
#pragma unroll 1
    for (i32 tile = 0; tile < k_tiles; ++tile) {
        smem.full[at.stage].wait(at.parity);
        __syncwarp(); // lanes leave the wait one by one, and wgmma takes whole warps
        const u64 a = wgmma_descriptor_k128(ptx::shared_address(smem.a[at.stage]) +
                                            first_row * kBankLineBytes);
        const u64 b = wgmma_descriptor_k128(ptx::shared_address(smem.b[at.stage]));
        wgmma_fence();
#pragma unroll
        for (u32 step = 0; step < Config::kStepsK; ++step) {
#pragma unroll
            for (u32 i = 0; i < Config::kBlocksM; ++i) {
                const u32 offset = i * kWgmmaM * kBankLineBytes + step * Config::kStepBytes;
                Wgmma<Config::Element, Config::kTileN>::multiply(
                    sums.block[i], wgmma_advance(a, offset),
                    wgmma_advance(b, step * Config::kStepBytes), tile > 0 || step > 0);
            }
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (tile > 0) {
            release(smem.empty[previous]);
        }
        previous = at.stage;
        at.advance();
    }
    if (Config::kPingpong && lane_index() == 0) {
        smem.turn[consumer ^ 1].arrive(); // its products follow these without a gap
    }
    __syncwarp();
    wgmma_wait<0>();
    sums.pin();
    release(smem.empty[previous]);
}

// ---------------------------------------------------------------------------- parts of K

// Where parts meet: sums [tile][split][block of the cluster][consumer][product][four][thread] of
// four floats, as threads hold them; a counter for each tile, block and consumer, zero between
// launches.
struct Parts {
    float *sums;
    u32 *arrivals;
};

// Runs on the 128 threads of a consumer.
struct Gathering {
    const Parts &parts;
    u32 &ticket;
    u32 barrier; // named, of this consumer's threads
    u32 thread, rank, consumer;

    // Writes a part. True for the last of a tile, whose `sums` are then those of all parts.
    GK_DEVICE bool add(Sums &sums, i32 tile, i32 split) const
    {
        constexpr i64 kFloats = Config::kBlocksM * Config::kSums * kWarpgroupThreads;
        constexpr i64 kOwners = Config::kCluster * Config::kConsumers;
        constexpr i64 kSlice = kOwners * kFloats; // from part to part
        const u32 owner = rank * Config::kConsumers + consumer;
        float *const first =
            parts.sums + tile * (Config::kSplits * kSlice) + owner * kFloats + thread * 4;
        write(sums, first + split * kSlice);
        if (!arrive_last(parts.arrivals + tile * kOwners + owner)) {
            return false;
        }
        read<false>(sums, first);
#pragma unroll 1
        for (i32 part = 1; part < Config::kSplits; ++part) {
            read<true>(sums, first + part * kSlice);
        }
        return true;
    }

  private:
    static GK_DEVICE void write(const Sums &sums, float *to)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kBlocksM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kSums; j += 4) {
                const float *four = &sums.block[i][j];
                ptx::st_global_v4(to + (i * Config::kSums + j) * kWarpgroupThreads,
                                  make_uint4(__float_as_uint(four[0]), __float_as_uint(four[1]),
                                             __float_as_uint(four[2]), __float_as_uint(four[3])));
            }
        }
    }

    template <bool kAdd> static GK_DEVICE void read(Sums &sums, const float *from)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kBlocksM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kSums; j += 4) {
                const uint4 bits =
                    ptx::ld_global_v4_cs(from + (i * Config::kSums + j) * kWarpgroupThreads);
                const float four[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y),
                                       __uint_as_float(bits.z), __uint_as_float(bits.w)};
#pragma unroll
                for (u32 l = 0; l < 4; ++l) {
                    sums.block[i][j + l] = kAdd ? sums.block[i][j + l] + four[l] : four[l];
                }
            }
        }
    }

    // What the others wrote before they came is then visible to the last.
    GK_DEVICE bool arrive_last(u32 *counter) const
    {
        ptx::named_barrier_sync(barrier, kWarpgroupThreads); // all have written
        if (thread == 0) {
            __threadfence(); // that is visible before the arrival is
            const u32 before = atomicAdd(counter, 1u);
            __threadfence(); // the others' is visible after the last arrival
            if (before + 1 == Config::kSplits) {
                *counter = 0; // as the next launch wants it; nobody else comes here any more
            }
            ticket = before;
        }
        __syncwarp();
        ptx::named_barrier_sync(barrier, kWarpgroupThreads);
        return ticket + 1 == Config::kSplits;
    }
};

// ---------------------------------------------------------------------------- stores

// The consumer's staging buffers, used in turn.
struct Staging {
    u8 (*buffers)[Config::kStagingBytes];
    u32 barrier; // named, of this consumer's threads
    u32 thread;  // in the warpgroup
    u32 next = 0;

    // Writes kWgmmaM x kCols sums, those of `block` from column `first` on, to the next buffer, and
    // stores it at (row, col). Thread 0 starts all stores, since their groups are a thread's own.
    template <u32 kCols>
    GK_DEVICE void store(const float (&block)[Config::kSums], u32 first, const TensorMap &map,
                         const Epilogue &epilogue, i32 n, i32 row, i32 col, i32 batch)
    {
        using Tile = SwizzledTile<kWgmmaM, kCols>;
        const u32 buffer = ptx::shared_address(buffers[next]);
        const u32 lane = thread % kWarpSize;
        // The rows and chunks that this lane addresses for stmatrix: matrices 0 and 1 are rows 0 ..
        // 7 and 8 .. 15 of the warp's 16, matrices 2 and 3 the same rows 8 columns on.
        const u32 lane_row = thread / kWarpSize * 16 + lane % 16, lane_chunk = lane / 16;
        const i32 lane_col = col + static_cast<i32>(lane % 4 * 2); // of its first sum

        if (thread == 0) {
            wait_for_store_reads<Config::kStaging - 1>();
        }
        __syncwarp();
        ptx::named_barrier_sync(barrier, kWarpgroupThreads);
#pragma unroll
        for (u32 j = 0; j < kCols / 16; ++j) {
            u32 words[4];
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 at = (first + j * 16 + half * 8) / 2; // four sums for 8 columns
                const i32 sum_col = lane_col + static_cast<i32>(j * 16 + half * 8);
                const float low = sum_col < n ? epilogue.bias_of(sum_col) : 0.0f;
                const float high = sum_col + 1 < n ? epilogue.bias_of(sum_col + 1) : 0.0f;
#pragma unroll
                for (u32 i = 0; i < 2; ++i) {
                    words[half * 2 + i] = pack_pair<Config::Output>(
                        epilogue.finish(block[at + 2 * i], 0.0f, low),
                        epilogue.finish(block[at + 2 * i + 1], 0.0f, high));
                }
            }
            stmatrix_x4(buffer + Tile::offset(lane_row, 2 * j + lane_chunk), words[0], words[1],
                        words[2], words[3]);
        }
        fence_async_shared();
        ptx::named_barrier_sync(barrier, kWarpgroupThreads);
        if (thread == 0) {
            const i32 corner[3] = {col, row, batch};
            tma_store(map, corner, buffer);
            commit_stores();
        }
        next = next + 1 == Config::kStaging ? 0 : next + 1;
    }
};

GK_DEVICE void store_tile(const Sums &sums, Staging &staging, const Maps &maps,
                          const Epilogue &epilogue, const Work &work, i32 first_row, i32 n)
{
#pragma unroll
    for (u32 i = 0; i < Config::kBlocksM; ++i) {
        const i32 row = work.row + first_row + static_cast<i32>(i * kWgmmaM);
#pragma unroll
        for (u32 j = 0; j < Config::kStoreBlocks; ++j) {
            const u32 col = j * Config::kStoreN;
            staging.store<Config::kStoreN>(sums.block[i], col, maps.c, epilogue, n, row,
                                           work.col + static_cast<i32>(col), work.batch);
        }
        if constexpr (Config::kTailN != 0) {
            constexpr u32 kCol = Config::kStoreBlocks * Config::kStoreN;
            staging.store<Config::kTailN>(sums.block[i], kCol, maps.c_tail, epilogue, n, row,
                                          work.col + static_cast<i32>(kCol), work.batch);
        }
    }
}

// One warpgroup: multiplies and stores its part of the block's tiles.
GK_DEVICE void consume_role(Smem &smem, const Maps &maps, const TileOrder &order, Place place,
                            const Epilogue &epilogue, const Parts &parts, u32 consumer, i32 n)
{
    const u32 first_row = Config::kPingpong ? 0 : consumer * Config::kRows;
    const u32 turns = Config::kPingpong ? Config::kConsumers : 1;
    Staging staging{smem.staging[consumer], 1 + consumer, threadIdx.x % kWarpgroupThreads};
    Ring at;
    u32 turn = consumer ^ 1; // parity: consumer 0 begins at once
    i32 index = order.first;
    if (Config::kPingpong && consumer != 0) {
        at.advance(static_cast<u32>(order.k_tiles));
        index += order.step;
    }
#pragma unroll 1
    for (; index < order.count; index += order.step * static_cast<i32>(turns)) {
        const Work work = order.find(index, place);
        Sums sums;
        if (Config::kPingpong) {
            smem.turn[consumer].wait(turn);
            turn ^= 1;
        }
        multiply_tile(smem, sums, at, first_row, work.k_tiles, consumer);
        bool whole = true;
        if constexpr (Config::kSplits > 1) {
            const Gathering gathering{parts,
                                      smem.ticket[consumer],
                                      staging.barrier,
                                      staging.thread,
                                      place.m + place.n * Config::kClusterM,
                                      consumer};
            whole = gathering.add(sums, work.tile, work.split);
        }
        if (whole) {
            store_tile(sums, staging, maps, epilogue, work, static_cast<i32>(first_row), n);
        }
        if (Config::kPingpong) {
            at.advance(static_cast<u32>(order.k_tiles)); // the other's tile
        }
    }
    if (staging.thread == 0) {
        wait_for_stores<0>(); // shared memory must live until it is read
    }
    __syncwarp();
}

// ---------------------------------------------------------------------------- kernel

GK_DEVICE void set_up_barriers(Smem &smem)
{
    if (threadIdx.x == 0) {
#pragma unroll
        for (u32 stage = 0; stage < Config::kStages; ++stage) {
            smem.full[stage].init(1);
            smem.empty[stage].init(Config::kReaders * Config::kWarps * Config::kCluster);
        }
#pragma unroll
        for (u32 consumer = 0; consumer < 2 && Config::kPingpong; ++consumer) {
            smem.turn[consumer].init(Config::kWarps);
        }
        fence_barrier_init();
    }
    __syncwarp();
}

// All threads of the block, or of the cluster's blocks.
GK_DEVICE void sync_cluster()
{
    if constexpr (Config::kCluster == 1) {
        __syncthreads();
    } else {
        cluster_sync();
    }
}

// Boxes of the maps, innermost first: a (64, BM / CLUSTER_N, 1), b (64, BN / CLUSTER_M, 1), c
// (64, 64, 1), swizzled by 128 bytes; c_tail (32, 64, 1), swizzled by 64. partial and
// arrivals: null unless K is split.
extern "C" __global__ void __launch_bounds__(Config::kThreads, 1)
    gk_gemm_wgmma(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                  const __grid_constant__ TensorMap c_map,
                  const __grid_constant__ TensorMap c_tail_map, const Config::Output *bias,
                  float *partial, u32 *arrivals, i32 m, i32 n, i32 k, i32 batch, float alpha,
                  i32 group)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    GK_TRAP_IF(ptx::shared_address(&smem) % alignof(Smem) != 0);
    const Maps maps{a_map, b_map, c_map, c_tail_map};
    const u32 rank = Config::kCluster == 1 ? 0 : cluster_rank();
    const Place place{rank % Config::kClusterM, rank / Config::kClusterM};
    const TileOrder order(m, n, k, batch, group);

    set_up_barriers(smem);
    sync_cluster();
    const u32 warp = warp_index();
    const u32 warpgroup = warp / Config::kWarps;
    if (warpgroup == Config::kConsumers) {
        if constexpr (Config::kMovesRegisters) {
            release_registers<Config::kCopyRegisters>();
        }
        if (warp == Config::kConsumers * Config::kWarps && elect_one()) {
            prefetch(maps.a);
            prefetch(maps.b);
            copy_role(smem, maps, order, place);
        }
        __syncwarp(); // the elected lane is back before the warp meets the others
    } else {
        if constexpr (Config::kMovesRegisters) {
            acquire_registers<Config::kConsumerRegisters>();
        }
        const Epilogue epilogue{alpha, 0.0f, nullptr, bias};
        const Parts parts{partial, arrivals};
        consume_role(smem, maps, order, place, epilogue, parts, warpgroup, n);
    }
    if constexpr (Config::kCluster != 1) {
        cluster_sync();
    }
}
