/*
 * What the templates rest on is proven: every form of instruction in their PTX also stands in the
 * PTX of a case of tests/conformance, which is compared with a GPU. A form is the opcode with all
 * its modifiers. One that is missing is shown as "not proven on emu", and fails the test: a case
 * has to be written and recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/template_cases.h"

#define CASES      GK_SOURCE_DIR "/tests/conformance"
#define SOURCE_MAX (256u << 10)
#define FORMS_MAX  1000u
#define FORM_SIZE  140u

struct forms {
    char text[FORMS_MAX][FORM_SIZE];
    uint32_t count;
};

static struct forms proven;

/* Configs beside those of template_cases.h: other types, epilogues, layouts, widths of access. */
#define MMA  "BM=16 BN=32 BK=32 WM=1 WN=2 STAGES=4 "
#define GEMV "ROWS=16 WN=1 WK=2 UNROLL=1 PIPE=1 RESIDENT=256 M_TILES=1 "
static const struct template_case MORE[] = {
    {.template_ = "gemm_mma",
     .defines = MMA "LOAD_BYTES=16 STORE_BYTES=16 EPILOGUE=1 ACT=1 BIAS=1",
     .splits = 1},
    {.template_ = "gemm_mma",
     .defines = MMA "LOAD_BYTES=8 STORE_BYTES=8 EPILOGUE=0 ACT=2 BIAS=1",
     .splits = 1},
    {.template_ = "gemm_mma",
     .defines = MMA "LOAD_BYTES=2 STORE_BYTES=2 EPILOGUE=1 TRANS=2",
     .splits = 1},
    {.template_ = "gemm_mma",
     .defines = MMA "LOAD_BYTES=4 STORE_BYTES=4 EPILOGUE=0 TRANS=1 DTYPE=f16 DTYPE_OUT=float",
     .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=0 LOAD_BYTES=16 ACT=1 BIAS=1", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=1 LOAD_BYTES=16 ACT=2", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=2 LOAD_BYTES=16 DTYPE=f16", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=4 LOAD_BYTES=16 TRANS=3", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=0 LOAD_BYTES=8", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=0 LOAD_BYTES=4", .splits = 1},
    {.template_ = "gemv_mma", .defines = GEMV "LOAD=0 LOAD_BYTES=2", .splits = 1},
    {.template_ = "gemv_tma",
     .defines = "ROWS=32 WN=1 WK=2 BOXES=1 BLOCKS=1 RING=18 HINT=1 M_TILES=1 ACT=1 BIAS=1",
     .splits = 1},
};

static bool has(const struct forms *forms, const char *form)
{
    for (uint32_t i = 0; i < forms->count; i++) {
        if (strcmp(forms->text[i], form) == 0) {
            return true;
        }
    }
    return false;
}

static void add(struct forms *forms, const char *form)
{
    if (!has(forms, form)) {
        assert_true(forms->count < FORMS_MAX);
        (void)snprintf(forms->text[forms->count++], FORM_SIZE, "%s", form);
    }
}

/* The form of the statement at `at`; "" if it is none: labels, declarations, braces, plain words.
 */
static void form_of(const char *at, char out[FORM_SIZE])
{
    size_t size = 0;

    at += strspn(at, " \t{");
    if (*at == '@') {
        at += strcspn(at, " \t\n");
        at += strspn(at, " \t");
    }
    while (isalnum((unsigned char)at[size]) || (at[size] && strchr("._:", at[size]))) {
        size++;
    }
    out[0] = 0;
    if (islower((unsigned char)*at) && memchr(at, '.', size) && size < FORM_SIZE &&
        at[size] != '(') {
        memcpy(out, at, size);
        out[size] = 0;
    }
}

static void collect(struct forms *forms, const char *ptx)
{
    const char *end = strstr(ptx, "\t.file\t"); /* what follows is no code */

    for (const char *at = ptx; at && (!end || at < end); at = strpbrk(at, ";\n")) {
        char form[FORM_SIZE];

        at += *at == ';' || *at == '\n';
        form_of(at, form);
        if (form[0]) {
            add(forms, form);
        }
    }
}

static void collect_case(const char *file)
{
    static const char *const OPTIONS[] = {"-std=c++17", "-I" GK_SOURCE_DIR "/kernels/include",
                                          "-I" CASES, NULL};
    char path[600], *text = NULL, *log = NULL, *ptx;
    struct gk_err err = {0};
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "%s/%.100s", CASES, file);
    assert_ok(gk_file_load(path, SOURCE_MAX, &text, &size, &err), err);
    if (!strstr(text, "// refused\n")) {
        ptx = nvrtc_for_tests_compile(text, file, "compute_90a", OPTIONS, &log);
        if (!ptx) {
            fail_msg("%s: %s", file, log ? log : "no log");
        }
        collect(&proven, ptx);
        free(ptx);
        free(log);
    }
    free(text);
}

static void collect_cases(void)
{
    DIR *dir = opendir(CASES);

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name);

        if (size > 3 && strcmp(entry->d_name + size - 3, ".cu") == 0) {
            collect_case(entry->d_name);
        }
    }
    (void)closedir(dir);
}

static uint32_t check(const struct template_case *one, struct forms *all)
{
    static struct forms forms;
    uint32_t missing = 0;

    for (uint32_t launch = 0; launch < template_launches(one); launch++) {
        char *ptx = template_compile(one, launch, NULL);

        forms.count = 0;
        collect(&forms, ptx);
        for (uint32_t i = 0; i < forms.count; i++) {
            if (!has(&proven, forms.text[i]) && !has(all, forms.text[i])) {
                (void)printf("not proven on emu: %s uses %s\n", template_source(one, launch),
                             forms.text[i]);
                missing++;
            }
            add(all, forms.text[i]);
        }
        free(ptx);
    }
    return missing;
}

static void templates_use_what_is_proven(void **state)
{
    static struct forms all;
    uint32_t missing = 0;

    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    collect_cases();
    for (uint32_t i = 0; i < template_case_count(); i++) {
        missing += check(template_case_at(i), &all);
    }
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(MORE); i++) {
        missing += check(&MORE[i], &all);
    }
    (void)printf("%u forms of instructions in the templates, %u in conformance\n", all.count,
                 proven.count);
    assert_true(all.count > 80);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_use_what_is_proven),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
