// What swiglu_gateup means: one element of out a thread, both products in double. Magnitude: what
// the products' absolute sums are worth behind silu, whose slope is at most 1.10, and the product.
//
// A block covers 16 x 16 elements and brings its rows in pieces through shared memory, already as
// doubles: without that a GPU spends seconds on the largest problems. Products of two 16-bit
// numbers are exact in double.

#include <gk/plain.cuh>

constexpr int kTile = 16, kPiece = 32, kThreads = kTile * kTile;

// 16 rows of one matrix, [row][k]; what lies outside is 0. The odd pitch spreads rows over banks.
typedef double Piece[kTile][kPiece + 1];

FUNCTION void bring(Piece piece, const Element *matrix, i64 first, i64 rows, i64 k, i64 depth,
                    i64 pitch)
{
    for (int e = (int)threadIdx.x; e < kTile * kPiece; e += kThreads) {
        const int row = e / kPiece, i = e % kPiece;
        const bool inside = first + row < rows && k + i < depth;
        piece[row][i] = inside ? number(matrix[(first + row) * pitch + k + i]) : 0.0;
    }
}

struct Sum {
    double value, size;
};

FUNCTION void add(Sum *sum, double a, double b)
{
    sum->value += a * b;
    sum->size += fabs(a * b);
}

extern "C" __global__ void gk_swiglu_gateup_reference(const Element *x, const Element *packed,
                                                      const Element *gate, const Element *up,
                                                      double *out, i64 m, i64 n, i64 depth, i64 ldx,
                                                      i64 ldw)
{
    __shared__ Piece x_piece, gate_piece, up_piece;
    const i64 tiles_n = (n + kTile - 1) / kTile;
    const i64 row0 = blockIdx.x / tiles_n * kTile, col0 = blockIdx.x % tiles_n * kTile;
    const int row = threadIdx.x / kTile, col = threadIdx.x % kTile;
    const Element *w_gate = packed ? packed : gate, *w_up = packed ? packed + n * ldw : up;
    Sum g = {0.0, 0.0}, u = {0.0, 0.0};
    for (i64 k = 0; k < depth; k += kPiece) {
        __syncthreads(); // the pieces before have been used
        bring(x_piece, x, row0, m, k, depth, ldx);
        bring(gate_piece, w_gate, col0, n, k, depth, ldw);
        bring(up_piece, w_up, col0, n, k, depth, ldw);
        __syncthreads();
        for (int i = 0; i < kPiece; ++i) {
            add(&g, x_piece[row][i], gate_piece[col][i]);
            add(&u, x_piece[row][i], up_piece[col][i]);
        }
    }
    if (row0 + row >= m || col0 + col >= n) {
        return;
    }
    const double activated = g.value / (1.0 + exponential(-g.value));
    double *pair = out + 2 * ((row0 + row) * n + col0 + col);
    pair[0] = activated * u.value;
    pair[1] = 1.10 * g.size * fabs(u.value) + fabs(activated) * u.size;
}
