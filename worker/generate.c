/* Inputs of a problem: see generate.h. */
#include "worker/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/prng.h"
#include "worker/numeric.h"

uint64_t gk_input_seed(uint32_t input_set, enum gk_input_kind inputs)
{
    return UINT64_C(0x676b74756e650000) + 256 * (uint64_t)inputs + input_set;
}

bool gk_besides_have(const struct gk_besides *beside, enum gk_input_kind inputs)
{
    bool have = false;
    for (uint32_t i = 0; i < beside->count; i++) {
        have = have || beside->kinds[i] == inputs;
    }
    return have;
}

enum gk_status gk_inputs_beside(const struct gk_plan *plan, struct gk_besides *beside_out,
                                struct gk_err *err)
{
    const struct gk_op *op = plan->op;
    int64_t exact = 0, extreme = 0;
    enum gk_status status = GK_OK;
    if (op->exact_when) {
        status = gk_expr_eval_int(op->exact_when, plan->slots, &exact, err);
    }
    if (status == GK_OK && op->extreme_when) {
        status = gk_expr_eval_int(op->extreme_when, plan->slots, &extreme, err);
    }
    *beside_out = (struct gk_besides){0};
    if (exact) {
        beside_out->kinds[beside_out->count++] = GK_INPUTS_EXACT;
    }
    if (extreme) {
        beside_out->kinds[beside_out->count++] = GK_INPUTS_EXTREME;
    }
    return status;
}

/* ------------------------------------------------------------------ walking */

bool gk_tensor_step(const struct gk_plan_tensor *tensor, int64_t index[GK_TENSOR_RANK_MAX])
{
    for (uint32_t i = tensor->rank; i-- > 0;) {
        if (++index[i] < tensor->extents[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

int64_t gk_tensor_place(const struct gk_plan_tensor *tensor,
                        const int64_t index[GK_TENSOR_RANK_MAX])
{
    int64_t place = tensor->offset;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        place += index[i] * tensor->strides[i];
    }
    return place;
}

int64_t gk_tensor_position(const struct gk_plan_tensor *tensor, int64_t element)
{
    int64_t place = tensor->offset;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        place += element % tensor->extents[d] * tensor->strides[d];
        element /= tensor->extents[d];
    }
    return place;
}

void gk_tensor_coordinates(const struct gk_plan_tensor *tensor, int64_t element, char *text_out,
                           size_t size)
{
    int64_t at[GK_TENSOR_RANK_MAX] = {0};
    size_t used = 0;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        at[d] = element % tensor->extents[d];
        element /= tensor->extents[d];
    }
    for (uint32_t d = 0; d < tensor->rank && used < size; d++) {
        int wrote = snprintf(text_out + used, size - used, "%s%" PRId64, d ? ", " : "[", at[d]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used < size) {
        (void)snprintf(text_out + used, size - used, "%s", tensor->rank ? "]" : "[]");
    }
}

/* ------------------------------------------------------------------ generators */

struct source {
    const struct gk_plan_tensor *tensor;
    struct gk_generator_use use;
    const float *quantiles;
    uint32_t key[2];
    uint32_t tensor_index;
    uint64_t block_at; /* number of the cached Philox block + 1; 0: none */
    uint32_t block[4];
    int64_t running; /* OFFSETS: sum so far */
    uint32_t *pages; /* PAGE_TABLE: a permutation; owned */
    uint64_t page_count, page_next;
};

static const uint32_t *philox_block(struct source *s, uint64_t number)
{
    if (s->block_at != number + 1) {
        const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), s->tensor_index,
                                     0};
        gk_philox(counter, s->key, s->block);
        s->block_at = number + 1;
    }
    return s->block;
}

/* 32 bits of element i; lane picks one of four words. */
static uint32_t random_u32(struct source *s, uint64_t i, uint32_t lane)
{
    return philox_block(s, i)[lane];
}

static double unit(uint32_t bits)
{
    return (bits + 0.5) * 0x1p-32;
}

/* Eight elements share a block of eight 16-bit numbers. */
static double normal(struct source *s, uint64_t i)
{
    const uint32_t word = philox_block(s, i / 8)[i / 2 % 4];
    return (double)s->quantiles[i % 2 ? word >> 16 : word & 0xffff];
}

static double draw_unrounded(struct source *s, uint64_t i)
{
    switch (s->use.gen->kind) {
    case GK_GEN_NORMAL:
        return normal(s, i) * s->use.args[0];
    case GK_GEN_UNIFORM:
        return s->use.args[0] + (s->use.args[1] - s->use.args[0]) * unit(random_u32(s, i, 0));
    case GK_GEN_TERNARY: {
        const uint32_t bits = random_u32(s, i, 0);
        const bool zero = !(unit(bits) < s->use.args[0] * (2.0 / 3.0));
        return zero ? 0.0 : random_u32(s, i, 1) & 1 ? s->use.args[1] : -s->use.args[1];
    }
    case GK_GEN_CONSTANT:
        return s->use.args[0];
    default:
        return 0.0;
    }
}

static double draw_real(struct source *s, uint64_t i)
{
    const double value = draw_unrounded(s, i), unit_of = s->use.round;
    return unit_of != 0.0 ? unit_of * rint(value / unit_of) : value;
}

static int64_t draw_page(struct source *s, uint64_t i)
{
    const uint32_t rank = s->tensor->rank;
    const int64_t columns = rank > 0 ? s->tensor->extents[rank - 1] : 1;
    const int64_t row = (int64_t)i / columns, column = (int64_t)i % columns;
    const int64_t size = (int64_t)s->use.args[1];
    const int64_t length =
        s->use.series && row < (int64_t)s->use.series->count ? s->use.series->values[row] : 0;
    const int64_t needed = size > 0 ? (length + size - 1) / size : 0;
    if (column < needed && s->page_next < s->page_count) {
        return s->pages[s->page_next++];
    }
    /* beyond need: numbers that are no page, so that a kernel that follows one is caught */
    return 0x40000000 + (int64_t)(random_u32(s, i, 0) & 0x3fffffff);
}

static int64_t draw_int(struct source *s, uint64_t i)
{
    const uint64_t raw = (uint64_t)random_u32(s, i, 1) << 32 | random_u32(s, i, 0);
    switch (s->use.gen->kind) {
    case GK_GEN_SMALL_INT: {
        const uint64_t span = (uint64_t)(2.0 * s->use.args[0]) + 1;
        return (int64_t)(raw % span) - (int64_t)s->use.args[0];
    }
    case GK_GEN_CLASS_INDEX:
        if (i < GK_CLASS_EDGES && s->use.args[0] >= 1.0) {
            const uint32_t edge = (uint32_t)(i + s->key[0]) % GK_CLASS_EDGES;
            if (edge < 2) {
                return edge == 0 ? (int64_t)s->use.args[0] - 1 : 0;
            }
            if (edge == 2 && s->use.has[1] && s->use.args[2] > 0.0) {
                return (int64_t)s->use.args[1];
            }
        }
        if (s->use.has[1] && unit(random_u32(s, i, 2)) < s->use.args[2]) {
            return (int64_t)s->use.args[1];
        }
        return s->use.args[0] >= 1.0 ? (int64_t)(raw % (uint64_t)s->use.args[0]) : 0;
    case GK_GEN_OFFSETS: {
        const int64_t value = s->running;
        if (s->use.series && i < s->use.series->count) {
            s->running += s->use.series->values[i];
        }
        return value;
    }
    case GK_GEN_SERIES:
        return s->use.series && i < s->use.series->count ? s->use.series->values[i] : 0;
    case GK_GEN_PAGE_TABLE:
        return draw_page(s, i);
    default:
        return 0;
    }
}

static bool gives_reals(enum gk_generator_kind kind)
{
    return kind == GK_GEN_NORMAL || kind == GK_GEN_UNIFORM || kind == GK_GEN_TERNARY ||
           kind == GK_GEN_CONSTANT;
}

static void write_element(struct source *s, uint64_t i, unsigned char *at)
{
    const enum gk_dtype dtype = s->tensor->dtype;
    if (s->use.gen->kind == GK_GEN_BYTES) {
        const uint32_t *block = philox_block(s, i);
        memcpy(at, block, gk_dtype_bytes(dtype));
    } else if (gives_reals(s->use.gen->kind)) {
        gk_element_store(dtype, at, draw_real(s, i));
    } else {
        gk_element_store(dtype, at, (double)draw_int(s, i));
    }
}

/* Fisher-Yates over all pages. */
static enum gk_status shuffle_pages(struct source *s, uint64_t seed, struct gk_err *err)
{
    const double pages = s->use.args[0];
    if (!(pages >= 0.0 && pages <= 0x1p30)) {
        return gk_fail(err, GK_RANGE, "tensor %s: %g pages; 0 to 2^30 are allowed",
                       s->tensor->def->name, pages);
    }
    s->page_count = (uint64_t)pages;
    s->pages = malloc((s->page_count + 1) * sizeof *s->pages);
    if (!s->pages) {
        return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu64 " pages", s->page_count);
    }
    struct gk_prng prng;
    gk_prng_init(&prng, seed, 0x70616765 + s->tensor_index);
    for (uint64_t i = 0; i < s->page_count; i++) {
        s->pages[i] = (uint32_t)i;
    }
    for (uint64_t i = s->page_count; i > 1; i--) {
        const uint64_t j = gk_prng_below(&prng, i);
        const uint32_t swap = s->pages[i - 1];
        s->pages[i - 1] = s->pages[j];
        s->pages[j] = swap;
    }
    return GK_OK;
}

/* First row of the outermost dimension that no request owns. */
static int64_t owned_rows(const struct gk_plan *plan, const struct gk_plan_tensor *tensor)
{
    if (tensor->def->rows_owner < 0 || tensor->def->rows_axis > 0) {
        return INT64_MAX;
    }
    const struct gk_field *field = &plan->op->fields.fields[tensor->def->rows_owner];
    const struct gk_series *series = plan->slots[field->slot].series;
    int64_t sum = 0;
    for (uint32_t i = 0; series && i < series->count; i++) {
        sum += series->values[i];
    }
    return sum;
}

int64_t gk_spike_column(const struct gk_spike_use *spike, uint64_t seed, uint32_t tensor,
                        uint64_t row)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)row, (uint32_t)(row >> 32), tensor, 1}; /* elements: 0 */
    uint32_t word[4];
    bool edge = false;
    gk_philox(counter, key, word);
    if (spike->edge_extent > 0) {
        const int64_t at = (int64_t)(row / (uint64_t)spike->edge_inside) % spike->edge_extent;
        edge = at == 0 || at == spike->edge_extent - 1;
    }
    if (!edge && !(unit(word[0]) < spike->share)) {
        return -1;
    }
    const uint32_t which = word[1] % GK_SPIKE_ENDS;
    const int64_t place = which == 0   ? 0
                          : which == 1 ? spike->places - 1
                                       : (int64_t)(word[2] % (uint64_t)spike->places);
    return place * (spike->row / spike->places);
}

/* How the rows of a tensor lie to each other: the part of gk_spike_use that is no argument. */
static void find_edges(const struct gk_plan *plan, const struct gk_plan_tensor *t,
                       struct gk_spike_use *spike)
{
    const bool owned = t->def->rows_owner >= 0;
    const bool in_pages = t->def->rows_pages >= 0 && plan->tensors[t->def->rows_pages].present;
    const uint32_t axis = owned ? t->def->rows_axis : 0;
    spike->edge_inside = 1;
    spike->edge_extent = in_pages ? 0 : axis + 1 < t->rank ? t->extents[axis] : 1;
    for (uint32_t d = axis + 1; d + 1 < t->rank; d++) {
        spike->edge_inside *= t->extents[d];
    }
}

static enum gk_status resolve_spike(const struct gk_plan *plan, const struct gk_plan_tensor *t,
                                    const struct gk_spike *def, struct gk_spike_use *spike_out,
                                    struct gk_err *err)
{
    struct gk_spike_use spike = {0};
    if (def->size && t->elements > 0) {
        enum gk_status status = gk_plan_generator_arg(plan, def->size, 0.0, &spike.size, err);
        spike.row = spike.places = t->extents[t->rank - 1];
        if (status == GK_OK) {
            status = gk_plan_generator_arg(plan, def->share, 1.0, &spike.share, err);
        }
        if (status == GK_OK && def->columns) {
            status = gk_expr_eval_int(def->columns, plan->slots, &spike.places, err);
        }
        if (status != GK_OK) {
            return status;
        }
        if (!(spike.share >= 0.0 && spike.share <= 1.0)) {
            return gk_fail(err, GK_RANGE, "share is %g; 0 to 1 is allowed", spike.share);
        }
        if (spike.places < 1 || spike.places > spike.row) {
            return gk_fail(err, GK_RANGE, "columns is %" PRId64 "; 1 to %" PRId64 " is allowed",
                           spike.places, spike.row);
        }
        find_edges(plan, t, &spike);
    }
    *spike_out = spike;
    return GK_OK;
}

enum gk_status gk_generator_resolve(const struct gk_plan *plan, uint32_t tensor,
                                    enum gk_input_kind inputs, struct gk_generator_use *use_out,
                                    struct gk_err *err)
{
    static const double FALLBACK[3] = {1.0, 1.0, 0.0};
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    const struct gk_generator *own = inputs == GK_INPUTS_EXACT     ? &t->def->exact
                                     : inputs == GK_INPUTS_EXTREME ? &t->def->extreme
                                                                   : &t->def->gen;
    struct gk_generator_use use = {.gen = own->kind == GK_GEN_NONE ? &t->def->gen : own};
    for (uint32_t i = 0; i < 3; i++) {
        use.has[i] = use.gen->args[i] != NULL;
        enum gk_status status =
            gk_plan_generator_arg(plan, use.gen->args[i], FALLBACK[i], &use.args[i], err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "tensor %s: generator", t->def->name);
        }
    }
    enum gk_status status = gk_plan_generator_arg(plan, use.gen->round, 0.0, &use.round, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "tensor %s: generator: round", t->def->name);
    }
    status = resolve_spike(plan, t, &use.gen->spike, &use.spike, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "tensor %s: generator: spike", t->def->name);
    }
    if (use.gen->series_field >= 0) {
        const struct gk_field *field = &plan->op->fields.fields[use.gen->series_field];
        use.series = plan->slots[field->slot].series;
    }
    use.owned_rows = owned_rows(plan, t);
    *use_out = use;
    return GK_OK;
}

/* Rows of each page that the table lists, as far as its request's length reaches. */
static enum gk_status own_pages(const struct gk_plan *plan, const struct gk_plan_tensor *tensor,
                                uint64_t seed, enum gk_input_kind inputs,
                                const struct gk_series *series, int64_t *owned, struct gk_err *err)
{
    const uint32_t index = (uint32_t)tensor->def->rows_pages;
    const struct gk_plan_tensor *table = &plan->tensors[index];
    const int64_t size = tensor->extents[tensor->def->rows_axis];
    const uint32_t bytes = gk_dtype_bytes(table->dtype);
    const int64_t columns = table->rank > 0 ? table->extents[table->rank - 1] : 1;
    unsigned char *entries = malloc((size_t)table->span * bytes + 1);
    if (!entries) {
        return gk_fail(err, GK_NOMEM, "out of memory for %s", table->def->name);
    }
    enum gk_status status = gk_generate(plan, index, seed, inputs, entries, err);
    for (int64_t i = 0; status == GK_OK && i < table->elements; i++) {
        const int64_t request = i / columns, before = i % columns * size;
        const int64_t length = request < (int64_t)series->count ? series->values[request] : 0;
        const double page =
            gk_element_load(table->dtype, entries + gk_tensor_position(table, i) * bytes);
        if (before < length && page >= 0 && page < (double)tensor->extents[0]) {
            owned[(int64_t)page] = length - before < size ? length - before : size;
        }
    }
    free(entries);
    return status;
}

enum gk_status gk_rows_owned(const struct gk_plan *plan, uint32_t tensor, uint64_t seed,
                             enum gk_input_kind inputs, int64_t **owned_out, struct gk_err *err)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    enum gk_status status = GK_OK;
    *owned_out = NULL;
    if (t->def->rows_owner < 0 || t->def->rows_axis == 0) {
        return GK_OK;
    }
    const struct gk_field *field = &plan->op->fields.fields[t->def->rows_owner];
    const struct gk_series *series = plan->slots[field->slot].series;
    int64_t *owned = calloc((size_t)t->extents[0] + 1, sizeof *owned);
    if (!owned) {
        return gk_fail(err, GK_NOMEM, "out of memory for the owners of %s", t->def->name);
    }
    if (t->def->rows_pages >= 0 && plan->tensors[t->def->rows_pages].present) {
        status = own_pages(plan, t, seed, inputs, series, owned, err);
    } else {
        for (int64_t i = 0; i < t->extents[0] && i < (int64_t)series->count; i++) {
            owned[i] = series->values[i];
        }
    }
    if (status != GK_OK) {
        free(owned);
        return status;
    }
    *owned_out = owned;
    return GK_OK;
}

static void fill_padding(const struct gk_plan_tensor *tensor, unsigned char *bytes)
{
    unsigned char pattern[8];
    const uint32_t size = gk_dtype_bytes(tensor->dtype);
    gk_element_poison(tensor->dtype, pattern);
    for (int64_t i = 0; i < tensor->span; i++) {
        memcpy(bytes + i * size, pattern, size);
    }
}

static bool is_owned(const struct source *s, const int64_t *owned,
                     const int64_t index[GK_TENSOR_RANK_MAX])
{
    const struct gk_plan_tensor *t = s->tensor;
    return owned ? index[t->def->rows_axis] < owned[index[0]]
                 : t->rank == 0 || index[0] < s->use.owned_rows;
}

/* Over what was drawn. Steps over whole rows. */
static void write_spikes(const struct source *s, uint64_t seed, const int64_t *owned,
                         unsigned char *bytes)
{
    const struct gk_plan_tensor *t = s->tensor;
    const uint32_t last = t->rank - 1, size = gk_dtype_bytes(t->dtype);
    int64_t index[GK_TENSOR_RANK_MAX] = {0};
    uint64_t row = 0;
    do {
        const int64_t column = is_owned(s, owned, index)
                                   ? gk_spike_column(&s->use.spike, seed, s->tensor_index, row)
                                   : -1;
        if (column >= 0) {
            index[last] = column;
            unsigned char *at = bytes + gk_tensor_place(t, index) * size;
            gk_element_store(t->dtype, at,
                             copysign(s->use.spike.size, gk_element_load(t->dtype, at)));
        }
        index[last] = t->extents[last] - 1; /* the step goes to the next row */
        row++;
    } while (gk_tensor_step(t, index));
}

enum gk_status gk_generate(const struct gk_plan *plan, uint32_t tensor, uint64_t seed,
                           enum gk_input_kind inputs, unsigned char *bytes, struct gk_err *err)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    struct source s = {.tensor = t,
                       .quantiles = gk_normal_quantiles(),
                       .tensor_index = tensor,
                       .key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const uint32_t size = gk_dtype_bytes(t->dtype);
    int64_t index[GK_TENSOR_RANK_MAX] = {0}, *owned = NULL;
    enum gk_status status = gk_generator_resolve(plan, tensor, inputs, &s.use, err);
    if (status == GK_OK) {
        status = gk_rows_owned(plan, tensor, seed, inputs, &owned, err);
    }
    if (status == GK_OK && s.use.gen->kind == GK_GEN_PAGE_TABLE) {
        status = shuffle_pages(&s, seed, err);
    }
    if (status != GK_OK) {
        goto out;
    }
    fill_padding(t, bytes);
    if (t->elements > 0 && s.use.gen->kind != GK_GEN_NONE) {
        uint64_t i = 0;
        do {
            if (is_owned(&s, owned, index)) {
                write_element(&s, i, bytes + gk_tensor_place(t, index) * size);
            }
            i++;
        } while (gk_tensor_step(t, index));
        if (s.use.spike.size != 0.0) {
            write_spikes(&s, seed, owned, bytes);
        }
    }
out:
    free(owned);
    free(s.pages);
    return status;
}
