/*
 * See ptx_mutants.h. A mutation replaces one statement: those of NVRTC stand on lines of their own.
 */
#include "tests/unit/ptx_mutants.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    const char *start; /* of the statement */
    const char *what;
    enum { REMOVE, PASS, FLIP_LAST, ADD_LAST, SUBTRACT_LAST, NEXT_NUMBER } how;
};

static const struct rule RULES[] = {
    {"bar.sync", "removed", REMOVE},
    {"barrier.sync", "removed", REMOVE},
    {"bar.arrive", "removed", REMOVE},
    {"barrier.cluster", "removed", REMOVE},
    {"bar.warp.sync", "removed", REMOVE},
    {"fence.", "removed", REMOVE},
    {"membar", "removed", REMOVE},
    {"cp.async.commit_group", "removed", REMOVE},
    {"cp.async.wait", "removed", REMOVE},
    {"cp.async.wait_group", "number + 1", NEXT_NUMBER},
    {"cp.async.bulk.commit_group", "removed", REMOVE},
    {"cp.async.bulk.wait_group", "removed", REMOVE},
    {"cp.async.bulk.wait_group", "number + 1", NEXT_NUMBER},
    {"wgmma.fence", "removed", REMOVE},
    {"wgmma.commit_group", "removed", REMOVE},
    {"wgmma.wait_group", "removed", REMOVE},
    {"wgmma.wait_group", "number + 1", NEXT_NUMBER},
    {"mbarrier.arrive", "removed", REMOVE},
    {"mbarrier.arrive.expect_tx", "16 bytes more", ADD_LAST},
    {"mbarrier.arrive.expect_tx", "16 bytes less", SUBTRACT_LAST},
    {"mbarrier.init", "one arrival more", ADD_LAST},
    {"mbarrier.init", "one arrival less", SUBTRACT_LAST},
    {"mbarrier.try_wait.parity", "passes", PASS},
    {"mbarrier.try_wait.parity", "parity flipped", FLIP_LAST},
};

/* What stands for the statement [at, at + size). */
static void replacement(const struct rule *rule, const char *at, size_t size, char *out,
                        size_t room)
{
    const char *comma = at + size, *blank = at + size;
    unsigned step = strncmp(rule->start, "mbarrier.init", 13) == 0 ? 1 : 16;

    while (comma > at && *comma != ',') {
        comma--;
    }
    while (blank > at && *blank != ' ' && *blank != '\t') {
        blank--;
    }
    out[0] = 0;
    if (rule->how == NEXT_NUMBER) {
        (void)snprintf(out, room, "%.*s %ld;", (int)(blank - at), at, strtol(blank, NULL, 10) + 1);
    } else if (rule->how == PASS) {
        const char *name = strpbrk(at, " \t");

        (void)snprintf(out, room, "setp.eq.u32 %.*s, 0, 0;", (int)(strcspn(name + 1, ",")),
                       name + 1);
    } else if (rule->how != REMOVE) {
        int operand = (int)(size - (size_t)(comma - at) - 2);

        (void)snprintf(out, room, "{ .reg .b32 mutated; %s mutated, %.*s, %u; %.*s mutated; }",
                       rule->how == FLIP_LAST  ? "xor.b32"
                       : rule->how == ADD_LAST ? "add.u32"
                                               : "sub.u32",
                       operand, comma + 1, rule->how == FLIP_LAST ? 1 : step, (int)(comma + 1 - at),
                       at);
    }
}

bool ptx_mutant_make(const char *ptx, uint32_t index, struct ptx_mutant *out)
{
    uint32_t line = 1;

    for (const char *at = ptx; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, line++) {
        const char *start = at + strspn(at, " \t"), *end;
        char text[600];
        size_t size;

        if (*start == '@') { /* the guard stays where it is */
            start += strcspn(start, " \t\n");
            start += strspn(start, " \t");
        }
        end = strpbrk(start, ";\n");
        if (!end || *end != ';') {
            continue;
        }
        size = (size_t)(end - start) + 1;
        for (size_t r = 0; r < sizeof(RULES) / sizeof(RULES[0]); r++) {
            const struct rule *rule = &RULES[r];

            if (strncmp(start, rule->start, strlen(rule->start)) != 0 || index--) {
                continue;
            }
            replacement(rule, start, size, text, sizeof(text));
            if (!text[0]) { /* a guard needs a statement */
                (void)snprintf(text, sizeof(text), "nanosleep.u32 0;");
            }
            out->line = line;
            (void)snprintf(out->what, sizeof(out->what), "%s", rule->what);
            (void)snprintf(out->code, sizeof(out->code), "%.*s", (int)size, start);
            out->text = malloc(strlen(ptx) + sizeof(text));
            if (!out->text) {
                return false;
            }
            memcpy(out->text, ptx, (size_t)(start - ptx));
            (void)snprintf(out->text + (start - ptx), strlen(start) + sizeof(text), "%s%s", text,
                           end + 1);
            return true;
        }
    }
    return false;
}
