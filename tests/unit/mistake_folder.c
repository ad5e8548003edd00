/*
 * See mistake_folder.h.
 */
#include "tests/unit/mistake_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "tests/support/check.h"
#include "tests/support/source_dir.h"

#define SOURCE_MAX (128u << 10)

static bool copy_file(const char *from, const char *to, const struct mistake_change *change,
                      bool hit)
{
    struct gk_err err = {0};
    char *text = NULL;
    size_t size = 0;
    assert_ok(gk_file_load(from, SOURCE_MAX, &text, &size, &err), err);
    char *out = hit ? mistake_apply(change, text) : text;
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_true(fputs(out, file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (hit) {
        free(out);
    }
    free(text);
    return hit;
}

/* Files of kernels/`from` to root/`from`; `as` is the folder's name in a mistake. Returns how many
 * were changed. */
static uint32_t copy_folder(const char *root, const char *from, const char *as,
                            const struct mistake_change *change)
{
    char source[600], target[300], path[1000], to[700], name[300];
    uint32_t hits = 0;
    (void)snprintf(source, sizeof source, "%s/kernels/%s", test_source_dir(), from);
    (void)snprintf(target, sizeof target, "%s/%s", root, from);
    assert_int_equal(mkdir(target, 0700), 0);
    DIR *dir = opendir(source);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".md")) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", source, entry->d_name);
        (void)snprintf(to, sizeof to, "%s/%s", target, entry->d_name);
        (void)snprintf(name, sizeof name, "%.32s/%.250s", as, entry->d_name);
        hits += copy_file(path, to, change, strcmp(name, change->file) == 0);
    }
    (void)closedir(dir);
    return hits;
}

void mistake_folder_make(const struct mistake_change *change, const char *op, char *root)
{
    char include[300];
    assert_non_null(mkdtemp(root));
    (void)snprintf(include, sizeof include, "%s/include", root);
    assert_int_equal(mkdir(include, 0700), 0);
    uint32_t hits =
        copy_folder(root, op, op, change) + copy_folder(root, "include/gk", "gk", change);
    if (hits != 1) {
        fail_msg("%s: %s is %s", change->name, change->file, hits ? "there twice" : "not there");
    }
}

void mistake_folder_remove(const char *path)
{
    char inside[700];
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(inside, sizeof inside, "%.400s/%.250s", path, entry->d_name);
            if (unlink(inside) != 0) {
                mistake_folder_remove(inside); /* one of three levels that this test made */
            }
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    (void)rmdir(path); /* what is left of a temporary folder harms nobody */
}
