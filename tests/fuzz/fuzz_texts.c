/* Texts that stand in the store and in messages: canonical problems and configs. What is accepted
 * is canonical: it reads back as itself. */
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "tests/support/sample_op.h"
#include "tests/support/sample_space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_problem(const struct gk_op_fields *op, const char *text)
{
    struct gk_problem problem, again;
    struct gk_err err = {0};
    if (gk_problem_from_text(op, text, &problem, &err) != GK_OK) {
        GK_ASSERT(err.text[0]);
        return;
    }
    GK_ASSERT(gk_problem_from_text(op, problem.canonical, &again, &err) == GK_OK);
    GK_ASSERT(strcmp(again.canonical, problem.canonical) == 0);
    gk_problem_fini(&problem);
    gk_problem_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sample_ops ops;
    static struct gk_space_def def;
    static bool is_ready;
    const int64_t base[3] = {256, 256, 256};
    if (!is_ready) {
        sample_ops_init(&ops);
        sample_space_gemm(&def, base);
        is_ready = true;
    }
    char op[GK_NAME_MAX], *text = gk_strndup((const char *)data, size);
    struct gk_config config;
    struct gk_err err = {0};
    uint32_t tree = 0;
    GK_ASSERT(text);
    as_problem(&ops.gemm, text);
    as_problem(&ops.attn, text);
    if (gk_problem_op_of(text, op, &err) == GK_OK) {
        GK_ASSERT(op[0]);
    }
    if (gk_config_from_text(&def, text, &config, &tree, &err) == GK_OK) {
        char *canonical = gk_config_text(&def.trees[tree], &config);
        GK_ASSERT(canonical && strcmp(canonical, text) == 0);
        free(canonical);
    }
    free(text);
    return 0;
}
