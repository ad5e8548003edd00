/*
 * Rows that no request owns: of a cache in pages and of one without, in both layouts, by the host
 * and by the inspector on the emulated device. What the page table and the lengths say is read from
 * the generated tensors themselves. The inspector's part is skipped where there is no NVRTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/catalog.h"
#include "tests/support/check.h"
#include "worker/generate.h"
#include "worker/inspect/inspect.h"
#include "worker/numeric.h"

#define BATCH   4
#define ROOM    40 /* keys of a request */
#define PAGE    16
#define HEADS   2
#define COLUMNS 32

static const int64_t LENGTHS[BATCH] = {17, 0, 40, 32};

static struct gk_catalog *catalog;
static const struct gk_op *op;
static struct gk_device *device;
static struct gk_inspector *inspector; /* NULL before it is needed, and without NVRTC */
static struct gk_err err;

static void need(enum gk_status status)
{
    if (status != GK_OK) {
        fail_msg("%s: %s", gk_status_name(status), err.text);
    }
}

static int set_up(void **state)
{
    struct gk_diag diag;
    (void)state;
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK || gk_device_open("emu:sm_80", &device, &err) != GK_OK ||
        gk_catalog_load_for(GK_SOURCE_DIR "/kernels", "attention_decode", &catalog, &diag) !=
            GK_OK) {
        (void)gk_diag_status(&diag, &err);
        print_error("%s\n", err.text);
        return -1;
    }
    gk_diag_fini(&diag);
    op = gk_catalog_find(catalog, "attention_decode");
    return op ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gk_inspector_destroy(inspector);
    gk_catalog_destroy(catalog);
    gk_device_close(device);
    return 0;
}

static uint32_t tensor_of(const char *name)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        if (strcmp(op->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor %s", name);
    return 0;
}

static unsigned char *generated(const struct gk_plan *plan, uint32_t tensor, uint64_t seed)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    unsigned char *bytes = calloc(1, (size_t)t->span * gk_dtype_bytes(t->dtype) + 1);
    assert_non_null(bytes);
    need(gk_generate(plan, tensor, seed, false, bytes, &err));
    return bytes;
}

/* Rows of each request or page that are owned, by the definition. */
static void owners(const struct gk_plan *plan, uint64_t seed, int64_t *owned)
{
    const struct gk_plan_tensor *table = &plan->tensors[tensor_of("page_table")];
    unsigned char *entries = table->present ? generated(plan, tensor_of("page_table"), seed) : NULL;
    for (int64_t request = 0; request < BATCH; request++) {
        int64_t width = table->present ? table->extents[1] : 0, left = LENGTHS[request];
        owned[request] = table->present ? owned[request] : left;
        for (int64_t column = 0; column < width && left > 0; column++, left -= PAGE) {
            int32_t page;
            memcpy(&page, entries + (request * width + column) * 4, sizeof page);
            assert_in_range(page, 0, plan->tensors[tensor_of("k")].extents[0] - 1);
            assert_int_equal(owned[page], 0); /* nobody else has it */
            owned[page] = left < PAGE ? left : PAGE;
        }
    }
    free(entries);
}

/* Exactly the rows that nobody owns are NaN. */
static void check_rows(const struct gk_plan *plan, uint32_t tensor, const unsigned char *bytes,
                       const int64_t *owned)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    const uint32_t size = gk_dtype_bytes(t->dtype);
    int64_t at[GK_TENSOR_RANK_MAX] = {0}, nans = 0, wanted = 0;
    do {
        const double x = gk_element_load(t->dtype, bytes + gk_tensor_place(t, at) * size);
        const bool mine = at[1] < owned[at[0]];
        if ((x == x) != mine) {
            fail_msg("%s: row %d of %d is %g, of %d owned", t->def->name, (int)at[1], (int)at[0], x,
                     (int)owned[at[0]]);
        }
        nans += x != x;
    } while (gk_tensor_step(t, at));
    for (int64_t i = 0; i < t->extents[0]; i++) {
        wanted += (t->extents[1] - owned[i]) * HEADS * COLUMNS;
    }
    assert_int_equal(nans, wanted);
    assert_true(nans > 0);
}

static void check_inspector(const struct gk_plan *plan, uint32_t tensor, uint64_t seed,
                            const unsigned char *want)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    const uint64_t size = (uint64_t)t->span * gk_dtype_bytes(t->dtype);
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME"),
                                        .virtual_env = getenv("VIRTUAL_ENV"),
                                        .home = getenv("HOME")};
    unsigned char *got = calloc(1, size);
    uint64_t base = 0;
    if (!inspector && gk_inspector_create(device, &places, NULL, &inspector, &err) != GK_OK) {
        print_message("the inspector is not looked at: %s\n", err.text);
        free(got);
        return;
    }
    assert_non_null(got);
    need(device->ops->alloc(device, "test", size, 256, &base, &err));
    need(gk_inspector_generate(inspector, plan, tensor, seed, false, base, &err));
    need(device->ops->read(device, base, got, size, &err));
    assert_memory_equal(got, want, size);
    need(device->ops->release(device, base, &err));
    free(got);
}

static void check_problem(const char *flags)
{
    struct gk_problem problem = {0};
    struct gk_plan *plan = calloc(1, sizeof *plan);
    char text[400];
    assert_non_null(plan);
    (void)snprintf(text, sizeof text,
                   "attention_decode{\"batch\":%d,\"q_heads\":%d,\"kv_len\":%d,\"head_dim\":%d,"
                   "\"kv_lens\":{\"each\":[17,0,40,32]}%s}",
                   BATCH, HEADS, ROOM, COLUMNS, flags);
    need(gk_problem_from_text(&op->fields, text, &problem, &err));
    need(gk_plan_reference(op, &problem, &device->props, plan, &err));
    for (uint64_t seed = 1; seed < 4; seed++) {
        int64_t owned[64] = {0};
        assert_true(plan->tensors[tensor_of("k")].extents[0] < 64);
        owners(plan, seed, owned);
        for (int i = 0; i < 2; i++) {
            const uint32_t tensor = tensor_of(i ? "v" : "k");
            unsigned char *bytes = generated(plan, tensor, seed);
            check_rows(plan, tensor, bytes, owned);
            check_inspector(plan, tensor, seed, bytes);
            free(bytes);
        }
    }
    gk_plan_fini(plan);
    free(plan);
    gk_problem_fini(&problem);
}

static void requests(void **state)
{
    (void)state;
    check_problem("");
    check_problem(",\"kv_layout\":\"HND\",\"kv_dtype\":\"e4m3\"");
}

static void pages(void **state)
{
    (void)state;
    check_problem(",\"page_size\":16");
    check_problem(",\"page_size\":16,\"kv_layout\":\"HND\",\"dtype\":\"f16\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests), cmocka_unit_test(pages)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
