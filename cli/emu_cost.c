/* Costs of lines: see emu_cost.h. Pure. */
#include "cli/emu_cost.h"

#include "core/status.h"

struct term {
    const char *name, *member; /* of the model */
    const char *counts[3];     /* what the term is made of; NULL ends */
    double weights[3];
};

/* One row a term of the model in which lines have a part; fill, drain and waits have none. */
static const struct term TERMS[] = {
    {"tensor", "tensor_ns", {"tensor_flops"}, {1}},
    {"dram",
     "dram_ns",
     {"global_load_sectors", "global_store_sectors", "bulk_global_bytes"},
     {32, 32, 1}},
    {"l2",
     "l2_ns",
     {"global_load_sectors", "global_store_sectors", "bulk_global_bytes"},
     {32, 32, 1}},
    {"shared", "shared_ns", {"shared_wavefronts"}, {1}},
    {"fma", "fma_ns", {"fma_ops", "int_ops"}, {1, 1}},
    {"fp64", "fp64_ns", {"fp64_ops"}, {1}},
    {"special", "special_ns", {"special_ops"}, {1}},
    {"issue", "issue_ns", {"warp_instructions"}, {1}},
};

static double amount(const struct term *term, const struct gk_json *counts)
{
    double sum = 0;
    for (unsigned i = 0; i < 3 && term->counts[i]; i++) {
        sum += term->weights[i] * (double)gk_json_get_int(counts, term->counts[i], 0);
    }
    return sum;
}

struct gk_emu_cost gk_emu_cost_of(const struct gk_json *launch, const struct gk_json *line)
{
    const struct gk_json *model = gk_json_get(launch, "model");
    const struct gk_json *all = gk_json_get(launch, "counts"), *own = gk_json_get(line, "counts");
    struct gk_emu_cost cost = {.term = ""};
    double most = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(TERMS); i++) {
        double whole = amount(&TERMS[i], all), part = amount(&TERMS[i], own);
        double ns = model                            ? gk_json_get_real(model, TERMS[i].member, 0)
                    : i + 1 == GK_ARRAY_COUNT(TERMS) ? whole
                                                     : 0;
        double mine = whole > 0 ? ns * part / whole : 0;
        most = ns > most ? ns : most;
        if (mine > cost.ns) {
            cost.ns = mine;
            cost.term = TERMS[i].name;
        }
    }
    cost.share = most > 0 ? cost.ns / most : 0;
    return cost;
}
