/*
 * What ordinary CUDA kernels use, compiled by NVRTC and run on the emulated device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

static void vector_add(void **state)
{
    struct rig rig;
    float a[1000], b[1000], c[1000];

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig,
             "extern \"C\" __global__ void add(const float *a, const float *b, float *c, int n)"
             "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }");
    for (int i = 0; i < 1000; i++) {
        a[i] = (float)i * 0.25f;
        b[i] = (float)(1000 - i);
    }
    rig.grid[0] = 8;
    rig.block[0] = 128;
    {
        uint64_t da = rig_upload(&rig, "a", a, sizeof(a)), db = rig_upload(&rig, "b", b, sizeof(b));
        uint64_t dc = rig_alloc(&rig, "c", sizeof(c));

        RIG_OK(&rig, "add", da, db, dc, 1000);
        rig_download(&rig, dc, c, sizeof(c));
    }
    for (int i = 0; i < 1000; i++) {
        assert_true(c[i] == a[i] + b[i]);
    }
    assert_int_equal(rig.report.counts.blocks, 8);
    rig_fini(&rig);
}

static void reductions(void **state)
{
    struct rig rig;
    int in[4096], out[3];
    long long sum = 0;
    int largest = -1;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "extern \"C\" __global__ void reduce(const int *in, int *out, int n) {\n"
                   "  __shared__ int part[8];\n"
                   "  int sum = 0, most = -1;\n"
                   "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * "
                   "blockDim.x)\n"
                   "    { sum += in[i]; most = max(most, in[i]); }\n"
                   "  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);\n"
                   "  most = __reduce_max_sync(~0u, most);\n"
                   "  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;\n"
                   "  __syncthreads();\n"
                   "  if (threadIdx.x < 8) {\n"
                   "    sum = part[threadIdx.x];\n"
                   "    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(0xff, sum, d);\n"
                   "    if (threadIdx.x == 0) atomicAdd(&out[0], sum);\n"
                   "  }\n"
                   "  if (threadIdx.x % 32 == 0) atomicMax(&out[1], most);\n"
                   "  if (__syncthreads_count(in[threadIdx.x] % 2) && threadIdx.x == 0) "
                   "atomicInc((unsigned *)&out[2], 100);\n"
                   "}\n");
    for (int i = 0; i < 4096; i++) {
        in[i] = (i * 7919) % 1009;
        sum += in[i];
        largest = in[i] > largest ? in[i] : largest;
    }
    memset(out, 0, sizeof(out));
    rig.grid[0] = 5;
    rig.block[0] = 256;
    {
        uint64_t din = rig_upload(&rig, "in", in, sizeof(in));
        uint64_t dout = rig_upload(&rig, "out", out, sizeof(out));

        RIG_OK(&rig, "reduce", din, dout, 4096);
        rig_download(&rig, dout, out, sizeof(out));
    }
    assert_int_equal(out[0], (int)sum);
    assert_int_equal(out[1], largest);
    assert_int_equal(out[2], 5);
    rig_fini(&rig);
}

static void mathematics(void **state)
{
    struct rig rig;
    float x[256], y[256 * 10];
    double z[256 * 6];

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(
        &rig,
        "extern \"C\" __global__ void f(const float *x, float *y, double *z) {\n"
        "  int i = threadIdx.x; float v = x[i];\n"
        "  y[i] = sinf(v); y[256 + i] = cosf(v * 1000); y[512 + i] = expf(v); y[768 + i] = "
        "logf(fabsf(v) + 1e-3f);\n"
        "  y[1024 + i] = powf(fabsf(v), 1.7f); y[1280 + i] = tanhf(v); y[1536 + i] = erff(v);\n"
        "  y[1792 + i] = rsqrtf(fabsf(v) + 1); y[2048 + i] = fmodf(v, 0.7f); y[2304 + i] = "
        "__expf(v) + atan2f(v, 2);\n"
        "  double d = v;\n"
        "  z[i] = sin(d); z[256 + i] = exp(d); z[512 + i] = log(fabs(d) + 1); z[768 + i] = d / 3;\n"
        "  z[1024 + i] = sqrt(fabs(d)); z[1280 + i] = pow(fabs(d), 0.3);\n"
        "}\n");
    for (int i = 0; i < 256; i++) {
        x[i] = (float)(i - 128) * 0.0731f;
    }
    rig.block[0] = 256;
    {
        uint64_t dx = rig_upload(&rig, "x", x, sizeof(x)), dy = rig_alloc(&rig, "y", sizeof(y));
        uint64_t dz = rig_alloc(&rig, "z", sizeof(z));

        RIG_OK(&rig, "f", dx, dy, dz);
        rig_download(&rig, dy, y, sizeof(y));
        rig_download(&rig, dz, z, sizeof(z));
    }
    for (int i = 0; i < 256; i++) {
        double v = (double)x[i];
        const double want[] = {sin(v),
                               cos((double)(x[i] * 1000)),
                               exp(v),
                               log((double)(fabsf(x[i]) + 1e-3f)),
                               pow(fabs(v), (double)1.7f),
                               tanh(v),
                               erf(v),
                               1 / sqrt((double)(fabsf(x[i]) + 1)),
                               fmod(v, (double)0.7f),
                               exp(v) + atan2(v, 2)};
        const double wide[] = {sin(v), exp(v),        log(fabs(v) + 1),
                               v / 3,  sqrt(fabs(v)), pow(fabs(v), 0.3)};

        for (int k = 0; k < 10; k++) {
            assert_true(fabs((double)y[k * 256 + i] - want[k]) <= 4e-6 * (fabs(want[k]) + 0.1));
        }
        for (int k = 0; k < 6; k++) {
            assert_true(fabs(z[k * 256 + i] - wide[k]) <= 1e-14 * (fabs(wide[k]) + 1));
        }
    }
    rig_fini(&rig);
}

/* The same in C: what out[t] must be. */
static void expect_switches(int *want)
{
    for (int t = 0; t < 64; t++) {
        static const int TABLE[] = {3, 1, 4, 1, 5}, STEPS[] = {10, 20, 30};
        int list[16], v, before, r = 7;

        for (int i = 0; i < 16; i++) {
            list[(i * 5 + t) % 16] = i + t;
        }
        v = list[(t * 3 + 2) % 16];
        switch (t % 9) {
        case 0:
            v += 5;
            break;
        case 1:
            v *= 3;
            break;
        case 2:
            v -= TABLE[t % 5];
            break;
        case 3:
            v ^= 77;
            break;
        case 4:
            v = STEPS[t % 3];
            break;
        case 5:
            v = 4;
            break;
        case 6:
            v = (v << 2) + 1;
            break;
        case 7:
            v++;
            break;
        default:
            v = -v;
            break;
        }
        before = v;
        if (t % 3) {
            v += 9;
            r = (100 + t) * 2;
        }
        want[t] = v * 100 + r + before % 3;
    }
}

static void local_arrays_switches_and_calls(void **state)
{
    struct rig rig;
    int out[64], want[64];

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(
        &rig,
        "struct pair { long long a; short b; };\n"
        "__device__ int table[5] = {3, 1, 4, 1, 5};\n"
        "__constant__ short steps[3] = {10, 20, 30};\n"
        "__device__ int *second = &table[2];\n"
        "__device__ __noinline__ int twice(int *p, pair q) { *p += q.b; return (int)q.a * 2; }\n"
        "extern \"C\" __global__ void k(int *out, int n, pair q) {\n"
        "  int t = threadIdx.x, list[16];\n"
        "  for (int i = 0; i < 16; i++) list[(i * 5 + t) % 16] = i + t;\n"
        "  int v = list[(t * 3 + n) % 16];\n"
        "  switch (t % 9) { case 0: v += 5; break; case 1: v *= 3; break; case 2: v -= table[t % "
        "5]; break;\n"
        "    case 3: v ^= 77; break; case 4: v = steps[t % 3]; break; case 5: v = *second; break;\n"
        "    case 6: v <<= 2; case 7: v++; break; default: v = -v; }\n"
        "  int before = v; q.a += t;\n"
        "  int r = t % 3 ? twice(&v, q) : 7;\n"
        "  out[t] = v * 100 + r + before % 3;\n"
        "}\n");
    expect_switches(want);
    rig.block[0] = 64;
    {
        uint64_t dout = rig_alloc(&rig, "out", sizeof(out));
        struct gk_emu_kernel *kernel = NULL;
        struct gk_emu_report report;
        struct {
            uint64_t out;
            int32_t n, pad;
            int64_t a;
            int16_t b, pads[3];
        } params = {dout, 2, 0, 100, 9, {0}};
        struct gk_emu_launch launch = {.grid = {1, 1, 1},
                                       .block = {64, 1, 1},
                                       .params = &params,
                                       .params_size = sizeof(params),
                                       .registers_per_thread = 40};

        assert_ok(gk_emu_kernel_find(rig.module, "k", &kernel, &rig.err), rig.err);
        assert_ok(gk_emu_launch(rig.emu, kernel, &launch, &report, &rig.err), rig.err);
        rig_download(&rig, dout, out, sizeof(out));
    }
    assert_memory_equal(out, want, sizeof(out));
    rig_fini(&rig);
}

static void halves_from_the_headers(void **state)
{
    struct rig rig;
    float in[64], out[64 * 2];

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
                   "extern \"C\" __global__ void k(const float *in, float *out) {\n"
                   "  int t = threadIdx.x;\n"
                   "  __half2 h = __floats2half2_rn(in[t], in[t] * 2);\n"
                   "  h = __hfma2(h, h, __float2half2_rn(0.5f));\n"
                   "  h = __hmax2(h, __float2half2_rn(0.75f));\n"
                   "  out[t] = __low2float(h) + __high2float(h);\n"
                   "  __nv_bfloat162 b = __floats2bfloat162_rn(in[t], 1.0f);\n"
                   "  b = __hfma2(b, b, b); __nv_bfloat16 s = __hadd(b.x, b.y);\n"
                   "  if (__hgt(s, __float2bfloat16(3.0f))) s = hexp2(s);\n"
                   "  out[64 + t] = __bfloat162float(s);\n"
                   "}\n");
    for (int i = 0; i < 64; i++) {
        in[i] = (float)(i - 32) / 16;
    }
    rig.block[0] = 64;
    {
        uint64_t din = rig_upload(&rig, "in", in, sizeof(in));
        uint64_t dout = rig_alloc(&rig, "out", sizeof(out));

        RIG_OK(&rig, "k", din, dout);
        rig_download(&rig, dout, out, sizeof(out));
    }
    for (int i = 0; i < 64; i++) {
        double x = (double)in[i], low = x * x + 0.5, high = 4 * x * x + 0.5, s = x * x + x + 2;

        low = low < 0.75 ? 0.75 : low;
        high = high < 0.75 ? 0.75 : high;
        assert_true(fabs((double)out[i] - (low + high)) <= 0.01 * (low + high));
        if (s < 2.9) {
            assert_true(fabs((double)out[64 + i] - s) <= 0.02 * s);
        }
    }
    rig_fini(&rig);
}

static void a_lane_waits_for_a_lane_of_its_warp(void **state)
{
    struct rig rig;
    int flags[2] = {0, 0};

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "extern \"C\" __global__ void k(volatile int *flag) {\n"
                   "  if (threadIdx.x == 0) { while (flag[0] == 0) { } flag[1] = flag[0] + 1; }\n"
                   "  else if (threadIdx.x == 31) { flag[0] = 41; }\n"
                   "}\n");
    {
        uint64_t flag = rig_upload(&rig, "flag", flags, sizeof(flags));

        RIG_OK(&rig, "k", flag);
        rig_download(&rig, flag, flags, sizeof(flags));
    }
    assert_int_equal(flags[1], 42);
    rig_fini(&rig);
}

static void a_lock_taken_by_every_thread(void **state)
{
    struct rig rig;
    int words[2] = {0, 0};

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "extern \"C\" __global__ void k(int *lock, int *count) {\n"
                   "  bool done = false;\n"
                   "  while (!done) if (atomicCAS(lock, 0, 1) == 0) {\n"
                   "    int v = *(volatile int *)count; *(volatile int *)count = v + 1;\n"
                   "    __threadfence(); atomicExch(lock, 0); done = true; }\n"
                   "}\n");
    rig.grid[0] = 3;
    rig.block[0] = 96;
    {
        uint64_t at = rig_upload(&rig, "words", words, sizeof(words));

        RIG_OK(&rig, "k", at, at + 4);
        rig_download(&rig, at, words, sizeof(words));
    }
    assert_int_equal(words[1], 3 * 96);
    rig_fini(&rig);
}

static void blocks_wait_for_each_other(void **state)
{
    struct rig rig;
    int words[34];

    (void)state;
    memset(words, 0, sizeof(words));
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "extern \"C\" __global__ void k(int *arrived, int *out) {\n"
                   "  if (threadIdx.x == 0) {\n"
                   "    atomicAdd(arrived, 1);\n"
                   "    while (*(volatile int *)arrived < (int)gridDim.x) __nanosleep(100);\n"
                   "  }\n"
                   "  __syncthreads();\n"
                   "  if (threadIdx.x == 1) out[blockIdx.x] = *(volatile int *)arrived;\n"
                   "}\n");
    rig.grid[0] = 32;
    rig.block[0] = 64;
    {
        uint64_t at = rig_upload(&rig, "words", words, sizeof(words));

        RIG_OK(&rig, "k", at, at + 8);
        rig_download(&rig, at, words, sizeof(words));
    }
    for (int i = 0; i < 32; i++) {
        assert_int_equal(words[2 + i], 32);
    }
    rig_fini(&rig);
}

static void a_failed_assertion_is_reported(void **state)
{
    struct rig rig;
    uint64_t out;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig,
             "extern \"C\" __device__ void __assertfail(const char *, const char *, unsigned, "
             "const char *, unsigned long);\n"
             "extern \"C\" __global__ void k(int *out) {\n"
             "  if (!(threadIdx.x < 20)) __assertfail(\"threadIdx.x < 20\", __FILE__, __LINE__, "
             "\"k\", 1);\n  out[threadIdx.x] = 1;\n}\n");
    out = rig_alloc(&rig, "out", 128);
    RIG_FAULT(&rig, ASSERT, "k", out);
    assert_contains(rig.report.text, "threadIdx.x < 20");
    assert_int_equal(rig.report.thread[0], 20);
    rig_fini(&rig);
}

static void a_fault_names_its_source_line(void **state)
{
    struct rig rig;
    uint64_t out;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "__device__ __forceinline__ void put(int *p, int v) {\n"
                   "  *p = v;\n"
                   "}\n"
                   "extern \"C\" __global__ void k(int *out) {\n"
                   "  int i = threadIdx.x;\n"
                   "  put(out + i, i);\n"
                   "}\n");
    out = rig_alloc(&rig, "result", 100);
    RIG_FAULT(&rig, OUT_OF_BOUNDS, "k", out);
    assert_int_equal(rig.report.thread[0], 25);
    assert_int_equal(rig.report.source_line, 6);
    assert_contains(rig.report.source_file, "kernel.cu");
    assert_contains(rig.report.text, "kernel.cu:2 (inlined at ");
    assert_contains(rig.report.text, "0 bytes past the end of 'result' (100 bytes");
    assert_int_equal(rig.report.address, out + 100);
    rig_fini(&rig);
}

/* nvcuda::wmma: C = 2 (A B + C) for a shape, layouts and leading dimensions of its own. */
static const char WMMA_SOURCE[] =
    "#include <mma.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
    "using R = wmma::row_major; using C = wmma::col_major;\n"
    "template <int M, int N, int K, class T, class S, class LA, class LB>\n"
    "__device__ void product(const T *a, const T *b, S *c, int la, int lb, int lc) {\n"
    "  wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;\n"
    "  wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;\n"
    "  wmma::fragment<wmma::accumulator, M, N, K, S> fc;\n"
    "  wmma::load_matrix_sync(fc, c, lc, wmma::mem_row_major);\n"
    "  wmma::load_matrix_sync(fa, a, la); wmma::load_matrix_sync(fb, b, lb);\n"
    "  wmma::mma_sync(fc, fa, fb, fc);\n"
    "  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];\n"
    "  wmma::store_matrix_sync(c, fc, lc, wmma::mem_row_major); }\n"
    "extern \"C\" __global__ void half_rc(half *a, half *b, float *c)\n"
    "{ product<16, 16, 16, half, float, R, C>(a, b, c, 24, 16, 16); }\n"
    "extern \"C\" __global__ void half_cr(half *a, half *b, float *c)\n"
    "{ product<32, 8, 16, half, float, C, R>(a, b, c, 32, 8, 8); }\n"
    "extern \"C\" __global__ void bytes(signed char *a, signed char *b, int *c)\n"
    "{ product<16, 16, 16, signed char, int, R, C>(a, b, c, 16, 16, 16); }\n";

struct wmma_case {
    const char *kernel;
    int m, n, pitch_a, pitch_b;
    bool a_by_column, b_by_column, bytes;
};

static void check_wmma(struct rig *rig, const struct wmma_case *form)
{
    static const uint16_t HALVES[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000}; /* -2 .. 2 */
    uint16_t a[32 * 32], b[32 * 32];
    int8_t a8[32 * 32], b8[32 * 32];
    float c[32 * 32];
    int32_t ci[32 * 32];
    uint64_t da, db, dc;

    for (int i = 0; i < 32 * 32; i++) {
        a8[i] = (int8_t)(i * 7 % 5 - 2);
        b8[i] = (int8_t)(i * 11 % 5 - 2);
        a[i] = HALVES[a8[i] + 2];
        b[i] = HALVES[b8[i] + 2];
        ci[i] = i % 9;
        c[i] = (float)ci[i];
    }
    da = rig_upload(rig, "a", form->bytes ? (void *)a8 : a, form->bytes ? sizeof(a8) : sizeof(a));
    db = rig_upload(rig, "b", form->bytes ? (void *)b8 : b, form->bytes ? sizeof(b8) : sizeof(b));
    dc = rig_upload(rig, "c", form->bytes ? (void *)ci : c, sizeof(c));
    RIG_OK(rig, form->kernel, da, db, dc);
    rig_download(rig, dc, form->bytes ? (void *)ci : c, sizeof(c));
    for (int i = 0; i < form->m * form->n; i++) {
        int row = i / form->n, column = i % form->n, sum = i % 9;

        for (int k = 0; k < 16; k++) {
            int x = form->a_by_column ? k * form->pitch_a + row : row * form->pitch_a + k;
            int y = form->b_by_column ? column * form->pitch_b + k : k * form->pitch_b + column;

            sum += a8[x] * b8[y];
        }
        assert_int_equal(form->bytes ? ci[i] : (int)c[i], 2 * sum);
    }
}

static void matrices_through_wmma(void **state)
{
    static const struct wmma_case CASES[] = {
        {"half_rc", 16, 16, 24, 16, false, true, false},
        {"half_cr", 32, 8, 32, 8, true, false, false},
        {"bytes", 16, 16, 16, 16, false, true, true},
    };

    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        struct rig rig;

        rig_init(&rig, "sm_80");
        rig_cuda(&rig, WMMA_SOURCE);
        check_wmma(&rig, &CASES[i]);
        rig_fini(&rig);
    }
}

/* Blocks pass a turn along, as a serial split K does: each spins until its number is up. */
static void blocks_take_turns(void **state)
{
    struct rig rig;
    int words[2] = {0, 0};
    uint64_t at;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_cuda(&rig, "extern \"C\" __global__ void k(int *turn, int *sum) {\n"
                   "  if (threadIdx.x == 0) while (*(volatile int *)turn != blockIdx.x) { }\n"
                   "  __threadfence(); __syncthreads();\n"
                   "  if (threadIdx.x == 0) { *sum = *sum * 3 + (int)blockIdx.x;\n"
                   "    __threadfence(); atomicExch(turn, (int)blockIdx.x + 1); }\n}\n");
    rig.grid[0] = 60;
    rig.block[0] = 64;
    at = rig_upload(&rig, "words", words, sizeof(words));
    RIG_OK(&rig, "k", at, at + 4);
    rig_download(&rig, at, words, sizeof(words));
    assert_int_equal(words[0], 60);
    assert_true(rig.report.counts.warp_instructions < 100000000);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_add),
        cmocka_unit_test(reductions),
        cmocka_unit_test(mathematics),
        cmocka_unit_test(local_arrays_switches_and_calls),
        cmocka_unit_test(halves_from_the_headers),
        cmocka_unit_test(a_lane_waits_for_a_lane_of_its_warp),
        cmocka_unit_test(a_lock_taken_by_every_thread),
        cmocka_unit_test(blocks_wait_for_each_other),
        cmocka_unit_test(blocks_take_turns),
        cmocka_unit_test(matrices_through_wmma),
        cmocka_unit_test(a_failed_assertion_is_reported),
        cmocka_unit_test(a_fault_names_its_source_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
