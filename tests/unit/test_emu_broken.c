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
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/template_cases.h"

#define LIST         GK_SOURCE_DIR "/tests/data/bad_kernels/templates.txt"
#define LIST_MAX     (128u << 10)
#define SOURCE_MAX   (128u << 10)
#define MISTAKES_MAX 100u
#define TEXT_SIZE    1200u
#define WORK_LIMIT   3000000u
#ifdef __SANITIZE_ADDRESS__ /* costs twice as much, and finds what a few find */
#define EVERY 4u
#else
#define EVERY 1u
#endif

struct mistake {
    char name[120];
    char template_[40];
    uint32_t number; /* of the template's cases */
    char file[60];   /* "gemm/gemm_mma.cuh", "gk/wgmma.cuh" */
    char wants[80];
    char old[TEXT_SIZE], new[TEXT_SIZE];
};

static struct mistake mistakes[MISTAKES_MAX];
static uint32_t mistake_count;

/* ------------------------------------------------------------------ the list */

static void add_line(char *to, const char *line)
{
    size_t used = strlen(to);

    (void)snprintf(to + used, TEXT_SIZE - used, "%s%s", used ? "\n" : "", line);
}

static void read_field(struct mistake *mistake, const char *line)
{
    const char *value = strchr(line, ':');

    value = value && value[1] == ' ' ? value + 2 : value ? value + 1 : "";
    if (strncmp(line, "case:", 5) == 0) {
        size_t size = strcspn(value, " ");

        (void)snprintf(mistake->template_, sizeof(mistake->template_), "%.*s", (int)size, value);
        mistake->number = (uint32_t)strtoul(value + size, NULL, 10);
    } else if (strncmp(line, "file:", 5) == 0) {
        (void)snprintf(mistake->file, sizeof(mistake->file), "%s", value);
    } else if (strncmp(line, "wants:", 6) == 0) {
        (void)snprintf(mistake->wants, sizeof(mistake->wants), "%s", value);
    } else if (strncmp(line, "old:", 4) == 0) {
        add_line(mistake->old, value);
    } else if (strncmp(line, "new:", 4) == 0) {
        add_line(mistake->new, value);
    } else {
        fail_msg("%s: '%s' is no field", LIST, line);
    }
}

static void load_list(void)
{
    struct gk_err err = {0};
    char *text = NULL;
    size_t size = 0;

    assert_ok(gk_file_load(LIST, LIST_MAX, &text, &size, &err), err);
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');

        if (end) {
            *end = 0;
        }
        if (strncmp(line, "name: ", 6) == 0) {
            assert_true(mistake_count < MISTAKES_MAX);
            (void)snprintf(mistakes[mistake_count].name, sizeof(mistakes[0].name), "%s", line + 6);
            mistake_count++;
        } else if (*line && *line != '#' && mistake_count) {
            read_field(&mistakes[mistake_count - 1], line);
        }
        line = end ? end + 1 : NULL;
    }
    free(text);
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
    fail_msg("%s: no case %u of '%s'", mistake->name, mistake->number, mistake->template_);
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

/* The source with `old` replaced, of which there must be exactly one. */
static void make_overlay(const struct mistake *mistake, const char *folder)
{
    struct gk_err err = {0};
    char path[600], *text = NULL, *changed, *at;
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "%s/kernels/%s%s", GK_SOURCE_DIR,
                   strncmp(mistake->file, "gk/", 3) == 0 ? "include/" : "", mistake->file);
    assert_ok(gk_file_load(path, SOURCE_MAX, &text, &size, &err), err);
    at = strstr(text, mistake->old);
    if (!at || strstr(at + 1, mistake->old)) {
        fail_msg("%s: the old text is %s in %s", mistake->name, at ? "not alone" : "not", path);
    } else {
        changed = calloc(1, size + TEXT_SIZE);
        assert_non_null(changed);
        (void)snprintf(changed, size + TEXT_SIZE, "%.*s%s%s", (int)(at - text), text, mistake->new,
                       at + strlen(mistake->old));
        write_file(folder, mistake->file, changed);
        free(changed);
    }
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
            if (!end.right && !listed(mistake->wants, name)) {
                fail_msg("%s: schedule %zu ends as %s, wants %s: %s", mistake->name, s, name,
                         mistake->wants, end.why);
            }
            caught += !end.right;
            if (getenv("GK_TWINS_SHOW")) {
                (void)printf("%s, schedule %zu: %s %s\n", mistake->name, s,
                             end.right ? "right" : name, end.why);
            }
        }
    }
    if (!caught) {
        fail_msg("%s: nobody notices, wants %s", mistake->name, mistake->wants);
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
    remove_file(folder, mistake->file);
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

    load_list();
    for (uint32_t i = 0; i < mistake_count; i++) {
        if (argc == 1 ? (i + seed) % EVERY == 0 : strstr(mistakes[i].name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){
                .name = mistakes[i].name, .test_func = broken, .initial_state = &mistakes[i]};
        }
    }
    failed = _cmocka_run_group_tests("broken templates", tests, chosen, NULL, NULL);
    if (!failed) {
        (void)printf("twins: %u broken templates rejected for their reasons\n", chosen);
    }
    return failed;
}
