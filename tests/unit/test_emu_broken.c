/*
 * Templates with a mistake in their source that the emulated device must reject, each for its
 * reason. The mistakes are changes of text, in tests/data/bad_kernels/templates.txt; the case says
 * with which config and problem (template_cases.h) each must show. Under one of the three schedules
 * at least it ends as wanted, under none in another way than right. An argument confines the run to
 * mistakes of that name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "tests/support/check.h"
#include "tests/unit/mistake_list.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/template_cases.h"

#define LIST         GK_SOURCE_DIR "/tests/data/bad_kernels/templates.txt"
#define SOURCE_MAX   (128u << 10)
#define MISTAKES_MAX 100u
#define WORK_LIMIT   3000000u
#ifdef __SANITIZE_ADDRESS__ /* costs twice as much, and finds what a few find */
#define EVERY 8u
#else
#define EVERY 2u
#endif

struct mistake {
    struct mistake_change change;
    char template_[40];
    uint32_t number; /* of the template's cases */
};

static struct mistake mistakes[MISTAKES_MAX];
static uint32_t mistake_count;

/* ------------------------------------------------------------------ the list */

static struct mistake_change *next(void)
{
    assert_true(mistake_count < MISTAKES_MAX);
    return &mistakes[mistake_count++].change;
}

/* "case: gemm_mma 2" */
static bool read_field(const char *key, const char *value)
{
    struct mistake *mistake = &mistakes[mistake_count - 1];
    size_t size = strcspn(value, " ");

    if (strcmp(key, "case") != 0) {
        return false;
    }
    assert_true(size < sizeof(mistake->template_));
    (void)snprintf(mistake->template_, sizeof(mistake->template_), "%.*s", (int)size, value);
    mistake->number = (uint32_t)strtoul(value + size, NULL, 10);
    return true;
}

static const struct template_case *case_of(const struct mistake *mistake)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < template_case_count(); i++) {
        if (strcmp(template_case_at(i)->template_, mistake->template_) == 0 &&
            seen++ == mistake->number) {
            return template_case_at(i);
        }
    }
    fail_msg("%s: no case %u of '%s'", mistake->change.name, mistake->number, mistake->template_);
    return NULL;
}

/* ------------------------------------------------------------------ a changed source */

static void write_file(const char *folder, const char *file, const char *text)
{
    char path[600];
    FILE *out;

    (void)snprintf(path, sizeof(path), "%.300s/%.*s", folder, (int)strcspn(file, "/"), file);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%.300s/%.100s", folder, file);
    out = fopen(path, "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void remove_file(const char *folder, const char *file)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%.300s/%.100s", folder, file);
    (void)unlink(path); /* what is left of a temporary folder harms nobody */
    (void)snprintf(path, sizeof(path), "%.300s/%.*s", folder, (int)strcspn(file, "/"), file);
    (void)rmdir(path);
    (void)rmdir(folder);
}

/* The changed source, in a folder that is looked at first. */
static void make_overlay(const struct mistake *mistake, const char *folder)
{
    struct gk_err err = {0};
    char path[600], *text = NULL;
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "%s/kernels/%s%s", GK_SOURCE_DIR,
                   strncmp(mistake->change.file, "gk/", 3) == 0 ? "include/" : "",
                   mistake->change.file);
    assert_ok(gk_file_load(path, SOURCE_MAX, &text, &size, &err), err);
    char *changed = mistake_apply(&mistake->change, text);
    write_file(folder, mistake->change.file, changed);
    free(changed);
    free(text);
}

/* ------------------------------------------------------------------ judging */

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

static void judge(const struct mistake *mistake, const struct template_case *one,
                  char *const *texts)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};
    struct template_end end;
    uint32_t caught = 0;

    for (uint32_t shape = 0; shape < template_shapes(one); shape++) {
        for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES); s++) {
            const char *name;

            template_run(one, shape, texts, SCHEDULES[s], 1, WORK_LIMIT, &end);
            assert_true(end.loaded);
            name = end.fault != GK_EMU_FAULT_NONE ? gk_emu_fault_name(end.fault) : "WRONG";
            if (!end.right && !listed(mistake->change.wants, name)) {
                fail_msg("%s: schedule %zu ends as %s, wants %s: %s", mistake->change.name, s, name,
                         mistake->change.wants, end.why);
            }
            caught += !end.right;
            if (getenv("GK_TWINS_SHOW")) {
                (void)printf("%s, schedule %zu: %s %s\n", mistake->change.name, s,
                             end.right ? "right" : name, end.why);
            }
        }
    }
    if (!caught) {
        fail_msg("%s: nobody notices, wants %s", mistake->change.name, mistake->change.wants);
    }
}

static void broken(void **state)
{
    const struct mistake *mistake = *state;
    const struct template_case *one = case_of(mistake);
    char folder[] = "/tmp/gktune-broken-XXXXXX", *texts[TEMPLATE_LAUNCHES_MAX] = {NULL, NULL};

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    assert_non_null(mkdtemp(folder));
    make_overlay(mistake, folder);
    for (uint32_t launch = 0; launch < template_launches(one); launch++) {
        texts[launch] = template_compile(one, launch, folder);
    }
    remove_file(folder, mistake->change.file);
    judge(mistake, one, texts);
    free(texts[0]);
    free(texts[1]);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MISTAKES_MAX];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t chosen = 0, seed = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    int failed;

    mistake_list_read(LIST, next, read_field);
    for (uint32_t i = 0; i < mistake_count; i++) {
        if (argc == 1 ? (i + seed) % EVERY == 0
                      : strstr(mistakes[i].change.name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){.name = mistakes[i].change.name,
                                                  .test_func = broken,
                                                  .initial_state = &mistakes[i]};
        }
    }
    failed = _cmocka_run_group_tests("broken templates", tests, chosen, NULL, NULL);
    if (!failed) {
        (void)printf("twins: %u broken templates rejected for their reasons\n", chosen);
    }
    return failed;
}
