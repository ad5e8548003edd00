// Decode over a paged cache: the schedule, and one piece of a request's entries a block.
//
// A piece is (row, first step, steps, slot): row = request * kv_heads + head, a step is kBN entries, slot
// is where its partial result goes, -1 when the row is whole and the output can be written at once.
#include "half.cuh" // from common/, an include folder of the kernel.json

static constexpr int kBN = DEC_BN;

extern "C" __global__ void decode_schedule(const int *lengths, const int *offsets, int *schedule, int batch, int kv_heads, int pieces)
{
    // One thread: the work is a loop over requests. Every piece is written, the unused ones as empty.
    if (threadIdx.x != 0) {
        return;
    }
    const int rows = batch * kv_heads;
    int total = 0, used = 0, slots = 0;
    for (int r = 0; r < batch; r++) {
        total += (offsets[r + 1] - offsets[r] + kBN - 1) / kBN * kv_heads;
    }
    const int spare = pieces - rows, share = spare > 0 ? (total + spare - 1) / spare : total;
    const int least = share < 1 ? 1 : share;
    for (int r = 0; r < batch; r++) {
        const int steps = (lengths[r] + kBN - 1) / kBN;
        const int parts = steps > 0 ? (steps + least - 1) / least : 1;
        schedule[4 * pieces + r] = parts > 1 ? slots : -1;
        for (int h = 0; h < kv_heads; h++) {
            for (int p = 0; p < parts && used < pieces; p++, used++) {
                int *piece = schedule + 4 * used;
                piece[0] = r * kv_heads + h;
                piece[1] = p * least;
                piece[2] = steps - p * least < least ? steps - p * least : least;
                piece[3] = parts > 1 ? slots++ : -1;
            }
        }
    }
    schedule[4 * pieces + batch] = slots;
    for (; used < pieces; used++) {
        schedule[4 * used] = -1;
    }
}

#if defined(N_WARPS) // the schedule sees BN alone

static constexpr int kHead = DEC_HEAD_DIM, kThreads = 32 * N_WARPS;
static constexpr int kOwn = (kHead + kThreads - 1) / kThreads; // output columns of a thread

__device__ static float block_sum(float x, float *shared)
{
    for (int mask = 16; mask > 0; mask /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        shared[threadIdx.y] = x;
    }
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < N_WARPS; w++) {
        sum += shared[w];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_split(const unsigned short *Q, const unsigned short *K, const unsigned short *V, const int *page_table, const int *lengths,
                 const float *sinks, unsigned short *O, float *LSE, const int *schedule, float *partial_o,
                 float *partial_lse, unsigned *counters /* blocks at work on a row */, int q_heads, int kv_heads, int page_size, int pages_row, int pieces,
                 float scale_log2, unsigned long long tokens)
{
    __shared__ float shared[N_WARPS];
    const int thread = threadIdx.y * 32 + threadIdx.x, ratio = q_heads / kv_heads;
    for (int p = blockIdx.x; p < pieces && tokens > 0; p += gridDim.x) {
        const int row = schedule[4 * p], slot = schedule[4 * p + 3];
        if (row < 0) {
            break;
        }
        const int request = row / kv_heads, kv_head = row % kv_heads;
        if (thread == 0) {
            atomicAdd(&counters[row], 1u);
        }
        const int begin = schedule[4 * p + 1] * kBN;
        const int end = min(begin + schedule[4 * p + 2] * kBN, lengths[request]);
        for (int g = 0; g < ratio; g++) {
            const int head = kv_head * ratio + g;
            const unsigned short *q = Q + (static_cast<long long>(request) * q_heads + head) * kHead;
            float own[kOwn] = {}, top = -kInfinity, sum = 0;
            for (int i = begin; i < end; i++) {
                const long long page = page_table[request * pages_row + i / page_size];
#if DEC_KV_LAYOUT == DEC_KV_LAYOUT_NHD
                const long long at = ((page * page_size + i % page_size) * kv_heads + kv_head) * kHead;
#else
                const long long at = ((page * kv_heads + kv_head) * page_size + i % page_size) * kHead;
#endif
                float part = 0;
                for (int c = thread; c < kHead; c += kThreads) {
                    part += decode_load(q[c]) * decode_load(K[at + c]);
                }
                const float score = block_sum(part, shared) * scale_log2, high = fmaxf(top, score);
                const float keep = exp2f(top - high), weight = exp2f(score - high);
                sum = sum * keep + weight;
                top = high;
                for (int j = 0, c = thread; c < kHead; j++, c += kThreads) {
                    own[j] = own[j] * keep + weight * decode_load(V[at + c]);
                }
            }
            if (slot < 0 && sinks) {
                const float score = sinks[head] * 1.4426950408889634f, high = fmaxf(top, score);
                sum = sum * exp2f(top - high) + exp2f(score - high);
                for (int j = 0; j < kOwn; j++) {
                    own[j] *= exp2f(top - high);
                }
                top = high;
            }
            const float norm = sum > 0 ? 1.0f / sum : 0.0f, lse = (top + log2f(sum)) * 0.6931471805599453f;
            for (int j = 0, c = thread; c < kHead; j++, c += kThreads) {
                if (slot < 0) {
                    O[(static_cast<long long>(request) * q_heads + head) * kHead + c] = decode_store(own[j] * norm);
                } else {
                    partial_o[(static_cast<long long>(slot) * ratio + g) * kHead + c] = own[j] * norm;
                }
            }
            if (thread == 0 && slot >= 0) {
                partial_lse[slot * ratio + g] = sum > 0 ? lse : -kInfinity;
            } else if (thread == 0 && LSE) {
                LSE[request * q_heads + head] = sum > 0 ? lse : -kInfinity;
            }
        }
        if (thread == 0) {
            atomicSub(&counters[row], 1u); // taken back: the workspace is left as it was found
        }
    }
}
#endif
