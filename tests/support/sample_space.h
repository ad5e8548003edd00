/* A space definition built from texts, for the tests and benches of search/. Not for NOMEM tests.
 */
#ifndef GK_TESTS_SUPPORT_SAMPLE_SPACE_H
#define GK_TESTS_SUPPORT_SAMPLE_SPACE_H

#include "search/space.h"

struct sample_param {
    const char *name;
    const char *values; /* "16 32 64" */
};

struct sample_rule {
    const char *name;
    const char *expr;
    bool is_constraint;
    const char *doc;
};

/* Adds a tree with integer fields M, N, K = `base` and these parameters and rules (both end with a
 * NULL name). Aborts on a text that does not compile: tests are wrong then. */
void sample_space_add(struct gk_space_def *def, const char *template_name, const int64_t base[3],
                      const struct sample_param *params, const struct sample_rule *rules);
/* Frees all that sample_space_add allocated, and the def's own. */
void sample_space_fini(struct gk_space_def *def);
/* A tree like a real GEMM template's: 1,036,800 raw points, nine constraints. */
void sample_space_gemm(struct gk_space_def *def, const int64_t base[3]);

#endif
