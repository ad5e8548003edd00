#include "tests/unit/mistake_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json.h"
#include "tests/support/check.h"

#define LIST_MAX (128u << 10)
#define KEY_SIZE 20u

void mistake_take(char *to, size_t size, const char *value)
{
    if (strlen(value) >= size) {
        fail_msg("'%.60s..' has %zu bytes; %zu fit", value, strlen(value), size - 1);
    }
    (void)snprintf(to, size, "%s", value);
}

static void add_line(char to[MISTAKE_TEXT_SIZE], const char *line)
{
    size_t used = strlen(to);
    if (used > 0 && used + 1 < MISTAKE_TEXT_SIZE) {
        to[used++] = '\n';
    }
    mistake_take(to + used, MISTAKE_TEXT_SIZE - used, line);
}

static bool take_member(struct mistake_change *change, const char *key, const char *value)
{
    if (strcmp(key, "file") == 0) {
        mistake_take(change->file, sizeof change->file, value);
    } else if (strcmp(key, "wants") == 0) {
        mistake_take(change->wants, sizeof change->wants, value);
    } else if (strcmp(key, "old") == 0) {
        add_line(change->old, value);
    } else if (strcmp(key, "new") == 0) {
        add_line(change->new, value);
    } else {
        return false;
    }
    return true;
}

void mistake_list_read(const char *path, struct mistake_change *(*next)(void),
                       bool (*field)(const char *key, const char *value))
{
    struct gk_err err = {0};
    struct mistake_change *change = NULL;
    char *text = NULL;
    size_t size = 0;
    assert_ok(gk_file_load(path, LIST_MAX, &text, &size, &err), err);
    for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
        char key[KEY_SIZE];
        end = strchr(line, '\n');
        if (end) {
            *end = '\0';
        }
        const char *colon = strchr(line, ':');
        if (!line[0] || line[0] == '#') {
            continue;
        }
        if (!colon || (size_t)(colon - line) >= sizeof key) {
            fail_msg("%s: '%s' is no field", path, line);
            break;
        }
        (void)snprintf(key, sizeof key, "%.*s", (int)(colon - line), line);
        const char *value = colon[1] == ' ' ? colon + 2 : colon + 1;
        if (strcmp(key, "name") == 0) {
            change = next();
            mistake_take(change->name, sizeof change->name, value);
        } else if (!change || !(take_member(change, key, value) || field(key, value))) {
            fail_msg("%s: '%s' is no field", path, line);
        }
    }
    free(text);
}

char *mistake_apply(const struct mistake_change *change, const char *text)
{
    const char *at = strstr(text, change->old);
    if (!change->old[0] || !at || strstr(at + 1, change->old)) {
        fail_msg("%s: the old text is %s in %s", change->name, at ? "not alone" : "not",
                 change->file);
        return NULL; /* not reached */
    }
    size_t size = strlen(text) + MISTAKE_TEXT_SIZE;
    char *out = calloc(1, size);
    assert_non_null(out);
    (void)snprintf(out, size, "%.*s%s%s", (int)(at - text), text, change->new,
                   at + strlen(change->old));
    return out;
}

bool mistake_wants(const struct mistake_change *change, const char *ending)
{
    size_t size = strlen(ending);
    for (const char *at = change->wants; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, ending, size) == 0 && (at[size] == 0 || at[size] == '|')) {
            return true;
        }
    }
    return false;
}
