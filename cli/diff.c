/*
 * Verdicts of a diff: see diff.h.
 *
 * Times of two nights were not taken in turn, so each counts as good as its own round says: the
 * half-width of a row is its margin, which is the noise floor of its round, 0.5 % at least. Two
 * times are the same while their intervals touch. Of a config that took part in b's round as the
 * incumbent the round itself tells, and it tells more.
 */
#include "cli/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN_LEAST 0.005
#define COARSE       0.05 /* a change that nobody may call the same for want of resolution */
#define CLOCKS_MOVED 0.02 /* of the SM clock: beyond what a governor does from pass to pass */

const char *gk_diff_verdict_name(enum gk_diff_verdict verdict)
{
    static const char *const names[] = {
#define GK_DIFF_NAME(name, text) text,
        GK_DIFF_MAP(GK_DIFF_NAME)
#undef GK_DIFF_NAME
    };
    return verdict < GK_DIFF_VERDICTS ? names[verdict] : "?";
}

/* ------------------------------------------------------------------ sides */

void gk_diff_side_fini(struct gk_diff_side *side)
{
    for (uint32_t i = 0; i < side->count; i++) {
        free(side->rows[i].key);
        gk_json_free(side->rows[i].pick);
        gk_json_free(side->rows[i].task);
    }
    free(side->rows);
    free(side->name);
    free(side->store);
    *side = (struct gk_diff_side){0};
}

static char *key_text(const char *problem, const char *arch, const char *gpu, const char *policy)
{
    return gk_asprintf("%s\n%s\n%s\n%s", problem, arch, gpu, policy);
}

/* Index of the key, or where it would stand. */
static uint32_t place_of(const struct gk_diff_side *side, const char *key, bool *found_out)
{
    uint32_t low = 0, high = side->count;
    *found_out = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(side->rows[middle].key, key);
        if (order == 0) {
            *found_out = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static enum gk_status make_room(struct gk_diff_side *side, struct gk_err *err)
{
    if (side->count < side->capacity) {
        return GK_OK;
    }
    if (side->count >= GK_DIFF_ROWS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d rows", GK_DIFF_ROWS_MAX);
    }
    uint32_t capacity = side->capacity ? side->capacity * 2 : 64;
    struct gk_diff_row *rows = realloc(side->rows, capacity * sizeof *rows);
    if (!rows) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    side->rows = rows;
    side->capacity = capacity;
    return GK_OK;
}

enum gk_status gk_diff_side_add(struct gk_diff_side *side, const char *problem, const char *arch,
                                const char *gpu, const char *policy, struct gk_json *pick,
                                struct gk_json *task, struct gk_err *err)
{
    bool found = false;
    char *key = key_text(problem, arch, gpu, policy);
    enum gk_status status = key ? make_room(side, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status != GK_OK) {
        free(key);
        gk_json_free(pick);
        gk_json_free(task);
        return status;
    }
    uint32_t at = place_of(side, key, &found);
    if (!found) {
        memmove(&side->rows[at + 1], &side->rows[at], (side->count - at) * sizeof side->rows[0]);
        side->rows[at] = (struct gk_diff_row){.key = key};
        side->count++;
        key = NULL;
    }
    free(key);
    if (pick) {
        gk_json_free(side->rows[at].pick);
        side->rows[at].pick = pick;
    }
    if (task) {
        gk_json_free(side->rows[at].task);
        side->rows[at].task = task;
    }
    return GK_OK;
}

const struct gk_diff_row *gk_diff_side_find(const struct gk_diff_side *side, const char *problem,
                                            const char *arch, const char *gpu, const char *policy)
{
    bool found = false;
    char *key = key_text(problem, arch, gpu, policy);
    uint32_t at = key ? place_of(side, key, &found) : 0;
    free(key);
    return found ? &side->rows[at] : NULL;
}

/* ------------------------------------------------------------------ two times */

static double margin_of(const struct gk_json *pick)
{
    double margin = gk_json_get_real(pick, "margin", 0),
           floor = gk_json_get_real(pick, "noise_floor", 0);
    margin = margin > floor ? margin : floor;
    return margin > MARGIN_LEAST ? margin : MARGIN_LEAST;
}

static double apart(double ratio)
{
    return ratio > 1 ? ratio - 1 : 1 / ratio - 1;
}

static bool texts_equal(const struct gk_json *a, const struct gk_json *b, const char *key)
{
    return strcmp(gk_json_get_string(a, key, ""), gk_json_get_string(b, key, "")) == 0;
}

static bool has_mark(const struct gk_json *pick, const char *mark)
{
    const struct gk_json *marks = gk_json_get(pick, "marks");
    for (size_t i = 0; i < gk_json_count(marks); i++) {
        if (strcmp(gk_json_string(gk_json_at(marks, i), ""), mark) == 0) {
            return true;
        }
    }
    return false;
}

/* Middle of the SM clock in the passes that counted; 0: not told. */
static double clock_of(const struct gk_json *pick)
{
    const struct gk_json *range = gk_json_get(gk_json_get(pick, "conditions"), "sm_clock_khz");
    return gk_json_count(range) == 2
               ? (gk_json_real(gk_json_at(range, 0), 0) + gk_json_real(gk_json_at(range, 1), 0)) / 2
               : 0;
}

/* The default in both rounds, the same config: how the whole device moved. 0: there is none, or it
 * is what was picked and says nothing of its own. */
static double yardstick(const struct gk_json *a, const struct gk_json *b)
{
    double then = gk_json_get_real(a, "default_ns", 0), now = gk_json_get_real(b, "default_ns", 0);
    bool same = texts_equal(a, b, "default_config") && texts_equal(a, b, "template_hash");
    bool is_pick = strcmp(gk_json_get_string(a, "kind", ""), "default") == 0 ||
                   strcmp(gk_json_get_string(b, "kind", ""), "default") == 0;
    return same && !is_pick && then > 0 && now > 0 ? now / then : 0;
}

/* The device ran at another clock, and the change of time is no larger than that explains. */
static bool clock_explains(const struct gk_json *a, const struct gk_json *b, double ratio,
                           double limit)
{
    double then = clock_of(a), now = clock_of(b);
    if (!(then > 0 && now > 0) || apart(now / then) <= CLOCKS_MOVED) {
        return false;
    }
    double expected = then / now;
    return (expected > 1) == (ratio > 1) && apart(ratio) <= (1 + apart(expected)) * (1 + limit) - 1;
}

static enum gk_diff_verdict by_side(double ratio)
{
    return ratio > 1 ? GK_DIFF_SLOWER : GK_DIFF_FASTER;
}

/* The config of a in b's own round, where it stood beside what won there. */
static bool judge_paired(const struct gk_diff_row *a, const struct gk_diff_row *b,
                         struct gk_diff_line *line)
{
    double incumbent = gk_json_get_real(b->pick, "incumbent_ns", 0),
           time = gk_json_get_real(b->pick, "time_ns", 0);
    bool same_config = texts_equal(a->pick, b->pick, "config_id");
    bool is_a = strcmp(gk_json_get_string(b->task, "incumbent", ""),
                       gk_json_get_string(a->pick, "config", "?")) == 0;
    if (same_config || !is_a || !(incumbent > 0) || !(time / incumbent < 1 - margin_of(b->pick))) {
        return false;
    }
    line->ratio = time / incumbent;
    line->limit = margin_of(b->pick);
    line->paired = true;
    line->verdict = GK_DIFF_FASTER;
    return true;
}

static void note(struct gk_diff_line *line, const char *text)
{
    gk_buf_printf(&line->why, "%s%s", line->why.size ? "; " : "", text);
}

/* Beyond what their intervals explain: is it the kernel, or how it was looked at? */
static enum gk_diff_verdict judge_beyond(const struct gk_json *a, const struct gk_json *b,
                                         struct gk_diff_line *line)
{
    double moved = yardstick(a, b);
    if (!texts_equal(a, b, "regime")) {
        note(line, "other regime: not comparable");
        return GK_DIFF_UNCLEAR;
    }
    if (has_mark(a, "throttled") || has_mark(b, "throttled")) {
        note(line, "throttled");
        return GK_DIFF_UNCLEAR;
    }
    if (has_mark(a, "shared") || has_mark(b, "shared")) {
        note(line, "another process was on the GPU");
        return GK_DIFF_UNCLEAR;
    }
    if ((has_mark(a, "unstable") || has_mark(b, "unstable")) &&
        apart(line->ratio) <= 2 * line->limit) {
        note(line, "unstable samples");
        return GK_DIFF_UNCLEAR;
    }
    if (clock_explains(a, b, line->ratio, line->limit)) {
        bool alike = moved > 0 && apart(line->ratio / moved) <= line->limit;
        note(line, alike ? "the default moved alike: the chip's clock differs"
                         : "the chip's clock differs by as much");
        return alike ? GK_DIFF_SAME : GK_DIFF_UNCLEAR;
    }
    return by_side(line->ratio);
}

static void judge_times(const struct gk_diff_row *a, const struct gk_diff_row *b,
                        struct gk_diff_line *line)
{
    line->ratio = gk_json_get_real(b->pick, "time_ns", 0) / gk_json_get_real(a->pick, "time_ns", 1);
    line->limit = margin_of(a->pick) + margin_of(b->pick);
    if (judge_paired(a, b, line)) {
        return;
    }
    if (apart(line->ratio) > line->limit) {
        line->verdict = judge_beyond(a->pick, b->pick, line);
    } else if (apart(line->ratio) > COARSE) {
        note(line, "its rounds were too noisy to tell");
        line->verdict = GK_DIFF_UNCLEAR;
    } else {
        line->verdict = GK_DIFF_SAME;
    }
    line->regressed = line->verdict == GK_DIFF_SLOWER;
}

/* ------------------------------------------------------------------ what else differs */

static bool is_tie_of(const struct gk_json *pick, const char *config)
{
    const struct gk_json *ties = gk_json_get(pick, "ties");
    for (size_t i = 0; i < gk_json_count(ties); i++) {
        const struct gk_json *tie = gk_json_at(ties, i);
        const char *text = gk_json_string(tie, gk_json_get_string(tie, "config", ""));
        if (strcmp(text, config) == 0) {
            return true;
        }
    }
    return false;
}

static const struct context {
    const char *key, *name;
} contexts[] = {{"nvrtc", "nvrtc"}, {"driver", "driver"}, {"regime", "regime"}};

static void say_what_differs(const struct gk_json *a, const struct gk_json *b,
                             struct gk_diff_line *line)
{
    if (!texts_equal(a, b, "config")) {
        bool tied = is_tie_of(a, gk_json_get_string(b, "config", "?")) ||
                    is_tie_of(b, gk_json_get_string(a, "config", "?"));
        note(line, tied ? "another config of the tie set" : "another config");
    }
    if (texts_equal(a, b, "template") && !texts_equal(a, b, "template_hash")) {
        note(line, "template changed");
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(contexts); i++) {
        if (!texts_equal(a, b, contexts[i].key)) {
            char text[200];
            (void)snprintf(text, sizeof text, "%s %.60s -> %.60s", contexts[i].name,
                           gk_json_get_string(a, contexts[i].key, "unknown"),
                           gk_json_get_string(b, contexts[i].key, "unknown"));
            note(line, text);
        }
    }
    if (gk_json_get_bool(b, "stale", false)) {
        note(line, "stale");
    }
}

/* ------------------------------------------------------------------ one row */

/* Failures that say that a config computes something wrong, not that it could not be run. */
static bool is_wrong(const char *failure)
{
    static const char *const names[] = {"out_of_bounds",  "misaligned",
                                        "unwritten_read", "race",
                                        "wrong_result",   "nonfinite_result",
                                        "never_written",  "wrote_outside",
                                        "input_changed",  "workspace_not_restored",
                                        "bad_operand"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        if (strcmp(failure, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What a ships is found wrong in b, whatever b ships instead. */
static bool shipped_is_wrong(const struct gk_diff_row *a, const struct gk_diff_row *b,
                             struct gk_diff_line *line)
{
    const char *failure = gk_json_get_string(b->task, "incumbent_failure", "");
    if (!a->pick || strcmp(gk_json_get_string(b->task, "incumbent", ""),
                           gk_json_get_string(a->pick, "config", "?")) != 0) {
        return false;
    }
    if (is_wrong(failure)) {
        gk_buf_printf(&line->why, "what was shipped fails now: %s", failure);
        return true;
    }
    if (*failure && strcmp(failure, "none") != 0) {
        gk_buf_printf(&line->why, "what was shipped cannot be run now: %s", failure);
    }
    return false;
}

/* True if b's job ended without measuring the row, or has not ended: the reason is in line->why. */
static bool was_not_run(const struct gk_json *task, struct gk_diff_line *line)
{
    const char *state = gk_json_get_string(task, "state", ""),
               *code = gk_json_get_string(task, "not_run", NULL),
               *reason = gk_json_get_string(task, "reason", "");
    static const struct {
        const char *code, *text;
    } texts[] = {{"no_worker", "no worker"},
                 {"out_of_time", "out of time"},
                 {"fenced", "fenced"},
                 {"stopped", "stopped"},
                 {"lost", "lost"}};
    if (!task || strcmp(state, "done") == 0 || strcmp(state, "judged") == 0 ||
        (strcmp(state, "failed") == 0 && !code)) {
        return false;
    }
    for (size_t i = 0; code && i < GK_ARRAY_COUNT(texts); i++) {
        if (strcmp(texts[i].code, code) == 0) {
            code = texts[i].text;
        }
    }
    if (strcmp(state, "cancelled") == 0) {
        code = "cancelled";
    } else if (!code) {
        code = "not finished";
    }
    gk_buf_printf(&line->why, "%s", code);
    if (*reason && strncmp(reason, code, strlen(code)) != 0) {
        gk_buf_printf(&line->why, ": %s", reason);
    } else if (*reason) {
        gk_buf_puts(&line->why, reason + strlen(code));
    }
    return true;
}

/* The same result once more: nothing was measured in between. */
static bool is_the_same_pick(const struct gk_json *a, const struct gk_json *b)
{
    return gk_json_get(a, "confirmed_ms") &&
           gk_json_get_int(a, "confirmed_ms", 0) == gk_json_get_int(b, "confirmed_ms", -1) &&
           gk_json_get_int(a, "trial", 0) == gk_json_get_int(b, "trial", -1) &&
           texts_equal(a, b, "config_id") &&
           gk_json_get_real(a, "time_ns", 0) == gk_json_get_real(b, "time_ns", -1);
}

static void judge(const struct gk_diff_row *a, const struct gk_diff_row *b,
                  struct gk_diff_line *line)
{
    if (!b) {
        line->verdict = GK_DIFF_GONE;
    } else if (a && shipped_is_wrong(a, b, line)) {
        line->verdict = GK_DIFF_WRONG;
        line->regressed = true;
    } else if (was_not_run(b->task, line)) {
        line->verdict = GK_DIFF_NOT_RUN;
    } else if (b->task && strcmp(gk_json_get_string(b->task, "state", ""), "failed") == 0) {
        gk_buf_printf(&line->why, "no verified config: %s",
                      gk_json_get_string(b->task, "reason", "no reason is stored"));
        line->verdict = GK_DIFF_WRONG;
        line->regressed = a && a->pick;
    } else if (!b->pick) {
        line->verdict = GK_DIFF_GONE; /* its job is done and nothing of it is here */
    } else if (!a || !a->pick) {
        line->verdict = GK_DIFF_NEW;
    } else if (is_the_same_pick(a->pick, b->pick)) {
        line->ratio = 1;
        line->verdict = GK_DIFF_SAME;
        note(line, "not measured again");
    } else {
        judge_times(a, b, line);
        say_what_differs(a->pick, b->pick, line);
    }
}

/* ------------------------------------------------------------------ all rows */

/* A task that never got a device has no gpu: it is about every gpu that the other side knows for
 * its problem, arch and policy. */
static bool covers(const struct gk_diff_row *unbound, const struct gk_diff_row *row)
{
    const char *a = unbound->key, *b = row->key;
    for (int part = 0; part < 4; part++) {
        size_t size_a = strcspn(a, "\n"), size_b = strcspn(b, "\n");
        if (part == 2 ? size_a != 0 : size_a != size_b || memcmp(a, b, size_a) != 0) {
            return false;
        }
        a += size_a + (a[size_a] != '\0');
        b += size_b + (b[size_b] != '\0');
    }
    return true;
}

static bool is_unbound(const struct gk_diff_row *row)
{
    const char *gpu = strchr(row->key, '\n');
    gpu = gpu ? strchr(gpu + 1, '\n') : NULL;
    return gpu && gpu[1] == '\n' && !row->pick;
}

/* The row of a side that is about the same as `row`: its key, else a task without a device. Keys
 * that differ in the gpu alone are neighbours, the empty one first. */
static const struct gk_diff_row *counterpart(const struct gk_diff_side *side,
                                             const struct gk_diff_row *row)
{
    bool found = false;
    uint32_t at = place_of(side, row->key, &found);
    const struct gk_diff_row *exact = found ? &side->rows[at] : NULL;
    const char *arch = strchr(row->key, '\n'), *gpu = arch ? strchr(arch + 1, '\n') : NULL;
    const char *policy = gpu ? strchr(gpu + 1, '\n') : NULL;
    char *key =
        policy ? gk_asprintf("%.*s\n%s", (int)(gpu - row->key) + 1, row->key, policy + 1) : NULL;
    const struct gk_diff_row *unbound = NULL;
    if (key) {
        at = place_of(side, key, &found);
        unbound = found && is_unbound(&side->rows[at]) && covers(&side->rows[at], row)
                      ? &side->rows[at]
                      : NULL;
    }
    free(key);
    bool newer = unbound && (!exact || !exact->task ||
                             gk_json_get_int(unbound->task, "job", 0) >
                                 gk_json_get_int(exact->task, "job", 0));
    return newer ? unbound : exact;
}

static int by_verdict(const void *x, const void *y)
{
    const struct gk_diff_line *a = x, *b = y;
    if (a->verdict != b->verdict) {
        return a->verdict < b->verdict ? -1 : 1;
    }
    return strcmp((a->b && !is_unbound(a->b) ? a->b
                   : a->a                    ? a->a
                                             : a->b)
                      ->key,
                  (b->b && !is_unbound(b->b) ? b->b
                   : b->a                    ? b->a
                                             : b->b)
                      ->key);
}

static void add_line(struct gk_diff *diff, const struct gk_diff_row *a, const struct gk_diff_row *b)
{
    struct gk_diff_line *line = &diff->lines[diff->count++];
    *line = (struct gk_diff_line){.a = a, .b = b};
    judge(a, b, line);
    diff->counts[line->verdict]++;
    diff->regressed += line->regressed;
}

/* Whether the other side has rows that this task without a device is about: they have the line.
 * Keys that begin alike stand together, the one without a gpu first. */
static bool is_covered(const struct gk_diff_side *other, const struct gk_diff_row *unbound)
{
    const char *arch = strchr(unbound->key, '\n'), *gpu = arch ? strchr(arch + 1, '\n') : NULL;
    size_t prefix = gpu ? (size_t)(gpu - unbound->key) + 1 : 0;
    bool found = false;
    for (uint32_t i = place_of(other, unbound->key, &found);
         i < other->count && strncmp(other->rows[i].key, unbound->key, prefix) == 0; i++) {
        if (!is_unbound(&other->rows[i]) && covers(unbound, &other->rows[i])) {
            return true;
        }
    }
    return false;
}

/* Where both sides agree within themselves and not with each other. */
static void find_context(struct gk_diff *diff)
{
    for (size_t c = 0; c < GK_ARRAY_COUNT(contexts); c++) {
        uint32_t differ = 0;
        const char *then = NULL, *now = NULL;
        bool one = true;
        for (uint32_t i = 0; i < diff->count; i++) {
            const struct gk_diff_line *line = &diff->lines[i];
            if (!line->a || !line->b || !line->a->pick || !line->b->pick ||
                texts_equal(line->a->pick, line->b->pick, contexts[c].key)) {
                continue;
            }
            const char *a = gk_json_get_string(line->a->pick, contexts[c].key, "unknown"),
                       *b = gk_json_get_string(line->b->pick, contexts[c].key, "unknown");
            one = one && (!then || (strcmp(then, a) == 0 && strcmp(now, b) == 0));
            then = a;
            now = b;
            differ++;
        }
        if (differ > 0) {
            gk_buf_printf(&diff->context, "%s: %s%s%s in %u of the rows that both have\n",
                          contexts[c].name, one ? then : "differs", one ? " -> " : "",
                          one ? now : "", differ);
        }
    }
}

enum gk_status gk_diff_make(const struct gk_diff_side *a, const struct gk_diff_side *b,
                            struct gk_diff *diff_out, struct gk_err *err)
{
    struct gk_diff diff = {0};
    bool failed = false;
    diff.lines = calloc((size_t)a->count + b->count + 1, sizeof *diff.lines);
    if (!diff.lines) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct gk_diff_row *other = counterpart(b, &a->rows[i]);
        if (a->rows[i].pick || other) { /* what nobody ever measured is no news when it is gone */
            if (!is_unbound(&a->rows[i]) || (other && is_unbound(other))) {
                add_line(&diff, &a->rows[i], other);
            }
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        bool found = false;
        (void)place_of(a, b->rows[i].key, &found);
        if (!found && !(is_unbound(&b->rows[i]) && is_covered(a, &b->rows[i]))) {
            add_line(&diff, NULL, &b->rows[i]);
        }
    }
    qsort(diff.lines, diff.count, sizeof *diff.lines, by_verdict);
    find_context(&diff);
    for (uint32_t i = 0; i < diff.count; i++) {
        failed = failed || diff.lines[i].why.failed;
    }
    if (failed || diff.context.failed) {
        gk_diff_fini(&diff);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    *diff_out = diff;
    return GK_OK;
}

void gk_diff_fini(struct gk_diff *diff)
{
    for (uint32_t i = 0; i < diff->count; i++) {
        gk_buf_fini(&diff->lines[i].why);
    }
    free(diff->lines);
    gk_buf_fini(&diff->context);
    *diff = (struct gk_diff){0};
}
