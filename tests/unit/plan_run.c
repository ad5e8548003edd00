/*
 * See plan_run.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/plan_run.h"

#define OPTIONS_MAX     120
#define OPTION_SIZE     160
#define BASE_ALIGN      256
#define PARAMS_SIZE_MAX 4096

size_t plan_run_bytes(const struct gk_plan *plan, uint32_t tensor)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    return (size_t)t->span * gk_dtype_bytes(t->dtype);
}

void plan_run_init(struct plan_run *run, struct gk_emu *emu, const struct gk_catalog *catalog,
                   const struct gk_plan *plan, unsigned char fill)
{
    struct gk_err err;
    *run = (struct plan_run){.emu = emu, .catalog = catalog};
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        const struct gk_plan_tensor *t = &plan->tensors[i];
        if (!t->present) {
            continue;
        }
        /* One alignment step past an address of the highest: a multiple of it and of nothing
         * larger. */
        uint64_t shift = t->align < BASE_ALIGN ? (uint64_t)t->align : 0, address = 0;
        size_t bytes = plan_run_bytes(plan, i);
        run->host[i] = malloc(bytes + 1);
        assert_non_null(run->host[i]);
        memset(run->host[i], fill, bytes);
        assert_ok(gk_emu_alloc(emu, t->def->name, bytes + shift, BASE_ALIGN, &address, &err), err);
        run->tensors[i] = address + shift;
    }
}

void plan_run_fini(struct plan_run *run)
{
    for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
        free(run->host[i]);
    }
    *run = (struct plan_run){0};
}

static struct gk_emu_module *compile(const struct plan_run *run,
                                     const struct gk_plan_launch *launch, const char *what)
{
    struct gk_err err;
    struct gk_emu_module *module = NULL;
    char storage[OPTIONS_MAX][OPTION_SIZE], include[600], folder[600], *text = NULL, *log = NULL;
    const char *options[OPTIONS_MAX + 4];
    uint32_t used = 0;
    size_t size = 0;

    assert_ok(gk_catalog_file(run->catalog, launch->def->source, &text, &size, &err), err);
    (void)snprintf(include, sizeof include, "-I%s/kernels/include", GK_SOURCE_DIR);
    options[used++] = "-std=c++17";
    options[used++] = include;
    /* What stands beside the source, as `#include "x"` finds it. */
    const char *source = launch->def->source, *slash = strrchr(source, '/');
    (void)snprintf(folder, sizeof folder, "-I%s/kernels/%.*s", GK_SOURCE_DIR,
                   slash ? (int)(slash - source) : 0, source);
    options[used++] = folder;
    assert_true(launch->define_count <= OPTIONS_MAX);
    for (uint32_t i = 0; i < launch->define_count; i++) {
        int length = snprintf(storage[i], OPTION_SIZE, "-D%s", launch->defines[i]);
        assert_in_range(length, 1, OPTION_SIZE - 1);
        options[used++] = storage[i];
    }
    options[used] = NULL;
    char *ptx = nvrtc_for_tests_compile(text, launch->def->source, "compute_80", options, &log);
    if (!ptx) {
        fail_msg("%s: %s does not compile: %s", what, launch->def->source, log ? log : "no log");
    }
    assert_ok(gk_emu_module_load(run->emu, ptx, strlen(ptx), &module, &err), err);
    free(ptx);
    free(log);
    free(text);
    return module;
}

static uint64_t argument_bits(const struct plan_addresses *at, const struct gk_plan_arg *arg)
{
    switch (arg->kind) {
    case GK_ARG_TENSOR:
        return at->tensors[arg->index];
    case GK_ARG_RESULT:
        return at->results[arg->index];
    case GK_ARG_WORKSPACE:
        return at->workspaces[arg->index] ? at->workspaces[arg->index] + (uint64_t)arg->byte_offset
                                          : 0;
    case GK_ARG_VALUE:
        return arg->bits;
    case GK_ARG_TENSOR_MAP:
        break;
    }
    fail_msg("an argument of kind %d", (int)arg->kind);
    return 0;
}

enum gk_status plan_launch(struct gk_emu *emu, struct gk_emu_module *module,
                           const struct gk_plan_launch *planned, const struct plan_addresses *at,
                           struct gk_emu_report *report, struct gk_err *err)
{
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;
    unsigned char params[PARAMS_SIZE_MAX] = {0};
    struct gk_emu_launch launch = {
        .dynamic_smem_bytes = planned->smem_bytes, .params = params, .registers_per_thread = 64};

    memcpy(launch.grid, planned->grid, sizeof launch.grid);
    memcpy(launch.block, planned->block, sizeof launch.block);
    assert_int_equal(gk_emu_kernel_find(module, planned->def->kernel, &kernel, err), GK_OK);
    gk_emu_kernel_info(kernel, &info);
    assert_int_equal(info.param_count, planned->arg_count);
    for (uint32_t i = 0; i < planned->arg_count; i++) {
        uint64_t bits = argument_bits(at, &planned->args[i]);
        assert_int_equal(info.params[i].size, planned->args[i].size);
        memcpy(params + info.params[i].offset, &bits, info.params[i].size);
    }
    launch.params_size = info.params_size;
    return gk_emu_launch(emu, kernel, &launch, report, err);
}

static void run_launch(struct plan_run *run, const struct gk_plan_launch *planned,
                       const uint64_t *workspaces, const char *what)
{
    struct gk_err err;
    struct gk_emu_report report;
    struct gk_emu_module *module = compile(run, planned, what);
    const struct plan_addresses at = {run->tensors, run->results, workspaces};

    if (plan_launch(run->emu, module, planned, &at, &report, &err) != GK_OK) {
        fail_msg("%s: %s: %s", what, planned->def->kernel, err.text);
    }
    gk_emu_module_unload(module);
}

void plan_run_upload(struct plan_run *run, const struct gk_plan *plan)
{
    struct gk_err err;

    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        /* Outputs are uploaded and then marked: what is left unwritten keeps the fill. */
        if (run->tensors[i]) {
            size_t bytes = plan_run_bytes(plan, i);
            assert_ok(gk_emu_write(run->emu, run->tensors[i], run->host[i], bytes, &err), err);
            if (plan->tensors[i].def->role == GK_TENSOR_OUT) {
                assert_ok(gk_emu_mark_unwritten(run->emu, run->tensors[i], bytes, &err), err);
            }
        }
    }
}

void plan_run_launches(struct plan_run *run, const struct gk_plan *plan, const char *what)
{
    struct gk_err err;
    uint64_t workspaces[GK_WORKSPACES_MAX] = {0};

    plan_run_upload(run, plan);
    for (uint32_t i = 0; i < plan->template_->workspace_count; i++) {
        if (plan->workspaces[i].present) {
            assert_ok(gk_emu_alloc(run->emu, plan->workspaces[i].def->name,
                                   (uint64_t)plan->workspaces[i].bytes, BASE_ALIGN, &workspaces[i],
                                   &err),
                      err);
            if (plan->workspaces[i].def->init != GK_WS_ANY) {
                assert_ok(gk_emu_fill(run->emu, workspaces[i], (uint64_t)plan->workspaces[i].bytes,
                                      "", 1, &err),
                          err);
            }
        }
    }
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        if (plan->launches[i].present) {
            run_launch(run, &plan->launches[i], workspaces, what);
        }
    }
    for (uint32_t i = 0; i < plan->template_->workspace_count; i++) {
        if (workspaces[i]) {
            if (plan->workspaces[i].def->init == GK_WS_ZERO_KEPT) {
                const unsigned char *bytes = gk_emu_host_pointer(
                    run->emu, workspaces[i], (uint64_t)plan->workspaces[i].bytes);
                assert_non_null(bytes);
                for (int64_t b = 0; b < plan->workspaces[i].bytes; b++) {
                    assert_int_equal(bytes[b], 0);
                }
            }
            assert_ok(gk_emu_free(run->emu, workspaces[i], &err), err);
        }
    }
    for (uint32_t i = 0; i < plan->op->tensor_count; i++) {
        if (run->tensors[i] && plan->tensors[i].def->role != GK_TENSOR_IN) {
            assert_ok(
                gk_emu_read(run->emu, run->tensors[i], run->host[i], plan_run_bytes(plan, i), &err),
                err);
        }
    }
}

void plan_run_reference(struct plan_run *run, const struct gk_plan *reference, uint32_t tensor,
                        double *pairs_out, const char *what)
{
    struct gk_err err;
    uint64_t bytes = (uint64_t)reference->tensors[tensor].elements * 2 * sizeof(double);
    uint64_t unwritten = 1;

    assert_ok(gk_emu_alloc(run->emu, "pairs", bytes, BASE_ALIGN, &run->results[tensor], &err), err);
    run_launch(run, &reference->launches[0], NULL, what);
    assert_ok(gk_emu_unwritten(run->emu, run->results[tensor], bytes, &unwritten, &err), err);
    assert_int_equal(unwritten, 0);
    assert_ok(gk_emu_read(run->emu, run->results[tensor], pairs_out, bytes, &err), err);
    assert_ok(gk_emu_free(run->emu, run->results[tensor], &err), err);
    run->results[tensor] = 0;
}
