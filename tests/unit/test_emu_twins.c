/*
 * Broken kernels that the emulated device must reject, each for the reason that its file names, and
 * right ones that it must not accuse (twin.h). Right ones run under 200 seeds where
 * GKTUNE_TEST_ALL is set, else under a few. An argument confines the run to files of that name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/twin.h"

#define BROKEN    GK_SOURCE_DIR "/tests/data/bad_kernels"
#define RIGHT     GK_SOURCE_DIR "/tests/data/right_kernels"
#define FILES_MAX 200u
#define SEEDS_ALL 200u
#define SEEDS_FEW 5u
#ifdef __SANITIZE_ADDRESS__ /* costs ten times as much, and finds what few seeds find */
#define ONE_IN 2u /* of the kernels, drawn by GKTUNE_TEST_SEED: the release build runs all */
#else
#define ONE_IN 1u
#endif

static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};
static const char *const NAMES[] = {"late", "early", "random"};

static char *files[2 * FILES_MAX];
static uint32_t broken_count, right_count, open_count;

/* ------------------------------------------------------------------ judging */

/* Whether `name` is one of "A|B|C". */
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

static const char *name_of(const struct twin_end *end, const struct twin_end *right)
{
    return end->fault != GK_EMU_FAULT_NONE                       ? gk_emu_fault_name(end->fault)
           : end->unwritten                                      ? "MISSING"
           : memcmp(end->out, right->out, sizeof(end->out)) != 0 ? "WRONG"
                                                                 : "";
}

/* The report of a race names both marked lines, and two places of the file unless it is about one
 * instruction alone (lanes that store different values to one word, registers of a wgmma). */
static void check_lines(const struct twin *twin, const struct twin_end *end, const char *schedule)
{
    uint32_t places = 0;

    for (const char *at = strstr(end->why, twin->name); at; at = strstr(at + 1, twin->name)) {
        places += at[strlen(twin->name)] == ':';
    }
    if (places < 2 && strstr(end->why, "is not ordered behind")) {
        fail_msg("%s, %s: the report does not name two places: %s", twin->name, schedule, end->why);
    }
    for (uint32_t i = 0; i < 2; i++) {
        char place[120];
        const char *found;

        (void)snprintf(place, sizeof(place), "%s:%u", twin->name, twin->marks[i]);
        found = strstr(end->why, place);
        while (found && found[strlen(place)] >= '0' && found[strlen(place)] <= '9') {
            found = strstr(found + 1, place);
        }
        if (twin->marks[i] && !found) {
            fail_msg("%s, %s: the report does not name line %u: %s", twin->name, schedule,
                     twin->marks[i], end->why);
        }
    }
}

static void must_be_right(const struct twin *twin, const char *ptx, enum gk_emu_schedule schedule,
                          uint64_t seed, struct twin_end *end)
{
    twin_run(twin, ptx, schedule, seed, end);
    if (end->fault != GK_EMU_FAULT_NONE || end->unwritten) {
        fail_msg("%s, right, schedule %d, seed %u: %s", twin->name, (int)schedule, (unsigned)seed,
                 end->fault ? end->why : "output is not written");
    }
}

static void skip_if_open(struct twin *twin)
{
    if (twin->open[0]) {
        open_count++;
        (void)printf("open: %s: %s\n", twin->name, twin->open);
        twin_fini(twin);
        skip();
    }
}

static void broken(void **state)
{
    struct twin_end right, other, end;
    struct twin twin;
    char *good, *bad;
    uint32_t caught = 0;

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    twin_load(&twin, BROKEN, *state);
    skip_if_open(&twin);
    good = twin_compile(&twin, false);
    bad = twin_compile(&twin, true);
    must_be_right(&twin, good, GK_EMU_LATE, 1, &right);
    for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES); s++) {
        const char *name;

        must_be_right(&twin, good, SCHEDULES[s], 1, &other);
        assert_memory_equal(other.out, right.out, sizeof(right.out));
        twin_run(&twin, bad, SCHEDULES[s], 1, &end);
        name = name_of(&end, &right);
        if (*name ? !listed(twin.wants, name) : !twin.somewhere) {
            fail_msg("%s, %s: ends as %s, wants %s: %s", twin.name, NAMES[s],
                     *name ? name : "right", twin.wants, end.why);
        }
        caught += *name != 0;
        if (end.fault == GK_EMU_FAULT_RACE) {
            check_lines(&twin, &end, NAMES[s]);
        }
        if (getenv("GK_TWINS_SHOW")) {
            (void)printf("%s, %s: %s: %s\n", twin.name, NAMES[s], name, end.why);
        }
    }
    assert_true(caught > 0);
    free(good);
    free(bad);
    twin_fini(&twin);
}

static uint64_t seeds(void)
{
    return test_takes_all() ? SEEDS_ALL : SEEDS_FEW;
}

static void accused(void **state)
{
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint64_t first = text ? strtoull(text, NULL, 10) * SEEDS_ALL : 0;
    struct twin_end right, end;
    struct twin twin;
    char *ptx;

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    twin_load(&twin, RIGHT, *state);
    skip_if_open(&twin);
    ptx = twin_compile(&twin, false);
    must_be_right(&twin, ptx, GK_EMU_LATE, first, &right);
    must_be_right(&twin, ptx, GK_EMU_EARLY, first, &end);
    assert_memory_equal(end.out, right.out, sizeof(right.out));
    for (uint64_t i = 0; i < seeds(); i++) {
        must_be_right(&twin, ptx, GK_EMU_RANDOM, first + i, &end);
        if (memcmp(end.out, right.out, sizeof(right.out)) != 0) {
            fail_msg("%s: another result with seed %u", twin.name, (unsigned)(first + i));
        }
    }
    free(ptx);
    twin_fini(&twin);
}

/* ------------------------------------------------------------------ the files */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint32_t list_files(const char *folder, char **to)
{
    uint32_t count = 0;
    DIR *dir = opendir(folder);

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name);

        if (size > 3 && strcmp(entry->d_name + size - 3, ".cu") == 0 && count < FILES_MAX) {
            to[count] = calloc(1, size + 1);
            if (to[count]) {
                memcpy(to[count++], entry->d_name, size);
            }
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    qsort(to, count, sizeof(to[0]), by_name);
    return count;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[2 * FILES_MAX];
    uint32_t count = 0, chosen = 0, ran[2] = {0};
    const char *seed = getenv("GKTUNE_TEST_SEED");
    uint32_t drawn = (seed ? (uint32_t)strtoul(seed, NULL, 10) : 1u) % ONE_IN;
    int failed;

    broken_count = list_files(BROKEN, files);
    right_count = list_files(RIGHT, files + broken_count);
    count = broken_count + right_count;
    if (!broken_count || !right_count || broken_count == FILES_MAX || right_count == FILES_MAX) {
        (void)fprintf(stderr, "%u broken kernels and %u right ones; 1 to %u of each\n",
                      broken_count, right_count, FILES_MAX - 1);
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (argc == 1 ? i % ONE_IN == drawn : strstr(files[i], argv[1]) != NULL) {
            ran[i < broken_count]++;
            tests[chosen++] = (struct CMUnitTest){.name = files[i],
                                                  .test_func = i < broken_count ? broken : accused,
                                                  .initial_state = files[i]};
        }
    }
    failed = _cmocka_run_group_tests("twins", tests, chosen, NULL, NULL);
    if (!failed) {
        (void)printf("twins: %u broken kernels rejected for their reasons, %u right ones not "
                     "accused over %u seeds, except %u that are open\n",
                     ran[1], ran[0], (unsigned)seeds(), open_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        free(files[i]);
    }
    return failed;
}
