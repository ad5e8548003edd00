// twin: target=sm_80 grid=1 block=64 out=165
// wants: RACE
// Columns: one column too many is the next row's first.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned rows = 15, cols = 11;
    const unsigned col = threadIdx.x % 16, first = threadIdx.x / 16;
    for (unsigned row = first; row < rows; row += 4) {
        if (BAD ? col <= cols && row * cols + col < rows * cols : col < cols) {
            out[row * cols + col] = in[row * 16 + col] + row; // (1) (2)
        }
    }
}
