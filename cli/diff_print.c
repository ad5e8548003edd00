/* A diff for people and for programs: see diff.h. */
#include "cli/diff.h"
#include "cli/listing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parts of a row's key; pointers into it, sizes without the line ends. */
struct parts {
    const char *text[4];
    int size[4];
};

static struct parts parts_of(const char *key)
{
    struct parts parts = {0};
    for (int i = 0; i < 4; i++) {
        parts.text[i] = key;
        parts.size[i] = (int)strcspn(key, "\n");
        key += parts.size[i] + (key[parts.size[i]] == '\n');
    }
    return parts;
}

/* The side that knows where the row ran. */
static const struct gk_diff_row *row_of(const struct gk_diff_line *line)
{
    return line->a ? line->a : line->b;
}

static double time_of(const struct gk_diff_row *row)
{
    return row ? gk_json_get_real(row->pick, "time_ns", 0) : 0;
}

void gk_diff_counts(const struct gk_diff *diff, struct gk_buf *out)
{
    bool any = false;
    for (int v = 0; v < GK_DIFF_VERDICTS; v++) {
        if (diff->counts[v] > 0) {
            gk_buf_printf(out, "%s%" PRIu32 " %s", any ? ", " : "", diff->counts[v],
                          gk_diff_verdict_name((enum gk_diff_verdict)v));
            any = true;
        }
    }
    if (!any) {
        gk_buf_puts(out, "no rows on either side");
    }
}

/* ------------------------------------------------------------------ JSON */

static bool put_side(struct gk_json *json, const char *key, const struct gk_diff_row *row)
{
    static const char *const members[] = {"time_ns", "margin", "noise_floor", "template",
                                          "config",  "kind",   "nvrtc",       "driver",
                                          "regime",  "marks",  "job",         "confirmed_ms"};
    if (!row || !row->pick) {
        return true;
    }
    struct gk_json *one = gk_json_new_object();
    bool ok = one != NULL;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(members); i++) {
        const struct gk_json *value = gk_json_get(row->pick, members[i]);
        ok = !value || gk_json_set(one, members[i], gk_json_copy(value));
    }
    return gk_json_set(json, key, one) && ok;
}

static struct gk_json *line_json(const struct gk_diff_line *line)
{
    static const char *const names[] = {"problem", "arch", "gpu", "policy"};
    const struct parts parts = parts_of(row_of(line)->key);
    struct gk_json *json = gk_json_new_object();
    bool ok = gk_json_set_string(json, "verdict", gk_diff_verdict_name(line->verdict)) &&
              gk_json_set_bool(json, "regressed", line->regressed);
    for (int i = 0; ok && i < 4; i++) {
        char *text = gk_strndup(parts.text[i], (size_t)parts.size[i]);
        ok = text && gk_json_set_string(json, names[i], text);
        free(text);
    }
    ok = ok && (line->why.size == 0 || gk_json_set_string(json, "why", gk_buf_text(&line->why)));
    if (line->ratio > 0) {
        ok = ok && gk_json_set_real(json, "ratio", line->ratio) &&
             gk_json_set_real(json, "limit", line->limit) &&
             gk_json_set_bool(json, "paired", line->paired);
    }
    if (line->verdict == GK_DIFF_NOT_RUN) {
        const struct gk_json *task = line->b ? line->b->task : NULL;
        const char *code = gk_json_get_string(task, "not_run", NULL),
                   *state = gk_json_get_string(task, "state", "");
        ok = ok && gk_json_set_string(json, "not_run",
                                      code                              ? code
                                      : strcmp(state, "cancelled") == 0 ? "cancelled"
                                                                        : "not_finished");
    }
    ok = ok && put_side(json, "a", line->a) && put_side(json, "b", line->b);
    if (!ok) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static struct gk_json *side_json(const struct gk_diff_side *side)
{
    struct gk_json *json = gk_json_new_object();
    (void)(gk_json_set_string(json, "name", side->name ? side->name : "") &&
           gk_json_set_string(json, "store", side->store ? side->store : "") &&
           gk_json_set_int(json, "rows", side->count)); /* names for people */
    return json;
}

struct gk_json *gk_diff_json(const struct gk_diff *diff, const struct gk_diff_side *a,
                             const struct gk_diff_side *b)
{
    struct gk_json *json = gk_json_new_object(), *counts = gk_json_new_object(),
                   *lines = gk_json_new_array(), *context = gk_json_new_array();
    bool ok = json && counts && lines && context;
    for (int v = 0; ok && v < GK_DIFF_VERDICTS; v++) {
        ok =
            gk_json_set_int(counts, gk_diff_verdict_name((enum gk_diff_verdict)v), diff->counts[v]);
    }
    for (uint32_t i = 0; ok && i < diff->count; i++) {
        ok = gk_json_push(lines, line_json(&diff->lines[i]));
    }
    for (const char *line = gk_buf_text(&diff->context); ok && *line;) {
        size_t size = strcspn(line, "\n");
        char *text = gk_strndup(line, size);
        ok = text && gk_json_push(context, gk_json_new_string(text));
        free(text);
        line += size + (line[size] == '\n');
    }
    ok = gk_json_set(json, "a", side_json(a)) && ok;
    ok = gk_json_set(json, "b", side_json(b)) && ok;
    ok = gk_json_set(json, "counts", counts) && ok;
    ok = gk_json_set(json, "context", context) && ok;
    ok = gk_json_set(json, "rows", lines) && ok;
    ok = ok && gk_json_set_int(json, "regressed", diff->regressed);
    if (!ok) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* ------------------------------------------------------------------ text */

/* "+4.2 %": how much longer b takes; "" if one of the times is not known. */
static void change_text(const struct gk_diff_line *line, char text_out[48])
{
    text_out[0] = '\0';
    if (line->ratio > 0) {
        double percent = 100 * (line->ratio - 1);
        (void)snprintf(text_out, 48, "%+.1f%%%s", fabs(percent) < 0.05 ? 0.0 : percent,
                       line->paired ? " paired" : "");
    }
}

static void limit_text(const struct gk_diff_line *line, char text_out[32])
{
    text_out[0] = '\0';
    if (line->limit > 0) {
        (void)snprintf(text_out, 32, "%.1f%%", 100 * line->limit);
    }
}

/* Op and problem as tables show them. */
static void put_problem(struct gk_cli *cli, struct gk_table *table, const struct parts *parts)
{
    char *problem = gk_strndup(parts->text[0], (size_t)parts->size[0]);
    struct gk_json *row = gk_json_new_object();
    (void)gk_json_set_string(row, "problem", problem ? problem : "");
    gk_table_cell(table, "%.*s", (int)strcspn(problem ? problem : "", "{"), problem ? problem : "");
    gk_cell_problem(cli, table, row);
    gk_json_free(row);
    free(problem);
}

static void put_cells(struct gk_cli *cli, struct gk_table *table, const struct gk_diff_line *line)
{
    const struct parts parts = parts_of(row_of(line)->key);
    char a[32], b[32], change[48], limit[32];
    bool usual = parts.size[3] == 10 && strncmp(parts.text[3], "cold-graph", 10) == 0;
    gk_time_text(time_of(line->a), a);
    gk_time_text(line->verdict == GK_DIFF_NOT_RUN ? 0 : time_of(line->b), b);
    change_text(line, change);
    limit_text(line, limit);
    gk_table_cell(table, "%s", gk_diff_verdict_name(line->verdict));
    put_problem(cli, table, &parts);
    gk_table_cell(table, "%.*s", parts.size[1], parts.text[1]);
    gk_table_cell(table, "%.*s", parts.size[2] ? parts.size[2] : 1,
                  parts.size[2] ? parts.text[2] : "-");
    gk_table_cell(table, "%s", a);
    gk_table_cell(table, "%s", b);
    gk_table_cell(table, "%s", change[0] ? change : "-");
    gk_table_cell(table, "%s", limit[0] ? limit : "-");
    gk_table_cell(table, "%s%s%.*s", gk_buf_text(&line->why),
                  usual            ? ""
                  : line->why.size ? "; policy "
                                   : "policy ",
                  usual ? 0 : parts.size[3], parts.text[3]);
}

#define COLUMNS "op|problem|arch|gpu|>before|>now|>change|>limit|what"

void gk_diff_table(struct gk_cli *cli, const struct gk_diff *diff, struct gk_buf *out)
{
    struct gk_table table;
    gk_table_init(&table, "verdict|" COLUMNS);
    table.width = cli->columns > 0 ? (uint32_t)cli->columns : 0;
    for (uint32_t i = 0; i < diff->count; i++) {
        put_cells(cli, &table, &diff->lines[i]);
    }
    if (diff->count > 0) {
        gk_table_render(&table, out);
        gk_buf_putc(out, '\n');
    }
    gk_table_fini(&table);
    gk_buf_puts(out, gk_buf_text(&diff->context));
    gk_diff_counts(diff, out);
    gk_buf_putc(out, '\n');
}

/* ------------------------------------------------------------------ Markdown */

/* A cell may not end its row, nor begin something of its own. */
static void put_cell(const char *text, struct gk_buf *out)
{
    gk_buf_putc(out, ' ');
    for (const char *p = text; *p; p++) {
        if (*p == '|' || *p == '\\' || *p == '<' || *p == '`' || *p == '*' || *p == '_') {
            gk_buf_putc(out, '\\');
        }
        gk_buf_putc(out, (unsigned char)*p < 0x20 ? ' ' : *p);
    }
    gk_buf_puts(out, " |");
}

static void put_section(struct gk_cli *cli, const struct gk_diff *diff,
                        enum gk_diff_verdict verdict, struct gk_buf *out)
{
    struct gk_table table;
    bool folded = verdict == GK_DIFF_SAME;
    if (diff->counts[verdict] == 0) {
        return;
    }
    gk_buf_printf(out, "\n## %s: %" PRIu32 "\n\n", gk_diff_verdict_name(verdict),
                  diff->counts[verdict]);
    if (folded) {
        gk_buf_puts(out, "<details><summary>rows</summary>\n\n");
    }
    gk_buf_puts(out, "| verdict | op | problem | arch | gpu | before | now | change | limit | what "
                     "|\n| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n");
    gk_table_init(&table, "verdict|" COLUMNS);
    for (uint32_t i = 0; i < diff->count; i++) {
        if (diff->lines[i].verdict == verdict) {
            put_cells(cli, &table, &diff->lines[i]);
        }
    }
    for (uint32_t i = table.columns; i < table.count; i++) {
        if (i % table.columns == 0) {
            gk_buf_putc(out, '|');
        }
        put_cell(table.cells[i], out);
        if (i % table.columns == table.columns - 1) {
            gk_buf_putc(out, '\n');
        }
    }
    gk_table_fini(&table);
    if (folded) {
        gk_buf_puts(out, "\n</details>\n");
    }
}

void gk_diff_markdown(struct gk_cli *cli, const struct gk_diff *diff, const struct gk_diff_side *a,
                      const struct gk_diff_side *b, struct gk_buf *out)
{
    gk_buf_puts(out, "**");
    gk_diff_counts(diff, out);
    gk_buf_puts(out, "**\n\n| | |\n| --- | --- |\n| before |");
    put_cell(a->name ? a->name : "-", out);
    gk_buf_puts(out, "\n| now |");
    put_cell(b->name ? b->name : "-", out);
    gk_buf_putc(out, '\n');
    for (const char *line = gk_buf_text(&diff->context); *line;) {
        size_t size = strcspn(line, "\n");
        char *text = gk_strndup(line, size);
        gk_buf_puts(out, "| differs |");
        put_cell(text ? text : "", out);
        gk_buf_putc(out, '\n');
        free(text);
        line += size + (line[size] == '\n');
    }
    for (int v = 0; v < GK_DIFF_VERDICTS; v++) {
        put_section(cli, diff, (enum gk_diff_verdict)v, out);
    }
}
