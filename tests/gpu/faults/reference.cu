/* The plain sum: for each element its value and the sum of absolute terms, as doubles. */

extern "C" __global__ void faults_reference(const float *a, const float *b, double *result,
                                            long long n)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        const double x = a[at], y = b[at];
        result[2 * at] = x + y;
        result[2 * at + 1] = fabs(x) + fabs(y);
    }
}
