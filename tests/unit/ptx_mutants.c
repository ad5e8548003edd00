/*
 * See ptx_mutants.h.
 */
#include "tests/unit/ptx_mutants.h"

#include <stdbool.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX  64u
#define LOCS_MAX   512u
#define DEPTH_MAX  16u
#define TEXT_SIZE  800u
#define COPY_BYTES "16" /* copies count in units of 16 bytes: the least that can be forgotten */

struct rule {
    const char *start; /* of the statement, behind its guard */
    const char *what;
    enum { REMOVE, PASS, TWICE, ALTER_LAST, NEXT_NUMBER, RENAME } how;
    const char *alter; /* ALTER_LAST: the instruction that changes the last operand, and by what;
                          RENAME: what stands for `start` */
    const char *by;
    uint32_t operands; /* ALTER_LAST: only where there are at least so many; else 0 */
};

static const struct rule RULES[] = {
    {"bar.sync", "removed", REMOVE, NULL, NULL, 0},
    {"bar.sync", "one warp more", ALTER_LAST, "add.u32", "32", 2},
    {"bar.sync", "one warp less", ALTER_LAST, "sub.u32", "32", 2},
    {"bar.red", "removed", REMOVE, NULL, NULL, 0},
    {"barrier.sync", "removed", REMOVE, NULL, NULL, 0},
    {"barrier.sync", "one warp more", ALTER_LAST, "add.u32", "32", 2},
    {"barrier.sync", "one warp less", ALTER_LAST, "sub.u32", "32", 2},
    {"bar.arrive", "removed", REMOVE, NULL, NULL, 0},
    {"bar.arrive", "one warp more", ALTER_LAST, "add.u32", "32", 2},
    {"bar.arrive", "one warp less", ALTER_LAST, "sub.u32", "32", 2},
    {"barrier.cluster", "removed", REMOVE, NULL, NULL, 0},
    {"bar.warp.sync", "removed", REMOVE, NULL, NULL, 0},
    {"fence.", "removed", REMOVE, NULL, NULL, 0},
    {"membar", "removed", REMOVE, NULL, NULL, 0},
    {"griddepcontrol.wait", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.commit_group", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.wait", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.wait_group", "number + 1", NEXT_NUMBER, NULL, NULL, 0},
    {"cp.async.mbarrier.arrive", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.bulk.commit_group", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.bulk.wait_group", "removed", REMOVE, NULL, NULL, 0},
    {"cp.async.bulk.wait_group", "number + 1", NEXT_NUMBER, NULL, NULL, 0},
    {"wgmma.fence", "removed", REMOVE, NULL, NULL, 0},
    {"wgmma.commit_group", "removed", REMOVE, NULL, NULL, 0},
    {"wgmma.wait_group", "removed", REMOVE, NULL, NULL, 0},
    {"wgmma.wait_group", "number + 1", NEXT_NUMBER, NULL, NULL, 0},
    {"mbarrier.arrive", "removed", REMOVE, NULL, NULL, 0},
    {"mbarrier.arrive.shared", "twice", TWICE, NULL, NULL, 0},
    {"mbarrier.arrive.release", "twice", TWICE, NULL, NULL, 0},
    {"mbarrier.arrive.expect_tx", "16 bytes more", ALTER_LAST, "add.u32", COPY_BYTES, 3},
    {"mbarrier.arrive.expect_tx", "16 bytes less", ALTER_LAST, "sub.u32", COPY_BYTES, 3},
    {"mbarrier.expect_tx", "removed", REMOVE, NULL, NULL, 0},
    {"mbarrier.init", "one arrival more", ALTER_LAST, "add.u32", "1", 2},
    {"mbarrier.init", "one arrival less", ALTER_LAST, "sub.u32", "1", 2},
    {"mbarrier.try_wait.parity", "passes", PASS, NULL, NULL, 0},
    {"mbarrier.try_wait.parity", "parity flipped", ALTER_LAST, "xor.b32", "1", 3},
    {"mbarrier.test_wait.parity", "passes", PASS, NULL, NULL, 0},
    {"mbarrier.test_wait.parity", "parity flipped", ALTER_LAST, "xor.b32", "1", 3},
    {"setmaxnreg.dec", "removed", REMOVE, NULL, NULL, 0},
    {"atom.global.add.u32", "one arrival more", ALTER_LAST, "add.u32", "1", 3},
    {"atom.global.add.u32", "one arrival less", ALTER_LAST, "sub.u32", "1", 3},
};

/* Comparisons one off, stores left out. */
static const struct rule EDGES[] = {
    {"setp.lt.", "one more", RENAME, "setp.le.", NULL, 0},
    {"setp.le.", "one less", RENAME, "setp.lt.", NULL, 0},
    {"setp.gt.", "one less", RENAME, "setp.ge.", NULL, 0},
    {"setp.ge.", "one more", RENAME, "setp.gt.", NULL, 0},
    {"setp.eq.", "negated", RENAME, "setp.ne.", NULL, 0},
    {"setp.ne.", "negated", RENAME, "setp.eq.", NULL, 0},
    {"st.global", "removed", REMOVE, NULL, NULL, 0},
};

/* ------------------------------------------------------------------ where it comes from */

struct loc {
    uint32_t at[3];     /* file, line, column */
    uint32_t inside[3]; /* where that is inlined; file 0: nowhere */
};

struct places {
    char files[FILES_MAX][200];
    struct loc locs[LOCS_MAX]; /* the newest first wins; a ring */
    uint32_t count;
};

static void read_file(struct places *places, const char *line)
{
    uint32_t number = (uint32_t)strtoul(line, NULL, 10);
    const char *quote = strchr(line, '"');

    if (number < FILES_MAX && quote) {
        (void)snprintf(places->files[number], sizeof(places->files[0]), "%.*s",
                       (int)strcspn(quote + 1, "\""), quote + 1);
    }
}

/* All `.file` lines stand at the end of what NVRTC makes. */
static void read_files(struct places *places, const char *ptx)
{
    for (const char *at = strstr(ptx, "\n\t.file"); at; at = strstr(at + 1, "\n\t.file")) {
        read_file(places, at + strlen("\n\t.file"));
    }
}

static void read_loc(struct places *places, const char *line)
{
    struct loc *loc = &places->locs[places->count++ % LOCS_MAX];
    const char *inlined = strstr(line, "inlined_at"), *end = strchr(line, '\n');
    char *next = NULL;

    *loc = (struct loc){0};
    for (uint32_t i = 0; i < 3; i++) {
        loc->at[i] = (uint32_t)strtoul(i ? next : line, &next, 10);
    }
    if (inlined && (!end || inlined < end)) {
        next = (char *)(uintptr_t)(inlined + strlen("inlined_at"));
        for (uint32_t i = 0; i < 3; i++) {
            loc->inside[i] = (uint32_t)strtoul(next, &next, 10);
        }
    }
}

static const struct loc *newest(const struct places *places, const uint32_t at[3])
{
    uint32_t kept = places->count < LOCS_MAX ? places->count : LOCS_MAX;

    for (uint32_t i = 1; i <= kept; i++) {
        const struct loc *loc = &places->locs[(places->count - i) % LOCS_MAX];

        if (memcmp(loc->at, at, sizeof(loc->at)) == 0) {
            return loc;
        }
    }
    return NULL;
}

/* Whether a file is one of gk's headers, given as it is: the compiler puts the working folder
 * before names of sources that are none of files, and that folder may be called gk too. */
static bool is_of_gk(const char *path)
{
    char folder[PATH_MAX];
    size_t size = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    bool below = size > 0 && strncmp(path, folder, size) == 0 && path[size] == '/';
    return strstr(path + (below ? size + 1 : 0), "gk/") == path + (below ? size + 1 : 0);
}

/* From the innermost location outwards to the first file that is no header. What orders is wrapped
 * by one line of gk's headers, so its caller tells more; edges are where they are written. */
static void find_place(const struct places *places, bool edges, struct ptx_mutant *out)
{
    const struct loc *loc = places->count ? &places->locs[(places->count - 1) % LOCS_MAX] : NULL;

    out->file[0] = 0;
    out->in_file = 0;
    for (uint32_t depth = 0; loc && depth < DEPTH_MAX; depth++) {
        const char *path = loc->at[0] < FILES_MAX ? places->files[loc->at[0]] : "";
        const char *base = strrchr(path, '/');
        bool header = strstr(path, "/include/") || (!edges && is_of_gk(path));
        if (*path && loc->at[1] && !header) { /* line 0: of no source line */
            (void)snprintf(out->file, sizeof(out->file), "%.79s", base ? base + 1 : path);
            out->in_file = loc->at[1];
            return;
        }
        loc = loc->inside[0] ? newest(places, loc->inside) : NULL;
    }
}

/* ------------------------------------------------------------------ changing one statement */

struct statement {
    const char *whole; /* from its guard on */
    const char *body;  /* behind the guard */
    size_t size;       /* of the body, with its semicolon */
};

static uint32_t operands_of(const struct statement *s)
{
    uint32_t count = 1;

    for (size_t i = 0; i < s->size; i++) {
        count += s->body[i] == ',';
    }
    return count;
}

static bool applies(const struct rule *rule, const struct statement *s)
{
    return strncmp(s->body, rule->start, strlen(rule->start)) == 0 &&
           (rule->how != ALTER_LAST || operands_of(s) >= rule->operands);
}

/* Where the last operand begins in the body. */
static int last_operand(const struct statement *s)
{
    int last = (int)s->size - 1;

    while (last > 0 && s->body[last - 1] != ' ' && s->body[last - 1] != ',' &&
           s->body[last - 1] != '\t') {
        last--;
    }
    return last;
}

/* What stands for the statement, guard and all. */
static void replacement(const struct rule *rule, const struct statement *s, char *out, size_t room)
{
    int guard = (int)(s->body - s->whole), size = (int)s->size, last = last_operand(s);

    switch (rule->how) {
    case REMOVE:
        out[0] = 0;
        break;
    case PASS: {
        const char *name = s->body + strcspn(s->body, " \t");

        name += strspn(name, " \t");
        (void)snprintf(out, room, "%.*s setp.eq.u32 %.*s, 0, 0;", guard, s->whole,
                       (int)strcspn(name, ","), name);
        break;
    }
    case TWICE:
        (void)snprintf(out, room, "%.*s%.*s %.*s%.*s", guard, s->whole, size, s->body, guard,
                       s->whole, size, s->body);
        break;
    case ALTER_LAST:
        (void)snprintf(out, room, "{ .reg .b32 mutated; %s mutated, %.*s, %s; %.*s%.*s mutated; }",
                       rule->alter, size - 1 - last, s->body + last, rule->by, guard, s->whole,
                       last, s->body);
        break;
    case RENAME:
        (void)snprintf(out, room, "%.*s%s%.*s", guard, s->whole, rule->alter,
                       size - (int)strlen(rule->start), s->body + strlen(rule->start));
        break;
    case NEXT_NUMBER:
        (void)snprintf(out, room, "%.*s%.*s %ld;", guard, s->whole, last, s->body,
                       strtol(s->body + last, NULL, 10) + 1);
        break;
    }
}

static bool make(const char *ptx, const struct rule *rule, const struct statement *s,
                 struct ptx_mutant *out)
{
    size_t before = (size_t)(s->whole - ptx);
    char text[TEXT_SIZE];

    replacement(rule, s, text, sizeof(text));
    (void)snprintf(out->what, sizeof(out->what), "%s", rule->what);
    (void)snprintf(out->opcode, sizeof(out->opcode), "%.*s", (int)strcspn(s->body, " \t;"),
                   s->body);
    if (rule->how == RENAME) { /* one source line may be compared with several numbers */
        size_t used = strlen(out->opcode);
        bool number = s->body[last_operand(s)] != '%'; /* names of registers tell nothing */

        (void)snprintf(out->opcode + used, sizeof(out->opcode) - used, " .. %.*s",
                       number ? (int)s->size - 1 - last_operand(s) : 8,
                       number ? s->body + last_operand(s) : "register");
    }
    (void)snprintf(out->code, sizeof(out->code), "%.*s", (int)s->size, s->body);
    out->text = malloc(strlen(ptx) + sizeof(text));
    if (!out->text) {
        return false;
    }
    memcpy(out->text, ptx, before);
    (void)snprintf(out->text + before, strlen(s->whole) + sizeof(text), "%s%s", text,
                   s->body + s->size);
    return true;
}

/* The statement on the line at `at`; false: none that could be changed. */
static bool statement_of(const char *at, struct statement *out)
{
    const char *start = at + strspn(at, " \t{"), *end;

    out->whole = start;
    if (*start == '@') {
        start += strcspn(start, " \t\n");
        start += strspn(start, " \t");
    }
    end = strpbrk(start, ";\n");
    out->body = start;
    out->size = end ? (size_t)(end - start) + 1 : 0;
    return end && *end == ';';
}

/* Walks to the index-th mutant; `index` is then what is left of it. */
static bool walk(const char *ptx, bool edges, uint32_t *index, struct ptx_mutant *out)
{
    static struct places places;
    const struct rule *rules = edges ? EDGES : RULES;
    size_t rule_count = edges ? sizeof(EDGES) / sizeof(EDGES[0]) : sizeof(RULES) / sizeof(RULES[0]);
    uint32_t line = 1;

    memset(&places, 0, sizeof(places));
    read_files(&places, ptx);
    for (const char *at = ptx; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, line++) {
        struct statement s;

        if (strncmp(at, "\t.loc\t", 6) == 0) {
            read_loc(&places, at + 6);
        }
        if (!statement_of(at, &s)) {
            continue;
        }
        for (size_t r = 0; r < rule_count; r++) {
            if (applies(&rules[r], &s) && (*index)-- == 0) {
                out->line = line;
                find_place(&places, edges, out);
                return make(ptx, &rules[r], &s, out);
            }
        }
    }
    return false;
}

bool ptx_mutant_make(const char *ptx, bool edges, uint32_t index, struct ptx_mutant *out)
{
    return walk(ptx, edges, &index, out);
}

uint32_t ptx_mutant_count(const char *ptx, bool edges)
{
    uint32_t left = UINT32_MAX;
    struct ptx_mutant none;

    (void)walk(ptx, edges, &left, &none); /* runs to the end */
    return UINT32_MAX - left;
}
