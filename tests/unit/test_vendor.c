/*
 * The vendor's row over a fake cuBLASLt: what it is told, what comes out, what is refused.
 *
 * The CUDA device is faked too, here: the few functions by which the vendor's files reach it. So
 * addresses are host addresses and the fake library's product is real arithmetic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/render.h"
#include "tests/support/check.h"
#include "tests/support/fake_cublaslt.h"
#include "worker/cuda/cublaslt.h"
#include "worker/cuda/cuda_inside.h"
#include "worker/vendor.h"

/* ------------------------------------------------------------------ the fake device */

static struct cuda_device device;
static bool is_cuda = true;
static uint32_t settles, foreigns;
static enum gk_status settle_status = GK_OK;
static struct gk_err recorded; /* what the recording was ended with */

void *gk_device_cuda_stream(struct gk_device *base)
{
    return is_cuda ? (void *)base : NULL; /* any address that is not NULL */
}

enum gk_status gk_device_cuda_settle(struct gk_device *base, const char *what,
                                     struct gk_device_report *report_out, struct gk_err *err)
{
    (void)base;
    settles++;
    memset(report_out, 0, sizeof *report_out);
    return settle_status == GK_OK ? GK_OK : gk_fail(err, settle_status, "%s: trapped", what);
}

void gk_device_cuda_foreign(struct gk_device *base)
{
    (void)base;
    foreigns++;
}

enum gk_status cuda_ready(struct cuda_device *cuda, const char *what, struct gk_err *err)
{
    return cuda->lost ? gk_fail(err, GK_IO, "%s: lost since %s", what, cuda->lost_text) : GK_OK;
}

void cuda_record_fail(struct cuda_device *cuda, const struct gk_err *err)
{
    cuda->record = CUDA_RECORD_FAILED;
    cuda->record_err = recorded = *err;
}

/* ------------------------------------------------------------------ what every case needs */

static struct gk_catalog *gemm_catalog, *product_catalog;
static const struct gk_op *gemm, *product;
static struct fake_cublaslt *fake;
static char fake_path[PATH_MAX]; /* without symbolic links */

static const struct gk_op *load(const char *root, const char *name, struct gk_catalog **catalog)
{
    struct gk_diag diag;
    gk_diag_init(&diag);
    (void)gk_catalog_load_for(root, name, catalog, &diag); /* told below */
    for (uint32_t i = 0; i < diag.kept; i++) {
        print_error("%s\n", diag.texts[i]);
    }
    gk_diag_fini(&diag);
    return *catalog ? gk_catalog_find(*catalog, name) : NULL;
}

static int setup(void **state)
{
    (void)state;
    struct gk_err err = {0};
    if (gk_hash_setup(&err) != GK_OK ||
        gk_device_props_builtin("emu:sm_90a", &device.base.props, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    device.base.props.mem_bytes = INT64_C(1) << 40;
    gemm = load(GK_SOURCE_DIR "/kernels", "gemm", &gemm_catalog);
    product = load(GK_SOURCE_DIR "/tests/data/kernels/vendor", "product", &product_catalog);
    if (!realpath(GK_FAKE_CUBLASLT, fake_path)) {
        print_error("%s is not there\n", GK_FAKE_CUBLASLT);
        return -1;
    }
    void *library = dlopen(GK_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, FAKE_CUBLASLT_SYMBOL) : NULL;
    struct fake_cublaslt *(*find)(void) = NULL;
    memcpy(&find, &symbol, sizeof symbol);
    fake = find ? find() : NULL;
    return gemm && product && fake ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_catalog_destroy(gemm_catalog);
    gk_catalog_destroy(product_catalog);
    return 0;
}

static int reset(void **state)
{
    (void)state;
    *fake = (struct fake_cublaslt){.offer_count = 1};
    device.record = CUDA_RECORD_NONE;
    device.lost = false;
    is_cuda = true;
    settles = foreigns = 0;
    settle_status = GK_OK;
    return 0;
}

/* Whatever a case did, nothing of the library's may be left. */
static int nothing_left(void **state)
{
    (void)state;
    if (fake->alive != 0) {
        print_error("%d objects of the library were not destroyed\n", fake->alive);
    }
    return fake->alive;
}

static struct gk_plan *plan_of(const struct gk_op *op, const char *text)
{
    struct gk_problem problem = {0};
    struct gk_err err = {0};
    struct gk_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    assert_ok(gk_problem_from_text(&op->fields, text, &problem, &err), err);
    assert_ok(gk_plan_reference(op, &problem, &device.base.props, plan, &err), err);
    gk_problem_fini(&problem);
    return plan;
}

static void plan_free(struct gk_plan *plan)
{
    gk_plan_fini(plan);
    free(plan);
}

/* ------------------------------------------------------------------ tensors on the host */

#define SPAN_MAX 65536

static unsigned char memory[GK_TENSORS_MAX][SPAN_MAX * 4] __attribute__((aligned(256)));
static uint64_t addresses[GK_TENSORS_MAX];

static double get(const struct gk_plan *plan, uint32_t tensor, int64_t index)
{
    const unsigned char *at =
        memory[tensor] + index * (int64_t)gk_dtype_bytes(plan->tensors[tensor].dtype);
    float wide = 0;
    _Float16 half = 0;
    switch (plan->tensors[tensor].dtype) {
    case GK_F32:
        memcpy(&wide, at, 4);
        break;
    case GK_BF16:
        memcpy((unsigned char *)&wide + 2, at, 2);
        break;
    default:
        memcpy(&half, at, 2);
        wide = (float)half;
        break;
    }
    return (double)wide;
}

static void put(const struct gk_plan *plan, uint32_t tensor, int64_t index, float value)
{
    unsigned char *at =
        memory[tensor] + index * (int64_t)gk_dtype_bytes(plan->tensors[tensor].dtype);
    _Float16 half = (_Float16)value;
    switch (plan->tensors[tensor].dtype) {
    case GK_F32:
        memcpy(at, &value, 4);
        break;
    case GK_BF16:
        memcpy(at, (const unsigned char *)&value + 2, 2); /* small integers are exact */
        break;
    default:
        memcpy(at, &half, 2);
        break;
    }
}

/* Small integers, another series a tensor; everything in between too. */
static void fill(const struct gk_plan *plan)
{
    memset(addresses, 0, sizeof addresses);
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        if (!plan->tensors[i].present) {
            continue;
        }
        assert_true(plan->tensors[i].span <= SPAN_MAX);
        void *base = memory[i];
        memcpy(&addresses[i], &base, sizeof base);
        for (int64_t k = 0; k < plan->tensors[i].span; k++) {
            put(plan, i, k, (float)((k * 7 + i * 3 + k / 5) % 5 - 2));
        }
    }
}

static void refuse(const struct gk_op *op, const char *text, enum gk_status want,
                   const char *message)
{
    struct gk_plan *plan = plan_of(op, text);
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    assert_status(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), want,
                  err);
    assert_contains(err.text, message);
    assert_null(vendor);
    plan_free(plan);
}

/* ------------------------------------------------------------------ gemm, by its own words */

struct gemm_case {
    int64_t m, n, k, batch, lda, ldb, ldc;
    const char *trans;
    double alpha, beta;
    bool bias;
    const char *dtype, *dtype_out;
};

static void gemm_text(const struct gemm_case *c, struct gk_buf *text)
{
    gk_buf_printf(text,
                  "gemm{\"K\":%d,\"M\":%d,\"N\":%d,\"alpha\":%g,\"batch\":%d,\"beta\":%g,"
                  "\"bias\":%s,\"dtype\":\"%s\",\"dtype_out\":\"%s\",\"lda\":%d,\"ldb\":%d,"
                  "\"ldc\":%d,\"trans\":\"%s\"}",
                  (int)c->k, (int)c->m, (int)c->n, c->alpha, (int)c->batch, c->beta,
                  c->bias ? "true" : "false", c->dtype, c->dtype_out, (int)c->lda, (int)c->ldb,
                  (int)c->ldc, c->trans);
}

static uint32_t tensor_of(const struct gk_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        if (strcmp(plan->op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor %s", name);
    return 0;
}

/* One element, from what the op's page says about trans, lda, ldb. */
static double gemm_element(const struct gk_plan *plan, const struct gemm_case *c, int64_t batch,
                           int64_t row, int64_t col)
{
    uint32_t a = tensor_of(plan, "A"), b = tensor_of(plan, "B");
    bool a_n = c->trans[0] == 'N', b_n = c->trans[1] == 'N';
    double sum = 0;
    for (int64_t k = 0; k < c->k; k++) {
        int64_t at_a = a_n ? row * c->lda + k : k * c->lda + row;
        int64_t at_b = b_n ? k * c->ldb + col : col * c->ldb + k;
        sum += get(plan, a, batch * (a_n ? c->m : c->k) * c->lda + at_a) *
               get(plan, b, batch * (b_n ? c->k : c->n) * c->ldb + at_b);
    }
    sum *= c->alpha;
    if (c->beta != 0) {
        sum += c->beta * get(plan, tensor_of(plan, "C_in"), (batch * c->m + row) * c->ldc + col);
    }
    return c->bias ? sum + get(plan, tensor_of(plan, "bias_row"), col) : sum;
}

static void check_gemm(const struct gemm_case *c)
{
    struct gk_buf text = {0};
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    gemm_text(c, &text);
    struct gk_plan *plan = plan_of(gemm, gk_buf_text(&text));
    uint32_t out = tensor_of(plan, "C");
    fill(plan);
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
    gk_vendor_close(vendor);
    for (int64_t i = 0; i < c->batch * c->m * c->ldc; i++) {
        int64_t row = i / c->ldc % c->m, col = i % c->ldc;
        if (i >= plan->tensors[out].span) {
            break;
        }
        double want = col < c->n ? gemm_element(plan, c, i / c->ldc / c->m, row, col)
                                 : (double)((i * 7 + out * 3 + i / 5) % 5 - 2); /* untouched */
        if (get(plan, out, i) != want) {
            fail_msg("%s: batch %d row %d col %d: got %g, wanted %g", gk_buf_text(&text),
                     (int)(i / c->ldc / c->m), (int)row, (int)col, get(plan, out, i), want);
        }
    }
    gk_buf_fini(&text);
    plan_free(plan);
}

/* Every transposition with square, flat and single extents, padded rows, batches, all scalars. */
static void products_are_those_of_the_op(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{4, 4, 4}, {3, 5, 7}, {1, 6, 4}, {5, 1, 3},
                                       {4, 3, 1}, {1, 1, 8}, {1, 5, 1}, {2, 1, 1}};
    static const char *const all[] = {"NT", "NN", "TN", "TT"};
    uint32_t cases = 0;
    for (uint32_t i = 0; i < 8 * 4 * 2 * 2 * 2 * 2; i++) {
        const int64_t *size = sizes[i % 8];
        int64_t pad = i / 32 % 2 ? 3 : 0;
        struct gemm_case c = {.m = size[0],
                              .n = size[1],
                              .k = size[2],
                              .trans = all[i / 8 % 4],
                              .batch = i / 64 % 2 ? 3 : 1,
                              .bias = i / 128 % 2,
                              .alpha = i / 256 % 2 ? 2 : 1,
                              .beta = i / 256 % 2 ? 0.5 : 0,
                              .dtype = i % 3 ? "bf16" : "f16",
                              .dtype_out = "f32"};
        c.lda = (c.trans[0] == 'N' ? c.k : c.m) + pad;
        c.ldb = (c.trans[1] == 'T' ? c.k : c.n) + 2 * pad;
        c.ldc = c.n + pad;
        check_gemm(&c);
        cases++;
    }
    assert_int_equal(cases, fake->matmuls);
    struct gemm_case same = {2, 2, 2, 1, 2, 2, 2, "NN", 1, 0, false, "bf16", "bf16"};
    check_gemm(&same);
    assert_int_equal(fake->d.type, CUDA_R_16BF);
    same.dtype = same.dtype_out = "f16";
    check_gemm(&same);
    assert_int_equal(fake->a.type, CUDA_R_16F);
    assert_int_equal(fake->d.type, CUDA_R_16F);
}

/* torch's linear, as anyone would write it by hand: B first, transposed; then A as it stands. */
static void the_default_layout_is_the_fast_one(void **state)
{
    (void)state;
    struct gk_plan *plan =
        plan_of(gemm, "gemm{\"K\":32,\"M\":16,\"N\":64,\"bias\":true,\"dtype\":\"bf16\"}");
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 4096, &vendor, &err), err);
    assert_int_equal(fake->desc.transa, CUBLAS_OP_T);
    assert_int_equal(fake->desc.transb, CUBLAS_OP_N);
    assert_int_equal(fake->desc.epilogue, CUBLASLT_EPILOGUE_BIAS);
    assert_int_equal(fake->desc.bias_type, CUDA_R_16BF);
    assert_int_equal(fake->desc.fast_accum, 0);
    assert_int_equal((uintptr_t)fake->bias_asked, 16); /* stands for an address of that alignment */
    /* static: the padding that memory comparison sees is zero */
    static const struct fake_layout want_a = {CUDA_R_16BF, 32, 64, 32, 1, 0},
                                    want_b = {CUDA_R_16BF, 32, 16, 32, 1, 0},
                                    want_d = {CUDA_R_16BF, 64, 16, 64, 1, 0};
    assert_memory_equal(&fake->a, &want_a, sizeof want_a);
    assert_memory_equal(&fake->b, &want_b, sizeof want_b);
    assert_memory_equal(&fake->c, &want_d, sizeof want_d);
    assert_memory_equal(&fake->d, &want_d, sizeof want_d);
    assert_int_equal(fake->asked_count, GK_VENDOR_CHOICES_MAX);
    assert_int_equal(fake->preference.workspace_max, 4096);
    assert_int_equal(fake->preference.align_a, 16);
    assert_int_equal(fake->preference.align_b, 16);
    assert_int_equal(fake->preference.align_c, 16);
    assert_int_equal(fake->preference.align_d, 16);
    gk_vendor_close(vendor);
    plan_free(plan);
}

/* Every matrix of a batch is as aligned as was promised, not the first alone. */
static void batches_lower_the_alignment(void **state)
{
    (void)state;
    struct gk_plan *plan =
        plan_of(gemm, "gemm{\"K\":3,\"M\":3,\"N\":4,\"align\":64,\"batch\":2,\"dtype\":\"bf16\"}");
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
    assert_int_equal(fake->preference.align_a, 8); /* B: 12 elements of 2 bytes apart */
    assert_int_equal(fake->preference.align_b, 2); /* A: 9 */
    assert_int_equal(fake->preference.align_d, 8); /* C: 12 */
    assert_int_equal(fake->a.batch, 2);
    assert_int_equal(fake->a.batch_stride, 12);
    assert_int_equal(fake->b.batch_stride, 9);
    gk_vendor_close(vendor);
    plan_free(plan);
}

/* ------------------------------------------------------------------ other layouts */

static double product_element(const struct gk_plan *plan, int64_t batch, int64_t row, int64_t col,
                              double before, bool add, const char *act)
{
    const struct gk_plan_tensor *a = &plan->tensors[0], *b = &plan->tensors[1];
    double sum = 0;
    for (int64_t k = 0; k < a->extents[2]; k++) {
        int64_t b_batch = b->extents[0] > 1 ? batch : 0;
        sum += get(plan, 0, batch * a->strides[0] + row * a->strides[1] + k * a->strides[2]) *
               get(plan, 1, b_batch * b->strides[0] + k * b->strides[1] + col * b->strides[2]);
    }
    sum += add ? before : 0;
    sum += plan->tensors[2].present ? get(plan, 2, col) : 0;
    if (strcmp(act, "relu") == 0) {
        return sum > 0 ? sum : 0;
    }
    if (strcmp(act, "gelu") == 0) {
        return 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
    }
    return sum;
}

static void check_product(const char *orders, bool bias, bool add, const char *act, bool shared)
{
    struct gk_buf text = {0};
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    const char *names[3];
    double before[3 * 6 * 5];
    for (int i = 0; i < 3; i++) {
        names[i] = orders[i] == 'r' ? "row" : "col";
    }
    gk_buf_printf(&text,
                  "product{\"K\":4,\"M\":6,\"N\":5,\"a_order\":\"%s\",\"act\":\"%s\",\"add\":%s,"
                  "\"b_order\":\"%s\",\"batch\":3,\"bias\":\"%s\",\"d_order\":\"%s\","
                  "\"shared_b\":%s}",
                  names[0], act, add ? "true" : "false", names[1], bias ? "packed" : "none",
                  names[2], shared ? "true" : "false");
    struct gk_plan *plan = plan_of(product, gk_buf_text(&text));
    const struct gk_plan_tensor *d = &plan->tensors[4];
    fill(plan);
    for (int64_t i = 0; i < 90; i++) {
        before[i] = get(plan, 4,
                        i / 30 * d->strides[0] + i / 5 % 6 * d->strides[1] + i % 5 * d->strides[2]);
    }
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
    assert_ptr_equal(fake->c_address, fake->d_address);
    assert_int_equal(fake->desc.fast_accum, strcmp(act, "relu") == 0);
    gk_vendor_close(vendor);
    for (int64_t i = 0; i < 90; i++) {
        double got = get(
            plan, 4, i / 30 * d->strides[0] + i / 5 % 6 * d->strides[1] + i % 5 * d->strides[2]);
        double want = product_element(plan, i / 30, i / 5 % 6, i % 5, before[i], add, act);
        if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) {
            fail_msg("%s: element %d: got %g, wanted %g", gk_buf_text(&text), (int)i, got, want);
        }
    }
    gk_buf_fini(&text);
    plan_free(plan);
}

static void any_order_of_rows_and_columns_goes(void **state)
{
    (void)state;
    static const char *const orders[] = {"rrr", "rcr", "crr", "ccr", "rrc", "rcc", "crc", "ccc"};
    static const char *const acts[] = {"none", "relu", "gelu"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(orders); i++) {
        for (size_t k = 0; k < GK_ARRAY_COUNT(acts); k++) {
            check_product(orders[i], false, i % 2 == 0, acts[k], k == 1);
            if (orders[i][2] == 'r') {
                check_product(orders[i], true, i % 2 == 1, acts[k], k == 2);
            }
        }
    }
}

/* Lengths of 1 leave one stride that nobody uses; the other may then be any. */
static void check_single(const char *text)
{
    struct gk_plan *plan = plan_of(product, text);
    const struct gk_plan_tensor *d = &plan->tensors[4];
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    fill(plan);
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
    gk_vendor_close(vendor);
    for (int64_t i = 0; i < d->elements; i++) {
        int64_t row = i / d->extents[2], col = i % d->extents[2];
        double got = get(plan, 4, row * d->strides[1] + col * d->strides[2]);
        double want = product_element(plan, 0, row, col, 0, false, "none");
        if (got != want) {
            fail_msg("%s: element %d: got %g, wanted %g", text, (int)i, got, want);
        }
    }
    plan_free(plan);
}

static void single_rows_and_columns_go(void **state)
{
    (void)state;
    check_single("product{\"K\":4,\"M\":1,\"N\":5,\"a_order\":\"gap\"}");
    check_single("product{\"K\":4,\"M\":5,\"N\":1,\"b_order\":\"gap\"}");
    check_single("product{\"K\":1,\"M\":5,\"N\":4,\"a_order\":\"gap\",\"b_order\":\"gap\"}");
    check_single("product{\"K\":4,\"M\":1,\"N\":5,\"bias\":\"packed\",\"d_order\":\"col\"}");
    check_single("product{\"K\":4,\"M\":1,\"N\":1,\"a_order\":\"col\",\"bias\":\"packed\"}");
    check_single("product{\"K\":1,\"M\":1,\"N\":1,\"b_order\":\"col\",\"d_order\":\"col\"}");
}

/* C apart from D, with rows or columns further apart than D's. */
static void c_may_be_another_tensor(void **state)
{
    (void)state;
    struct gk_op *own = (struct gk_op *)(uintptr_t)product; /* restored below */
    int32_t before = own->vendor.c;
    own->vendor.c = 3;
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "product{\"K\":4,\"M\":3,\"N\":5,\"add\":true,\"c_order\":\"col\","
                               "\"d_order\":\"col\"}"
                             : "product{\"K\":4,\"M\":3,\"N\":5,\"add\":true,\"batch\":2}";
        struct gk_plan *plan = plan_of(product, text);
        const struct gk_plan_tensor *c = &plan->tensors[3], *d = &plan->tensors[4];
        struct gk_vendor *vendor = NULL;
        struct gk_err err = {0};
        fill(plan);
        assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
        assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
        gk_vendor_close(vendor);
        for (int64_t k = 0; k < d->elements; k++) {
            int64_t batch = k / 15, row = k / 5 % 3, col = k % 5;
            double added =
                get(plan, 3, batch * c->strides[0] + row * c->strides[1] + col * c->strides[2]);
            double got =
                get(plan, 4, batch * d->strides[0] + row * d->strides[1] + col * d->strides[2]);
            assert_true(got == product_element(plan, batch, row, col, added, true, "none"));
        }
        plan_free(plan);
    }
    refuse(product, "product{\"K\":4,\"M\":3,\"N\":5,\"add\":true,\"c_order\":\"col\"}",
           GK_UNSUPPORTED, "tensors C and D are not stored alike");
    refuse(product, "product{\"K\":4,\"M\":3,\"N\":5,\"add\":true,\"wrong\":\"beta\"}", GK_INPUT,
           "beta is 1, but tensor C does not exist");
    own->vendor.c = before;
}

/* ------------------------------------------------------------------ refusals */

static void what_the_library_cannot_do_is_named(void **state)
{
    (void)state;
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"act\":\"gelu\"}", GK_UNSUPPORTED,
           "act == 'none'");
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"act\":\"silu_gate\"}", GK_UNSUPPORTED,
           "does not do this");
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"groups\":2}", GK_UNSUPPORTED, "groups = 2");
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"scale\":\"tensor\"}", GK_UNSUPPORTED, "scale");
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"dtype\":\"e4m3\"}", GK_UNSUPPORTED, "e4m3");
    refuse(product, "product{\"K\":4,\"M\":7,\"N\":4}", GK_UNSUPPORTED, "M != 7 (M = 7)");
    refuse(product, "product{\"K\":4,\"M\":0,\"N\":4}", GK_UNSUPPORTED, "extent of rows is 0");
    refuse(product, "product{\"K\":1,\"M\":1,\"N\":2147483648}", GK_UNSUPPORTED,
           "extent of columns is 2147483648; 1 to 2^31 - 1");
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4,\"a_order\":\"gap\"}", GK_UNSUPPORTED,
           "tensor A has strides 8 and 2 for 4 x 4");
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4,\"d_order\":\"gap\"}", GK_UNSUPPORTED,
           "tensor D has strides 8 and 2");
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4,\"dtype\":\"i32\"}", GK_UNSUPPORTED,
           "tensor B is i32");
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4,\"bias\":\"packed\",\"d_order\":\"col\"}",
           GK_UNSUPPORTED, "row-major tensor D");
    is_cuda = false;
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4}", GK_UNSUPPORTED, "no CUDA device");
}

static void contradictions_of_op_json_are_named(void **state)
{
    (void)state;
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"wrong\":\"a\"}", GK_INPUT,
           "a (tensor A) is 1 of 7 x 4; 1 (or 1) of 6 x 4 is needed");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"wrong\":\"b\"}", GK_INPUT,
           "b (tensor B) is 1 of 4 x 6");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"wrong\":\"sum\"}", GK_INPUT,
           "b (tensor B) is 1 of 4 x 5; 1 (or 1) of 5 x 5");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"wrong\":\"there\"}", GK_INPUT,
           "tensor A does not exist");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"bias\":\"spread\"}", GK_INPUT,
           "bias (tensor R) has 5 elements, 2 apart");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"bias\":\"short\"}", GK_INPUT,
           "has 1 elements");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"bias\":\"many\"}", GK_INPUT,
           "has 10 elements");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"bias\":\"down\"}", GK_INPUT,
           "has 5 elements");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"batch\":3,\"wrong\":\"batch\"}", GK_INPUT,
           "b (tensor B) is 2 of 4 x 5; 3 (or 1) of 4 x 5");
    refuse(product, "product{\"K\":4,\"M\":6,\"N\":5,\"act\":\"both\"}", GK_INPUT,
           "relu and gelu_tanh at once");
}

/* Each function of the library fails once, at each of its calls; all that was made is destroyed. */
static void every_failure_of_the_library_is_told(void **state)
{
    (void)state;
    static const struct {
        enum fake_function function;
        int calls;
        const char *name;
    } cases[] = {
        {FAKE_CREATE, 1, "cublasLtCreate"},
        {FAKE_DESC_CREATE, 1, "cublasLtMatmulDescCreate"},
        {FAKE_DESC_SET, 5, "cublasLtMatmulDescSetAttribute"},
        {FAKE_LAYOUT_CREATE, 4, "cublasLtMatrixLayoutCreate"},
        {FAKE_LAYOUT_SET, 8, "cublasLtMatrixLayoutSetAttribute"},
        {FAKE_PREFERENCE_CREATE, 1, "cublasLtMatmulPreferenceCreate"},
        {FAKE_PREFERENCE_SET, 5, "cublasLtMatmulPreferenceSetAttribute"},
        {FAKE_HEURISTIC, 1, "cublasLtMatmulAlgoGetHeuristic"},
    };
    static const char text[] = "gemm{\"K\":16,\"M\":16,\"N\":16,\"batch\":2,\"bias\":true}";
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        for (int k = 0; k < cases[i].calls; k++) {
            fake->fail_in = cases[i].function;
            fake->fail_at = k;
            fake->fail_with = CUBLAS_STATUS_NOT_SUPPORTED;
            refuse(gemm, text, GK_UNSUPPORTED, cases[i].name);
            assert_int_equal(fake->fail_in, FAKE_NONE); /* it did fail there */
            assert_int_equal(fake->alive, 0);
        }
    }
    fake->fail_in = FAKE_HEURISTIC;
    fake->fail_at = 0;
    fake->fail_with = CUBLAS_STATUS_ALLOC_FAILED;
    refuse(gemm, text, GK_NOMEM, "cublaslt 13.4.7: cublasLtMatmulAlgoGetHeuristic: wrong, says");
}

/* ------------------------------------------------------------------ choices */

static void choices_are_those_that_came_with_success(void **state)
{
    (void)state;
    struct gk_plan *plan = plan_of(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16}");
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    char text[GK_VENDOR_TEXT_MAX];
    fake->offer_count = 6;
    fake->offers[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    fake->offers[1].workspace = 1000;
    fake->offers[3].state = CUBLAS_STATUS_INTERNAL_ERROR;
    fake->offers[4].workspace = 1025; /* over the limit: the library broke its word */
    fake->offers[5].workspace = 1024;
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 1024, &vendor, &err), err);
    assert_int_equal(gk_vendor_count(vendor), 3);
    assert_int_equal(gk_vendor_workspace(vendor, 0), 1000);
    assert_int_equal(gk_vendor_workspace(vendor, 1), 0);
    assert_int_equal(gk_vendor_workspace(vendor, 2), 1024);
    gk_vendor_describe(vendor, 0, text);
    assert_string_equal(text, "algo 61, tile 256x64 (21), stages 31, split-k 2, reduction 101, "
                              "swizzle 201, option 301, inner 401, cluster 501, workspace 1000 B");
    assert_string_equal(gk_vendor_version(vendor), "cublaslt 13.4.7");
    assert_string_equal(gk_vendor_path(vendor), fake_path);
    fill(plan);
    assert_ok(gk_vendor_enqueue(vendor, 2, addresses, addresses[0], 2048, &err), err);
    assert_int_equal(fake->algo, 5);
    assert_ptr_equal(fake->stream, &device);
    assert_int_equal((uintptr_t)fake->workspace, addresses[0]);
    gk_vendor_close(vendor);

    fake->offer_count = 1;
    fake->offers[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16}", GK_UNSUPPORTED,
           "no algorithm for 16 x 16 x 16 in bf16 with at most 0 bytes of workspace (1 offered)");
    fake->offer_count = 0;
    refuse(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16}", GK_UNSUPPORTED, "(0 offered)");
    plan_free(plan);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct gk_plan *plan = plan_of(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16,\"bias\":true}");
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    fake->offers[0].workspace = 512;
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 512, &vendor, &err), err);
    fill(plan);
    uint64_t space = addresses[0];
    assert_status(gk_vendor_enqueue(vendor, 1, addresses, space, 512, &err), GK_INPUT, err);
    assert_contains(err.text, "there are 1");
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, space, 511, &err), GK_INPUT, err);
    assert_contains(err.text, "512 bytes aligned to 256 are needed");
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, space + 128, 512, &err), GK_INPUT, err);
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 512, &err), GK_INPUT, err);
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        uint64_t good = addresses[i];
        if (plan->tensors[i].present) {
            addresses[i] = good + 8;
            assert_status(gk_vendor_enqueue(vendor, 0, addresses, space, 512, &err), GK_INPUT, err);
            assert_contains(err.text, "a multiple of 16 was promised");
            addresses[i] = 0;
            assert_status(gk_vendor_enqueue(vendor, 0, addresses, space, 512, &err), GK_INPUT, err);
            addresses[i] = good;
        }
    }
    assert_int_equal(fake->matmuls, 0);
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, space, 512, &err), err);
    assert_int_equal(fake->matmuls, 1);
    gk_vendor_close(vendor);
    gk_vendor_close(NULL);
    plan_free(plan);
}

/* ------------------------------------------------------------------ the stream */

static void calls_run_or_are_recorded(void **state)
{
    (void)state;
    struct gk_plan *plan = plan_of(gemm, "gemm{\"K\":16,\"M\":16,\"N\":16}");
    struct gk_vendor *vendor = NULL;
    struct gk_err err = {0};
    fill(plan);
    assert_ok(gk_vendor_open(&device.base, GK_FAKE_CUBLASLT, plan, 0, &vendor, &err), err);
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
    assert_int_equal(settles, 1);
    assert_int_equal(foreigns, 0);
    device.record = CUDA_RECORD_OPEN; /* nothing may be waited for */
    assert_ok(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), err);
    assert_int_equal(settles, 1);
    assert_int_equal(foreigns, 1);
    fake->fail_in = FAKE_MATMUL;
    fake->fail_with = CUBLAS_STATUS_NOT_SUPPORTED;
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), GK_UNSUPPORTED, err);
    assert_int_equal(device.record, CUDA_RECORD_FAILED);
    assert_contains(recorded.text, "cublasLtMatmul: not supported, says the fake");
    assert_int_equal(fake->matmuls, 2);
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "cublasLtMatmul: not supported");
    assert_int_equal(fake->matmuls, 2); /* not run behind the caller's back */
    device.record = CUDA_RECORD_OPEN;
    assert_status(gk_vendor_enqueue(vendor, 9, addresses, 0, 0, &err), GK_INPUT, err);
    assert_int_equal(device.record, CUDA_RECORD_FAILED);

    device.record = CUDA_RECORD_NONE;
    fake->fail_in = FAKE_MATMUL;
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), GK_UNSUPPORTED, err);
    assert_int_equal(settles, 2); /* what it may have put into the stream has ended */
    settle_status = GK_TRIAL;
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), GK_TRIAL, err);
    assert_contains(err.text, "cublaslt 13.4.7: trapped");
    device.lost = true;
    (void)snprintf(device.lost_text, sizeof device.lost_text, "noon");
    assert_status(gk_vendor_enqueue(vendor, 0, addresses, 0, 0, &err), GK_IO, err);
    assert_contains(err.text, "lost since noon");
    gk_vendor_close(vendor);
    /* Its handle alone stays: it would free memory of the device, and wait for what never ends. */
    assert_int_equal(fake->alive, 1);
    free(fake->handle);
    fake->alive--;
    plan_free(plan);
}

/* ------------------------------------------------------------------ finding the library */

static void link_below(const char *root, const char *below, const char *file)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s/%s", root, below, file);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* there already: fine */
        *slash = '/';
    }
    assert_int_equal(symlink(GK_FAKE_CUBLASLT, path), 0);
}

static void find_in(const char *places, const char *path)
{
    struct gk_cublaslt library = {0};
    struct gk_err err = {0};
    assert_ok(gk_cublaslt_open(places, &library, &err), err);
    assert_string_equal(library.path, path);
    assert_string_equal(library.text, "cublaslt 13.4.7");
}

static void the_library_is_found_where_it_may_be(void **state)
{
    (void)state;
    static const char *const layouts[] = {".",
                                          "lib64",
                                          "lib",
                                          "targets/x86_64-linux/lib",
                                          "lib/python3.11/site-packages/nvidia/cublas/lib",
                                          "lib/python3.12/dist-packages/nvidia/cu13/lib",
                                          "nvidia/cu13/lib",
                                          "cublas/lib"};
    char root[] = "vendor_places_XXXXXX", places[256];
    struct gk_cublaslt library = {0};
    struct gk_err err = {0};
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < GK_ARRAY_COUNT(layouts); i++) {
        char folder[64];
        (void)snprintf(folder, sizeof folder, "%s/%zu", root, i);
        assert_int_equal(mkdir(folder, 0700), 0);
        link_below(folder, layouts[i], "libcublasLt.so.13");
        find_in(folder, fake_path);
        (void)snprintf(places, sizeof places, ":/nowhere:%s:", folder);
        find_in(places, fake_path);
    }
    /* a place that stands alone is not replaced by another library of the machine */
    (void)snprintf(places, sizeof places, "%s/empty", root);
    assert_int_equal(mkdir(places, 0700), 0);
    assert_status(gk_cublaslt_open(places, &library, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "/empty. Name the library");
    assert_status(gk_cublaslt_open("/nowhere/libcublasLt.so", &library, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "looked for /nowhere/libcublasLt.so. Name the library");
    (void)snprintf(places, sizeof places, "%s/text.so", root);
    assert_ok(gk_file_store(places, "text", 4, &err), err);
    assert_status(gk_cublaslt_open(places, &library, &err), GK_UNSUPPORTED, err);
    assert_status(gk_cublaslt_open("libm.so.6", &library, &err), GK_UNSUPPORTED, err);
    assert_contains(err.text, "has no cublasLtGetVersion");
    assert_null(library.library);
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(pclose(pipe), 0);
}

/* Where the machine has the real one, every function that is wanted is in it. */
static void the_real_library_has_all_functions(void **state)
{
    (void)state;
    struct gk_cublaslt library = {0};
    struct gk_err err = {0};
    enum gk_status status = gk_cublaslt_open(NULL, &library, &err);
    if (status == GK_UNSUPPORTED && strstr(err.text, "was not found")) {
        assert_contains(err.text, "libcublasLt.so.13");
        skip();
    }
    assert_ok(status, err);
    assert_memory_equal(library.text, "cublaslt 1", 10);
}

/* ------------------------------------------------------------------ the op without its vendor */

static void an_op_may_have_none(void **state)
{
    (void)state;
    struct gk_op *own = (struct gk_op *)(uintptr_t)product; /* restored below */
    own->vendor.present = false;
    refuse(product, "product{\"K\":4,\"M\":4,\"N\":4}", GK_UNSUPPORTED,
           "op product names no vendor");
    own->vendor.present = true;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, nothing_left)
    const struct CMUnitTest tests[] = {
        CASE(products_are_those_of_the_op),
        CASE(the_default_layout_is_the_fast_one),
        CASE(batches_lower_the_alignment),
        CASE(any_order_of_rows_and_columns_goes),
        CASE(single_rows_and_columns_go),
        CASE(c_may_be_another_tensor),
        CASE(what_the_library_cannot_do_is_named),
        CASE(contradictions_of_op_json_are_named),
        CASE(every_failure_of_the_library_is_told),
        CASE(choices_are_those_that_came_with_success),
        CASE(wrong_calls_are_refused),
        CASE(calls_run_or_are_recorded),
        CASE(the_library_is_found_where_it_may_be),
        CASE(the_real_library_has_all_functions),
        CASE(an_op_may_have_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
