/* The inspector on a device on which the n-th call fails: whatever fails is said, nothing is left
 * behind. Skipped without NVRTC. */
#include "worker/inspect/inspect.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/hash.h"

#define SPAN  (8 * 43 + 40)
#define COUNT 360

static const struct gk_device_ops *true_ops;

/* A device on which the n-th call fails, and that counts what is allocated. */
static struct {
    int64_t left; /* calls until one fails; never again after it */
    int64_t live; /* allocations */
} brittle;

static bool fails(void)
{
    return brittle.left-- == 0;
}

static enum gk_status brittle_alloc(struct gk_device *of, const char *name, uint64_t bytes,
                                    uint64_t align, uint64_t *address_out, struct gk_err *e)
{
    if (fails()) {
        return gk_fail(e, GK_LIMIT, "brittle");
    }
    brittle.live++;
    return true_ops->alloc(of, name, bytes, align, address_out, e);
}

static enum gk_status brittle_release(struct gk_device *of, uint64_t address, struct gk_err *e)
{
    brittle.live--;
    return true_ops->release(of, address, e);
}

static enum gk_status brittle_write(struct gk_device *of, uint64_t address, const void *bytes,
                                    uint64_t size, struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_IO, "brittle") : true_ops->write(of, address, bytes, size, e);
}

static enum gk_status brittle_read(struct gk_device *of, uint64_t address, void *bytes,
                                   uint64_t size, struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_IO, "brittle") : true_ops->read(of, address, bytes, size, e);
}

static enum gk_status brittle_fill(struct gk_device *of, uint64_t address, uint64_t size,
                                   const void *pattern, uint32_t pattern_bytes, struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_IO, "brittle")
                   : true_ops->fill(of, address, size, pattern, pattern_bytes, e);
}

static enum gk_status brittle_copy(struct gk_device *of, uint64_t to, uint64_t from, uint64_t size,
                                   struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_IO, "brittle") : true_ops->copy(of, to, from, size, e);
}

static enum gk_status brittle_unwritten(struct gk_device *of, uint64_t address, uint64_t size,
                                        uint64_t *bytes_out, struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_IO, "brittle")
                   : true_ops->unwritten(of, address, size, bytes_out, e);
}

static enum gk_status brittle_find(struct gk_device *of, struct gk_device_module *module,
                                   const char *name, struct gk_device_kernel **kernel_out,
                                   struct gk_err *e)
{
    return fails() ? gk_fail(e, GK_NOT_FOUND, "brittle")
                   : true_ops->find(of, module, name, kernel_out, e);
}

static enum gk_status brittle_launch(struct gk_device *of, struct gk_device_kernel *kernel,
                                     const struct gk_device_launch *launch,
                                     struct gk_device_report *report_out, struct gk_err *e)
{
    if (fails()) { /* as a kernel that trapped */
        memset(report_out, 0, sizeof *report_out);
        (void)snprintf(report_out->text, sizeof report_out->text, "brittle");
        return gk_fail(e, GK_TRIAL, "brittle");
    }
    return true_ops->launch(of, kernel, launch, report_out, e);
}

/* One tensor with padding, an input and an output at once. */
static struct gk_tensor def = {
    .name = "A", .gen = {.kind = GK_GEN_NORMAL, .series_field = -1}, .rows_owner = -1};
static struct gk_op op = {.tensor_count = 1};

static void make_plan(struct gk_plan *plan)
{
    plan->op = &op;
    plan->tensors[0] = (struct gk_plan_tensor){.def = &def,
                                               .present = true,
                                               .dtype = GK_F32,
                                               .rank = 2,
                                               .extents = {9, 40},
                                               .strides = {43, 1},
                                               .span = SPAN,
                                               .elements = COUNT};
}

static struct gk_compiler_places places(void)
{
    return (struct gk_compiler_places){.file = getenv("GKTUNE_NVRTC"),
                                       .cuda_home = getenv("CUDA_HOME"),
                                       .virtual_env = getenv("VIRTUAL_ENV"),
                                       .home = getenv("HOME")};
}

/* On an output of which part counts as never written. */
static enum gk_status one_of_everything(struct gk_device *device, const struct gk_plan *plan,
                                        uint64_t got, uint64_t pairs, const char *folder,
                                        struct gk_err *err)
{
    const struct gk_compiler_places where = places();
    const struct gk_verify_input input = {
        .tensor = &plan->tensors[0], .compare = COUNT, .norm = -1};
    const struct gk_segment segment = {.address = got, .bytes = 64, .same_as = got + 128};
    const struct gk_segment paint = {.address = got, .bytes = 8, .pattern_bytes = 1};
    struct gk_inspector *inspector = NULL;
    struct gk_verdict_sum sum;
    struct gk_audit audit;
    enum gk_status status = gk_inspector_create(device, &where, folder, &inspector, err);
    if (status == GK_OK) {
        status = gk_inspector_generate(inspector, plan, 0, 1, false, got, err);
    }
    if (status == GK_OK) {
        status = gk_inspector_paint(inspector, &paint, 1, err);
    }
    if (status == GK_OK) {
        status = true_ops->forget(device, got, 200, err);
    }
    if (status == GK_OK) {
        status = gk_inspector_audit(inspector, &segment, 1, &audit, err);
    }
    if (status == GK_OK) {
        status = gk_inspector_check(inspector, &input, got, pairs, &sum, err);
    }
    gk_inspector_destroy(inspector);
    return status;
}

static struct gk_device_ops brittle_ops(void)
{
    struct gk_device_ops ops = *true_ops;
    ops.alloc = brittle_alloc;
    ops.release = brittle_release;
    ops.write = brittle_write;
    ops.read = brittle_read;
    ops.fill = brittle_fill;
    ops.copy = brittle_copy;
    ops.unwritten = brittle_unwritten;
    ops.find = brittle_find;
    ops.launch = brittle_launch;
    return ops;
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void nth_call_fails(void **state)
{
    char folder[] = "/tmp/gktune-inspect-XXXXXX";
    static double pairs[2 * COUNT];
    struct gk_plan *plan = calloc(1, sizeof *plan);
    struct gk_device *device = NULL;
    uint64_t got_at = 0, pairs_at = 0;
    (void)state;
    assert_true(plan && mkdtemp(folder));
    make_plan(plan);
    assert_int_equal(gk_device_open("emu:sm_80", &device, NULL), GK_OK);
    true_ops = device->ops;
    assert_int_equal(true_ops->alloc(device, "got", SPAN * 4, 256, &got_at, NULL), GK_OK);
    assert_int_equal(true_ops->alloc(device, "pairs", sizeof pairs, 256, &pairs_at, NULL), GK_OK);
    assert_int_equal(true_ops->write(device, pairs_at, pairs, sizeof pairs, NULL), GK_OK);
    const struct gk_device_ops ops = brittle_ops();
    device->ops = &ops;
    for (int64_t n = 0;; n++) { /* the code is compiled once and cached from then on */
        struct gk_err err = {0};
        brittle.left = n;
        brittle.live = 0;
        enum gk_status status = one_of_everything(device, plan, got_at, pairs_at, folder, &err);
        assert_int_equal(brittle.live, 0);
        if (status == GK_OK) {
            assert_true(n > 25); /* calls that could fail */
            break;
        }
        assert_non_null(strstr(err.text, "brittle"));
        assert_true(n < 100);
    }
    device->ops = true_ops;
    gk_device_close(device);
    free(plan);
    assert_int_equal(nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nth_call_fails)};
    const struct gk_compiler_places where = places();
    struct gk_compiler *compiler = NULL;
    if (gk_hash_setup(NULL) != GK_OK) {
        return 1;
    }
    if (gk_compiler_open(&where, &compiler, NULL) == GK_MISSING) {
        return 77;
    }
    gk_compiler_close(compiler);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
