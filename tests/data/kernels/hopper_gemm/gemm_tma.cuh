// C = alpha * A B^T by tensor maps: the launch of a fast Hopper kernel with plain arithmetic inside.
//
// Roles     group 0: one thread copies stages of A and B into the ring.
//           groups 1..: each computes its rows of the tile, stages C; one thread stores it.
// Barriers  full[s]   1 arrival and the bytes of a stage, copy -> compute: "stage s holds a tile pair"
//           empty[s]  kConsumers arrivals, compute -> copy: "stage s may be overwritten"
// Layout    a tile row is BK elements of 128 bytes at most; the copy swizzles 16-byte chunks by the row.
#include <gk/types.cuh>
#include "gemm_tma_ptx.cuh"

namespace {

using Element = GK_DTYPE;
using Output = GK_DTYPE_OUT;

constexpr int kBM = GK_BM, kBN = GK_BN, kBK = GK_BK, kStages = GK_STAGES;
constexpr int kConsumers = GK_CONSUMERS, kCluster = GK_CLUSTER, kGroup = GK_GROUP;
constexpr int kGroupThreads = 128;
constexpr int kSwizzleBytes = 128;
constexpr int kRows = kBM / kConsumers;                  // of one consumer
constexpr int kSums = kRows * kBN / kGroupThreads;       // of one thread
constexpr int kCBox = kSwizzleBytes / int(sizeof(Output)) < kBN ? kSwizzleBytes / int(sizeof(Output)) : kBN;
constexpr unsigned kStageBytes = (kBM + kBN) * kBK * sizeof(Element);
constexpr int kABytes = kBM * kBK * int(sizeof(Element));

static_assert(kBK * sizeof(Element) <= kSwizzleBytes, "the inner box lies within the swizzle span");
static_assert(kBM % (64 * kConsumers) == 0, "a consumer owns whole 64-row slabs");

// Byte offset of element (row, column) in a box whose rows are `row_bytes` long, swizzled by 128.
template <typename T>
__device__ int swizzled(int row, int column, int row_bytes)
{
    int offset = row * row_bytes + column * int(sizeof(T));
    return offset ^ ((offset >> 3) & 0x70);
}

struct Tile {
    int m, n, batch;
};

// Groups of kGroup cluster rows are walked column by column, for reuse of B in L2.
__device__ Tile tile_at(int index, int tiles_m, int tiles_n)
{
    const int plane = tiles_m * tiles_n, batch = index / plane, rest = index % plane;
    const int band = kGroup * kCluster * tiles_n, first = rest / band * kGroup * kCluster;
    const int rows = tiles_m - first < kGroup * kCluster ? tiles_m - first : kGroup * kCluster;
    return {first + rest % band % rows, rest % band / rows, batch};
}

} // namespace

extern "C" __global__ void __launch_bounds__(kGroupThreads *(kConsumers + 1), 1)
    gemm_tma(const __grid_constant__ fixture::TensorMap a_map, const __grid_constant__ fixture::TensorMap b_map,
             const __grid_constant__ fixture::TensorMap c_map, int M, int N, int K, int tiles_m, int tiles_n, int tiles, float alpha)
{
    extern __shared__ unsigned char raw[];
    __shared__ alignas(8) unsigned long long full[kStages], empty[kStages];
    unsigned char *ring = raw + (1024 - fixture::shared_address(raw) % 1024) % 1024;
    unsigned char *staged = ring + kStages * kStageBytes;
    const int group = int(threadIdx.x) / kGroupThreads, lane = int(threadIdx.x) % kGroupThreads;
    const int steps = (K + kBK - 1) / kBK;

    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; s++) {
            fixture::barrier_init(&full[s], 1);
            fixture::barrier_init(&empty[s], kConsumers);
        }
        fixture::barrier_init_fence();
    }
    fixture::cluster_sync();

    if (group == 0) {
#if GK_REGISTERS == GK_REGISTERS_R40_232
        fixture::registers_decrease<40>();
#elif GK_REGISTERS == GK_REGISTERS_R24_240
        fixture::registers_decrease<24>();
#endif
        unsigned turn = 0;
        for (int t = int(blockIdx.x); lane == 0 && t < tiles; t += int(gridDim.x)) {
            const Tile tile = tile_at(t, tiles_m, tiles_n);
            for (int k = 0; k < steps; k++, turn++) {
                const unsigned s = turn % kStages;
                fixture::barrier_wait(&empty[s], (turn / kStages & 1) ^ 1); // the first lap passes
                fixture::barrier_expect(&full[s], kStageBytes);
                unsigned char *stage = ring + s * kStageBytes;
                fixture::copy_in(stage, &a_map, &full[s], k * kBK, tile.m * kBM, tile.batch);
                fixture::copy_in(stage + kABytes, &b_map, &full[s], k * kBK, tile.n * kBN, tile.batch);
            }
        }
    } else {
#if GK_REGISTERS == GK_REGISTERS_R40_232
        fixture::registers_increase<232>();
#elif GK_REGISTERS == GK_REGISTERS_R24_240
        fixture::registers_increase<240>();
#endif
        unsigned turn = 0;
        const int row0 = (group - 1) * kRows;
        for (int t = int(blockIdx.x); t < tiles; t += int(gridDim.x)) {
            const Tile tile = tile_at(t, tiles_m, tiles_n);
            float sums[kSums] = {};
            for (int k = 0; k < steps; k++, turn++) {
                const unsigned s = turn % kStages;
                fixture::barrier_wait(&full[s], turn / kStages & 1);
                const unsigned char *a = ring + s * kStageBytes, *b = a + kABytes;
                for (int i = 0; i < kBK; i++) {
#pragma unroll
                    for (int j = 0; j < kSums; j++) {
                        const int row = row0 + (j * kGroupThreads + lane) / kBN, column = (j * kGroupThreads + lane) % kBN;
                        const auto x = *reinterpret_cast<const Element *>(a + swizzled<Element>(row, i, kBK * int(sizeof(Element))));
                        const auto y = *reinterpret_cast<const Element *>(b + swizzled<Element>(column, i, kBK * int(sizeof(Element))));
                        sums[j] += gk::to_float(x) * gk::to_float(y);
                    }
                }
                fixture::group_sync(group);
                if (lane == 0) {
                    fixture::barrier_arrive(&empty[s]);
                }
            }
            // The staged tile of the last turn must have left before it is overwritten.
            if (group == 1 && lane == 0) {
                fixture::store_wait();
            }
            fixture::consumers_sync(kConsumers * kGroupThreads);
#pragma unroll
            for (int j = 0; j < kSums; j++) {
                const int row = row0 + (j * kGroupThreads + lane) / kBN, column = (j * kGroupThreads + lane) % kBN;
                unsigned char *box = staged + column / kCBox * (kBM * kCBox * int(sizeof(Output)));
                *reinterpret_cast<Output *>(box + swizzled<Output>(row, column % kCBox, kCBox * int(sizeof(Output)))) =
                    gk::from_float<Output>(alpha * sums[j]);
            }
            fixture::store_fence();
            fixture::consumers_sync(kConsumers * kGroupThreads);
            if (group == 1 && lane == 0) {
                for (int n = 0; n < kBN; n += kCBox) {
                    fixture::copy_out(&c_map, staged + n / kCBox * (kBM * kCBox * int(sizeof(Output))), tile.n * kBN + n, tile.m * kBM, tile.batch);
                }
                fixture::store_commit();
            }
        }
        if (group == 1 && lane == 0) {
            fixture::store_wait();
        }
    }
    fixture::cluster_sync();
}
