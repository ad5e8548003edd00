// What layernorm_dropout_residual means. A block has one row: mean, then squared differences from
// it, in double. Magnitudes: of residual_out |residual| + |scaled x|; of y what its parts are worth
// before they cancel.

#include <gk/plain.cuh>

typedef unsigned long long u64;

constexpr int kThreads = 256;

// 16 bits of Philox 4x32-10, by its definition: of the four words of counter `element` / 8 half
// `element` % 8, of each word the lower one first.
FUNCTION u32 random_half(u64 element, u64 seed)
{
    u64 counter = element / 8;
    u32 c[4] = {(u32)counter, (u32)(counter >> 32), 0, 0};
    u32 k[2] = {(u32)seed, (u32)(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
        const u64 a = (u64)0xd2511f53u * c[0], b = (u64)0xcd9e8d57u * c[2];
        const u32 next[4] = {(u32)(b >> 32) ^ c[1] ^ k[0], (u32)b, (u32)(a >> 32) ^ c[3] ^ k[1],
                             (u32)a};
        for (int i = 0; i < 4; ++i) {
            c[i] = next[i];
        }
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    return c[element % 8 / 2] >> element % 2 * 16 & 0xffff;
}

struct Inputs {
    const Element *x, *residual;
    double drop;
    u64 seed;
    bool dropout;
};

struct H {
    double value, size;
    bool kept;
};

FUNCTION H h_of(const Inputs &in, i64 at, u64 element)
{
    H h = {number(in.x[at]), fabs(number(in.x[at])), true};
    if (in.dropout) {
        h.kept = (double)random_half(element, in.seed) >= floor(in.drop * 65536.0 + 0.5);
        const double scale = h.kept ? 1.0 / (1.0 - in.drop) : 0.0;
        h.value *= scale;
        h.size *= scale;
    }
    if (in.residual) {
        h.value += number(in.residual[at]);
        h.size += fabs(number(in.residual[at]));
    }
    return h;
}

extern "C" __global__ void gk_layernorm_reference(const Element *x, const Element *residual,
                                                  const Weight *weight, const Weight *bias,
                                                  double *residual_out, double *mask, double *y,
                                                  i64 cols, i64 ld, double eps, double drop,
                                                  i64 seed)
{
    const i64 row = blockIdx.x;
    const Inputs in = {x, residual, drop, (u64)seed, GK_DROPOUT};
    double sum = 0.0, squares = 0.0, sizes = 0.0;
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        const H h = h_of(in, row * ld + c, (u64)(row * cols + c));
        sum += h.value;
        sizes += h.size;
    }
    const double mean = block_sum<kThreads>(sum) / (double)cols;
    const double size_mean = block_sum<kThreads>(sizes) / (double)cols;
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        const double apart = h_of(in, row * ld + c, (u64)(row * cols + c)).value - mean;
        squares += apart * apart;
    }
    const double scale = 1.0 / sqrt(block_sum<kThreads>(squares) / (double)cols + eps);
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        const i64 at = 2 * (row * cols + c);
        const H h = h_of(in, row * ld + c, (u64)(row * cols + c));
        if (residual_out) {
            residual_out[at] = h.value;
            residual_out[at + 1] = h.size;
        }
        if (mask) {
            mask[at] = h.kept ? 1.0 : 0.0;
            mask[at + 1] = 1.0;
        }
        double value = (h.value - mean) * scale, size = (h.size + size_mean) * scale;
        if (weight) {
            value = value * number(weight[c]) + number(bias[c]);
            size = size * fabs(number(weight[c])) + fabs(number(bias[c]));
        }
        y[at] = value;
        y[at + 1] = size;
    }
}
