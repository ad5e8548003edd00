/* Shapes files from strangers, as JSON and as CSV: what is accepted has canonical texts that read
 * back to the same problem; what is refused says why. */
#include <string.h>

#include "core/shapes.h"
#include "tests/support/sample_op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sample_ops ops; /* made once: a target has no tear-down */

static void read(const uint8_t *data, size_t size, bool is_csv, const char *wanted)
{
    struct gk_shapes shapes = {0};
    struct gk_diag diag;
    struct gk_err err;
    gk_diag_init(&diag);
    if (gk_shapes_parse((const char *)data, size, is_csv, "input", wanted, &ops.lookup, &shapes,
                        &diag) != GK_OK) {
        GK_ASSERT(diag.count > 0 && !shapes.problems);
        GK_ASSERT(strncmp(diag.texts[0], "input: ", 7) == 0);
    }
    for (uint32_t i = 0; i < shapes.count && i < 20; i++) {
        const struct gk_problem *problem = &shapes.problems[i];
        struct gk_problem back;
        char label[100];
        GK_ASSERT(gk_problem_from_text(problem->op, problem->canonical, &back, &err) == GK_OK);
        GK_ASSERT(gk_hash_equal(&problem->id, &back.id));
        gk_problem_label(problem, label, sizeof label);
        gk_problem_fini(&back);
    }
    gk_shapes_fini(&shapes);
    gk_diag_fini(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ops.gemm.scope) {
        sample_ops_init(&ops);
    }
    read(data, size, false, "gemm");
    read(data, size, false, NULL);
    read(data, size, true, "gemm");
    read(data, size, true, "attention");
    return 0;
}
