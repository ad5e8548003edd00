/* The lines of a launch as a table, dearest first, and the words of counts: see emu_listing.h. */
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

double gk_emu_number(const struct gk_json *json, const char *list, const char *name)
{
    return (double)gk_json_get_int(gk_json_get(json, list), name, 0);
}

void gk_emu_requests_text(double requests, double took, double ideal, char text_out[96])
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
        cell_count(gk_emu_number(line, "counts", "warp_instructions"), text_out);
        break;
    case COLUMN_LOADS:
        gk_emu_requests_text(gk_emu_number(line, "counts", "global_load_requests"),
                             gk_emu_number(line, "counts", "global_load_sectors"),
                             gk_emu_number(line, "ideal", "global_load_sectors"), text_out);
        break;
    case COLUMN_STORES:
        gk_emu_requests_text(gk_emu_number(line, "counts", "global_store_requests"),
                             gk_emu_number(line, "counts", "global_store_sectors"),
                             gk_emu_number(line, "ideal", "global_store_sectors"), text_out);
        break;
    case COLUMN_SHARED:
        gk_emu_requests_text(gk_emu_number(line, "counts", "shared_requests"),
                             gk_emu_number(line, "counts", "shared_wavefronts"),
                             gk_emu_number(line, "ideal", "shared_wavefronts"), text_out);
        break;
    case COLUMN_LOCAL:
        cell_count(gk_emu_number(line, "counts", "local_requests"), text_out);
        break;
    case COLUMN_TENSOR:
        cell_count(gk_emu_number(line, "counts", "tensor_flops"), text_out);
        break;
    case COLUMN_FMA:
        cell_count(gk_emu_number(line, "counts", "fma_ops"), text_out);
        break;
    case COLUMN_SPECIAL:
        cell_count(gk_emu_number(line, "counts", "special_ops"), text_out);
        break;
    case COLUMN_WAITS:
        cell_count((double)gk_json_get_int(line, "waits", 0) +
                       gk_emu_number(line, "counts", "cp_async_waits"),
                   text_out);
        break;
    case COLUMN_COPIED:
        cell_count(gk_emu_number(line, "counts", "cp_async_bytes") +
                       gk_emu_number(line, "counts", "bulk_load_bytes") +
                       gk_emu_number(line, "counts", "bulk_store_bytes"),
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
        gk_table_cell(&table, "%s",
                      gk_json_get_string(rows[i].line, "text",
                                         file ? "" : "(made by the compiler: no line is named)"));
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

void gk_emu_table(const struct gk_json *launch, const struct gk_emu_look *look, struct gk_buf *out)
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
