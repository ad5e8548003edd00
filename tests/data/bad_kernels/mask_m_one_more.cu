// twin: target=sm_80 grid=2 block=64 out=200
// wants: OUT_OF_BOUNDS
// Rows: the guard lets one row too many through.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned rows = 25, cols = 8;
    const unsigned row = blockIdx.x * 16 + threadIdx.x / 4, col = threadIdx.x % 4 * 2;
    if (BAD ? row <= rows : row < rows) {
        out[row * cols + col] = in[row * cols + col];
        out[row * cols + col + 1] = in[row * cols + col + 1];
    }
}
