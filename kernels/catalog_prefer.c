/*
 * op.json: "prefer", which templates a search passes over where a better one serves.
 *
 * A template knows what is legal for itself; that another one is twice as fast on a chip is known
 * only where both are. Without this a search of gemm on sm_90a has a hundred configs of mma.sync
 * for each of wgmma. It is no part of any identity: what was measured stays true.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void read_over(struct gk_reader *r, const struct gk_json *entry, const struct gk_json *json,
                      const struct gk_op *op, struct gk_preference *preference)
{
    const struct gk_json *list = gk_read_list(r, entry, "over", 1, GK_TEMPLATES_MAX - 1, true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        const struct gk_template *t = gk_op_named_template(r, "over", name, json, op);
        if (!t) {
            continue;
        }
        uint32_t index = (uint32_t)(t - op->templates);
        if (index == preference->winner) {
            gk_reader_fail(r, "over", GK_INPUT, "template \"%s\" is preferred to itself", name);
        }
        preference->over |= UINT64_C(1) << index;
    }
}

static void read_preference(struct gk_reader *r, const struct gk_json *entry,
                            const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"template", "over", "when", NULL};
    char name[GK_NAME_MAX];
    if (!gk_read_keys(r, entry, keys) || !gk_read_name(r, entry, "template", sizeof name, name)) {
        return;
    }
    const struct gk_template *winner = gk_op_named_template(r, "template", name, json, op);
    if (!winner) {
        return; /* told, or not in this bundle: then it serves nothing here */
    }
    struct gk_preference *preference = &op->preferences[op->preference_count++];
    preference->winner = (uint32_t)(winner - op->templates);
    preference->when = gk_read_expr(r, entry, "when", op->fields.scope, GK_WANT_INT, false);
    preference->why = gk_read_doc(r, entry);
    read_over(r, entry, json, op, preference);
}

void gk_op_read_preferences(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "prefer", 1, GK_PREFERENCES_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "prefer[%" PRIu32 "]", i);
        read_preference(r, gk_json_at(list, i), json, op);
        gk_reader_leave(r, mark);
    }
}

void gk_preference_fini(struct gk_preference *preference)
{
    gk_expr_destroy(preference->when);
    free(preference->why);
}

/* ------------------------------------------------------------------ use */

/* The tree of a template, or -1: it does not serve here. */
static int64_t tree_of(const struct gk_op *op, const struct gk_space_def *def, uint32_t template_)
{
    for (uint32_t i = 0; i < def->tree_count; i++) {
        if (strcmp(def->trees[i].template_name, op->templates[template_].name) == 0) {
            return i;
        }
    }
    return -1;
}

static void take_out(struct gk_space_def *def, uint32_t index)
{
    free(def->trees[index].base);
    memmove(&def->trees[index], &def->trees[index + 1],
            (def->tree_count - index - 1) * sizeof def->trees[0]);
    def->tree_count--;
}

enum gk_status gk_catalog_prefer(const struct gk_op *op, const struct gk_problem *problem,
                                 struct gk_space_def *def, struct gk_passed_over *passed_out,
                                 uint32_t *count_out, struct gk_err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->preference_count; i++) {
        const struct gk_preference *preference = &op->preferences[i];
        int64_t holds = 1;
        if (tree_of(op, def, preference->winner) < 0) {
            continue;
        }
        if (preference->when) {
            enum gk_status status = gk_expr_eval_int(preference->when, problem->slots, &holds, err);
            if (status != GK_OK) {
                return gk_fail_in(err, status, "op %s: prefer[%" PRIu32 "]", op->fields.op, i);
            }
        }
        for (uint32_t t = 0; holds && t < op->template_count; t++) {
            int64_t tree = preference->over >> t & 1 ? tree_of(op, def, t) : -1;
            if (tree < 0) {
                continue;
            }
            take_out(def, (uint32_t)tree);
            if (passed_out) {
                passed_out[count] =
                    (struct gk_passed_over){.name = op->templates[t].name,
                                            .winner = op->templates[preference->winner].name,
                                            .why = preference->why};
            }
            count++;
        }
    }
    if (count_out) {
        *count_out = count;
    }
    return GK_OK;
}
