/* See memory_group.h. A process that the kernel kills for memory looks like one that somebody
 * killed: only the counter of its group tells. */
#include "worker/memory_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

#define FILE_MAX 65536 /* /proc/self/cgroup has a line a controller, the others a few */
/* v1 says "no limit" with the largest multiple of a page that fits. */
#define NO_LIMIT (INT64_MAX - 65535)

static char *load(const char *folder, const char *name)
{
    char path[4200], *text = NULL;
    size_t size = 0;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path ||
        gk_file_load(path, FILE_MAX, &text, &size, NULL) != GK_OK) {
        return NULL;
    }
    return text;
}

/* The number behind `key ` at the beginning of a line ("" for the first number); -1. */
static int64_t number_of(const char *text, const char *key)
{
    size_t size = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *digits = line + size + (size > 0);
        if (strncmp(line, key, size) == 0 && (size == 0 || line[size] == ' ') && *digits >= '0' &&
            *digits <= '9') {
            return strtoll(digits, NULL, 10);
        }
    }
    return -1;
}

static int64_t read_number(const char *folder, const char *name, const char *key)
{
    char *text = load(folder, name);
    int64_t number = text ? number_of(text, key) : -1;
    free(text);
    return number;
}

/* The folder of the line that has `mark` behind its number: "::" of v2, ":memory:" of v1. */
static bool folder_of(const char *lines, const char *mark, const char *base,
                      struct gk_memory_group *group)
{
    const char *at = strstr(lines, mark);
    if (!at) {
        return false;
    }
    at += strlen(mark);
    int size =
        snprintf(group->folder, sizeof group->folder, "%s%.*s", base, (int)strcspn(at, "\n"), at);
    group->root_size = strlen(base);
    return size > 0 && (size_t)size < sizeof group->folder;
}

void gk_memory_group_find(const char *proc, const char *root, struct gk_memory_group *group_out)
{
    struct gk_memory_group group = {.unified = true};
    char *lines = NULL, *memory = gk_asprintf("%s/memory", root);
    size_t size = 0;
    bool known = memory && gk_file_load(proc, FILE_MAX, &lines, &size, NULL) == GK_OK;
    if (known && (!folder_of(lines, "0::", root, &group) || gk_memory_group_kills(&group) < 0)) {
        group.unified = false;
        known = folder_of(lines, ":memory:", memory, &group) && gk_memory_group_kills(&group) >= 0;
    }
    *group_out = known ? group : (struct gk_memory_group){0};
    free(lines);
    free(memory);
}

int64_t gk_memory_group_kills(const struct gk_memory_group *group)
{
    return group->folder[0] == '\0' ? -1
           : group->unified         ? read_number(group->folder, "memory.events", "oom_kill")
                                    : read_number(group->folder, "memory.oom_control", "oom_kill");
}

/* Of the group or the nearest one above that has any; -1. */
static int64_t limit_of(struct gk_memory_group group)
{
    const char *name = group.unified ? "memory.max" : "memory.limit_in_bytes";
    while (strlen(group.folder) >= group.root_size) {
        int64_t limit = read_number(group.folder, name, "");
        if (limit >= 0 && limit < NO_LIMIT) {
            return limit;
        }
        char *last = strrchr(group.folder + group.root_size, '/');
        if (!last) {
            break;
        }
        *last = '\0';
    }
    return -1;
}

static void put(struct gk_buf *text, const char *what, int64_t bytes)
{
    if (bytes >= 0) {
        gk_buf_printf(text, "%s%s %.1f MiB", text->size > 0 ? ", " : "", what,
                      (double)bytes / (1 << 20));
    }
}

void gk_memory_group_tell(const struct gk_memory_group *group, struct gk_buf *text)
{
    gk_buf_reset(text);
    if (group->folder[0]) {
        put(text, "limit", limit_of(*group));
        put(text, "peak",
            read_number(group->folder, group->unified ? "memory.peak" : "memory.max_usage_in_bytes",
                        ""));
    }
}
