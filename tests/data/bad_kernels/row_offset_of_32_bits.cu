// twin: target=sm_80 grid=2 block=32 out=512 big=4966056960
// wants: UNWRITTEN
// Rows of a matrix by stride: row times bytes between rows, in 32 bits, past 2^32 bytes. Every row before that is right.
#include <gk/rows.cuh>

extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    using Part = gk::Piece<gk::bf16, 16>;
    const unsigned ld = 131072, cols = 256, row = blockIdx.x ? 18944 : 1;
    const int at = threadIdx.x * static_cast<int>(Part::kCount);
    gk::bf16 *matrix = reinterpret_cast<gk::bf16 *>(work);
    Part piece;
#if BAD
    gk::bf16 *to = reinterpret_cast<gk::bf16 *>(reinterpret_cast<char *>(work) + row * ld * 2u);
#else
    gk::bf16 *to = matrix + static_cast<unsigned long long>(row) * ld;
#endif
#pragma unroll
    for (int i = 0; i < static_cast<int>(Part::kCount); ++i) {
        piece.v[i] = static_cast<float>(in[at + i] % 251);
    }
    piece.store<gk::StoreUse::kKeep>(to, at, cols);
    piece.load<gk::CacheUse::kL2>(matrix + static_cast<unsigned long long>(row) * ld, at, cols, 0);
#pragma unroll
    for (int i = 0; i < static_cast<int>(Part::kCount); ++i) {
        out[blockIdx.x * cols + at + i] = static_cast<unsigned>(piece.v[i]);
    }
}
