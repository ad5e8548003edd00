/*
 * The score of the emulated device: mutants of the templates' PTX that it rejects.
 *
 * A mutant is rejected when one of three schedules ends in a fault or in a wrong result. What
 * survives must stand in tests/data/mutants/equivalent.txt with the reason why it changes nothing;
 * a survivor without an entry fails the test, and so does an entry that no longer survives, or, if
 * all mutants run, that meets none. A text that the decoder refuses is a mistake of the tool, no
 * rejection.
 *
 * All run with GK_MUTANTS_ALL or GKTUNE_TEST_ALL set, else a sample by GKTUNE_TEST_SEED. Arguments
 * are templates to which the run is confined.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/prng.h"
#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/ptx_mutants.h"
#include "tests/unit/template_rig.h"

#define TABLE       GK_SOURCE_DIR "/tests/data/mutants/equivalent.txt"
#define TABLE_MAX   (64u << 10)
#define ENTRIES_MAX 100u
#define FIELDS      5u
#define SOURCE_MAX  (128u << 10)

/* Mutants of a template that a sample takes: about a minute on one core in all. Sanitizers cost ten
 * times as much. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 8u
#else
#define SAMPLE 100u
#endif

/* Work of a mutant, times that of the original: it may go astray for long. */
#define WORK_FACTOR 10u
#define WORK_LEAST  100000u

static const struct template_case CASES[] = {
    {.template_ = "gemm_mma",
     .what = "two stages, direct",
     .defines = "BM=32 BN=32 BK=16 WM=1 WN=2 STAGES=2 LOAD_BYTES=16 STORE_BYTES=16 EPILOGUE=0",
     .m = 48,
     .n = 40,
     .k = 72,
     .splits = 1,
     .tile_m = 32,
     .tile_n = 32,
     .tile_k = 16,
     .threads = 64,
     .smem = 4096},
    {.template_ = "gemm_mma",
     .what = "four stages, staged, narrow",
     .defines = "BM=16 BN=32 BK=32 WM=1 WN=2 STAGES=4 LOAD_BYTES=4 STORE_BYTES=4 EPILOGUE=1",
     .m = 30,
     .n = 38,
     .k = 262, /* the last of nine tiles lies where sums are staged */
     .splits = 1,
     .tile_m = 16,
     .tile_n = 32,
     .tile_k = 32,
     .threads = 64,
     .smem = 12288},
    {.template_ = "gemm_mma",
     .what = "three stages, split K, second launch",
     .defines = "BM=32 BN=32 BK=16 WM=2 WN=1 STAGES=3 LOAD_BYTES=16 STORE_BYTES=16 EPILOGUE=0",
     .m = 33,
     .n = 38,
     .more_n = {39, 37, 40},
     .k = 200,
     .splits = 2,
     .tile_m = 32,
     .tile_n = 32,
     .tile_k = 16,
     .threads = 64,
     .smem = 6144},
    {.template_ = "gemm_wgmma",
     .what = "cooperative, cluster along M",
     .wgmma = {"0", 2, 128, 128, 2, 1, 2, 1, 1, 512, 512, 192}},
    {.template_ = "gemm_wgmma",
     .what = "pingpong",
     .wgmma = {"1", 2, 64, 96, 2, 1, 1, 1, 1, 1536, 288, 128}},
    {.template_ = "gemm_wgmma",
     .what = "cluster along N, two buffers to store",
     .wgmma = {"0", 1, 64, 128, 3, 2, 1, 2, 1, 200, 1100, 256}},
    {.template_ = "gemm_wgmma",
     .what = "split K, the last adds",
     .wgmma = {"0", 1, 64, 64, 2, 1, 1, 1, 2, 200, 180, 320}},
    {.template_ = "gemm_wgmma",
     .what = "split K, two consumers, a cluster",
     .wgmma = {"0", 2, 128, 96, 2, 1, 1, 2, 3, 200, 500, 384}},
    {.template_ = "gemv_mma",
     .what = "split K, the last adds",
     .defines = "ROWS=16 WN=1 WK=2 UNROLL=1 PIPE=1 RESIDENT=256 LOAD=0 M_TILES=1 LOAD_BYTES=16",
     .m = 3,
     .n = 40,
     .k = 200,
     .splits = 2,
     .last = true,
     .tile_m = 8,
     .tile_n = 16,
     .tile_k = 32,
     .threads = 64},
    {.template_ = "gemv_mma",
     .what = "split K, the last adds, loads ahead",
     .defines = "ROWS=16 WN=2 WK=2 UNROLL=1 PIPE=2 RESIDENT=256 LOAD=3 M_TILES=1 LOAD_BYTES=16",
     .m = 5,
     .n = 70,
     .k = 328,
     .splits = 3,
     .last = true,
     .tile_m = 8,
     .tile_n = 32,
     .tile_k = 32,
     .threads = 128},
    {.template_ = "gemv_tma",
     .what = "split K, the last adds, warps along K",
     .defines = "ROWS=32 WN=1 WK=2 BOXES=1 BLOCKS=1 RING=16 HINT=1 M_TILES=1",
     .m = 3,
     .n = 72,
     .k = 712,
     .splits = 2,
     .last = true,
     .tile_m = 8,
     .tile_n = 32,
     .tile_k = 64,
     .threads = 96,
     .smem = 13312},
    {.template_ = "gemv_tma",
     .what = "split K, the last adds, warps along N",
     .defines = "ROWS=32 WN=2 WK=1 BOXES=1 BLOCKS=1 RING=16 HINT=0 M_TILES=1",
     .m = 8,
     .n = 40,
     .k = 712,
     .splits = 2,
     .last = true,
     .tile_m = 8,
     .tile_n = 32,
     .tile_k = 64,
     .threads = 96,
     .smem = 13312},
};

/* ------------------------------------------------------------------ the table of equivalents */

struct entry {
    char *field[FIELDS]; /* template, mutation, opcode, place, reason */
    uint32_t met;
};

static struct {
    char *text;
    struct entry entries[ENTRIES_MAX];
    uint32_t count;
} table;

static char *trimmed(char *text)
{
    size_t size;

    text += strspn(text, " \t");
    size = strlen(text);
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        text[--size] = 0;
    }
    return text;
}

/* Cuts `*rest` at the next `end` and moves it behind; NULL at the end of the text. */
static char *cut(char **rest, char end)
{
    char *start = *rest, *at = start ? strchr(start, end) : NULL;

    if (at) {
        *at = 0;
    }
    *rest = at ? at + 1 : NULL;
    return start;
}

static void load_table(void)
{
    struct gk_err err = {0};
    char *rest, *line;
    size_t size = 0;

    assert_ok(gk_file_load(TABLE, TABLE_MAX, &table.text, &size, &err), err);
    rest = table.text;
    while ((line = cut(&rest, '\n')) != NULL) {
        struct entry *entry = &table.entries[table.count];

        if (*line == '#' || !*line) {
            continue;
        }
        assert_true(table.count < ENTRIES_MAX);
        for (uint32_t i = 0; i < FIELDS; i++) {
            char *field = cut(&line, '|');

            if (!field || !*trimmed(field)) {
                fail_msg("%s: entry %u has no field %u", TABLE, table.count + 1, i + 1);
            } else {
                entry->field[i] = trimmed(field);
            }
        }
        table.count++;
    }
}

/* "file: function: text of the line" of a mutant. */
static void place_of(const struct ptx_mutant *mutant, char *out, size_t room)
{
    char path[600], function[100] = "", *text = NULL, *line = NULL, *rest;
    size_t size = 0;

    (void)snprintf(out, room, "unknown");
    (void)snprintf(path, sizeof(path), "%s/kernels/gemm/%s", GK_SOURCE_DIR, mutant->file);
    if (!mutant->in_file || gk_file_load(path, SOURCE_MAX, &text, &size, NULL) != GK_OK) {
        return;
    }
    rest = text;
    for (uint32_t i = 1; i <= mutant->in_file && (line = cut(&rest, '\n')) != NULL; i++) {
        const char *paren = strchr(line, '(');

        if (paren && (strstr(line, "GK_DEVICE ") || strstr(line, "gk_"))) {
            const char *name = paren;

            while (name > line && name[-1] != ' ' && name[-1] != '*') {
                name--;
            }
            (void)snprintf(function, sizeof(function), "%.*s", (int)(paren - name), name);
        }
    }
    if (line) {
        (void)snprintf(out, room, "%s: %s: %s", mutant->file, function, trimmed(line));
    }
    free(text);
}

static struct entry *entry_of(const char *source, const struct ptx_mutant *mutant,
                              const char *place)
{
    const char *const key[] = {source, mutant->what, mutant->opcode, place};

    for (uint32_t i = 0; i < table.count; i++) {
        uint32_t same = 0;

        while (same < GK_ARRAY_COUNT(key) && strcmp(key[same], table.entries[i].field[same]) == 0) {
            same++;
        }
        if (same == GK_ARRAY_COUNT(key)) {
            return &table.entries[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ running mutants */

struct score {
    const char *source;
    uint32_t rejected, equivalent, wrong; /* wrong: against the table */
    uint32_t survived, left_out;          /* without an entry; not in the sample */
    uint32_t by_value, by_race, by_deadlock, by_other;
};

static bool run_all(void)
{
    return getenv("GK_MUTANTS_ALL") || getenv("GKTUNE_TEST_ALL");
}

/* Whether a schedule ends otherwise than right; `end` is then how. */
static bool rejected(const struct template_case *one, char *const *texts, uint64_t limit,
                     struct template_end *end)
{
    static const enum gk_emu_schedule SCHEDULES[] = {GK_EMU_LATE, GK_EMU_EARLY, GK_EMU_RANDOM};

    for (uint32_t shape = 0; shape < template_shapes(one); shape++) {
        for (size_t s = 0; s < GK_ARRAY_COUNT(SCHEDULES); s++) {
            template_run(one, shape, texts, SCHEDULES[s], 1, limit, end);
            if (!end->right) {
                return true;
            }
        }
    }
    return false;
}

static void count_kind(struct score *score, const struct template_end *end)
{
    score->rejected++;
    score->by_value += end->fault == GK_EMU_FAULT_NONE;
    score->by_race += end->fault == GK_EMU_FAULT_RACE;
    score->by_deadlock += end->fault == GK_EMU_FAULT_DEADLOCK;
    score->by_other += end->fault != GK_EMU_FAULT_NONE && end->fault != GK_EMU_FAULT_RACE &&
                       end->fault != GK_EMU_FAULT_DEADLOCK;
}

static void try_mutant(const struct template_case *one, uint32_t launch, char *const *originals,
                       uint32_t index, uint64_t limit, struct score *score)
{
    char *texts[TEMPLATE_LAUNCHES_MAX] = {originals[0], originals[1]}, place[400];
    struct template_end end;
    struct ptx_mutant mutant;
    struct entry *entry;
    bool dead;

    assert_true(ptx_mutant_make(originals[launch], launch != 0, index, &mutant));
    texts[launch] = mutant.text;
    dead = rejected(one, texts, limit, &end);
    if (dead && !end.loaded) {
        fail_msg("%s, PTX line %u, %s: the changed text is not PTX: %s", score->source, mutant.line,
                 mutant.what, end.why);
    }
    place_of(&mutant, place, sizeof(place));
    entry = entry_of(score->source, &mutant, place);
    if (entry) {
        entry->met++;
    }
    if (dead) {
        count_kind(score, &end);
    } else if (entry) {
        score->equivalent++;
    }
    if (dead == (entry != NULL)) {
        score->wrong++;
        score->survived += !dead;
        (void)printf("%s: %s | %s | %s | %s (%s, PTX line %u)\n  %s\n",
                     dead ? "no longer survives" : "survives without an entry", score->source,
                     mutant.what, mutant.opcode, place, one->what, mutant.line,
                     dead ? end.why : mutant.code);
    } else if (getenv("GK_MUTANTS_SHOW")) {
        (void)printf("%s | %s | %s | %s | %s\n", score->source, mutant.what, mutant.opcode, place,
                     dead ? end.why : "equivalent");
    }
    free(mutant.text);
}

/* All mutants of a launch, or `take` of them by the seed. */
static void try_launch(const struct template_case *one, uint32_t launch, char *const *originals,
                       uint64_t limit, uint32_t take, struct score *score)
{
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t count = ptx_mutant_count(originals[launch], launch != 0),
             left = take < count ? take : count;
    struct gk_prng prng;

    score->left_out += count - left;
    gk_prng_init(&prng, text ? strtoull(text, NULL, 10) : 1, count);
    for (uint32_t i = 0; i < count && left; i++) { /* each one with equal chance */
        if (gk_prng_below(&prng, count - i) < left) {
            left--;
            try_mutant(one, launch, originals, i, limit, score);
        }
    }
}

/* The launch of a case that this source is; template_launches() if it is none. */
static uint32_t launch_of(const struct template_case *one, const char *source)
{
    uint32_t launch = 0;

    while (launch < template_launches(one) && strcmp(template_source(one, launch), source) != 0) {
        launch++;
    }
    return launch;
}

static uint32_t cases_of(const char *source)
{
    uint32_t count = 0;

    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        count += launch_of(&CASES[i], source) < template_launches(&CASES[i]);
    }
    return count;
}

static void print_score(const struct score *score)
{
    (void)printf(
        "mutants: %s: %u of %u rejected (%u races, %u deadlocks, %u other faults, %u wrong "
        "values), %u equivalent",
        score->source, score->rejected, score->rejected + score->survived, score->by_race,
        score->by_deadlock, score->by_other, score->by_value, score->equivalent);
    (void)(score->left_out ? printf("; %u not in this sample\n", score->left_out) : printf("\n"));
}

static void mutants_of(void **state)
{
    struct score score = {.source = *state};
    uint32_t take = run_all() ? UINT32_MAX : SAMPLE / cases_of(score.source);

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        const struct template_case *one = &CASES[i];
        uint32_t chosen = launch_of(one, score.source);
        char *texts[TEMPLATE_LAUNCHES_MAX] = {NULL, NULL};
        struct template_end end;

        if (chosen == template_launches(one)) {
            continue;
        }
        for (uint32_t launch = 0; launch < template_launches(one); launch++) {
            texts[launch] = template_compile(one, launch);
        }
        if (rejected(one, texts, 0, &end)) {
            fail_msg("%s, %s, as it is: %s", score.source, one->what, end.why);
        }
        try_launch(one, chosen, texts, end.work * WORK_FACTOR + WORK_LEAST, take, &score);
        free(texts[0]);
        free(texts[1]);
    }
    print_score(&score);
    assert_true(score.rejected > 0);
    assert_int_equal(score.wrong, 0);
}

/* After all the others. */
static void no_entry_is_stale(void **state)
{
    uint32_t stale = 0;

    (void)state;
    for (uint32_t i = 0; i < table.count && run_all(); i++) {
        if (!table.entries[i].met) {
            stale++;
            (void)printf("no mutant meets: %s | %s | %s | %s\n", table.entries[i].field[0],
                         table.entries[i].field[1], table.entries[i].field[2],
                         table.entries[i].field[3]);
        }
    }
    assert_int_equal(stale, 0);
}

int main(int argc, char **argv)
{
    static const char *const SOURCES[] = {"gemm_mma", "gemm_splitk_reduce", "gemm_wgmma",
                                          "gemv_mma", "gemv_tma"};
    struct CMUnitTest tests[GK_ARRAY_COUNT(SOURCES) + 1];
    size_t count = 0;
    int failed;

    load_table();
    for (size_t i = 0; i < GK_ARRAY_COUNT(SOURCES); i++) {
        bool chosen = argc == 1;

        for (int a = 1; a < argc; a++) {
            chosen = chosen || strcmp(argv[a], SOURCES[i]) == 0;
        }
        if (chosen) {
            tests[count++] = (struct CMUnitTest){.name = SOURCES[i],
                                                 .test_func = mutants_of,
                                                 .initial_state = (void *)(uintptr_t)SOURCES[i]};
        }
    }
    if (argc == 1) {
        tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_entry_is_stale);
    }
    failed = _cmocka_run_group_tests("mutants", tests, count, NULL, NULL);
    free(table.text);
    return failed;
}
