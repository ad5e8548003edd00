// What linear_cross_entropy means: loss and lse of logits that are products in double. A block has
// 16 rows and walks over all columns 64 at a time, four logits of a row a thread, operands in
// pieces through shared memory, already as doubles; each thread keeps a running maximum and sum of
// its columns, and those of a row are put together at the end. Products of two 16-bit numbers are
// exact.
//
// Magnitudes. A logit is off in proportion to the sum of its products' sizes, and lse by what its
// logits are off, weighted as softmax weights them; beside that lse is off in proportion to its own
// parts, as in cross_entropy.

#include <gk/plain.cuh>

constexpr int kTile = 16, kPiece = 32, kThreads = kTile * kTile;
constexpr int kLogits = 4; // of a thread, kTile columns apart

// Rows of one matrix, [row][k]; what lies outside is 0. The odd pitch spreads rows over banks.
template <int kRows> using Piece = double[kRows][kPiece + 1];

template <int kRows>
FUNCTION void bring(Piece<kRows> &piece, const Element *matrix, i64 first, i64 rows, i64 k,
                    i64 depth, i64 pitch)
{
    for (int e = (int)threadIdx.x; e < kRows * kPiece; e += kThreads) {
        const int row = e / kPiece, i = e % kPiece;
        const bool inside = first + row < rows && k + i < depth;
        piece[row][i] = inside ? number(matrix[(first + row) * pitch + k + i]) : 0.0;
    }
}

// What a set of columns of one row comes to. Sums of exponentials are below `most`.
struct Columns {
    double most, sum, weighted; // weighted: exponentials times the sizes of their logits
    double logits, sizes;
    double target, target_size; // of the label, 0 where it is not among them
};

// Takes over the other set, which is not empty, as this one is not.
FUNCTION void join(Columns *to, const Columns &other)
{
    const double most = fmax(to->most, other.most);
    const double mine = exponential(to->most - most), theirs = exponential(other.most - most);
    to->sum = to->sum * mine + other.sum * theirs;
    to->weighted = to->weighted * mine + other.weighted * theirs;
    to->most = most;
    to->logits += other.logits;
    to->sizes += other.sizes;
    to->target += other.target;
    to->target_size += other.target_size;
}

extern "C" __global__ void
gk_linear_cross_entropy_reference(const Element *x, const Element *w, const i64 *labels,
                                  double *loss, double *lse_out, i64 rows, i64 cols, i64 depth,
                                  i64 ldx, i64 ldw, i64 ignore, double smoothing, double z_loss)
{
    __shared__ Piece<kTile> x_piece;
    __shared__ Piece<kTile * kLogits> w_piece;
    __shared__ Columns all[kTile][kTile];
    const i64 row0 = (i64)blockIdx.x * kTile;
    const int row = threadIdx.x / kTile, col = threadIdx.x % kTile;
    const i64 label = row0 + row < rows ? labels[row0 + row] : ignore;
    Columns mine = {-1e300, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    for (i64 col0 = 0; col0 < cols; col0 += kTile * kLogits) {
        double logit[kLogits] = {}, size[kLogits] = {};
        for (i64 k = 0; k < depth; k += kPiece) {
            __syncthreads(); // the pieces before have been used
            bring(x_piece, x, row0, rows, k, depth, ldx);
            bring(w_piece, w, col0, cols, k, depth, ldw);
            __syncthreads();
            for (int i = 0; i < kPiece; ++i) {
                const double a = x_piece[row][i];
                for (int n = 0; n < kLogits; ++n) {
                    const double b = w_piece[col + n * kTile][i];
                    logit[n] += a * b;
                    size[n] += fabs(a) * fabs(b);
                }
            }
        }
        for (int n = 0; n < kLogits; ++n) {
            const i64 at = col0 + col + n * kTile;
            if (at < cols) {
                const bool is_label = at == label && label != ignore;
                const Columns one = {logit[n],
                                     1.0,
                                     size[n],
                                     logit[n],
                                     size[n],
                                     is_label ? logit[n] : 0.0,
                                     is_label ? size[n] : 0.0};
                join(&mine, one);
            }
        }
    }
    all[row][col] = mine;
    __syncthreads();
    if (col != 0 || row0 + row >= rows) {
        return;
    }
    for (int i = 1; i < kTile; ++i) {
        if (all[row][i].sum > 0.0) { // a set of no columns has none
            join(&mine, all[row][i]);
        }
    }
    const i64 at = 2 * (row0 + row);
    const double lse = mine.most + logarithm(mine.sum);
    const double size = mine.weighted / mine.sum + fabs(mine.most) + logarithm(mine.sum) + 2.0;
    const bool ignored = label == ignore;
    loss[at] = ignored ? 0.0
                       : (1.0 - smoothing) * (lse - mine.target) +
                             smoothing * (lse - mine.logits / (double)cols) + z_loss * lse * lse;
    loss[at + 1] = ignored ? 0.0
                           : size * (1.0 + 2.0 * z_loss * fabs(lse)) + z_loss * lse * lse +
                                 mine.target_size + smoothing * mine.sizes / (double)cols;
    lse_out[at] = lse;
    lse_out[at + 1] = size;
}
