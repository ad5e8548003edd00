/* The inspector against the host's code, on the emulated device: the same inputs bit for bit, the
 * same verdicts, every changed byte. Skipped without NVRTC. */
#include "worker/inspect/inspect.h"

#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/hash.h"
#include "core/prng.h"
#include "worker/generate.h"
#include "worker/inspect/inspect_inside.h"
#include "worker/numeric.h"

static struct gk_device *device;
static struct gk_inspector *inspector;
static struct gk_err err;

#define ok(call)                                                                                   \
    do {                                                                                           \
        if ((call) != GK_OK) {                                                                     \
            fail_msg("%s: %s", #call, err.text);                                                   \
        }                                                                                          \
    } while (0)

static struct gk_compiler_places places(void)
{
    return (struct gk_compiler_places){.file = getenv("GKTUNE_NVRTC"),
                                       .cuda_home = getenv("CUDA_HOME"),
                                       .virtual_env = getenv("VIRTUAL_ENV"),
                                       .home = getenv("HOME")};
}

static uint64_t device_bytes(const void *bytes, uint64_t size, uint64_t shift)
{
    uint64_t base = 0;
    ok(device->ops->alloc(device, "test", size + shift, 256, &base, &err));
    ok(device->ops->write(device, base + shift, bytes, size, &err));
    return base;
}

static void release(uint64_t base)
{
    ok(device->ops->release(device, base, &err));
}

/* ------------------------------------------------------------------ outputs */

#define ROWS    9
#define COLUMNS 40
#define COUNT   (ROWS * COLUMNS)

enum layout { PACKED, PITCHED, TRANSPOSED, LAYOUTS };

struct scene {
    struct gk_tensor def;
    struct gk_plan_tensor tensor;
    unsigned char *got;
    double pairs[2 * COUNT];
    struct gk_verify_input input;
    uint64_t shift; /* bytes that the buffer lies behind a multiple of 256 */
};

static void scene_init(struct scene *s, enum gk_dtype dtype, enum layout layout)
{
    const uint32_t size = gk_dtype_bytes(dtype);
    memset(s, 0, sizeof *s);
    (void)snprintf(s->def.name, sizeof s->def.name, "C");
    s->tensor = (struct gk_plan_tensor){.def = &s->def,
                                        .present = true,
                                        .dtype = dtype,
                                        .rank = 2,
                                        .extents = {ROWS, COLUMNS},
                                        .strides = {COLUMNS, 1},
                                        .span = COUNT,
                                        .elements = COUNT,
                                        .align = size};
    if (layout == PITCHED) {
        s->tensor.strides[0] = COLUMNS + 3;
        s->tensor.offset = 5;
        s->tensor.span = 5 + (ROWS - 1) * (COLUMNS + 3) + COLUMNS;
    } else if (layout == TRANSPOSED) {
        s->tensor.strides[0] = 1;
        s->tensor.strides[1] = ROWS + 1;
        s->tensor.span = (COLUMNS - 1) * (ROWS + 1) + ROWS;
    }
    s->got = malloc((size_t)s->tensor.span * size);
    assert_non_null(s->got);
    for (int64_t i = 0; i < s->tensor.span; i++) {
        gk_element_poison(dtype, s->got + i * size);
    }
    s->input = (struct gk_verify_input){
        .tensor = &s->tensor, .got = s->got, .pairs = s->pairs, .compare = COUNT, .norm = -1};
    s->shift = size;
}

static void scene_fini(struct scene *s)
{
    free(s->got);
    s->got = NULL;
}

static unsigned char *element(struct scene *s, int64_t i)
{
    return s->got + gk_tensor_position(&s->tensor, i) * gk_dtype_bytes(s->tensor.dtype);
}

static void set(struct scene *s, int64_t i, double want, double magnitude, double got)
{
    s->pairs[2 * i] = want;
    s->pairs[2 * i + 1] = magnitude;
    gk_element_store(s->tensor.dtype, element(s, i), got);
}

static bool alike(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b;
}

static bool close_norms(double a, double b)
{
    return alike(a, b) || fabs(a - b) <= 1e-12 * fabs(a);
}

/* Counted once more from the pieces of verify.h. */
static void count_by_hand(const struct scene *s, struct gk_verdict_sum *sum)
{
    const struct gk_accept_rule rule = gk_verify_rule(&s->input);
    const uint32_t size = gk_dtype_bytes(s->tensor.dtype);
    for (int64_t i = 0; i < s->input.compare; i++) {
        struct gk_accept_element e;
        const struct gk_judgement it = gk_verify_element(
            &rule, s->tensor.dtype, s->got + gk_tensor_position(&s->tensor, i) * size,
            s->pairs + 2 * i, &e);
        sum->nonfinite += it.nonfinite;
        sum->poisoned += it.poisoned;
        sum->too_large += it.too_large;
    }
}

/* Both sides judge; they must agree. Returns whether it passed. */
static bool judged(struct scene *s)
{
    struct gk_verdict host;
    struct gk_verdict_sum sum, counted = {0};
    const uint64_t size = (uint64_t)s->tensor.span * gk_dtype_bytes(s->tensor.dtype);
    const uint64_t got = device_bytes(s->got, size, s->shift);
    const uint64_t pairs = device_bytes(s->pairs, sizeof s->pairs, 0);
    ok(gk_verify(&s->input, &host, &err));
    ok(gk_inspector_check(inspector, &s->input, got + s->shift, pairs, &sum, &err));
    count_by_hand(s, &counted);
    if (sum.rung.passed != host.rung.passed || sum.rung.failed != host.rung.failed ||
        sum.rung.compared != host.rung.compared || sum.nonfinite != counted.nonfinite ||
        sum.poisoned != counted.poisoned || sum.too_large != counted.too_large ||
        sum.rung.worst_index != host.rung.worst_index ||
        !alike(sum.rung.worst_got, host.rung.worst_got) ||
        !alike(sum.rung.worst_want, host.rung.worst_want) ||
        !alike(sum.rung.worst_bound, host.rung.worst_bound) ||
        !close_norms(sum.rung.norm_error, host.rung.norm_error) ||
        (host.failure == GK_FAILURE_CANARY) != (sum.padding_changed > 0) ||
        strcmp(sum.rung.tensor, host.rung.tensor) != 0) {
        fail_msg("%s: host %d (%s) failed %" PRId64 " worst %" PRId64 " norm %.17g; inspector %d "
                 "failed %" PRId64 " worst %" PRId64 " norm %.17g, %" PRId64 " %" PRId64 " %" PRId64
                 " %" PRId64,
                 gk_dtype_name(s->tensor.dtype), host.rung.passed, host.text, host.rung.failed,
                 host.rung.worst_index, host.rung.norm_error, sum.rung.passed, sum.rung.failed,
                 sum.rung.worst_index, sum.rung.norm_error, sum.nonfinite, sum.poisoned,
                 sum.too_large, sum.padding_changed);
    }
    release(got);
    release(pairs);
    return sum.rung.passed;
}

static double drawn_real(struct gk_prng *prng)
{
    return ldexp(gk_prng_unit(prng) - 0.5, (int)gk_prng_below(prng, 24) - 8);
}

/* Right outputs pass, in every type and layout, exact or not; one element a step beyond what the
 * bound allows does not. */
static void right_and_wrong(void **state)
{
    struct gk_prng prng;
    (void)state;
    gk_prng_init(&prng, 1, 0);
    for (int dtype = 0; dtype < GK_DTYPE_COUNT; dtype++) {
        for (int layout = 0; layout < LAYOUTS; layout++) {
            struct scene s;
            scene_init(&s, (enum gk_dtype)dtype, (enum layout)layout);
            for (int64_t i = 0; i < COUNT; i++) {
                /* e4m3 ends at 448 */
                const double want = ldexp(drawn_real(&prng), dtype == GK_E4M3 ? -6 : 0);
                set(&s, i, want, fabs(want) * 3, want);
            }
            s.input.scale = 1e-3;
            s.input.norm = gk_dtype_is_float((enum gk_dtype)dtype) ? 0.5 : -1; /* 0.4 becomes 0 */
            assert_true(judged(&s));
            s.input.exact = true;
            assert_true(judged(&s));
            const int64_t at = (int64_t)gk_prng_below(&prng, COUNT);
            element(&s, at)[0] ^= 1;
            assert_false(judged(&s));
            s.input.compare = at; /* rows without owner come last */
            assert_true(judged(&s));
            scene_fini(&s);
        }
    }
}

/* Bits at random, in all types: both sides see the same. */
static void random_bits(void **state)
{
    struct gk_prng prng;
    (void)state;
    gk_prng_init(&prng, 2, 0);
    for (int round = 0; round < 6; round++) {
        for (int dtype = 0; dtype < GK_DTYPE_COUNT; dtype++) {
            struct scene s;
            const uint32_t size = gk_dtype_bytes((enum gk_dtype)dtype);
            scene_init(&s, (enum gk_dtype)dtype, (enum layout)(round % LAYOUTS));
            for (int64_t i = 0; i < COUNT; i++) {
                const uint64_t bits = gk_prng_u64(&prng), want = gk_prng_u64(&prng);
                memcpy(element(&s, i), &bits, size);
                s.pairs[2 * i] = gk_element_load((enum gk_dtype)dtype, &bits);
                if (round >= 2) { /* a little off, or anything */
                    s.pairs[2 * i] *= 1 + ldexp(gk_prng_unit(&prng) - 0.5, -round);
                }
                if (round == 5) {
                    memcpy(&s.pairs[2 * i], &want, sizeof want);
                }
                s.pairs[2 * i + 1] = fabs(s.pairs[2 * i]) * 2;
            }
            s.input.scale = 1e-3;
            s.input.norm = 0.01;
            s.input.exact = round % 2;
            s.input.check_magnitude = round == 3;
            (void)judged(&s);
            scene_fini(&s);
        }
    }
}

/* Every value that is a case of its own, as what came out and as what was wanted. */
static void special_values(void **state)
{
    static const double SPECIAL[] = {
        0.0,       -0.0,     1.0,      -1.0,       INFINITY,   -INFINITY,     NAN,
        0x1p-1074, 0x1p-149, 0x1p-150, 0x1.8p-150, 0x1p-133,   0x1p-134,      0x1.8p-134,
        0x1p-24,   0x1p-25,  0x1p-9,   0x1p-10,    0x1.8p-10,  448.0,         464.0,
        465.0,     65504.0,  65519.9,  65520.0,    0x1.fep127, 0x1.feffp127,  0x1.ffp127,
        1e300,     -1e300,   127.5,    -128.5,     255.0,      2147483647.0,  4294967295.5,
        0x1p63,    -0x1p63,  2.5,      3.5,        1.00390625, 0x1.ffffffp127};
    const int64_t count = (int64_t)GK_ARRAY_COUNT(SPECIAL);
    (void)state;
    for (int dtype = 0; dtype < GK_DTYPE_COUNT; dtype++) {
        for (int64_t shift = 0; shift < count; shift += 9) {
            struct scene s;
            scene_init(&s, (enum gk_dtype)dtype, PACKED);
            for (int64_t i = 0; i < COUNT; i++) {
                const double want = SPECIAL[i % count];
                set(&s, i, want, fabs(want), SPECIAL[(i + i / count + shift) % count]);
            }
            for (int exact = 0; exact < 2; exact++) {
                s.input.exact = exact;
                s.input.check_magnitude = exact;
                s.input.scale = 1e-4;
                (void)judged(&s);
                for (int64_t i = 0; i < COUNT; i++) { /* now what is wanted */
                    gk_element_store((enum gk_dtype)dtype, element(&s, i), s.pairs[2 * i]);
                }
                (void)judged(&s);
            }
            scene_fini(&s);
        }
    }
}

/* All encodings of the small types are decoded as on the host, and values around every tie are
 * rounded as there: the exact rung compares bits. */
static void every_small_value(void **state)
{
    static const enum gk_dtype SMALL[] = {GK_BF16, GK_F16, GK_E4M3};
    (void)state;
    for (size_t t = 0; t < GK_ARRAY_COUNT(SMALL); t++) {
        const uint32_t size = gk_dtype_bytes(SMALL[t]), codes = 1u << (8 * size);
        const uint32_t step = size == 1 ? 1 : 13; /* odd: all parts of the range */
        struct scene s;
        scene_init(&s, SMALL[t], PACKED);
        s.input.exact = true;
        for (uint32_t first = 0; first < codes; first += COUNT / 4 * step) {
            for (uint32_t i = 0; i < COUNT; i++) {
                const uint32_t code = (first + i / 4 * step) % codes, next = (code + 1) % codes;
                const double value = gk_element_load(SMALL[t], &code);
                const double middle = (value + gk_element_load(SMALL[t], &next)) / 2;
                s.pairs[2 * i] = i % 4 == 0   ? value
                                 : i % 4 == 1 ? middle
                                 : i % 4 == 2 ? nextafter(middle, INFINITY)
                                              : nextafter(middle, -INFINITY);
                s.pairs[2 * i + 1] = 1;
                gk_element_store(SMALL[t], element(&s, i), s.pairs[2 * i]);
            }
            assert_true(judged(&s));
        }
        scene_fini(&s);
    }
}

/* Elements whose error is the bound, and the next doubles above and below it. */
static void around_the_bound(void **state)
{
    struct gk_prng prng;
    int64_t passed = 0, failed = 0;
    (void)state;
    gk_prng_init(&prng, 3, 0);
    for (int round = 0; round < 24; round++) {
        struct scene s;
        const enum gk_dtype dtype = round % 3 == 0 ? GK_F64 : round % 3 == 1 ? GK_F32 : GK_BF16;
        scene_init(&s, dtype, PACKED);
        s.input.scale = round % 2 ? 3e-4 : 0;
        for (int64_t i = 0; i < COUNT; i++) {
            const double want = drawn_real(&prng), magnitude = fabs(want) * gk_prng_unit(&prng);
            double bound = gk_dtype_roundoff(dtype) * fabs(want) + s.input.scale * magnitude +
                           gk_dtype_tiny(dtype);
            double got = want + (i % 2 ? bound : -bound);
            set(&s, i, want, magnitude, want);
            if (i == round % 4 * 31) { /* one element: it decides */
                got = round / 8 == 0 ? got : nextafter(got, round / 8 == 1 ? want : 2 * got - want);
                gk_element_store(dtype, element(&s, i), got);
            }
        }
        *(judged(&s) ? &passed : &failed) += 1;
        scene_fini(&s);
    }
    assert_true(passed > 4 && failed > 4); /* else it looked elsewhere */
}

/* What the norm alone rejects, and a norm that is exactly the bound: then the inspector may leave
 * it to the host but never pass what the host does not. */
static void norms(void **state)
{
    struct scene s;
    struct gk_verdict host;
    struct gk_verdict_sum sum;
    (void)state;
    scene_init(&s, GK_F32, PACKED);
    for (int64_t i = 0; i < COUNT; i++) {
        set(&s, i, 1 + (double)i / 7, 1, 1 + (double)i / 7 + 0.001 * (double)(i % 5));
    }
    s.input.scale = 0.01;
    s.input.norm = 1e-3;
    assert_true(judged(&s));
    s.input.norm = 1e-5;
    assert_false(judged(&s));
    s.input.norm = 1e300;
    ok(gk_verify(&s.input, &host, &err));
    const uint64_t got = device_bytes(s.got, COUNT * sizeof(float), 0);
    const uint64_t pairs = device_bytes(s.pairs, sizeof s.pairs, 0);
    for (int step = -3; step <= 3; step++) {
        struct gk_verdict again;
        s.input.norm = host.rung.norm_error * (1 + step * 0x1p-52);
        ok(gk_verify(&s.input, &again, &err));
        ok(gk_inspector_check(inspector, &s.input, got, pairs, &sum, &err));
        assert_true(again.rung.passed || !sum.rung.passed);
        assert_int_equal(sum.rung.failed, 0);
    }
    release(got);
    release(pairs);
    scene_fini(&s);
}

static void poison_and_padding(void **state)
{
    struct gk_verdict_sum sum;
    struct scene s;
    (void)state;
    scene_init(&s, GK_BF16, PITCHED);
    for (int64_t i = 0; i < COUNT; i++) {
        set(&s, i, (double)(i % 17), 20, (double)(i % 17));
    }
    gk_element_poison(GK_BF16, element(&s, 77));
    assert_false(judged(&s));
    set(&s, 77, 3, 20, 3);
    assert_true(judged(&s));
    s.got[2] ^= 1; /* before the first element */
    s.got[2 * (5 + COLUMNS + 2) + 1] ^= 0x80;
    assert_false(judged(&s));
    const uint64_t size = (uint64_t)s.tensor.span * 2;
    const uint64_t got = device_bytes(s.got, size, 0);
    const uint64_t pairs = device_bytes(s.pairs, sizeof s.pairs, 0);
    /* What nobody wrote is looked at all the same, and still counts as never written. */
    ok(device->ops->forget(device, got, size, &err));
    ok(gk_inspector_check(inspector, &s.input, got, pairs, &sum, &err));
    assert_int_equal(sum.padding_changed, 2);
    uint64_t unwritten = 0;
    ok(device->ops->unwritten(device, got, size, &unwritten, &err));
    assert_int_equal(unwritten, size);
    s.input.compare = COUNT + 1;
    assert_int_equal(gk_inspector_check(inspector, &s.input, got, pairs, &sum, &err), GK_INPUT);
    release(got);
    release(pairs);
    scene_fini(&s);
}

/* More elements than one block takes: several partial sums, and a tie across blocks. */
static void many_blocks(void **state)
{
    enum { N = 5000 };
    struct scene s;
    struct gk_verdict host;
    struct gk_verdict_sum sum;
    double *pairs = calloc(2 * N, sizeof *pairs);
    float *got = calloc(N, sizeof *got);
    (void)state;
    assert_true(pairs && got);
    scene_init(&s, GK_F32, PACKED);
    s.tensor.extents[0] = 50;
    s.tensor.extents[1] = s.tensor.strides[0] = 100;
    s.tensor.span = s.tensor.elements = s.input.compare = N;
    for (int i = 0; i < N; i++) {
        pairs[2 * i] = got[i] = (float)(i % 91 - 40);
        pairs[2 * i + 1] = 50;
    }
    s.input.got = (unsigned char *)got;
    s.input.pairs = pairs;
    s.input.exact = true;
    got[4321] += 1;
    got[3210] += 1; /* the same error: the lower number is the worst */
    const uint64_t at = device_bytes(got, N * sizeof *got, 0);
    const uint64_t pairs_at = device_bytes(pairs, 2 * N * sizeof *pairs, 0);
    ok(gk_verify(&s.input, &host, &err));
    ok(gk_inspector_check(inspector, &s.input, at, pairs_at, &sum, &err));
    assert_int_equal(host.rung.worst_index, 3210);
    assert_int_equal(sum.rung.worst_index, 3210);
    assert_int_equal(sum.rung.failed, 2);
    assert_true(close_norms(sum.rung.norm_error, host.rung.norm_error));
    release(at);
    release(pairs_at);
    free(pairs);
    free(got);
    scene_fini(&s);
}

static const struct gk_device_ops *true_ops;

/* A device whose division differs in the last digit. Partial sums are the only reads of 48 bytes
 * here; their fifth double is the worst element's excess. */
static enum gk_status lying_read(struct gk_device *of, uint64_t address, void *bytes, uint64_t size,
                                 struct gk_err *read_err)
{
    enum gk_status status = true_ops->read(of, address, bytes, size, read_err);
    if (size == 48) {
        ((unsigned char *)bytes)[32] ^= 1;
    }
    return status;
}

static void other_arithmetic(void **state)
{
    struct gk_device_ops lying = *device->ops;
    struct gk_verdict_sum sum;
    struct scene s;
    (void)state;
    scene_init(&s, GK_F32, PACKED);
    for (int64_t i = 0; i < COUNT; i++) {
        set(&s, i, 0.1 * (double)i, 1, 0.1 * (double)i);
    }
    assert_true(judged(&s));
    const uint64_t got = device_bytes(s.got, COUNT * sizeof(float), 0);
    const uint64_t pairs = device_bytes(s.pairs, sizeof s.pairs, 0);
    true_ops = device->ops;
    lying.read = lying_read;
    device->ops = &lying;
    enum gk_status status = gk_inspector_check(inspector, &s.input, got, pairs, &sum, &err);
    device->ops = true_ops;
    assert_int_equal(status, GK_INTERNAL);
    assert_non_null(strstr(err.text, "on the host"));
    release(got);
    release(pairs);
    scene_fini(&s);
}

/* ------------------------------------------------------------------ inputs */

static struct gk_plan *plan;
static struct gk_tensor input_def;
static struct gk_op op;

static void make_input(enum gk_dtype dtype, enum gk_generator_kind kind, int shape)
{
    memset(&input_def, 0, sizeof input_def);
    memset(plan, 0, sizeof *plan);
    (void)snprintf(input_def.name, sizeof input_def.name, "A");
    input_def.gen.kind = kind;
    input_def.gen.series_field = -1;
    input_def.rows_owner = input_def.rows_pages = -1;
    op.tensor_count = 1;
    plan->op = &op;
    struct gk_plan_tensor *t = &plan->tensors[0];
    *t = (struct gk_plan_tensor){.def = &input_def,
                                 .present = true,
                                 .dtype = dtype,
                                 .rank = 2,
                                 .extents = {11, 13},
                                 .strides = {13, 1},
                                 .span = 143,
                                 .elements = 143};
    if (shape == 1) { /* rows of 16 behind an offset */
        t->strides[0] = 16;
        t->offset = 3;
        t->span = 3 + 10 * 16 + 13;
    } else if (shape == 2) { /* three dimensions, the middle one fastest */
        t->rank = 3;
        t->extents[0] = 3, t->extents[1] = 5, t->extents[2] = 7;
        t->strides[0] = 36, t->strides[1] = 1, t->strides[2] = 5;
        t->span = 2 * 36 + 4 + 6 * 5 + 1;
        t->elements = 105;
    } else if (shape == 3) { /* one element */
        t->rank = 0;
        t->span = t->elements = 1;
    }
}

static void same_inputs(void **state)
{
    static const enum gk_generator_kind KINDS[] = {
        GK_GEN_NONE,      GK_GEN_NORMAL,   GK_GEN_UNIFORM,     GK_GEN_TERNARY,
        GK_GEN_SMALL_INT, GK_GEN_CONSTANT, GK_GEN_CLASS_INDEX, GK_GEN_BYTES};
    (void)state;
    for (int dtype = 0; dtype < GK_DTYPE_COUNT; dtype++) {
        for (size_t k = 0; k < GK_ARRAY_COUNT(KINDS); k++) {
            for (int shape = 0; shape < 4; shape++) {
                const uint64_t shift = shape == 0 ? 0 : 8, seed = gk_input_seed(k % 4, shape & 1);
                make_input((enum gk_dtype)dtype, KINDS[k], shape);
                const size_t size =
                    (size_t)plan->tensors[0].span * gk_dtype_bytes((enum gk_dtype)dtype);
                unsigned char *want = calloc(1, size), *got = calloc(1, size);
                assert_true(want && got);
                const uint64_t base = device_bytes(got, size, shift);
                ok(gk_generate(plan, 0, seed, false, want, &err));
                ok(gk_inspector_generate(inspector, plan, 0, seed, false, base + shift, &err));
                ok(device->ops->read(device, base + shift, got, size, &err));
                if (memcmp(want, got, size) != 0) {
                    fail_msg("%s, generator %d, shape %d: byte %" PRId64 " differs",
                             gk_dtype_name((enum gk_dtype)dtype), (int)KINDS[k], shape,
                             gk_first_difference(want, got, size));
                }
                release(base);
                free(want);
                free(got);
            }
        }
    }
}

/* The same with rounding, and spikes in some rows. */
static void same_spikes(void **state)
{
    static const char *const TEXTS[] = {"0.25", "7.0", "0.3", "2"};
    static const enum gk_generator_kind KINDS[] = {GK_GEN_NORMAL, GK_GEN_UNIFORM, GK_GEN_TERNARY,
                                                   GK_GEN_CONSTANT};
    struct gk_expr *exprs[GK_ARRAY_COUNT(TEXTS)];
    struct gk_scope *scope = gk_scope_create();
    (void)state;
    assert_non_null(scope);
    for (size_t i = 0; i < GK_ARRAY_COUNT(TEXTS); i++) {
        ok(gk_expr_compile(TEXTS[i], scope, &exprs[i], &err));
    }
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(KINDS) * GK_DTYPE_COUNT * 3; i++) {
        const enum gk_dtype dtype = (enum gk_dtype)(i / 3 % GK_DTYPE_COUNT);
        make_input(dtype, KINDS[i / 3 / GK_DTYPE_COUNT], (int)(i % 3));
        input_def.gen.round = exprs[0];
        input_def.gen.spike =
            (struct gk_spike){.size = exprs[1], .share = exprs[2], .columns = exprs[3]};
        const size_t size = (size_t)plan->tensors[0].span * gk_dtype_bytes(dtype);
        unsigned char *want = calloc(1, size), *got = calloc(1, size);
        assert_true(want && got);
        const uint64_t base = device_bytes(got, size, 0);
        ok(gk_generate(plan, 0, i, GK_INPUTS_DRAWN, want, &err));
        ok(gk_inspector_generate(inspector, plan, 0, i, GK_INPUTS_DRAWN, base, &err));
        ok(device->ops->read(device, base, got, size, &err));
        if (memcmp(want, got, size) != 0) {
            fail_msg("case %u: byte %" PRId64 " differs", i, gk_first_difference(want, got, size));
        }
        release(base);
        free(want);
        free(got);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(TEXTS); i++) {
        gk_expr_destroy(exprs[i]);
    }
    gk_scope_destroy(scope);
}

/* Whatever ran since the last input was made: the table that inputs are drawn from is whole. */
static void a_spoilt_table_is_made_anew(void **state)
{
    const unsigned char junk = 0xff;
    unsigned char *want = NULL, *got = NULL;
    (void)state;
    make_input(GK_F32, GK_GEN_NORMAL, 0);
    const size_t size = (size_t)plan->tensors[0].span * 4;
    want = calloc(1, size);
    got = calloc(1, size);
    assert_true(want && got);
    const uint64_t base = device_bytes(got, size, 0);
    ok(gk_inspector_generate(inspector, plan, 0, 1, false, base, &err));
    ok(device->ops->fill(device, inspector->quantiles, 4096, &junk, 1, &err));
    ok(gk_inspector_generate(inspector, plan, 0, 1, false, base, &err));
    ok(gk_generate(plan, 0, 1, false, want, &err));
    ok(device->ops->read(device, base, got, size, &err));
    assert_memory_equal(want, got, size);
    release(base);
    free(want);
    free(got);
}

static void dependent_inputs(void **state)
{
    unsigned char byte = 0;
    const uint64_t base = device_bytes(&byte, 1, 0);
    (void)state;
    make_input(GK_I32, GK_GEN_OFFSETS, 0);
    assert_int_equal(gk_inspector_generate(inspector, plan, 0, 1, false, base, &err),
                     GK_UNSUPPORTED);
    make_input(GK_F32, GK_GEN_NORMAL, 0);
    plan->tensors[0].strides[0] = 7; /* rows lie over each other */
    assert_int_equal(gk_inspector_generate(inspector, plan, 0, 1, false, base, &err),
                     GK_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tensor A"));
    release(base);
}

/* ------------------------------------------------------------------ guards */

#define AREA 150000

static const struct gk_segment *segment_list(uint64_t base, uint64_t other, uint32_t *count_out)
{
    static struct gk_segment list[7];
    const struct gk_segment all[] = {
        {.address = base, .bytes = 512, .pattern = {0xc5}, .pattern_bytes = 1},
        {.address = base + 600, .bytes = 3, .pattern = {1, 2}, .pattern_bytes = 2},
        {.address = base + 701, .bytes = 1000, .pattern = {1, 2, 3, 4}, .pattern_bytes = 4},
        {.address = base + 2003,
         .bytes = 70001, /* three chunks */
         .pattern = {9, 8, 7, 6, 5, 4, 3, 2},
         .pattern_bytes = 8},
        {.address = base + 80000, .bytes = 0, .pattern = {1}, .pattern_bytes = 1},
        {.address = base + 80005, .bytes = 40000, .same_as = other + 16 + 5},
        {.address = base + 130000, .bytes = 5000, .same_as = other + 7}};
    memcpy(list, all, sizeof all);
    *count_out = (uint32_t)GK_ARRAY_COUNT(all);
    return list;
}

static unsigned char expected(const struct gk_segment *segment, const unsigned char *other,
                              uint64_t other_base, uint64_t i)
{
    return segment->same_as ? other[segment->same_as - other_base + i]
                            : segment->pattern[i % segment->pattern_bytes];
}

static void painted_and_audited(void **state)
{
    unsigned char *area = malloc(AREA), *other = malloc(AREA);
    struct gk_audit audits[7];
    struct gk_prng prng;
    uint32_t count;
    (void)state;
    assert_true(area && other);
    gk_prng_init(&prng, 4, 0);
    for (int i = 0; i < AREA; i++) {
        area[i] = 0x77;
        other[i] = (unsigned char)gk_prng_u32(&prng);
    }
    const uint64_t base = device_bytes(area, AREA, 0), from = device_bytes(other, AREA, 0);
    const struct gk_segment *list = segment_list(base, from, &count);
    ok(gk_inspector_paint(inspector, list, count, &err));
    ok(device->ops->read(device, base, area, AREA, &err));
    uint64_t outside = AREA;
    for (uint32_t s = 0; s < count; s++) {
        for (uint64_t i = 0; i < list[s].bytes; i++, outside--) {
            const unsigned char want = expected(&list[s], other, from, i);
            if (area[list[s].address - base + i] != want) {
                fail_msg("segment %u, byte %" PRIu64 " is not painted", s, i);
            }
            area[list[s].address - base + i] = 0x77;
        }
    }
    for (int i = 0; i < AREA; i++) {
        assert_int_equal(area[i], 0x77); /* nothing beside them was touched */
    }
    assert_true(outside > 0);
    ok(device->ops->forget(device, base, 512, &err));
    ok(gk_inspector_audit(inspector, list, count, audits, &err));
    for (uint32_t s = 0; s < count; s++) {
        assert_int_equal(audits[s].changed, 0);
        assert_true(audits[s].first == UINT64_MAX);
    }
    /* First, last and some bytes between, one at a time and all at once. */
    for (uint32_t s = 0; s < count; s++) {
        uint64_t at[] = {0, list[s].bytes - 1, list[s].bytes / 2, list[s].bytes / 3 + 1};
        for (size_t n = 0; n < GK_ARRAY_COUNT(at) && list[s].bytes > 0; n++) {
            unsigned char kept, changed;
            at[n] %= list[s].bytes;
            ok(device->ops->read(device, list[s].address + at[n], &kept, 1, &err));
            changed = kept ^ (unsigned char)(1u << gk_prng_below(&prng, 8));
            ok(device->ops->write(device, list[s].address + at[n], &changed, 1, &err));
            ok(gk_inspector_audit(inspector, list, count, audits, &err));
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(audits[i].changed, i == s);
                assert_true(audits[i].first == (i == s ? at[n] : UINT64_MAX));
            }
            ok(device->ops->write(device, list[s].address + at[n], &kept, 1, &err));
        }
    }
    memset(area, 0, AREA);
    ok(device->ops->write(device, base, area, 512, &err));
    ok(gk_inspector_audit(inspector, list, count, audits, &err));
    assert_int_equal(audits[0].changed, 512);
    assert_int_equal(audits[0].first, 0);
    release(base);
    release(from);
    free(area);
    free(other);
}

/* As guards are: many, small, at every phase, some empty. */
static void many_segments(void **state)
{
    enum { N = 1200, STEP = 67 };
    static struct gk_segment list[N];
    static struct gk_audit audits[N];
    unsigned char *area = calloc(N, STEP);
    (void)state;
    assert_non_null(area);
    const uint64_t base = device_bytes(area, N * STEP, 0);
    for (uint32_t i = 0; i < N; i++) {
        list[i] = (struct gk_segment){.address = base + i * STEP,
                                      .bytes = i % 5 ? 60 + i % 7 : 0,
                                      .pattern = {(unsigned char)i, (unsigned char)(i >> 8), 3, 4},
                                      .pattern_bytes = 4};
    }
    ok(gk_inspector_paint(inspector, list, N, &err));
    for (uint32_t i = 1; i < N; i += 100) {
        const unsigned char other = 0xee;
        ok(device->ops->write(device, list[i].address + i % 60, &other, 1, &err));
    }
    ok(gk_inspector_audit(inspector, list, N, audits, &err));
    for (uint32_t i = 0; i < N; i++) {
        const bool touched = i % 100 == 1;
        assert_int_equal(audits[i].changed, touched);
        assert_true(audits[i].first == (touched ? i % 60 : UINT64_MAX));
    }
    release(base);
    free(area);
}

static void refused_segments(void **state)
{
    struct gk_segment segment = {.address = 4096, .bytes = 8, .pattern_bytes = 3};
    struct gk_audit audit;
    (void)state;
    assert_int_equal(gk_inspector_audit(inspector, &segment, 1, &audit, &err), GK_INPUT);
    assert_non_null(strstr(err.text, "3 bytes"));
    assert_int_equal(gk_inspector_paint(inspector, &segment, GK_SEGMENTS_MAX + 1, &err), GK_LIMIT);
    ok(gk_inspector_audit(inspector, NULL, 0, NULL, &err));
}

/* ------------------------------------------------------------------ making */

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void cached_code(void **state)
{
    char folder[] = "/tmp/gktune-inspect-XXXXXX";
    const struct gk_compiler_places where = places();
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int round = 0; round < 2; round++) {
        struct gk_inspector *other = NULL;
        ok(gk_inspector_create(device, &where, folder, &other, &err));
        assert_true(gk_inspector_cached(other) == (round == 1));
        gk_inspector_destroy(other);
    }
    assert_int_equal(nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    gk_inspector_destroy(NULL);
}

static int set_up(void **state)
{
    const struct gk_compiler_places where = places();
    (void)state;
    if (gk_hash_setup(NULL) != GK_OK || gk_device_open("emu:sm_80", &device, &err) != GK_OK) {
        return -1;
    }
    plan = calloc(1, sizeof *plan);
    if (!plan || gk_inspector_create(device, &where, NULL, &inspector, &err) != GK_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gk_inspector_destroy(inspector);
    gk_device_close(device);
    free(plan);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_and_wrong),
                                       cmocka_unit_test(random_bits),
                                       cmocka_unit_test(special_values),
                                       cmocka_unit_test(every_small_value),
                                       cmocka_unit_test(around_the_bound),
                                       cmocka_unit_test(norms),
                                       cmocka_unit_test(poison_and_padding),
                                       cmocka_unit_test(many_blocks),
                                       cmocka_unit_test(other_arithmetic),
                                       cmocka_unit_test(many_segments),
                                       cmocka_unit_test(same_inputs),
                                       cmocka_unit_test(same_spikes),
                                       cmocka_unit_test(a_spoilt_table_is_made_anew),
                                       cmocka_unit_test(dependent_inputs),
                                       cmocka_unit_test(painted_and_audited),
                                       cmocka_unit_test(refused_segments),
                                       cmocka_unit_test(cached_code)};
    const struct gk_compiler_places where = places();
    struct gk_compiler *compiler = NULL;
    if (gk_compiler_open(&where, &compiler, NULL) == GK_MISSING) {
        return 77;
    }
    gk_compiler_close(compiler);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
