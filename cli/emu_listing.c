/* Annotated sources: see emu_listing.h. */
#include "cli/emu_listing.h"

#include "cli/command.h"
#include "cli/emu_cost.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT_LINES 2 /* shown before and behind a line that counted */

static const struct gk_json *line_of(const struct gk_json *launch, const char *file, int64_t number)
{
    const struct gk_json *lines = gk_json_get(launch, "lines");
    for (size_t i = 0; i < gk_json_count(lines); i++) {
        const struct gk_json *line = gk_json_at(lines, i);
        if (gk_json_get_int(line, "line", 0) == number &&
            strcmp(gk_json_get_string(line, "file", ""), file) == 0) {
            return line;
        }
    }
    return NULL;
}

static bool near_counted(const struct gk_json *launch, const char *file, int64_t number)
{
    for (int64_t i = number - CONTEXT_LINES; i <= number + CONTEXT_LINES; i++) {
        if (line_of(launch, file, i)) {
            return true;
        }
    }
    return false;
}

/* "shared 4.0 (1.0)": what each request took, and at best where that is less. */
static void put_ratio(const struct gk_json *line, const char *name, const char *requests,
                      const char *took, struct gk_buf *out)
{
    const struct gk_json *counts = gk_json_get(line, "counts"), *ideal = gk_json_get(line, "ideal");
    double count = (double)gk_json_get_int(counts, requests, 0);
    double sum = (double)gk_json_get_int(counts, took, 0);
    double best = (double)gk_json_get_int(ideal, took, 0);
    if (count > 0) {
        gk_buf_printf(out, " %s %.1f", name, sum / count);
        if (sum > best) {
            gk_buf_printf(out, " (%.1f)", best / count);
        }
    }
}

static void put_counts(const struct gk_json *line, struct gk_buf *out)
{
    const struct gk_json *counts = gk_json_get(line, "counts");
    int64_t waits =
        gk_json_get_int(line, "waits", 0) + gk_json_get_int(counts, "cp_async_waits", 0);
    int64_t flops = gk_json_get_int(counts, "tensor_flops", 0);
    int64_t copied = gk_json_get_int(counts, "cp_async_bytes", 0) +
                     gk_json_get_int(counts, "bulk_load_bytes", 0) +
                     gk_json_get_int(counts, "bulk_store_bytes", 0);
    char text[32];
    put_ratio(line, "ld", "global_load_requests", "global_load_sectors", out);
    put_ratio(line, "st", "global_store_requests", "global_store_sectors", out);
    put_ratio(line, "sh", "shared_requests", "shared_wavefronts", out);
    if (flops > 0) {
        gk_emu_count_text((double)flops, text);
        gk_buf_printf(out, " mma %s", text);
    }
    if (copied > 0) {
        gk_emu_count_text((double)copied, text);
        gk_buf_printf(out, " cp %s", text);
    }
    if (waits > 0) {
        gk_emu_count_text((double)waits, text);
        gk_buf_printf(out, " wait %s", text);
    }
}

static void put_line(const struct gk_json *launch, const char *file, int64_t number,
                     const char *text, size_t size, struct gk_buf *out)
{
    const struct gk_json *line = line_of(launch, file, number);
    struct gk_buf counts = {0}, plain = {0};
    char bar[GK_EMU_BAR_SIZE] = "          ", instructions[32] = "";
    if (line) {
        gk_emu_bar(gk_emu_cost_of(launch, line).share, bar);
        gk_emu_count_text(
            (double)gk_json_get_int(gk_json_get(line, "counts"), "warp_instructions", 0),
            instructions);
        put_counts(line, &counts);
    }
    char *copy = gk_strndup(text, size);
    gk_put_plain(copy ? copy : "", true, &plain);
    gk_buf_printf(out, "%s %6s %-28s %5" PRId64 " | %s\n", bar, instructions, gk_buf_text(&counts),
                  number, gk_buf_text(&plain));
    out->failed = out->failed || !copy || plain.failed || counts.failed;
    free(copy);
    gk_buf_fini(&plain);
    gk_buf_fini(&counts);
}

static void list_file(const struct gk_json *launch, const char *file, const char *text,
                      struct gk_buf *out)
{
    bool shown = false, gap = false;
    for (int64_t number = 1; *text; number++) {
        size_t size = strcspn(text, "\n");
        if (near_counted(launch, file, number)) {
            if (!shown) {
                gk_buf_printf(out, "\n%s\n", file);
            } else if (gap) {
                gk_buf_puts(out, "           ...\n");
            }
            put_line(launch, file, number, text, size, out);
            shown = true;
            gap = false;
        } else {
            gap = true;
        }
        text += size + (text[size] == '\n');
    }
}

void gk_emu_listing(const struct gk_json *report, const struct gk_json *launch, bool color,
                    struct gk_buf *out)
{
    const struct gk_json *sources = gk_json_get(report, "sources");
    struct gk_buf plain = {0};
    void *cursor = NULL;
    const char *name = NULL;
    const struct gk_json *text;
    while ((text = gk_json_next(sources, &cursor, &name)) != NULL) {
        list_file(launch, name, gk_json_string(text, ""), &plain);
    }
    out->failed = out->failed || plain.failed;
    if (color) {
        gk_emu_color_bars(gk_buf_text(&plain), out);
    } else {
        gk_buf_puts(out, gk_buf_text(&plain));
    }
    gk_buf_fini(&plain);
}
