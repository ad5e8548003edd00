/* Verification: what passes, and each way of being wrong by its own name. Guards of buffers on a
 * device without bounds of its own. */
#include "worker/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/buffers.h"
#include "worker/generate.h"
#include "worker/numeric.h"

#define ROWS    6
#define COLUMNS 10
#define PITCH   12
#define SPAN    ((ROWS - 1) * PITCH + COLUMNS)

static struct gk_tensor def;
static struct gk_plan_tensor tensor;
static float got[SPAN];
static double pairs[ROWS * COLUMNS * 2];
static struct gk_verify_input input;
static struct gk_verdict verdict;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(def.name, sizeof def.name, "C");
    tensor = (struct gk_plan_tensor){.def = &def,
                                     .present = true,
                                     .dtype = GK_F32,
                                     .rank = 2,
                                     .extents = {ROWS, COLUMNS},
                                     .strides = {PITCH, 1},
                                     .span = SPAN,
                                     .elements = ROWS * COLUMNS,
                                     .align = 16};
    for (int i = 0; i < SPAN; i++) {
        gk_element_poison(GK_F32, &got[i]);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        pairs[2 * i] = (i * 7 % 23) - 11;
        pairs[2 * i + 1] = 20;
        got[gk_tensor_position(&tensor, i)] = (float)pairs[2 * i];
    }
    input = (struct gk_verify_input){.tensor = &tensor,
                                     .got = (unsigned char *)got,
                                     .pairs = pairs,
                                     .compare = ROWS * COLUMNS,
                                     .scale = 1e-6,
                                     .norm = 1e-3};
    return 0;
}

static void expect(enum gk_failure failure, const char *text)
{
    assert_int_equal(gk_verify(&input, &verdict, NULL), GK_OK);
    if (verdict.failure != failure || !strstr(verdict.text, text)) {
        fail_msg("%s: %s", gk_failure_name(verdict.failure), verdict.text);
    }
    assert_true(verdict.rung.passed == (failure == GK_FAILURE_NONE));
}

static void right(void **state)
{
    (void)state;
    expect(GK_FAILURE_NONE, "");
    assert_int_equal(verdict.rung.compared, 60);
    assert_int_equal(verdict.rung.failed, 0);
    input.exact = true;
    expect(GK_FAILURE_NONE, "");
    input.exact = false;
    got[5] += 1e-5f; /* inside 20 * 1e-6 */
    expect(GK_FAILURE_NONE, "");
    input.exact = true;
    expect(GK_FAILURE_WRONG, "1 of 60");
}

static void off_by_one(void **state)
{
    (void)state;
    got[PITCH + 3] += 1;
    expect(GK_FAILURE_WRONG, "worst at [1, 3]");
    assert_int_equal(verdict.rung.worst_index, 13);
    assert_int_equal(verdict.rung.failed, 1);
}

static void wrong_place(void **state)
{
    float kept = got[4];
    (void)state;
    got[4] = got[5];
    got[5] = kept;
    expect(GK_FAILURE_WRONG, "2 of 60");
}

static void not_a_number(void **state)
{
    (void)state;
    got[2 * PITCH] = NAN;
    expect(GK_FAILURE_NONFINITE, "first at [2, 0]");
    got[2 * PITCH] = INFINITY;
    expect(GK_FAILURE_NONFINITE, "first at [2, 0]");
    pairs[2 * 20] = INFINITY; /* the reference has it too */
    expect(GK_FAILURE_NONE, "");
    got[2 * PITCH] = -INFINITY;
    expect(GK_FAILURE_WRONG, "1 of 60");
    got[2 * PITCH] = NAN;
    pairs[2 * 20] = NAN;
    expect(GK_FAILURE_NONE, "");
}

static void never_written(void **state)
{
    (void)state;
    gk_element_poison(GK_F32, &got[SPAN - 1]);
    expect(GK_FAILURE_NEVER_WRITTEN, "first at [5, 9]");
}

static void padding(void **state)
{
    (void)state;
    got[COLUMNS] = 0;
    expect(GK_FAILURE_CANARY, "element 10 of the buffer");
}

static void small_everywhere(void **state)
{
    (void)state;
    input.scale = 1; /* each element passes, the whole does not */
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        got[gk_tensor_position(&tensor, i)] += 1;
    }
    expect(GK_FAILURE_WRONG, "relative error of the whole");
}

static void magnitude(void **state)
{
    (void)state;
    input.exact = input.check_magnitude = true;
    pairs[2 * 3 + 1] = 0x1p25;
    expect(GK_FAILURE_REFERENCE, "op.json");
}

static void rows_without_owner(void **state)
{
    (void)state;
    got[5 * PITCH] = 99;
    input.compare = 50;
    expect(GK_FAILURE_NONE, "");
}

/* ------------------------------------------------------------------ guards */

static unsigned char memory[8192];

static enum gk_status plain_alloc(struct gk_device *device, const char *name, uint64_t bytes,
                                  uint64_t align, uint64_t *address_out, struct gk_err *err)
{
    (void)device, (void)name, (void)bytes, (void)align, (void)err;
    *address_out = 4096;
    return GK_OK;
}

static enum gk_status plain_release(struct gk_device *device, uint64_t address, struct gk_err *err)
{
    (void)device, (void)address, (void)err;
    return GK_OK;
}

static enum gk_status plain_read(struct gk_device *device, uint64_t address, void *bytes,
                                 uint64_t size, struct gk_err *err)
{
    (void)device, (void)err;
    memcpy(bytes, memory + address - 4096, size);
    return GK_OK;
}

static enum gk_status plain_fill(struct gk_device *device, uint64_t address, uint64_t size,
                                 const void *pattern, uint32_t pattern_bytes, struct gk_err *err)
{
    (void)device, (void)err;
    for (uint64_t i = 0; i < size; i++) {
        memory[address - 4096 + i] = ((const unsigned char *)pattern)[i % pattern_bytes];
    }
    return GK_OK;
}

static void guards(void **state)
{
    static const struct gk_device_ops ops = {
        .alloc = plain_alloc, .release = plain_release, .read = plain_read, .fill = plain_fill};
    struct gk_device device = {.ops = &ops};
    struct gk_buffer buffer = {0};
    uint64_t changed = 0;
    int64_t offset = 0;
    (void)state;
    assert_int_equal(gk_buffer_make(&device, "x", 1000, 16, &buffer, NULL), GK_OK);
    assert_int_equal(buffer.address % 32, 16); /* aligned as promised, and no better */
    assert_int_equal(gk_buffer_check(&device, &buffer, &changed, &offset, NULL), GK_OK);
    assert_int_equal(changed, 0);
    unsigned char *at = memory + buffer.address - 4096;
    at[0] = at[999] = 1; /* inside */
    assert_int_equal(gk_buffer_check(&device, &buffer, &changed, &offset, NULL), GK_OK);
    assert_int_equal(changed, 0);
    at[1000] = 1;
    assert_int_equal(gk_buffer_check(&device, &buffer, &changed, &offset, NULL), GK_OK);
    assert_int_equal(changed, 1);
    assert_int_equal(offset, 1000);
    at[-4] = at[-3] = 1;
    assert_int_equal(gk_buffer_check(&device, &buffer, &changed, &offset, NULL), GK_OK);
    assert_int_equal(changed, 3);
    assert_int_equal(offset, -4);
    gk_buffer_free(&device, &buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(right, set_up),
        cmocka_unit_test_setup(off_by_one, set_up),
        cmocka_unit_test_setup(wrong_place, set_up),
        cmocka_unit_test_setup(not_a_number, set_up),
        cmocka_unit_test_setup(never_written, set_up),
        cmocka_unit_test_setup(padding, set_up),
        cmocka_unit_test_setup(small_everywhere, set_up),
        cmocka_unit_test_setup(magnitude, set_up),
        cmocka_unit_test_setup(rows_without_owner, set_up),
        cmocka_unit_test(guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
