// The GEMM of the interpreter's benchmark: C = A * B^T in bf16 with fp32 sums, mma.sync m16n8k16,
// 128x128x32 tiles, a ring of kStages cp.async stages, 256 threads (8 warps of 64x32).
// Rows of a tile are 32 bf16 (four 16-byte chunks); chunk c of row r stands at c ^ (r >> 1 & 3), so
// that the eight rows of an ldmatrix phase meet eight different bank groups.
#ifndef GK_STAGES
#define GK_STAGES 3
#endif
#ifndef GK_SWIZZLE
#define GK_SWIZZLE 1
#endif
constexpr int kTileM = 128, kTileN = 128, kTileK = 32, kStages = GK_STAGES, kThreads = 256;
constexpr int kChunks = kTileK / 8;
constexpr unsigned kTileBytes = kTileM * kTileK * 2;
constexpr unsigned kStageBytes = 2 * kTileBytes;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ unsigned place(int row, int chunk)
{
    return row * kTileK * 2 + ((GK_SWIZZLE ? chunk ^ (row >> 1 & 3) : chunk) * 16);
}

__device__ __forceinline__ void copy_16(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void load_x4(unsigned (&r)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void copy_tile(unsigned to, const unsigned short *from, int k_total,
                                          int thread)
{
    for (int i = thread; i < kTileM * kChunks; i += kThreads) {
        int row = i / kChunks, chunk = i % kChunks;
        copy_16(to + place(row, chunk), from + (long long)row * k_total + chunk * 8);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    bench_gemm(const unsigned short *a, const unsigned short *b, float *c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char smem[];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_m = warp % 2 * 64, warp_n = warp / 2 * 32;
    const unsigned base = shared_address(smem);
    const unsigned short *tile_a = a + (long long)blockIdx.y * kTileM * k;
    const unsigned short *tile_b = b + (long long)blockIdx.x * kTileN * k;
    float sum[4][4][4] = {};
    const int tiles = k / kTileK;

    for (int s = 0; s < kStages - 1; s++) {
        if (s < tiles) {
            copy_tile(base + s * kStageBytes, tile_a + s * kTileK, k, thread);
            copy_tile(base + s * kStageBytes + kTileBytes, tile_b + s * kTileK, k, thread);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int t = 0; t < tiles; t++) {
        const unsigned stage = base + t % kStages * kStageBytes;
        const int ahead = t + kStages - 1;

        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
        __syncthreads();
        if (ahead < tiles) {
            const unsigned next = base + ahead % kStages * kStageBytes;
            copy_tile(next, tile_a + ahead * kTileK, k, thread);
            copy_tile(next + kTileBytes, tile_b + ahead * kTileK, k, thread);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
        for (int step = 0; step < kTileK / 16; step++) {
            unsigned fa[4][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                load_x4(fa[i], stage + place(warp_m + i * 16 + lane % 16, step * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                load_x4(fb[j], stage + kTileBytes +
                                   place(warp_n + j * 16 + lane % 8 + lane / 16 * 8,
                                         step * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    multiply(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int row = blockIdx.y * kTileM + warp_m + i * 16 + lane / 4;
            const int column = blockIdx.x * kTileN + warp_n + j * 8 + lane % 4 * 2;
            float2 *to = reinterpret_cast<float2 *>(c + (long long)row * n + column);

            to[0] = make_float2(sum[i][j][0], sum[i][j][1]);
            to[4 * n] = make_float2(sum[i][j][2], sum[i][j][3]);
        }
    }
}
