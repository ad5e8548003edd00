// Adds the partial results of split rows: O = sum of exp(lse_i - lse) O_i. Leaves at once where nothing was split.
#include "half.cuh"

extern "C" __global__ void decode_combine(const float *partial_o, const float *partial_lse, const int *first_slot, const float *sinks,
                                          unsigned short *O, float *LSE, int q_heads, int ratio)
{
    const int request = blockIdx.x, head = blockIdx.y, batch = gridDim.x;
    int first = first_slot[request], last = first_slot[batch];
    if (first < 0) {
        return;
    }
    for (int r = request + 1; r < batch; r++) {
        if (first_slot[r] >= 0) {
            last = first_slot[r];
            break;
        }
    }
    const int kv_heads = q_heads / ratio, parts = (last - first) / kv_heads, group = head % ratio;
    first += head / ratio * parts;
    float top = sinks ? sinks[head] : -kInfinity, sum = 0;
    for (int p = 0; p < parts; p++) {
        top = fmaxf(top, partial_lse[(first + p) * ratio + group]);
    }
    for (int p = 0; p < parts; p++) {
        sum += expf(partial_lse[(first + p) * ratio + group] - top);
    }
    sum += sinks ? expf(sinks[head] - top) : 0.0f;
    for (int c = threadIdx.x; c < DEC_HEAD_DIM; c += blockDim.x) {
        float value = 0;
        for (int p = 0; p < parts; p++) {
            const int slot = (first + p) * ratio + group;
            value += expf(partial_lse[slot] - top) * partial_o[static_cast<long long>(slot) * DEC_HEAD_DIM + c];
        }
        O[(static_cast<long long>(request) * q_heads + head) * DEC_HEAD_DIM + c] = decode_store(value / sum);
    }
    if (threadIdx.x == 0 && LSE) {
        LSE[request * q_heads + head] = top + logf(sum);
    }
}
