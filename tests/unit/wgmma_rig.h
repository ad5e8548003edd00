/*
 * gemm_wgmma with one config and one problem on the emulated device. Inputs are -1, 0 and 1, so
 * that sums are exact in every order.
 */
#ifndef GK_TESTS_UNIT_WGMMA_RIG_H
#define GK_TESTS_UNIT_WGMMA_RIG_H

#include "tests/unit/emu_for_tests.h"

struct wgmma_config {
    const char *schedule;
    uint32_t consumers, bm, bn, stages, staging, cluster_m, cluster_n, splits;
    uint32_t m, n, k;
};

struct wgmma_problem {
    uint16_t *a, *b, *c;
    uint64_t da, db, dc, dpartial, darrivals;
    uint32_t tiles, arrivals; /* of one part of K, by clusters; counters */
    uint32_t pitch_c;
};

/* PTX for sm_90a; the caller frees it. */
char *wgmma_compile(const struct wgmma_config *config);
/* The same from another text of the template; headers in `overlay` come first, NULL: none. */
char *wgmma_compile_text(const struct wgmma_config *config, const char *text, const char *overlay);
void wgmma_make(struct rig *rig, const struct wgmma_config *config, struct wgmma_problem *problem);
void wgmma_free(struct wgmma_problem *problem);
/* rig->report says how it went. */
enum gk_status wgmma_launch(struct rig *rig, const struct wgmma_config *config,
                            const struct wgmma_problem *problem);
/* Whether C is A B^T; rig->err names the first wrong element. */
bool wgmma_right(struct rig *rig, const struct wgmma_config *config, struct wgmma_problem *problem);

#endif
