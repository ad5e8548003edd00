// The definition of right: one query row a block, two passes over its entries, double inside.
//
// Each output is a pair (value, magnitude); the magnitude of O is the same sum over absolute values.
typedef unsigned short Bits;

#if defined(GK_DTYPE_BF16)
__device__ static double widen(Bits bits)
{
    return static_cast<double>(__uint_as_float(static_cast<unsigned>(bits) << 16));
}
#else
__device__ static double widen(Bits bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return static_cast<double>(value);
}
#endif

extern "C" __global__ void decode_reference(const Bits *Q, const Bits *K, const Bits *V, const int *page_table, const int *lengths,
                                            const float *sinks, double *O, double *LSE, int q_heads, int kv_heads, int head_dim,
                                            int page_size, int pages_row, double scale)
{
    const int request = blockIdx.x, head = blockIdx.y, kv_head = head / (q_heads / kv_heads);
    const long long row = static_cast<long long>(request) * q_heads + head;
    const int length = lengths[request];
    double top = sinks ? static_cast<double>(sinks[head]) : -__longlong_as_double(0x7ff0000000000000), sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < length; i++) {
            const long long page = page_table[request * pages_row + i / page_size];
            const long long at = GK_KV_LAYOUT == GK_KV_LAYOUT_NHD
                                     ? ((page * page_size + i % page_size) * kv_heads + kv_head) * head_dim
                                     : ((page * kv_heads + kv_head) * page_size + i % page_size) * head_dim;
            double score = 0;
            for (int c = 0; c < head_dim; c++) {
                score += widen(Q[row * head_dim + c]) * widen(K[at + c]);
            }
            if (pass == 0) {
                top = fmax(top, score * scale);
            } else {
                sum += exp(score * scale - top);
            }
        }
    }
    sum += sinks ? exp(static_cast<double>(sinks[head]) - top) : 0.0;
    for (int c = threadIdx.x; c < head_dim; c += blockDim.x) {
        double value = 0, magnitude = 0;
        for (int i = 0; i < length; i++) {
            const long long page = page_table[request * pages_row + i / page_size];
            const long long at = GK_KV_LAYOUT == GK_KV_LAYOUT_NHD
                                     ? ((page * page_size + i % page_size) * kv_heads + kv_head) * head_dim
                                     : ((page * kv_heads + kv_head) * page_size + i % page_size) * head_dim;
            double score = 0;
            for (int k = 0; k < head_dim; k++) {
                score += widen(Q[row * head_dim + k]) * widen(K[at + k]);
            }
            value += exp(score * scale - top) * widen(V[at + c]);
            magnitude += exp(score * scale - top) * fabs(widen(V[at + c]));
        }
        O[2 * (row * head_dim + c)] = length > 0 ? value / sum : 0.0;
        O[2 * (row * head_dim + c) + 1] = length > 0 ? magnitude / sum : 0.0;
    }
    if (threadIdx.x == 0 && LSE) {
        LSE[2 * row] = sum > 0 ? top + log(sum) : -__longlong_as_double(0x7ff0000000000000);
        LSE[2 * row + 1] = sum > 0 ? fabs(top) + fabs(log(sum)) : 0.0;
    }
}
