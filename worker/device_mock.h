/*
 * The mock device: outcomes from a script, for tests of the service and for load.
 *
 * The script is the bundle's file <op>/mock.json; without one every config succeeds with a time
 * that is a function of its text. See worker/README.md.
 */
#ifndef GK_WORKER_DEVICE_MOCK_H
#define GK_WORKER_DEVICE_MOCK_H

#include "core/record.h"
#include "kernels/render.h"

enum gk_mock_outcome {
    GK_MOCK_OK,
    GK_MOCK_COMPILE_ERROR,
    GK_MOCK_WRONG,
    GK_MOCK_NAN,
    GK_MOCK_HANG,
    GK_MOCK_DIE,
    GK_MOCK_SLOW,
    GK_MOCK_OUT_OF_BOUNDS,
    GK_MOCK_LOSE,   /* a trap, and the device is lost with it */
    GK_MOCK_ECC,    /* the hardware's own error, and the device is lost with it */
    GK_MOCK_HUNGRY, /* takes memory until somebody stops it; 1 GB, then it dies of itself */
    GK_MOCK_OUTCOME_COUNT
};

struct gk_mock_decision {
    enum gk_mock_outcome outcome;
    double time_ns;             /* of ok and slow */
    double twice_ns;            /* over twice the sets (`twice_ns` of a rule); 0: the same */
    int64_t compile_ms, run_ms; /* to be spent before the outcome */
};

/* `root`: the catalog's folder. First rule whose `when` holds wins. GK_INPUT names the rule and
 * what is wrong. */
enum gk_status gk_mock_decide(const char *root, const struct gk_plan *plan, const char *config_text,
                              struct gk_mock_decision *decision_out, struct gk_err *err);
/* Fills the record of an outcome that ends (not hang, not die). `twice`: as timed over twice the
 * sets; then a rule with a time of its own for that makes the record's mark. */
void gk_mock_record(const struct gk_mock_decision *decision, uint32_t input_set, bool twice,
                    struct gk_record *record);

#endif
