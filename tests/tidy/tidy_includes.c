/* Who may include whom: arrows between folders, fences around foreign headers, device code. */
#include <stdio.h>
#include <string.h>

#include "tests/tidy/tidy.h"

struct arrow {
    const char *from; /* folder with its '/' */
    const char *to;   /* start of the included path */
};

/* docs/DESIGN.md, section 3. A folder may always include itself; tests and bench may include
 * anything. */
static const struct arrow arrows[] = {
    {"cli/", "core/"},
    {"cli/", "search/"},
    {"cli/", "kernels/catalog"},
    {"daemon/", "core/"},
    {"daemon/", "db/"},
    {"daemon/", "search/"},
    {"daemon/", "kernels/catalog"},
    {"worker/", "core/"},
    {"worker/", "kernels/catalog"},
    {"worker/", "kernels/render"},
    {"search/", "core/"},
    {"db/", "core/"},
    {"kernels/", "core/"},
};

static const char *const fenced_folders[] = {"core/",   "search/", "db/",     "worker/",
                                             "daemon/", "cli/",    "kernels/"};

static const struct arrow fences[] = {
    {"core/link.c", "zmq.h"},
    {"core/loop.c", "zmq.h"},
    {"core/zap.c", "zmq.h"},
    {"core/loop.", "uv.h"},
    {"daemon/", "uv.h"},
    {"worker/child", "uv.h"},
    {"worker/pool", "uv.h"},
    {"worker/process", "uv.h"},
    {"worker/supervisor", "uv.h"},
    {"worker/worker", "uv.h"},
    {"worker/main.c", "uv.h"},
    {"worker/session", "uv.h"},
    {"db/", "sqlite3.h"},
    {"db/", "zlib.h"},
    {"search/replay_inflate.c", "zlib.h"},
    {"worker/cuda/", "cuda.h"},
    {"worker/cuda/", "cublasLt.h"},
    {"worker/compiler.c", "nvrtc.h"},
    {"core/json.c", "jansson.h"},
    {"core/", "sodium.h"},
    {"daemon/http.c", "microhttpd.h"},
};

static bool is_in(const char *path, const char *const *folders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tidy_starts_with(path, folders[i])) {
            return true;
        }
    }
    return false;
}

static bool has_file(const struct tidy_tree *tree, const char *path)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->files[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static void check_own(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                      const char *target)
{
    size_t folder = strcspn(file->path, "/") + 1;
    if (tidy_starts_with(file->path, "tests/e2e/") && tidy_starts_with(target, "gk_")) {
        return; /* an exported header, made by the test that compiles this file against it */
    }
    if (!strchr(target, '/')) {
        tidy_report(tree, file, line, "include-root",
                    "\"%s\": write the path from the root, as \"core/%s\"", target, target);
        return;
    }
    if (!has_file(tree, target)) {
        tidy_report(tree, file, line, "include-missing", "there is no file %s", target);
        return;
    }
    if (!is_in(file->path, fenced_folders, GK_ARRAY_COUNT(fenced_folders)) ||
        strncmp(file->path, target, folder) == 0) {
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(arrows); i++) {
        if (tidy_starts_with(file->path, arrows[i].from) &&
            tidy_starts_with(target, arrows[i].to)) {
            return;
        }
    }
    tidy_report(tree, file, line, "include-arrow", "%.*s may not include %s", (int)folder,
                file->path, target);
}

static void check_foreign(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                          const char *target)
{
    bool is_fenced = false;
    if (!is_in(file->path, fenced_folders, GK_ARRAY_COUNT(fenced_folders))) {
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(fences); i++) {
        if (strcmp(target, fences[i].to) == 0) {
            is_fenced = true;
            if (tidy_starts_with(file->path, fences[i].from)) {
                return;
            }
        }
    }
    if (is_fenced) {
        tidy_report(tree, file, line, "include-fence", "%s is fenced elsewhere (DESIGN section 3)",
                    target);
    }
}

/* What a template shares with its neighbours lies beside them and is named without a folder. */
static bool is_beside(const struct tidy_tree *tree, const struct tidy_file *file,
                      const char *target)
{
    char path[512];
    size_t folder = (size_t)(tidy_base_name(file->path) - file->path);
    if (strchr(target, '/') || folder + strlen(target) >= sizeof path) {
        return false;
    }
    memcpy(path, file->path, folder);
    memcpy(path + folder, target, strlen(target) + 1);
    return has_file(tree, path);
}

static void check_device(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                         char open, const char *target)
{
    if (!tidy_starts_with(file->path, "kernels/")) {
        return;
    }
    if (open == '"' ? !is_beside(tree, file, target) : !tidy_starts_with(target, "gk/")) {
        tidy_report(tree, file, line, "include-device",
                    "%s: kernels include <gk/...> and \"parts beside them\" alone", target);
    }
}

static void check_line(struct tidy_tree *tree, const struct tidy_file *file, uint32_t line,
                       const char *text)
{
    char target[256];
    char open;
    if (sscanf(text, " # include %c%255[^\">\n]", &open, target) != 2) {
        return;
    }
    if (tidy_ends_with(file->path, ".cu") || tidy_ends_with(file->path, ".cuh")) {
        check_device(tree, file, line, open, target);
    } else if (open == '"') {
        check_own(tree, file, line, target);
    } else {
        check_foreign(tree, file, line, target);
    }
}

void tidy_check_includes(struct tidy_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tidy_file *file = &tree->files[i];
        uint32_t line = 1;
        if (!file->code) {
            continue;
        }
        for (const char *at = file->text; at; line++) {
            size_t offset = (size_t)(at - file->text);
            if (file->code[offset + strspn(at, " ")] == '#') { /* not inside a comment */
                check_line(tree, file, line, at);
            }
            at = strchr(at, '\n');
            at = at ? at + 1 : NULL;
        }
    }
}
