/*
 * What `run` and `submit` ask for, checked in full before anything is stored: catalog, problems,
 * budget, strategy, devices or archs.
 */
#ifndef GK_CLI_REQUEST_H
#define GK_CLI_REQUEST_H

#include "cli/client.h"

#define GK_DEVICES_MAX 64 /* of one command */

struct gk_request {
    const char *what; /* as written on the line */
    struct gk_catalog *catalog;
    struct gk_shapes shapes;
    struct gk_bundle bundle;
    struct gk_budget budget;
    const char *strategy; /* a name of search/strategy.h */
    const char *policy;   /* a name of core/policy.h */
    int64_t seed, priority;
    char devices[GK_DEVICES_MAX][64]; /* run: where, in full ("emu:sm_80"); submit: none */
    uint32_t device_count;
    uint32_t kind_count;        /* of those, as far as times go: one problem is one task for each */
    struct gk_json *archs;      /* submit: list, or the text "all"; run: NULL */
    struct gk_json *incumbents; /* --from; NULL */
    bool fresh, wait;
    bool spread;          /* each winner is measured once more on every GPU of its key */
    uint64_t until_ms;    /* submit: wall time when asking ends; 0: never */
    bool if_changed;      /* submit: leave out what stands as it was picked */
    int64_t max_age_days; /* of a pick that does; below 0: as the daemon has it */
};

/* Reads options of `run` or `submit`. Every mistake of the shapes file and every problem that no
 * template serves is in err at once. Warnings (merged duplicates, the emulated device instead of a
 * GPU) go to stderr. */
enum gk_status gk_request_init(struct gk_request *request, struct gk_cli *cli, bool is_run,
                               struct gk_err *err);
/* --policy; cold-graph where it is left out. *policy_out is static. */
enum gk_status gk_policy_option(const struct gk_cli *cli, const char **policy_out,
                                struct gk_err *err);
/* "emu:sm_80" as "emu-sm_80"; GK_USAGE for what is no arch. arch_out holds 32 bytes. */
enum gk_status gk_arch_option(const char *arch, char arch_out[32], struct gk_err *err);
void gk_request_fini(struct gk_request *request);
/* "12 problems x 1 device x 200 trials = 2400 trials ..." */
void gk_request_budget_text(const struct gk_request *request, struct gk_buf *out);
/* The body of the verb `submit`; NULL when out of memory. */
struct gk_json *gk_request_body(const struct gk_request *request);
/* Puts the bundle and submits; *job_out is 0 when nothing has
 * changed. *unchanged_out (may be NULL): what was left out. Warnings of the daemon go to stderr. */
enum gk_status gk_request_submit(const struct gk_request *request, struct gk_client *client,
                                 int64_t *job_out, int64_t *unchanged_out, struct gk_err *err);

#endif
