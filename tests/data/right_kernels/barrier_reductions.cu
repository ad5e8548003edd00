// twin: target=sm_80 grid=1 block=96 out=96
// Barriers that count and vote, as the only order between reads and writes.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[96];
    const unsigned t = threadIdx.x;
    unsigned sum = 0;
    for (unsigned lap = 0; lap < 3; ++lap) {
        s[t] = in[lap * 96 + t];
        const int odd = __syncthreads_count(in[t] & 1);
        sum += s[95 - t] + (unsigned)odd;
        sum += (unsigned)__syncthreads_or(in[t] == 3) + (unsigned)__syncthreads_and(in[t] != 3);
    }
    out[t] = sum;
}
