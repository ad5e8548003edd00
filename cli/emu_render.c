/* Reports of the emulated device for people: see emu_render.h. Pure: JSON in, text out. */
#include "cli/emu_render.h"

#include "cli/command.h"
#include "cli/emu_cost.h"
#include "cli/emu_listing.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_CELLS 10

/* ------------------------------------------------------------------ words */

void gk_emu_count_text(double value, char text_out[32])
{
    static const char units[] = {' ', 'k', 'M', 'G', 'T', 'P'};
    size_t unit = 0;
    if (value < 10000) {
        (void)snprintf(text_out, 32, "%.0f", value);
        return;
    }
    while (value >= 999.5 && unit + 1 < sizeof units) {
        value /= 1000;
        unit++;
    }
    (void)snprintf(text_out, 32, "%.*f%c",
                   value < 9.995   ? 2
                   : value < 99.95 ? 1
                                   : 0,
                   value, units[unit]);
}

static double number(const struct gk_json *json, const char *list, const char *name)
{
    return (double)gk_json_get_int(gk_json_get(json, list), name, 0);
}

/* "2048 x 4.0 (1.0)": requests, what each took, and at best where that is less. */
static void requests_text(double requests, double took, double ideal, char text_out[96])
{
    char count[32];
    text_out[0] = '\0';
    if (requests > 0) {
        gk_emu_count_text(requests, count);
        int size = snprintf(text_out, 96, "%s x %.1f", count, took / requests);
        if (took > ideal) {
            (void)snprintf(text_out + size, (size_t)(96 - size), " (%.1f)", ideal / requests);
        }
    }
}

void gk_emu_bar(double share, char text_out[GK_EMU_BAR_SIZE])
{
    int cells = (int)(share * BAR_CELLS + 0.5);
    cells = cells > BAR_CELLS ? BAR_CELLS : share > 0 && cells < 1 ? 1 : cells;
    memset(text_out, '#', (size_t)cells);
    memset(text_out + cells, ' ', (size_t)(BAR_CELLS - cells));
    text_out[BAR_CELLS] = '\0';
}

void gk_emu_color_bars(const char *text, struct gk_buf *out)
{
    while (*text) {
        size_t bar = strspn(text, "#");
        const char *color = bar * 10 >= 7 * BAR_CELLS   ? "31"
                            : bar * 10 >= 3 * BAR_CELLS ? "33"
                                                        : "32";
        if (bar > 0) {
            gk_buf_printf(out, "\033[%sm%.*s\033[0m", color, (int)bar, text);
        }
        size_t rest = strcspn(text + bar, "\n") + bar;
        gk_buf_add(out, text + bar, rest - bar);
        text += rest;
        if (*text == '\n') {
            gk_buf_putc(out, '\n');
            text++;
        }
    }
}

/* ------------------------------------------------------------------ lines */

enum column {
    COLUMN_HEAT,
    COLUMN_COST,
    COLUMN_TERM,
    COLUMN_INSTRUCTIONS,
    COLUMN_LOADS,
    COLUMN_STORES,
    COLUMN_SHARED,
    COLUMN_LOCAL,
    COLUMN_TENSOR,
    COLUMN_FMA,
    COLUMN_SPECIAL,
    COLUMN_WAITS,
    COLUMN_COPIED,
    COLUMN_PLACE,
    COLUMN_TEXT,
    COLUMN_COUNT
};

static const char *const HEADS[COLUMN_COUNT] = {
    "heat",    ">cost", "by",       "instr",  "loads",   "stores", "shared", ">local",
    ">tensor", ">fma",  ">special", ">waits", ">copied", "line",   "source",
};

struct row {
    struct gk_emu_cost cost;
    const struct gk_json *line;
    size_t index;
};

static void cell_count(double value, char text_out[96])
{
    text_out[0] = '\0';
    if (value > 0) {
        gk_emu_count_text(value, text_out);
    }
}

static void cell(const struct row *row, enum column column, char text_out[96])
{
    const struct gk_json *line = row->line;
    switch (column) {
    case COLUMN_HEAT:
        gk_emu_bar(row->cost.share, text_out);
        break;
    case COLUMN_COST:
        (void)snprintf(text_out, 96, "%.1f%%", row->cost.share * 100);
        break;
    case COLUMN_TERM:
        (void)snprintf(text_out, 96, "%s", row->cost.term);
        break;
    case COLUMN_INSTRUCTIONS:
        cell_count(number(line, "counts", "warp_instructions"), text_out);
        break;
    case COLUMN_LOADS:
        requests_text(number(line, "counts", "global_load_requests"),
                      number(line, "counts", "global_load_sectors"),
                      number(line, "ideal", "global_load_sectors"), text_out);
        break;
    case COLUMN_STORES:
        requests_text(number(line, "counts", "global_store_requests"),
                      number(line, "counts", "global_store_sectors"),
                      number(line, "ideal", "global_store_sectors"), text_out);
        break;
    case COLUMN_SHARED:
        requests_text(number(line, "counts", "shared_requests"),
                      number(line, "counts", "shared_wavefronts"),
                      number(line, "ideal", "shared_wavefronts"), text_out);
        break;
    case COLUMN_LOCAL:
        cell_count(number(line, "counts", "local_requests"), text_out);
        break;
    case COLUMN_TENSOR:
        cell_count(number(line, "counts", "tensor_flops"), text_out);
        break;
    case COLUMN_FMA:
        cell_count(number(line, "counts", "fma_ops"), text_out);
        break;
    case COLUMN_SPECIAL:
        cell_count(number(line, "counts", "special_ops"), text_out);
        break;
    case COLUMN_WAITS:
        cell_count((double)gk_json_get_int(line, "waits", 0) +
                       number(line, "counts", "cp_async_waits"),
                   text_out);
        break;
    case COLUMN_COPIED:
        cell_count(number(line, "counts", "cp_async_bytes") +
                       number(line, "counts", "bulk_load_bytes") +
                       number(line, "counts", "bulk_store_bytes"),
                   text_out);
        break;
    default:
        text_out[0] = '\0';
        break;
    }
}

static int by_cost(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->cost.ns != y->cost.ns) {
        return x->cost.ns < y->cost.ns ? 1 : -1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

/* Columns that say something in one of the rows; place and text always. */
static uint32_t used_columns(const struct row *rows, size_t count)
{
    uint32_t used = 1u << COLUMN_PLACE | 1u << COLUMN_TEXT;
    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c < COLUMN_PLACE; c++) {
            char text[96];
            cell(&rows[i], (enum column)c, text);
            used |= text[0] ? 1u << c : 0;
        }
    }
    return used;
}

static void render_rows(const struct row *rows, size_t count, const struct gk_emu_look *look,
                        struct gk_buf *out)
{
    uint32_t used = used_columns(rows, count);
    struct gk_buf head = {0}, plain = {0};
    struct gk_table table;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        if (used >> c & 1) {
            gk_buf_printf(&head, "%s%s", head.size ? "|" : "", HEADS[c]);
        }
    }
    gk_table_init(&table, gk_buf_text(&head));
    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c < COLUMN_PLACE; c++) {
            char text[96];
            cell(&rows[i], (enum column)c, text);
            if (used >> c & 1) {
                gk_table_cell(&table, "%s", text);
            }
        }
        const char *file = gk_json_get_string(rows[i].line, "file", NULL);
        if (file) {
            gk_table_cell(&table, "%s:%" PRId64, file, gk_json_get_int(rows[i].line, "line", 0));
        } else {
            gk_table_cell(&table, "PTX:%" PRId64, gk_json_get_int(rows[i].line, "ptx_line", 0));
        }
        gk_table_cell(&table, "%s", gk_json_get_string(rows[i].line, "text", ""));
    }
    gk_table_render(&table, &plain);
    gk_table_fini(&table);
    out->failed = out->failed || plain.failed || head.failed;
    if (look->color) {
        gk_emu_color_bars(gk_buf_text(&plain), out);
    } else {
        gk_buf_puts(out, gk_buf_text(&plain));
    }
    gk_buf_fini(&plain);
    gk_buf_fini(&head);
}

static void render_lines(const struct gk_json *launch, const struct gk_emu_look *look,
                         struct gk_buf *out)
{
    const struct gk_json *lines = gk_json_get(launch, "lines");
    size_t count = gk_json_count(lines);
    struct row *rows = calloc(count + 1, sizeof *rows);
    if (!rows) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].line = gk_json_at(lines, i);
        rows[i].cost = gk_emu_cost_of(launch, rows[i].line);
        rows[i].index = i;
    }
    qsort(rows, count, sizeof *rows, by_cost);
    size_t shown = look->top > 0 && look->top < count ? look->top : count;
    gk_buf_putc(out, '\n');
    render_rows(rows, shown, look, out);
    if (shown < count) {
        gk_buf_printf(out, "%zu more lines; --top 0 shows all of them\n", count - shown);
    }
    free(rows);
}

/* ------------------------------------------------------------------ launches */

static void render_shape(const struct gk_json *launch, const char *name, struct gk_buf *out)
{
    const struct gk_json *list = gk_json_get(launch, name);
    gk_buf_printf(out, "  %s %" PRId64, name, gk_json_int(gk_json_at(list, 0), 1));
    for (size_t i = 1; i < 3; i++) {
        int64_t value = gk_json_int(gk_json_at(list, i), 1);
        if (value > 1 || (i == 1 && gk_json_int(gk_json_at(list, 2), 1) > 1)) {
            gk_buf_printf(out, "x%" PRId64, value);
        }
    }
}

static void render_model(const struct gk_json *launch, struct gk_buf *out)
{
    static const char *const names[] = {"tensor", "dram",    "l2",    "shared", "fma",
                                        "fp64",   "special", "issue", "latency"};
    const struct gk_json *model = gk_json_get(launch, "model");
    const char *binds = gk_json_get_string(model, "binds", "");
    char text[32], member[32];
    if (!model) {
        return;
    }
    gk_time_text(gk_json_get_real(model, "total_ns", 0), text);
    gk_buf_printf(out, "  model    %s modelled:", text);
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        (void)snprintf(member, sizeof member, "%s_ns", names[i]);
        double ns = gk_json_get_real(model, member, 0);
        if (ns > 0) {
            gk_time_text(ns, text);
            gk_buf_printf(out, " %s %s%s,", names[i], text,
                          strcmp(names[i], binds) == 0 ? " (binds)" : "");
        }
    }
    gk_time_text(gk_json_get_real(model, "launch_ns", 0), text);
    gk_buf_printf(out, " launch %s; %" PRId64 " blocks an SM, waves %" PRId64 "\n", text,
                  gk_json_get_int(model, "blocks_per_sm", 0), gk_json_get_int(model, "waves", 0));
}

static void total_requests(const struct gk_json *launch, const char *what, const char *verb,
                           const char *requests, const char *took, struct gk_buf *out)
{
    char text[96];
    requests_text(number(launch, "counts", requests), number(launch, "counts", took),
                  number(launch, "ideal", took), text);
    if (text[0]) {
        gk_buf_printf(out, "  %-8s %s: %s\n", what, verb, text);
    }
}

static void render_totals(const struct gk_json *launch, struct gk_buf *out)
{
    static const struct {
        const char *name, *text;
    } rest[] = {
        {"warp_instructions", "warp instructions"},
        {"tensor_flops", "tensor operations"},
        {"fma_ops", "fma"},
        {"fp64_ops", "fp64"},
        {"int_ops", "integer"},
        {"special_ops", "special"},
        {"global_atomics", "global atomics"},
        {"shared_atomics", "shared atomics"},
        {"local_requests", "local memory requests"},
        {"cp_async_bytes", "bytes by cp.async"},
        {"bulk_load_bytes", "bytes by bulk loads"},
        {"bulk_store_bytes", "bytes by bulk stores"},
        {"cp_async_waits", "waits for cp.async"},
        {"divergent_branches", "divergent branches"},
    };
    char text[32];
    const char *between = "";
    total_requests(launch, "global", "loads, sectors each", "global_load_requests",
                   "global_load_sectors", out);
    total_requests(launch, "global", "stores, sectors each", "global_store_requests",
                   "global_store_sectors", out);
    total_requests(launch, "shared", "requests, wavefronts each", "shared_requests",
                   "shared_wavefronts", out);
    gk_buf_puts(out, "  counts   ");
    for (size_t i = 0; i < GK_ARRAY_COUNT(rest); i++) {
        double value = number(launch, "counts", rest[i].name);
        if (value > 0) {
            gk_emu_count_text(value, text);
            gk_buf_printf(out, "%s%s %s", between, text, rest[i].text);
            between = ", ";
        }
    }
    gk_emu_count_text((double)gk_json_get_int(launch, "waits", 0), text);
    gk_buf_printf(out, "%s%s waits at barriers\n", between, text);
}

static void render_launch(const struct gk_json *report, const struct gk_json *launch,
                          const struct gk_emu_look *look, struct gk_buf *out)
{
    gk_buf_printf(out, "\nlaunch %s: kernel %s", gk_json_get_string(launch, "launch", "?"),
                  gk_json_get_string(launch, "kernel", "?"));
    render_shape(launch, "grid", out);
    render_shape(launch, "block", out);
    if (gk_json_int(gk_json_at(gk_json_get(launch, "cluster"), 0), 1) > 1) {
        render_shape(launch, "cluster", out);
    }
    int64_t regs = gk_json_get_int(launch, "regs", -1),
            spills = gk_json_get_int(launch, "spill_bytes", -1);
    if (regs >= 0) {
        gk_buf_printf(out, "  %" PRId64 " registers", regs);
    }
    if (spills > 0) {
        gk_buf_printf(out, "  %" PRId64 " bytes of spills", spills);
    }
    int64_t fixed = gk_json_get_int(launch, "static_smem", -1);
    gk_buf_printf(out, "  %" PRId64 " bytes of shared memory\n",
                  gk_json_get_int(launch, "dynamic_smem", 0) + (fixed > 0 ? fixed : 0));
    if (!gk_json_get_bool(launch, "ended", false)) {
        gk_buf_puts(out, "  it did not run to its end: these are the counts until then\n");
    }
    render_model(launch, out);
    render_totals(launch, out);
    if (look->source) {
        gk_emu_listing(report, launch, look->color, out);
    } else {
        render_lines(launch, look, out);
    }
}

/* ------------------------------------------------------------------ the verdict */

static void render_rungs(const struct gk_json *run, struct gk_buf *out)
{
    const struct gk_json *rungs = gk_json_get(run, "rungs");
    for (size_t i = 0; i < gk_json_count(rungs); i++) {
        const struct gk_json *rung = gk_json_at(rungs, i);
        int64_t failed = gk_json_get_int(rung, "failed", 0);
        double got = gk_json_get_real(rung, "worst_got", 0);
        double want = gk_json_get_real(rung, "worst_want", 0);
        double bound = gk_json_get_real(rung, "worst_bound", 0);
        double norm = gk_json_get_real(rung, "norm_error", -1);
        gk_buf_printf(out, "    %-11s %s: %" PRId64 " elements of %s compared, %" PRId64 " wrong",
                      gk_json_get_string(rung, "name", "?"),
                      gk_json_get_bool(rung, "passed", false) ? "passed" : "FAILED",
                      gk_json_get_int(rung, "compared", 0), gk_json_get_string(rung, "tensor", "?"),
                      failed);
        if (gk_json_get_int(rung, "worst_index", -1) >= 0) {
            gk_buf_printf(
                out, "; nearest its bound: element %" PRId64 ", got %.6g, want %.6g, bound %.3g",
                gk_json_get_int(rung, "worst_index", -1), got, want, bound);
        }
        if (norm >= 0) {
            gk_buf_printf(out, "; relative error %.3g", norm);
        }
        gk_buf_putc(out, '\n');
    }
}

static void render_failure(const struct gk_json *failure, struct gk_buf *out)
{
    const struct gk_json *places = gk_json_get(failure, "places");
    const char *schedule = gk_json_get_string(failure, "schedule", NULL);
    gk_buf_printf(out, "NOT VERIFIED: %s", gk_json_get_string(failure, "kind", "?"));
    gk_buf_printf(out, ", stage %s", gk_json_get_string(failure, "stage", "?"));
    if (schedule) {
        gk_buf_printf(out, ", schedule %s", schedule);
    }
    gk_buf_puts(out, "\n  ");
    gk_put_plain(gk_json_get_string(failure, "message", ""), true, out);
    gk_buf_putc(out, '\n');
    for (size_t i = 0; i < gk_json_count(places); i++) {
        const struct gk_json *place = gk_json_at(places, i);
        gk_buf_printf(out, "    %s:%" PRId64 ": ", gk_json_get_string(place, "file", "?"),
                      gk_json_get_int(place, "line", 0));
        gk_put_plain(gk_json_get_string(place, "text", ""), false, out);
        gk_buf_putc(out, '\n');
    }
}

void gk_emu_render(const struct gk_json *report, const struct gk_emu_look *look, struct gk_buf *out)
{
    const struct gk_json *runs = gk_json_get(report, "runs");
    const struct gk_json *failure = gk_json_get(report, "failure");
    const struct gk_json *launches = gk_json_get(report, "launches");
    gk_buf_printf(out, "%s %s on %s\n", gk_json_get_string(report, "problem", ""),
                  gk_json_get_string(report, "config", ""), gk_json_get_string(report, "arch", ""));
    if (failure) {
        render_failure(failure, out);
    }
    for (size_t i = 0; i < gk_json_count(runs); i++) {
        const struct gk_json *run = gk_json_at(runs, i);
        if (gk_json_get_bool(run, "verified", false)) {
            gk_buf_printf(out, "verified, schedule %s\n", gk_json_get_string(run, "schedule", "?"));
        }
        render_rungs(run, out);
    }
    for (size_t i = 0; i < gk_json_count(launches); i++) {
        render_launch(report, gk_json_at(launches, i), look, out);
    }
}
