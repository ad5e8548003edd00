/*
 * Loading a catalog: which folders, which files, in which order.
 *
 * Runs in one thread; what it makes is immutable. Mistakes of all files are gathered before it
 * gives up.
 */
#include "kernels/catalog_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX 512 /* files of one folder that are looked at */

static const char template_suffix[] = ".kernel.json";

struct loader {
    struct gk_catalog *catalog;
    struct gk_diag *diag;
    int64_t include_folder; /* -1: this root has none */
};

/* ------------------------------------------------------------------ folders */

static bool has_suffix(const char *name, const char *suffix)
{
    size_t size = strlen(name), tail = strlen(suffix);
    return size > tail && strcmp(name + size - tail, suffix) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted names in a folder that end in the suffix ("" for all), without hidden ones. */
static enum gk_status list_folder(const char *path, const char *suffix, char ***names_out,
                                  uint32_t *count_out, struct gk_err *err)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return gk_fail(err, errno == ENOENT ? GK_NOT_FOUND : GK_IO, "%s: %s", path,
                       strerror(errno));
    }
    enum gk_status status = GK_OK;
    uint32_t count = 0;
    char **names = calloc(ENTRIES_MAX, sizeof *names);
    for (struct dirent *entry = NULL; names && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !has_suffix(entry->d_name, suffix)) {
            continue;
        }
        if (count == ENTRIES_MAX) {
            status = gk_fail(err, GK_LIMIT, "%s: more than %d entries", path, ENTRIES_MAX);
            break;
        }
        names[count] = gk_strdup(entry->d_name);
        if (!names[count]) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
            break;
        }
        count++;
    }
    closedir(dir);
    if (!names) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK) {
        gk_free_values(names, count);
        return status;
    }
    qsort(names, count, sizeof *names, compare_names);
    *names_out = names;
    *count_out = count;
    return GK_OK;
}

/* True if there is folder/name, whatever it is. On the stack: a lack of memory is no absence. */
static bool is_there(const char *folder, const char *name)
{
    struct stat info;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &info) == 0;
}

/* ------------------------------------------------------------------ one op */

static struct gk_json *open_json(const struct loader *l, uint32_t folder, const char *name,
                                 char **shown_out)
{
    const char *real = l->catalog->folders[folder].real;
    struct gk_source *source = NULL;
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_source_open(l->catalog, folder, name, &source, &err);
    if (status != GK_OK) {
        (void)gk_diag_add(l->diag, status, "%s/%s: %s", real, name, err.text); /* is the result */
        return NULL;
    }
    status = gk_json_parse(source->text, source->size, source->real, &json, &err);
    if (status != GK_OK) {
        (void)gk_diag_add(l->diag, status, "%s", err.text); /* a parse error names the file */
        return NULL;
    }
    *shown_out = source->real;
    return json;
}

static void read_template_file(const struct loader *l, struct gk_op *op, uint32_t folder,
                               const char *name)
{
    struct gk_template *t = &op->templates[op->template_count];
    const struct gk_reach reach = {
        .catalog = l->catalog, .folder = folder, .include_folder = l->include_folder};
    struct gk_reader r;
    char *shown = NULL;
    struct gk_json *json = open_json(l, folder, name, &shown);
    if (!json) {
        return;
    }
    gk_reader_init(&r, shown, l->diag);
    op->template_count++;
    gk_template_read(&r, json, op, &reach, t);
    for (uint32_t i = 0; i + 1 < op->template_count; i++) {
        if (t->name[0] && strcmp(op->templates[i].name, t->name) == 0) {
            gk_reader_fail(&r, "template", GK_EXISTS,
                           "a second template \"%s\" of op \"%s\"; names are unique", t->name,
                           op->fields.op);
        }
    }
    gk_json_free(json);
}

/* The order of op.json's "templates", then the others by file name (they were read sorted). */
static void order_templates(const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_json_get(json, "templates");
    uint32_t placed = 0;
    for (uint32_t i = 0; gk_json_is(list, GK_JSON_ARRAY) && i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        for (uint32_t k = placed; k < op->template_count; k++) {
            if (strcmp(op->templates[k].name, name) != 0) {
                continue;
            }
            struct gk_template found = op->templates[k];
            memmove(&op->templates[placed + 1], &op->templates[placed],
                    (k - placed) * sizeof found);
            op->templates[placed++] = found;
            break;
        }
    }
}

/* Reads the op in `op_folder` with the given template files of `template_folder`. */
/* What the mock device shall answer travels with the op it answers for; most folders have none. */
static void take_mock_script(const struct loader *l, uint32_t folder, struct gk_reader *r)
{
    struct gk_source *source = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_source_open(l->catalog, folder, "mock.json", &source, &err);
    if (status != GK_OK && status != GK_NOT_FOUND) {
        gk_reader_fail(r, NULL, status, "mock.json: %s", err.text);
    }
}

static void read_op(struct loader *l, uint32_t op_folder, uint32_t template_folder,
                    char **template_names, uint32_t template_count)
{
    struct gk_catalog *catalog = l->catalog;
    char *shown = NULL;
    struct gk_op *op = NULL;
    struct gk_reader r;
    const struct gk_reach reach = {
        .catalog = catalog, .folder = op_folder, .include_folder = l->include_folder};
    struct gk_json *json = open_json(l, op_folder, "op.json", &shown);
    if (!json) {
        return;
    }
    gk_reader_init(&r, shown, l->diag);
    op = calloc(1, sizeof *op);
    if (op) {
        op->templates = calloc(template_count + 1, sizeof *op->templates);
    }
    if (!op || !op->templates) {
        gk_reader_fail(&r, NULL, GK_NOMEM, "out of memory");
        goto out;
    }
    catalog->ops[catalog->op_count++] = op;
    gk_op_read(&r, json, op);
    if (!op->fields.scope) { /* out of memory, told: nothing can be read without it */
        op = NULL;           /* the catalog's by now */
        goto out;
    }
    if (op->fields.op[0] && strcmp(op->fields.op, catalog->folders[op_folder].prefix) != 0) {
        gk_reader_fail(&r, "op", GK_INPUT, "\"%s\" in a folder named \"%s\"; both are the same",
                       op->fields.op, catalog->folders[op_folder].prefix);
    }
    gk_op_read_checks(&r, json, &reach, op);
    take_mock_script(l, template_folder, &r);
    for (uint32_t i = 0; i < template_count; i++) {
        read_template_file(l, op, template_folder, template_names[i]);
    }
    order_templates(json, op);
    gk_op_read_defaults(&r, json, op);
    gk_op_read_preferences(&r, json, op);
    op = NULL;
out:
    gk_op_free(op);
    gk_json_free(json);
}

/* ------------------------------------------------------------------ whole folders */

static enum gk_status begin(struct loader *l, const char *root, struct gk_diag *diag)
{
    struct gk_err err = {0};
    *l = (struct loader){.diag = diag, .include_folder = -1};
    l->catalog = calloc(1, sizeof *l->catalog);
    if (l->catalog) {
        l->catalog->root = gk_strdup(root);
    }
    if (!l->catalog || !l->catalog->root) {
        return gk_diag_add(diag, GK_NOMEM, "out of memory");
    }
    if (is_there(root, "include")) {
        uint32_t index = 0;
        char *path = gk_asprintf("%s/include", root);
        enum gk_status status = path ? gk_folder_add(l->catalog, "include", path, &index, &err)
                                     : gk_fail(&err, GK_NOMEM, "out of memory");
        free(path);
        if (status != GK_OK) {
            return gk_diag_add(diag, status, "%s", err.text);
        }
        l->include_folder = index;
    }
    return GK_OK;
}

static enum gk_status finish(struct loader *l, struct gk_catalog **catalog_out)
{
    struct gk_buf names = {0};
    for (uint32_t i = 0; i < l->catalog->op_count; i++) {
        gk_buf_printf(&names, "%s%s", i ? ", " : "", l->catalog->ops[i]->fields.op);
    }
    l->catalog->names = gk_buf_detach(&names);
    if (!l->catalog->names) {
        (void)gk_diag_add(l->diag, GK_NOMEM, "out of memory"); /* counted below */
    }
    if (l->diag->count > 0) {
        gk_catalog_destroy(l->catalog);
        return l->diag->status;
    }
    *catalog_out = l->catalog;
    return GK_OK;
}

/* Reads root/<name> whole. */
static void read_op_folder(struct loader *l, const char *root, const char *name)
{
    struct gk_err err = {0};
    uint32_t folder = 0, count = 0;
    char **templates = NULL;
    char *path = gk_asprintf("%s/%s", root, name);
    enum gk_status status = path ? gk_folder_add(l->catalog, name, path, &folder, &err)
                                 : gk_fail(&err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = list_folder(path, template_suffix, &templates, &count, &err);
    }
    if (status == GK_OK && count > GK_TEMPLATES_MAX) {
        status = gk_fail(&err, GK_LIMIT, "%s: %" PRIu32 " templates; at most %d are allowed", path,
                         count, GK_TEMPLATES_MAX);
    }
    if (status == GK_OK) {
        read_op(l, folder, folder, templates, count);
    } else {
        (void)gk_diag_add(l->diag, status, "%s", err.text); /* counted by finish() */
    }
    gk_free_values(templates, count);
    free(path);
}

/* The family that an op.json names; "" if it does not parse: the mistake of another family is no
 * concern of the one asked for. GK_NOMEM is the only failure. */
static enum gk_status peek_family(const char *root, const char *name, char *family_out, size_t size)
{
    struct gk_json *json = NULL;
    char *path = gk_asprintf("%s/%s/op.json", root, name);
    enum gk_status status = path ? gk_json_load(path, GK_SOURCE_MAX, &json, NULL) : GK_NOMEM;
    free(path);
    family_out[0] = '\0';
    if (status == GK_OK) {
        const char *family = gk_json_get_string(json, "family", gk_json_get_string(json, "op", ""));
        (void)snprintf(family_out, size, "%s", family); /* a cut name matches nothing */
    }
    gk_json_free(json);
    return status == GK_NOMEM ? GK_NOMEM : GK_OK;
}

/* Every folder of root that holds an op.json; with `wanted`, those of that op or family. */
static enum gk_status read_root(struct loader *l, const char *root, const char *wanted)
{
    struct gk_err err = {0};
    struct gk_buf known = {0};
    char **names = NULL;
    uint32_t count = 0;
    enum gk_status status = list_folder(root, "", &names, &count, &err);
    if (status != GK_OK) {
        return gk_diag_add(l->diag, status, "%s", err.text);
    }
    for (uint32_t i = 0; i < count; i++) {
        char family[GK_NAME_MAX];
        char inside[GK_PATH_MAX + sizeof "/op.json"];
        (void)snprintf(inside, sizeof inside, "%.255s/op.json", names[i]); /* d_name's own bound */
        bool is_op = is_there(root, inside);
        if (!is_op) {
            continue;
        }
        if (l->catalog->op_count >= GK_OPS_MAX) {
            status = gk_diag_add(l->diag, GK_LIMIT, "%s: more than %d ops", root, GK_OPS_MAX);
            break;
        }
        gk_buf_printf(&known, "%s%s", known.size ? ", " : "", names[i]);
        if (wanted && strcmp(wanted, names[i]) != 0) {
            status = peek_family(root, names[i], family, sizeof family);
            if (status != GK_OK) {
                status = gk_diag_add(l->diag, status, "out of memory");
                break;
            }
            if (strcmp(wanted, family) != 0) {
                continue;
            }
        }
        read_op_folder(l, root, names[i]);
    }
    if (known.failed) {
        status = gk_diag_add(l->diag, GK_NOMEM, "out of memory");
    } else if (wanted && l->catalog->op_count == 0 && l->diag->count == 0) {
        status =
            gk_diag_add(l->diag, GK_NOT_FOUND,
                        "\"%.100s\" is no op, no family and no *.kernel.json file; ops of %s: %s",
                        wanted, root, known.size ? gk_buf_text(&known) : "none");
    } else if (!wanted && l->catalog->op_count == 0 && l->diag->count == 0) {
        status = gk_diag_add(l->diag, GK_NOT_FOUND, "%s: no folder in it holds an op.json", root);
    }
    gk_buf_fini(&known);
    gk_free_values(names, count);
    return status;
}

/* ------------------------------------------------------------------ a user's kernel.json */

/* The op's name that a kernel.json gives; NULL with a message. */
static char *peek_op(struct loader *l, const char *path)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    char *op = NULL, name[GK_NAME_MAX];
    enum gk_status status = gk_json_load(path, GK_SOURCE_MAX, &json, &err);
    if (status != GK_OK) {
        (void)gk_diag_add(l->diag, status, "%s", err.text); /* counted by finish() */
        return NULL;
    }
    struct gk_reader r;
    gk_reader_init(&r, path, l->diag);
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        gk_reader_fail(&r, NULL, GK_INPUT, "%s; an object is allowed",
                       gk_json_type_name(gk_json_type(json)));
    } else if (gk_read_name(&r, json, "op", sizeof name, name)) {
        op = gk_strdup(name);
    }
    gk_json_free(json);
    return op;
}

static void read_user(struct loader *l, const char *root, const char *path)
{
    struct gk_err err = {0};
    const char *slash = strrchr(path, '/');
    char *name = gk_strdup(slash ? slash + 1 : path);
    char *folder =
        slash ? gk_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : gk_strdup(".");
    char *op = peek_op(l, path);
    char *op_path = op ? gk_asprintf("%s/%s", root, op) : NULL;
    uint32_t template_folder = 0, op_folder = 0;
    enum gk_status status = GK_OK;
    if (!op || !op_path || !name || !folder) {
        goto out; /* reported, or out of memory: */
    }
    status = gk_folder_add(l->catalog, op, folder, &template_folder, &err);
    op_folder = template_folder;
    if (status == GK_OK && !is_there(folder, "op.json")) {
        status = is_there(op_path, "op.json")
                     ? gk_folder_add(l->catalog, op, op_path, &op_folder, &err)
                     : gk_fail(&err, GK_NOT_FOUND,
                               "%s: op: \"%s\" has no op.json, neither in %s nor in %s", path, op,
                               folder, op_path);
    }
    if (status == GK_OK) {
        read_op(l, op_folder, template_folder, &name, 1);
    }
out:
    if (status != GK_OK) {
        (void)gk_diag_add(l->diag, status, "%s", err.text); /* counted by finish() */
    } else if (l->catalog->op_count == 0 && l->diag->count == 0) {
        (void)gk_diag_add(l->diag, GK_NOMEM, "out of memory"); /* counted by finish() */
    }
    free(name);
    free(folder);
    free(op);
    free(op_path);
}

/* ------------------------------------------------------------------ public */

enum gk_status gk_catalog_load(const char *root, struct gk_catalog **catalog_out,
                               struct gk_diag *diag)
{
    struct loader l;
    enum gk_status status = begin(&l, root, diag);
    if (status == GK_OK) {
        (void)read_root(&l, root, NULL); /* in diag */
    } else if (!l.catalog) {
        return status;
    }
    return finish(&l, catalog_out);
}

enum gk_status gk_catalog_load_for(const char *root, const char *what,
                                   struct gk_catalog **catalog_out, struct gk_diag *diag)
{
    struct loader l;
    enum gk_status status = begin(&l, root, diag);
    if (status == GK_OK && has_suffix(what, template_suffix)) {
        read_user(&l, root, what);
    } else if (status == GK_OK) {
        (void)read_root(&l, root, what); /* in diag */
    } else if (!l.catalog) {
        return status;
    }
    return finish(&l, catalog_out);
}

void gk_catalog_destroy(struct gk_catalog *catalog)
{
    if (!catalog) {
        return;
    }
    for (uint32_t i = 0; i < catalog->op_count; i++) {
        gk_op_free(catalog->ops[i]);
    }
    for (uint32_t i = 0; i < catalog->source_count; i++) {
        gk_source_free(catalog->sources[i]);
    }
    for (uint32_t i = 0; i < catalog->folder_count; i++) {
        free(catalog->folders[i].prefix);
        free(catalog->folders[i].real);
    }
    free(catalog->names);
    free(catalog->root);
    free(catalog);
}

uint32_t gk_catalog_op_count(const struct gk_catalog *catalog)
{
    return catalog->op_count;
}

const struct gk_op *gk_catalog_op(const struct gk_catalog *catalog, uint32_t index)
{
    return index < catalog->op_count ? catalog->ops[index] : NULL;
}

const struct gk_op *gk_catalog_find(const struct gk_catalog *catalog, const char *op)
{
    for (uint32_t i = 0; i < catalog->op_count; i++) {
        if (strcmp(catalog->ops[i]->fields.op, op) == 0) {
            return catalog->ops[i];
        }
    }
    return NULL;
}

static const struct gk_op_fields *lookup_find(void *context, const char *op)
{
    const struct gk_op *found = gk_catalog_find(context, op);
    return found ? &found->fields : NULL;
}

static const char *lookup_names(void *context)
{
    const struct gk_catalog *catalog = context;
    return catalog->names;
}

struct gk_op_lookup gk_catalog_lookup(const struct gk_catalog *catalog)
{
    /* The lookup only reads; its context is not const because others' lookups may count. */
    return (struct gk_op_lookup){
        .find = lookup_find, .names = lookup_names, .context = (void *)(uintptr_t)catalog};
}
