/* Launches by source line: see emu_report_lines.h. */
#include "worker/emu_report_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

/* ------------------------------------------------------------------ sources */

void gk_emu_sources_fini(struct gk_emu_sources *sources)
{
    for (uint32_t i = 0; sources && i < sources->count; i++) {
        free(sources->files[i].name);
        free(sources->files[i].text);
    }
    if (sources) {
        sources->count = 0;
    }
}

enum gk_status gk_emu_sources_add(struct gk_emu_sources *sources, const char *name,
                                  const char *text, struct gk_err *err)
{
    for (uint32_t i = 0; i < sources->count; i++) {
        if (strcmp(sources->files[i].name, name) == 0) {
            return GK_OK;
        }
    }
    if (sources->count == GK_EMU_SOURCES_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d source files", GK_EMU_SOURCES_MAX);
    }
    char *name_copy = gk_strdup(name), *text_copy = gk_strdup(text);
    if (!name_copy || !text_copy) {
        free(name_copy);
        free(text_copy);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    sources->files[sources->count].name = name_copy;
    sources->files[sources->count++].text = text_copy;
    return GK_OK;
}

struct gk_json *gk_emu_sources_to_json(const struct gk_emu_sources *sources)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json != NULL;
    for (uint32_t i = 0; i < sources->count && good; i++) {
        good = gk_json_set_string(json, sources->files[i].name, sources->files[i].text);
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* NVRTC puts the folder that it runs in before names that are no paths of their own. */
static int64_t find_source(const struct gk_emu_sources *sources, const char *path, size_t size)
{
    int64_t found = -1;
    size_t best = 0;
    for (uint32_t i = 0; i < sources->count; i++) {
        const char *name = sources->files[i].name;
        size_t length = strlen(name);
        bool fits = length > best && length <= size &&
                    memcmp(path + size - length, name, length) == 0 &&
                    (length == size || path[size - length - 1] == '/');
        if (fits) {
            best = length;
            found = i;
        }
    }
    return found;
}

const char *gk_emu_sources_name(const struct gk_emu_sources *sources, const char *path)
{
    int64_t at = find_source(sources, path, strlen(path));
    return at < 0 ? NULL : sources->files[at].name;
}

/* The line without blanks at both ends, or NULL. The caller frees. */
static char *line_text(const struct gk_emu_sources *sources, const char *name, uint32_t line)
{
    int64_t at = find_source(sources, name, strlen(name));
    const char *text = at < 0 ? NULL : sources->files[at].text;
    for (uint32_t i = 1; text && i < line; i++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    if (!text) {
        return NULL;
    }
    text += strspn(text, " \t");
    size_t size = strcspn(text, "\r\n");
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        size--;
    }
    return gk_strndup(text, size);
}

static bool set_place(struct gk_json *json, const struct gk_emu_sources *sources, const char *file,
                      uint32_t line)
{
    char *text = file ? line_text(sources, file, line) : NULL;
    bool good =
        !file || (gk_json_set_string(json, "file", file) && gk_json_set_int(json, "line", line));
    good = good && (!text || gk_json_set_string(json, "text", text));
    free(text);
    return good;
}

/* ------------------------------------------------------------------ numbers */

struct number {
    const char *name;
    uint64_t value;
};

/* Zeros are left out of lines: a file has hundreds, and most count two things. */
static struct gk_json *numbers_to_json(const struct number *numbers, size_t count, bool zeros)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json != NULL;
    for (size_t i = 0; i < count && good; i++) {
        if (zeros || numbers[i].value) {
            good = gk_json_set_int(json, numbers[i].name, (int64_t)numbers[i].value);
        }
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static struct gk_json *counts_to_json(const struct gk_emu_counts *counts, bool zeros)
{
    const struct number numbers[] = {
        {"warp_instructions", counts->warp_instructions},
        {"global_load_requests", counts->global_load_requests},
        {"global_load_sectors", counts->global_load_sectors},
        {"global_store_requests", counts->global_store_requests},
        {"global_store_sectors", counts->global_store_sectors},
        {"global_atomics", counts->global_atomics},
        {"cp_async_bytes", counts->cp_async_bytes},
        {"cp_async_waits", counts->cp_async_waits},
        {"bulk_load_bytes", counts->bulk_load_bytes},
        {"bulk_store_bytes", counts->bulk_store_bytes},
        {"bulk_global_bytes", counts->bulk_global_bytes},
        {"shared_requests", counts->shared_requests},
        {"shared_wavefronts", counts->shared_wavefronts},
        {"shared_atomics", counts->shared_atomics},
        {"local_requests", counts->local_requests},
        {"tensor_flops", counts->tensor_flops},
        {"fma_ops", counts->fma_ops},
        {"fp64_ops", counts->fp64_ops},
        {"int_ops", counts->int_ops},
        {"special_ops", counts->special_ops},
        {"barrier_waits", counts->barrier_waits},
        {"divergent_branches", counts->divergent_branches},
    };
    return numbers_to_json(numbers, GK_ARRAY_COUNT(numbers), zeros);
}

static struct gk_json *ideal_to_json(const struct gk_emu_ideal *ideal, bool zeros)
{
    const struct number numbers[] = {
        {"global_load_sectors", ideal->global_load_sectors},
        {"global_store_sectors", ideal->global_store_sectors},
        {"shared_wavefronts", ideal->shared_wavefronts},
    };
    return numbers_to_json(numbers, GK_ARRAY_COUNT(numbers), zeros);
}

/* The term that is largest binds, latency among them. */
static struct gk_json *model_to_json(const struct gk_emu_report *report)
{
    const struct gk_emu_terms *terms = &report->terms;
    const struct {
        const char *name, *member;
        double ns;
    } all[] = {
        {"tensor", "tensor_ns", terms->tensor_ns},
        {"dram", "dram_ns", terms->dram_ns},
        {"l2", "l2_ns", terms->l2_ns},
        {"shared", "shared_ns", terms->shared_ns},
        {"fma", "fma_ns", terms->fma_ns},
        {"fp64", "fp64_ns", terms->fp64_ns},
        {"special", "special_ns", terms->special_ns},
        {"issue", "issue_ns", terms->issue_ns},
        {"latency", "latency_ns", terms->latency_ns},
    };
    struct gk_json *json = gk_json_new_object();
    size_t binds = 0;
    bool good = json != NULL;
    for (size_t i = 0; i < GK_ARRAY_COUNT(all) && good; i++) {
        binds = all[i].ns > all[binds].ns ? i : binds;
        good = gk_json_set_real(json, all[i].member, all[i].ns);
    }
    good = good && gk_json_set_real(json, "launch_ns", terms->launch_ns) &&
           gk_json_set_real(json, "hidden", terms->hidden) &&
           gk_json_set_real(json, "total_ns", report->modelled_ns) &&
           gk_json_set_string(json, "binds", all[binds].name) &&
           gk_json_set_int(json, "blocks_per_sm", (int64_t)report->counts.blocks_per_sm) &&
           gk_json_set_int(json, "waves", (int64_t)report->counts.waves);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* ------------------------------------------------------------------ lines */

struct line {
    const char *file; /* name of a source; NULL: the PTX says nothing */
    uint32_t line, ptx_line;
    struct gk_emu_counts counts;
    struct gk_emu_ideal ideal;
    uint64_t waits;
};

static void add_words(void *to, const void *from, size_t bytes)
{
    uint64_t *sum = to;
    const uint64_t *more = from;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) {
        sum[i] += more[i];
    }
}

/* The frame that a reader of the kernel knows: primitives of <gk/...> are used in a hundred places,
 * so the line that uses one is named. */
static const struct gk_emu_frame *own_frame(const struct gk_emu_sources *sources,
                                            const struct gk_emu_line *from, bool innermost)
{
    for (uint32_t i = 0; i < from->frame_count && !innermost; i++) {
        const char *name = gk_emu_sources_name(sources, from->frames[i].file);
        if (name && strncmp(name, "gk/", 3) != 0) {
            return &from->frames[i];
        }
    }
    return from->frame_count ? &from->frames[0] : NULL;
}

static int by_place(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = strcmp(x->file ? x->file : "", y->file ? y->file : "");
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Lines of one launch, by file and number. The caller frees. */
static struct line *gather(const struct gk_emu_sources *sources,
                           const struct gk_emu_launched *launched, bool innermost,
                           uint32_t *count_out)
{
    struct line *lines = calloc((size_t)launched->line_count + 1, sizeof *lines);
    uint32_t count = 0;
    for (uint32_t i = 0; lines && i < launched->line_count; i++) {
        const struct gk_emu_line *from = &launched->lines[i];
        const struct gk_emu_frame *frame = own_frame(sources, from, innermost);
        const char *file = frame ? gk_emu_sources_name(sources, frame->file) : NULL;
        uint32_t number = frame ? frame->line : 0, at = 0;
        file = frame && !file ? frame->file : file;
        while (at < count && (lines[at].line != number || lines[at].file != file)) {
            at++;
        }
        if (at == count) {
            lines[count++] = (struct line){.file = file, .line = number};
        }
        if (!lines[at].ptx_line || from->ptx_line < lines[at].ptx_line) {
            lines[at].ptx_line = from->ptx_line;
        }
        add_words(&lines[at].counts, &from->counts, sizeof from->counts);
        add_words(&lines[at].ideal, &from->ideal, sizeof from->ideal);
        lines[at].waits += from->waits;
    }
    if (lines) {
        qsort(lines, count, sizeof *lines, by_place);
    }
    *count_out = count;
    return lines;
}

static struct gk_json *line_to_json(const struct gk_emu_sources *sources, const struct line *line)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json && set_place(json, sources, line->file, line->line) &&
                gk_json_set_int(json, "ptx_line", line->ptx_line) &&
                gk_json_set(json, "counts", counts_to_json(&line->counts, false)) &&
                gk_json_set(json, "ideal", ideal_to_json(&line->ideal, false)) &&
                gk_json_set_int(json, "waits", (int64_t)line->waits);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static bool set_triple(struct gk_json *json, const char *name, const uint32_t *values)
{
    struct gk_json *list = gk_json_new_array();
    bool good = list != NULL;
    for (unsigned i = 0; i < 3; i++) {
        good = good && gk_json_push(list, gk_json_new_int(values[i] ? values[i] : 1));
    }
    return gk_json_set(json, name, list) && good;
}

struct gk_json *gk_emu_launch_to_json(const struct gk_emu_sources *sources,
                                      const struct gk_emu_launched *launched, bool innermost)
{
    const struct gk_emu_report *report = launched->report;
    struct gk_emu_ideal ideal = {0};
    uint32_t count = 0;
    uint64_t waits = 0;
    struct line *lines = gather(sources, launched, innermost, &count);
    struct gk_json *json = gk_json_new_object(), *list = gk_json_new_array();
    bool good = lines && json && list, ended = report->kind == GK_EMU_FAULT_NONE;
    for (uint32_t i = 0; good && i < count; i++) {
        add_words(&ideal, &lines[i].ideal, sizeof ideal);
        waits += lines[i].waits;
        good = gk_json_push(list, line_to_json(sources, &lines[i]));
    }
    good = good && set_triple(json, "grid", launched->launch->grid) &&
           set_triple(json, "block", launched->launch->block) &&
           set_triple(json, "cluster", launched->launch->cluster) &&
           gk_json_set_int(json, "dynamic_smem", launched->launch->smem_bytes) &&
           gk_json_set_bool(json, "ended", ended) &&
           gk_json_set(json, "counts", counts_to_json(&report->counts, true)) &&
           gk_json_set(json, "ideal", ideal_to_json(&ideal, true)) &&
           gk_json_set_int(json, "waits", (int64_t)waits) &&
           (!ended || gk_json_set(json, "model", model_to_json(report)));
    free(lines);
    if (good) {
        good = gk_json_set(json, "lines", list);
    } else {
        gk_json_free(list);
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* ------------------------------------------------------------------ places of a message */

/* Length of the path that ends before `colon`. */
static size_t path_before(const char *message, const char *colon)
{
    const char *start = colon;
    while (start > message && !strchr(" (),;'\n\t", start[-1])) {
        start--;
    }
    return (size_t)(colon - start);
}

char *gk_emu_message(const struct gk_emu_sources *sources, const char *message)
{
    struct gk_buf out = {0};
    const char *copied = message;
    for (const char *at = message; (at = strchr(at, ':')) != NULL; at++) {
        size_t size = path_before(message, at);
        int64_t file = size ? find_source(sources, at - size, size) : -1;
        if (file >= 0 && at[1] >= '0' && at[1] <= '9') {
            gk_buf_add(&out, copied, (size_t)(at - size - copied));
            gk_buf_puts(&out, sources->files[file].name);
            copied = at;
        }
    }
    gk_buf_puts(&out, copied);
    return gk_buf_detach(&out);
}

struct gk_json *gk_emu_places_to_json(const struct gk_emu_sources *sources, const char *message)
{
    struct {
        int64_t file;
        uint32_t line;
    } seen[GK_EMU_PLACES_MAX];
    uint32_t count = 0;
    struct gk_json *list = gk_json_new_array();
    bool good = list != NULL;
    for (const char *at = message; good && (at = strchr(at, ':')) != NULL; at++) {
        size_t size = path_before(message, at);
        int64_t file = size ? find_source(sources, at - size, size) : -1;
        unsigned long line = at[1] >= '0' && at[1] <= '9' ? strtoul(at + 1, NULL, 10) : 0;
        bool known = file < 0 || line == 0 || line > INT32_MAX || count == GK_EMU_PLACES_MAX;
        for (uint32_t i = 0; i < count && !known; i++) {
            known = seen[i].file == file && seen[i].line == line;
        }
        if (known) {
            continue;
        }
        seen[count].file = file;
        seen[count++].line = (uint32_t)line;
        struct gk_json *place = gk_json_new_object();
        good = place && set_place(place, sources, sources->files[file].name, (uint32_t)line);
        good = gk_json_push(list, place) && good;
    }
    if (!good) {
        gk_json_free(list);
        return NULL;
    }
    return list;
}

struct gk_json *gk_emu_failure_to_json(const struct gk_emu_sources *sources, const char *schedule,
                                       const char *stage, const char *kind, const char *text)
{
    struct gk_json *json = gk_json_new_object();
    char *message = gk_emu_message(sources, text);
    bool good = json && message && (!schedule || gk_json_set_string(json, "schedule", schedule)) &&
                gk_json_set_string(json, "stage", stage) &&
                gk_json_set_string(json, "kind", kind) &&
                gk_json_set_string(json, "message", message) &&
                gk_json_set(json, "places", gk_emu_places_to_json(sources, message));
    free(message);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}
