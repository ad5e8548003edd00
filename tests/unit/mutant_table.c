/*
 * See mutant_table.h.
 */
#include "tests/unit/mutant_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json.h"
#include "tests/support/check.h"

#define TABLE_MAX   (64u << 10)
#define ENTRIES_MAX 200u
#define SOURCE_MAX  (128u << 10)

static struct {
    char *text;
    struct mutant_entry entries[ENTRIES_MAX];
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

void mutant_table_load(const char *path)
{
    struct gk_err err = {0};
    char *rest, *line;
    size_t size = 0;

    assert_ok(gk_file_load(path, TABLE_MAX, &table.text, &size, &err), err);
    rest = table.text;
    while ((line = cut(&rest, '\n')) != NULL) {
        struct mutant_entry *entry = &table.entries[table.count];

        if (*line == '#' || !*line) {
            continue;
        }
        assert_true(table.count < ENTRIES_MAX);
        for (uint32_t i = 0; i < MUTANT_FIELDS; i++) {
            char *field = cut(&line, '|');

            if (!field || !*trimmed(field)) {
                fail_msg("%s: entry %u has no field %u", path, table.count + 1, i + 1);
            } else {
                entry->field[i] = trimmed(field);
            }
        }
        table.count++;
    }
}

/* From the folder, or from gk's headers. */
static bool load_source(const char *folder, const char *name, char **text_out)
{
    const char *const folders[] = {folder, "include/gk"};
    char path[600];
    size_t size = 0;
    bool found = false;

    for (size_t i = 0; i < GK_ARRAY_COUNT(folders) && !found; i++) {
        (void)snprintf(path, sizeof(path), "%s/kernels/%s/%s", GK_SOURCE_DIR, folders[i], name);
        found = gk_file_load(path, SOURCE_MAX, text_out, &size, NULL) == GK_OK;
    }
    return found;
}

void mutant_place(const char *folder, const struct ptx_mutant *mutant, char *out, size_t room)
{
    char function[100] = "", *text = NULL, *line = NULL, *rest;

    (void)snprintf(out, room, "unknown");
    if (!mutant->in_file || !load_source(folder, mutant->file, &text)) {
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

struct mutant_entry *mutant_table_find(const char *source, const struct ptx_mutant *mutant,
                                       const char *place)
{
    const char *const key[] = {source, mutant->what, mutant->opcode, place};

    for (uint32_t i = 0; i < table.count; i++) {
        uint32_t same = 0;

        while (same < GK_ARRAY_COUNT(key) &&
               (strcmp(key[same], table.entries[i].field[same]) == 0 ||
                (same == 0 && strcmp(table.entries[i].field[0], "*") == 0))) {
            same++;
        }
        if (same == GK_ARRAY_COUNT(key)) {
            return &table.entries[i];
        }
    }
    return NULL;
}

uint32_t mutant_table_stale(void)
{
    uint32_t stale = 0;

    for (uint32_t i = 0; i < table.count; i++) {
        const struct mutant_entry *entry = &table.entries[i];
        bool elsewhere = strncmp(entry->field[MUTANT_FIELDS - 1], "elsewhere", 9) == 0;

        if (!entry->met || (elsewhere && !entry->dead)) {
            stale++;
            (void)printf("no mutant %s: %s | %s | %s | %s\n", entry->met ? "dies" : "survives",
                         entry->field[0], entry->field[1], entry->field[2], entry->field[3]);
        }
    }
    return stale;
}

void mutant_table_free(void)
{
    free(table.text);
    memset(&table, 0, sizeof(table));
}
