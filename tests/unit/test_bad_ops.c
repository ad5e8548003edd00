/*
 * Built-in ops with a mistake in their sources, each of which a trial must end, for the reason that
 * tests/data/bad_kernels/ops.txt names: a fault that the emulated device finds while it runs, or a
 * rung of the ladder. The unchanged sources must pass the same trial.
 *
 * GKTUNE_TEST_SEED chooses the sample, one in twelve; GKTUNE_TEST_ALL=1 takes all. An argument
 * confines the run to mistakes of that name. GK_TWINS_SHOW=1 prints how each ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/mistake_list.h"
#include "tests/unit/op_trial.h"

#define KERNELS      GK_SOURCE_DIR "/kernels"
#define LIST         GK_SOURCE_DIR "/tests/data/bad_kernels/ops.txt"
#define SOURCE_MAX   (128u << 10)
#define MISTAKES_MAX 200u
/* One in so many. The sanitizers look at the interpreter, which meets nothing new in each. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 36u
#else
#define SAMPLE 12u
#endif

struct mistake {
    struct mistake_change change;
    char op[40];
    char device[24];   /* "": DEVICES[0] */
    char problem[200]; /* canonical text without the op's name */
    char config[160]; /* "PIECES=0,GROUP=128": the first legal config with these; "": the default */
};

static struct mistake mistakes[MISTAKES_MAX];
static uint32_t mistake_count;
static const char *const DEVICES[] = {"emu:sm_80", "emu:sm_90a"};
static struct op_trial_rig rigs[GK_ARRAY_COUNT(DEVICES)];

/* ------------------------------------------------------------------ the list */

static struct mistake_change *next(void)
{
    assert_true(mistake_count < MISTAKES_MAX);
    return &mistakes[mistake_count++].change;
}

static bool read_field(const char *key, const char *value)
{
    struct mistake *mistake = &mistakes[mistake_count - 1];
    if (strcmp(key, "op") == 0) {
        mistake_take(mistake->op, sizeof mistake->op, value);
    } else if (strcmp(key, "device") == 0) {
        mistake_take(mistake->device, sizeof mistake->device, value);
    } else if (strcmp(key, "problem") == 0) {
        mistake_take(mistake->problem, sizeof mistake->problem, value);
    } else if (strcmp(key, "config") == 0) {
        mistake_take(mistake->config, sizeof mistake->config, value);
    } else {
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ a folder with the mistake */

static bool copy_file(const char *from, const char *to, const struct mistake *mistake, bool hit)
{
    struct gk_err err = {0};
    char *text = NULL;
    size_t size = 0;
    assert_ok(gk_file_load(from, SOURCE_MAX, &text, &size, &err), err);
    char *out = hit ? mistake_apply(&mistake->change, text) : text;
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_true(fputs(out, file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (hit) {
        free(out);
    }
    free(text);
    return hit;
}

/* Files of kernels/`from` to root/`from`; `as` is the folder's name in a mistake. Returns how many
 * were changed. */
static uint32_t copy_folder(const char *root, const char *from, const char *as,
                            const struct mistake *mistake)
{
    char source[300], target[300], path[700], to[700], name[300];
    uint32_t hits = 0;
    (void)snprintf(source, sizeof source, "%s/%s", KERNELS, from);
    (void)snprintf(target, sizeof target, "%s/%s", root, from);
    assert_int_equal(mkdir(target, 0700), 0);
    DIR *dir = opendir(source);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".md")) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", source, entry->d_name);
        (void)snprintf(to, sizeof to, "%s/%s", target, entry->d_name);
        (void)snprintf(name, sizeof name, "%.32s/%.250s", as, entry->d_name);
        hits += copy_file(path, to, mistake, strcmp(name, mistake->change.file) == 0);
    }
    (void)closedir(dir);
    return hits;
}

static void make_folder(const struct mistake *mistake, char *root)
{
    char include[300];
    assert_non_null(mkdtemp(root));
    (void)snprintf(include, sizeof include, "%s/include", root);
    assert_int_equal(mkdir(include, 0700), 0);
    uint32_t hits = copy_folder(root, mistake->op, mistake->op, mistake) +
                    copy_folder(root, "include/gk", "gk", mistake);
    if (hits != 1) {
        fail_msg("%s: %s is %s", mistake->change.name, mistake->change.file,
                 hits ? "there twice" : "not there");
    }
}

static void remove_folder(const char *path)
{
    char inside[700];
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(inside, sizeof inside, "%.400s/%.250s", path, entry->d_name);
            if (unlink(inside) != 0) {
                remove_folder(inside); /* one of three levels that this test made */
            }
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    (void)rmdir(path); /* what is left of a temporary folder harms nobody */
}

/* ------------------------------------------------------------------ judging */

/* Whether the config has all of "NAME=VALUE,NAME=VALUE" as canonical text writes them. */
static bool has_values(const struct gk_tree *tree, const struct gk_config *config, const char *list)
{
    char *text = gk_config_text(tree, config);
    bool all = true;
    assert_non_null(text);
    while (*list && all) {
        char pair[80];
        size_t size = strcspn(list, ","), name = strcspn(list, "=");
        const char *value = list + name + 1;
        bool number = (*value >= '0' && *value <= '9');
        (void)snprintf(pair, sizeof pair, number ? "\"%.*s\":%.*s" : "\"%.*s\":\"%.*s\"", (int)name,
                       list, (int)(size - name - 1), value);
        const char *at = strstr(text, pair);
        all = at && (at[strlen(pair)] == ',' || at[strlen(pair)] == '}');
        list += size + (list[size] == ',');
    }
    free(text);
    return all;
}

static void find_config(const struct mistake *mistake, const struct gk_op *op,
                        const struct gk_problem *problem, const struct gk_space_def *def,
                        struct gk_config *config)
{
    struct gk_space *space = NULL;
    struct gk_err err = {0};
    uint32_t tree = 0;
    bool found = false;
    op_trial_need(gk_catalog_default(op, problem, def, config, &tree, &err), &err);
    if (!mistake->config[0]) {
        return;
    }
    op_trial_need(gk_space_create(def, &space, &err), &err);
    for (uint32_t i = 0; i < gk_space_count(space) && !found; i++) {
        gk_space_config(space, i, config);
        found = has_values(&def->trees[gk_space_tree_of(space, i)], config, mistake->config);
    }
    gk_space_destroy(space);
    if (!found) {
        fail_msg("%s: no legal config has %s", mistake->change.name, mistake->config);
    }
}

static const struct op_trial_rig *rig_of(const struct mistake *mistake)
{
    size_t i = 0;
    while (mistake->device[0] && strcmp(DEVICES[i], mistake->device) != 0) {
        if (++i == GK_ARRAY_COUNT(DEVICES)) {
            fail_msg("%s: there is no device %s", mistake->change.name, mistake->device);
        }
    }
    return &rigs[i];
}

/* "race", or "wrong_result at exact" where a rung compared. */
static void run(const struct mistake *mistake, const char *root, char *ending, size_t size,
                char *message, size_t message_size)
{
    const struct op_trial_rig *rig = rig_of(mistake);
    struct gk_catalog *catalog = op_trial_catalog(root, mistake->op);
    const struct gk_op *op = gk_catalog_find(catalog, mistake->op);
    struct gk_problem problem = {0};
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_record record;
    struct gk_err err = {0};
    char text[300];
    (void)snprintf(text, sizeof text, "%s%s", mistake->op, mistake->problem);
    op_trial_need(gk_problem_from_text(&op->fields, text, &problem, &err), &err);
    op_trial_need(gk_catalog_space(op, &problem, &rig->device->props, &def, &err), &err);
    find_config(mistake, op, &problem, &def, &config);
    op_trial_run(rig, catalog, op, &problem, &config, GK_INPUT_SETS_ALL, &record);
    const struct gk_rung *last = record.rung_count ? &record.rungs[record.rung_count - 1] : NULL;
    bool compared = record.failure != GK_FAILURE_NONE && last && !last->passed;
    (void)snprintf(ending, size, "%s%s%s", gk_failure_name(record.failure), compared ? " at " : "",
                   compared ? last->name : "");
    (void)snprintf(message, message_size, "%s", record.message ? record.message : "");
    gk_record_fini(&record);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
    gk_catalog_destroy(catalog);
}

static bool listed(const char *list, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = list; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, name, size) == 0 && (at[size] == 0 || at[size] == '|')) {
            return true;
        }
    }
    return false;
}

static void broken(void **state)
{
    const struct mistake *mistake = *state;
    char root[] = "/tmp/gktune-bad-ops-XXXXXX", ending[80], message[600];
    run(mistake, KERNELS, ending, sizeof ending, message, sizeof message);
    if (strcmp(ending, "none") != 0) {
        fail_msg("%s: the unchanged sources end as %s: %s", mistake->change.name, ending, message);
    }
    make_folder(mistake, root);
    run(mistake, root, ending, sizeof ending, message, sizeof message);
    remove_folder(root);
    if (!listed(mistake->change.wants, ending)) {
        fail_msg("%s: ends as %s, wants %s: %s", mistake->change.name, ending,
                 mistake->change.wants, message);
    }
    if (getenv("GK_TWINS_SHOW")) {
        (void)printf("%s: %s: %s\n", mistake->change.name, ending, message);
    }
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(DEVICES); i++) {
        if (op_trial_open(&rigs[i], DEVICES[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(DEVICES); i++) {
        op_trial_close(&rigs[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MISTAKES_MAX];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t chosen = 0, seed = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    uint32_t every = getenv("GKTUNE_TEST_ALL") ? 1 : SAMPLE;
    int failed;
    mistake_list_read(LIST, next, read_field);
    for (uint32_t i = 0; i < mistake_count; i++) {
        if (argc == 1 ? (i + seed) % every == 0
                      : strstr(mistakes[i].change.name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){.name = mistakes[i].change.name,
                                                  .test_func = broken,
                                                  .initial_state = &mistakes[i]};
        }
    }
    failed = _cmocka_run_group_tests("broken ops", tests, chosen, set_up, tear_down);
    if (!failed) {
        (void)printf("twins: %u of %u broken ops rejected for their reasons\n", chosen,
                     mistake_count);
    }
    return failed;
}
