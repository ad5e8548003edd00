/*
 * A side of a diff out of files: see diff.h. Everything that is read comes from strangers' disks,
 * so every member that is used later is checked here, and every mistake is said at once.
 */
#include "cli/diff.h"
#include "core/policy.h"
#include "core/record.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (64u << 20)
#define SUMS_BYTES_MAX (1u << 20)
#define FILES_MAX      1024
#define TEXT_MAX       65536 /* of a config or a reason */
#define NAME_MAX_BYTES 255

/* ------------------------------------------------------------------ members */

enum kind { A_TEXT, A_NAME, A_PROBLEM, A_CONFIG, A_HASH, A_TIME, A_PART, A_BOOL, A_INT, A_LIST };

struct member {
    const char *key;
    enum kind kind;
    bool required;
};

static bool plain(const char *text, size_t max)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return false;
        }
    }
    return size > 0 && size <= max;
}

/* "op{..}" */
static bool braced(const char *text)
{
    char op[GK_NAME_MAX];
    size_t size = strlen(text);
    return plain(text, TEXT_MAX) && text[size - 1] == '}' &&
           gk_problem_op_of(text, op, NULL) == GK_OK;
}

static bool number_in(const struct gk_json *value, double min, double max)
{
    if (!gk_json_is(value, GK_JSON_INT) && !gk_json_is(value, GK_JSON_REAL)) {
        return false;
    }
    double number = gk_json_real(value, NAN);
    return number >= min && number <= max; /* false for NaN */
}

static bool is_good(const struct gk_json *value, enum kind kind)
{
    const char *text = gk_json_string(value, NULL);
    struct gk_hash hash;
    switch (kind) {
    case A_TEXT:
        return text && strlen(text) <= TEXT_MAX;
    case A_NAME:
        return text && plain(text, NAME_MAX_BYTES);
    case A_PROBLEM:
    case A_CONFIG:
        return text && braced(text);
    case A_HASH:
        return text && gk_hash_from_hex(text, &hash);
    case A_TIME:
        return number_in(value, 1e-3, 1e18);
    case A_PART:
        return number_in(value, 0, 1e3);
    case A_BOOL:
        return gk_json_is(value, GK_JSON_BOOL);
    case A_INT:
        return gk_json_is(value, GK_JSON_INT);
    case A_LIST:
        return gk_json_is(value, GK_JSON_ARRAY);
    }
    return false;
}

static const char *allowed_text(enum kind kind)
{
    static const char *const texts[] = {
        [A_TEXT] = "a text of at most 65536 bytes",
        [A_NAME] = "a text of 1 to 255 bytes without control characters",
        [A_PROBLEM] = "a problem as op{\"FIELD\":..}",
        [A_CONFIG] = "a config as template{\"PARAM\":..}",
        [A_HASH] = "64 hex digits",
        [A_TIME] = "a time in ns from 0.001 to 1e18",
        [A_PART] = "a number from 0 to 1000",
        [A_BOOL] = "true or false",
        [A_INT] = "a whole number",
        [A_LIST] = "a list",
    };
    return texts[kind];
}

/* True if all members are as the table says; others are left alone. */
static bool check_members(const struct gk_json *json, const struct member *members, size_t count,
                          const char *where, struct gk_diag *diag)
{
    bool good = true;
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: is no object", where);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct gk_json *value = gk_json_get(json, members[i].key);
        if (!value && members[i].required) {
            (void)gk_diag_add(diag, GK_INPUT, "%s: \"%s\" is missing; it is %s", where,
                              members[i].key, allowed_text(members[i].kind));
            good = false;
        } else if (value && !is_good(value, members[i].kind)) {
            char met[GK_JSON_SHOW_SIZE];
            gk_json_show(value, met);
            (void)gk_diag_add(diag, GK_INPUT, "%s: \"%s\" is %s; allowed is %s", where,
                              members[i].key, met, allowed_text(members[i].kind));
            good = false;
        }
    }
    return good;
}

static bool is_one_of(const struct gk_json *json, const char *key, const char *const *words,
                      size_t count, const char *where, struct gk_diag *diag)
{
    const struct gk_json *value = gk_json_get(json, key);
    for (size_t i = 0; value && i < count; i++) {
        if (strcmp(gk_json_string(value, ""), words[i]) == 0) {
            return true;
        }
    }
    if (value) {
        char met[GK_JSON_SHOW_SIZE];
        struct gk_buf list = {0};
        gk_json_show(value, met);
        for (size_t i = 0; i < count; i++) {
            gk_buf_printf(&list, "%s%s", i ? ", " : "", words[i]);
        }
        (void)gk_diag_add(diag, GK_INPUT, "%s: \"%s\" is %s; allowed are %s", where, key, met,
                          gk_buf_text(&list));
        gk_buf_fini(&list);
    }
    return !value;
}

/* ------------------------------------------------------------------ evidence */

static bool check_marks(const struct gk_json *row, const char *where, struct gk_diag *diag)
{
    const struct gk_json *marks = gk_json_get(row, "marks");
    for (size_t i = 0; i < gk_json_count(marks); i++) {
        bool known = false;
        for (int mark = 0; mark < GK_MARK_COUNT; mark++) {
            known = known || strcmp(gk_json_string(gk_json_at(marks, i), ""),
                                    gk_mark_name((enum gk_mark)mark)) == 0;
        }
        if (!known) {
            char met[GK_JSON_SHOW_SIZE];
            gk_json_show(gk_json_at(marks, i), met);
            (void)gk_diag_add(diag, GK_INPUT, "%s: mark %s is not known here", where, met);
            return false;
        }
    }
    return true;
}

static bool check_ties(const struct gk_json *row, const char *where, struct gk_diag *diag)
{
    const struct gk_json *ties = gk_json_get(row, "ties");
    for (size_t i = 0; i < gk_json_count(ties); i++) {
        const struct gk_json *tie = gk_json_at(ties, i);
        const char *text = gk_json_string(tie, gk_json_get_string(tie, "config", ""));
        if (!braced(text)) {
            char met[GK_JSON_SHOW_SIZE];
            gk_json_show(tie, met);
            (void)gk_diag_add(diag, GK_INPUT, "%s: tie %zu is %s; allowed is %s", where, i, met,
                              allowed_text(A_CONFIG));
            return false;
        }
    }
    return true;
}

/* Lowest and highest of a condition; a clock of zero or a range upside down explains nothing. */
static bool check_conditions(const struct gk_json *row, const char *where, struct gk_diag *diag)
{
    const struct gk_json *conditions = gk_json_get(row, "conditions"),
                         *clock = gk_json_get(conditions, "sm_clock_khz");
    bool good = !conditions || gk_json_is(conditions, GK_JSON_OBJECT);
    if (good && clock) {
        good = gk_json_is(clock, GK_JSON_ARRAY) && gk_json_count(clock) == 2 &&
               number_in(gk_json_at(clock, 0), 1, 1e9) && number_in(gk_json_at(clock, 1), 1, 1e9) &&
               gk_json_real(gk_json_at(clock, 0), 0) <= gk_json_real(gk_json_at(clock, 1), 0);
    }
    if (!good) {
        (void)gk_diag_add(diag, GK_INPUT,
                          "%s: \"conditions\" is no object whose \"sm_clock_khz\" is the lowest "
                          "and the highest clock",
                          where);
    }
    return good;
}

/* What the whole file says holds for each of its rows. */
static bool check_agrees(const struct gk_json *file, const struct gk_json *row, const char *where,
                         struct gk_diag *diag)
{
    static const char *const keys[] = {"op", "arch", "policy"};
    char op[GK_NAME_MAX] = "";
    bool good = true;
    for (size_t i = 0; i < GK_ARRAY_COUNT(keys); i++) {
        const char *of_file = gk_json_get_string(file, keys[i], ""),
                   *of_row = gk_json_get_string(row, keys[i], of_file);
        if (strcmp(of_file, of_row) != 0) {
            (void)gk_diag_add(diag, GK_INPUT, "%s: \"%s\" is \"%.60s\", that of its file \"%.60s\"",
                              where, keys[i], of_row, of_file);
            good = false;
        }
    }
    const char *problem = gk_json_get_string(row, "problem", "");
    (void)gk_problem_op_of(problem, op, NULL);
    if (good && strcmp(op, gk_json_get_string(file, "op", "")) != 0) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: its problem is of op '%s', its file is of '%s'",
                          where, op, gk_json_get_string(file, "op", ""));
        good = false;
    }
    return good;
}

static bool check_row(const struct gk_json *file, const struct gk_json *row, const char *where,
                      struct gk_diag *diag)
{
    static const struct member members[] = {
        {"problem", A_PROBLEM, true},    {"gpu", A_NAME, true},
        {"arch", A_NAME, true},          {"op", A_NAME, true},
        {"policy", A_NAME, true},        {"template", A_NAME, true},
        {"template_hash", A_HASH, true}, {"config", A_CONFIG, true},
        {"config_id", A_HASH, true},     {"time_ns", A_TIME, true},
        {"margin", A_PART, true},        {"noise_floor", A_PART, true},
        {"kind", A_NAME, true},          {"modelled", A_BOOL, true},
        {"nvrtc", A_TEXT, true},         {"default_ns", A_TIME, false},
        {"incumbent_ns", A_TIME, false}, {"default_config", A_CONFIG, false},
        {"driver", A_TEXT, false},       {"regime", A_NAME, false},
        {"stale", A_BOOL, false},        {"ties", A_LIST, false},
        {"marks", A_LIST, false},        {"confirmed_ms", A_INT, false},
        {"trial", A_INT, false},
    };
    static const char *const kinds[] = {"tuned", "default"}, *const regimes[] = {"burst",
                                                                                 "sustained"};
    bool good = check_members(row, members, GK_ARRAY_COUNT(members), where, diag);
    good = is_one_of(row, "kind", kinds, GK_ARRAY_COUNT(kinds), where, diag) && good;
    good = is_one_of(row, "regime", regimes, GK_ARRAY_COUNT(regimes), where, diag) && good;
    return good && check_marks(row, where, diag) && check_ties(row, where, diag) &&
           check_conditions(row, where, diag) && check_agrees(file, row, where, diag);
}

/* Each side has one store, or it is no side. */
static bool take_store(struct gk_diff_side *side, const char *store, const char *path,
                       struct gk_diag *diag)
{
    if (!side->store) {
        side->store = gk_strdup(store);
        return side->store != NULL;
    }
    if (strcmp(side->store, store) != 0) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: is of store '%.60s', the files beside it of '%.60s'",
                          path, store, side->store);
        return false;
    }
    return true;
}

static void take_row(struct gk_diff_side *side, const struct gk_json *file,
                     const struct gk_json *row, const char *where, struct gk_diag *diag)
{
    struct gk_err err = {0};
    if (!check_row(file, row, where, diag)) {
        return;
    }
    const char *problem = gk_json_get_string(row, "problem", ""),
               *arch = gk_json_get_string(row, "arch", ""),
               *gpu = gk_json_get_string(row, "gpu", ""),
               *policy = gk_json_get_string(row, "policy", "");
    const struct gk_diff_row *there = gk_diff_side_find(side, problem, arch, gpu, policy);
    if (there && there->pick) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: problem %.200s on gpu %s stands twice", where,
                          problem, gpu);
        return;
    }
    struct gk_json *copy = gk_json_copy(row);
    if (!copy || gk_diff_side_add(side, problem, arch, gpu, policy, copy, NULL, &err) != GK_OK) {
        (void)gk_diag_add(diag, copy ? err.status : GK_NOMEM, "%s: %s", where,
                          copy ? err.text : "out of memory");
    }
}

enum gk_status gk_diff_evidence(const char *text, size_t size, const char *path,
                                struct gk_diff_side *side, struct gk_diag *diag)
{
    static const struct member members[] = {{"op", A_NAME, true},       {"arch", A_NAME, true},
                                            {"target", A_NAME, true},   {"policy", A_NAME, true},
                                            {"modelled", A_BOOL, true}, {"store", A_TEXT, true},
                                            {"rows", A_LIST, true}};
    struct gk_json *file = NULL;
    struct gk_err err = {0};
    uint32_t before = diag->count;
    if (gk_json_parse(text, size, path, &file, &err) != GK_OK) {
        return gk_diag_add(diag, err.status, "%s", err.text);
    }
    if (check_members(file, members, GK_ARRAY_COUNT(members), path, diag) &&
        take_store(side, gk_json_get_string(file, "store", ""), path, diag)) {
        const struct gk_json *rows = gk_json_get(file, "rows");
        for (size_t i = 0; i < gk_json_count(rows); i++) {
            char where[4200];
            (void)snprintf(where, sizeof where, "%.4000s: row %zu", path, i);
            take_row(side, file, gk_json_at(rows, i), where, diag);
        }
    }
    gk_json_free(file);
    return diag->count == before ? GK_OK : diag->status;
}

/* ------------------------------------------------------------------ what became of jobs */

static void take_task(struct gk_diff_side *side, const struct gk_json *job,
                      const struct gk_json *task, const char *where, struct gk_diag *diag)
{
    static const struct member members[] = {
        {"problem", A_PROBLEM, true}, {"arch", A_NAME, true},
        {"gpu", A_TEXT, false},       {"state", A_NAME, true},
        {"not_run", A_NAME, false},   {"reason", A_TEXT, false},
        {"incumbent", A_TEXT, false}, {"incumbent_failure", A_NAME, false},
    };
    static const char *const states[] = {"waiting", "searching", "final",  "spread",
                                         "judged",  "done",      "failed", "cancelled"},
                             *const codes[] = {"no_worker", "out_of_time", "fenced", "stopped",
                                               "lost"};
    struct gk_err err = {0};
    bool good = check_members(task, members, GK_ARRAY_COUNT(members), where, diag);
    good = is_one_of(task, "state", states, GK_ARRAY_COUNT(states), where, diag) && good;
    good = is_one_of(task, "not_run", codes, GK_ARRAY_COUNT(codes), where, diag) && good;
    const char *gpu = gk_json_get_string(task, "gpu", "");
    if (good && *gpu && !plain(gpu, NAME_MAX_BYTES)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: \"gpu\" has control characters", where);
        good = false;
    }
    struct gk_json *copy = good ? gk_json_copy(task) : NULL;
    if (copy && !gk_json_set_int(copy, "job", gk_json_get_int(job, "job", 0))) {
        (void)gk_diag_add(diag, GK_NOMEM, "out of memory");
        gk_json_free(copy);
        return;
    }
    if (copy &&
        gk_diff_side_add(side, gk_json_get_string(task, "problem", ""),
                         gk_json_get_string(task, "arch", ""), gpu,
                         gk_json_get_string(job, "policy", ""), NULL, copy, &err) != GK_OK) {
        (void)gk_diag_add(diag, err.status, "%s: %s", where, err.text);
    }
}

enum gk_status gk_diff_jobs(const char *text, size_t size, const char *path,
                            struct gk_diff_side *side, struct gk_diag *diag)
{
    static const struct member members[] = {
        {"job", A_INT, true}, {"policy", A_NAME, true}, {"tasks", A_LIST, true}};
    struct gk_json *file = NULL;
    struct gk_err err = {0};
    uint32_t before = diag->count;
    if (gk_json_parse(text, size, path, &file, &err) != GK_OK) {
        return gk_diag_add(diag, err.status, "%s", err.text);
    }
    const struct gk_json *jobs = gk_json_get(file, "jobs");
    if (gk_json_get_int(file, "version", 0) != 1 || !gk_json_is(jobs, GK_JSON_ARRAY)) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: is no object with \"version\" 1 and a list \"jobs\"",
                          path);
    }
    for (size_t i = 0; i < gk_json_count(jobs); i++) {
        const struct gk_json *job = gk_json_at(jobs, i), *tasks = gk_json_get(job, "tasks");
        char where[4200];
        (void)snprintf(where, sizeof where, "%.4000s: job %zu", path, i);
        bool good = check_members(job, members, GK_ARRAY_COUNT(members), where, diag);
        for (size_t t = 0; good && t < gk_json_count(tasks); t++) {
            (void)snprintf(where, sizeof where, "%.4000s: job %zu, task %zu", path, i, t);
            take_task(side, job, gk_json_at(tasks, t), where, diag);
        }
    }
    gk_json_free(file);
    return diag->count == before ? GK_OK : diag->status;
}

struct gk_json *gk_diff_job_json(const struct gk_json *job, const struct gk_json *tasks)
{
    static const char *const of_job[] = {"job",  "what",  "state",      "policy",  "suite",
                                         "slot", "night", "created_ms", "ended_ms"};
    static const char *const of_task[] = {"problem", "op",        "arch",
                                          "gpu",     "state",     "not_run",
                                          "reason",  "incumbent", "incumbent_failure",
                                          "trials",  "verified",  "failed"};
    struct gk_json *out = gk_json_new_object(), *list = gk_json_new_array();
    bool ok = out && list;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(of_job); i++) {
        const struct gk_json *value = gk_json_get(job, of_job[i]);
        ok = !value || gk_json_set(out, of_job[i], gk_json_copy(value));
    }
    for (size_t t = 0; ok && t < gk_json_count(tasks); t++) {
        struct gk_json *one = gk_json_new_object();
        for (size_t i = 0; ok && i < GK_ARRAY_COUNT(of_task); i++) {
            const struct gk_json *value = gk_json_get(gk_json_at(tasks, t), of_task[i]);
            ok = !value || gk_json_set(one, of_task[i], gk_json_copy(value));
        }
        ok = gk_json_push(list, one) && ok;
    }
    ok = gk_json_set(out, "tasks", list) && ok;
    if (!ok) {
        gk_json_free(out);
        return NULL;
    }
    return out;
}

/* ------------------------------------------------------------------ files and folders */

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* The line "HEX  NAME" of CHECKSUMS. */
static bool listed_hash(const char *sums, const char *name, struct gk_hash *hash_out)
{
    size_t size = strlen(name);
    for (const char *line = sums; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strlen(line) > 66 && strncmp(line + 66, name, size) == 0 &&
            (line[66 + size] == '\n' || line[66 + size] == '\0') && line[64] == ' ') {
            char hex[GK_HASH_TEXT_SIZE];
            memcpy(hex, line, 64);
            hex[64] = '\0';
            return gk_hash_from_hex(hex, hash_out);
        }
    }
    return false;
}

/* One file of an export, held against the checksums that were written last. */
static void read_file(const char *folder, const char *name, const char *sums,
                      struct gk_diff_side *side, struct gk_diag *diag)
{
    char *path = gk_asprintf("%s/%s", folder, name), *text = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    struct gk_hash wanted = {0};
    if (!path) {
        (void)gk_diag_add(diag, GK_NOMEM, "out of memory");
        return;
    }
    if (gk_file_load(path, FILE_BYTES_MAX, &text, &size, &err) != GK_OK) {
        (void)gk_diag_add(diag, err.status, "%s", err.text);
    } else {
        struct gk_hash met = gk_hash_bytes(text, size);
        if (!listed_hash(sums, name, &wanted)) {
            (void)gk_diag_add(diag, GK_CORRUPT, "%s: is not in the CHECKSUMS beside it", path);
        } else if (!gk_hash_equal(&met, &wanted)) {
            (void)gk_diag_add(diag, GK_CORRUPT,
                              "%s: is not the file that was exported: its CHECKSUMS say otherwise",
                              path);
        } else if (ends_with(name, ".evidence.json")) {
            (void)gk_diff_evidence(text, size, path, side, diag);
        } else {
            (void)gk_diff_jobs(text, size, path, side, diag);
        }
    }
    free(text);
    free(path);
}

static char *load_sums(const char *folder, struct gk_diag *diag)
{
    char *path = gk_asprintf("%s/CHECKSUMS", folder), *text = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    if (!path || gk_file_load(path, SUMS_BYTES_MAX, &text, &size, &err) != GK_OK) {
        (void)gk_diag_add(
            diag, path ? err.status : GK_NOMEM,
            "%s; an export ends with its CHECKSUMS: this is none, or only half of one",
            path ? err.text : "out of memory");
    }
    free(path);
    return text;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint32_t list_files(const char *folder, char **names, struct gk_diag *diag)
{
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        (void)gk_diag_add(diag, GK_INPUT, "%s: %s", folder, strerror(errno));
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        bool wanted =
            ends_with(entry->d_name, ".evidence.json") || strcmp(entry->d_name, "jobs.json") == 0;
        if (wanted && count == FILES_MAX) {
            (void)gk_diag_add(diag, GK_LIMIT, "%s: more than %d files to compare", folder,
                              FILES_MAX);
            break;
        }
        if (wanted) {
            names[count++] = gk_strdup(entry->d_name);
        }
    }
    (void)closedir(dir); /* it was only read */
    qsort(names, count, sizeof names[0], by_name);
    return count;
}

static void read_folder(const char *folder, struct gk_diff_side *side, struct gk_diag *diag)
{
    char **names = calloc(FILES_MAX, sizeof *names);
    if (!names) {
        (void)gk_diag_add(diag, GK_NOMEM, "out of memory");
        return;
    }
    uint32_t before = diag->count, count = list_files(folder, names, diag);
    char *sums = count > 0 ? load_sums(folder, diag) : NULL;
    if (count == 0 && diag->count == before) {
        (void)gk_diag_add(diag, GK_INPUT,
                          "%s: neither an export (*.evidence.json, jobs.json) nor a store "
                          "(gktune.db)",
                          folder);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (sums && names[i]) {
            read_file(folder, names[i], sums, side, diag);
        }
        free(names[i]);
    }
    free(sums);
    free(names);
}

enum gk_status gk_diff_read(const char *path, struct gk_diff_side *side, struct gk_diag *diag)
{
    struct stat info;
    uint32_t before = diag->count;
    if (stat(path, &info) != 0) {
        return gk_diag_add(diag, GK_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        read_folder(path, side, diag);
    } else {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        char *folder = slash ? gk_strndup(path, (size_t)(slash - path)) : gk_strdup(".");
        char *sums = folder ? load_sums(*folder ? folder : "/", diag) : NULL;
        if (sums) {
            read_file(*folder ? folder : "/", name, sums, side, diag);
        }
        free(sums);
        free(folder);
    }
    return diag->count == before ? GK_OK : diag->status;
}
