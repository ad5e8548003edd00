/* Where a store lives: see state_dir.h. */
#include "core/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define GK_HINT "set another folder by --state or $GKTUNE_STATE"

static bool given(const char *text)
{
    return text && *text != '\0';
}

enum gk_status gk_state_dir(const char *option, const char *env_state, const char *xdg,
                            const char *home, struct gk_buf *out, struct gk_err *err)
{
    gk_buf_reset(out);
    if (given(option)) {
        gk_buf_puts(out, option);
    } else if (given(env_state)) {
        gk_buf_puts(out, env_state);
    } else if (given(xdg) && xdg[0] == '/') {
        gk_buf_printf(out, "%s/gktune", xdg);
    } else if (given(home)) {
        gk_buf_printf(out, "%s/.local/state/gktune", home);
    } else {
        return gk_fail(err, GK_USAGE,
                       "no state folder: $HOME, $XDG_STATE_HOME and $GKTUNE_STATE are not set; "
                       "name one by --state DIR");
    }
    while (out->size > 1 && out->data[out->size - 1] == '/') {
        out->data[--out->size] = '\0';
    }
    return gk_buf_status(out, err);
}

static enum gk_status make_one(const char *path, const char *whole, struct gk_err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) {
        return GK_OK;
    }
    return gk_fail(err, GK_IO, "state folder '%s': cannot create '%s': %s; " GK_HINT, whole, path,
                   strerror(errno));
}

/* Names of the file systems on which locks and fsync do not hold what the store needs. */
static const char *network_name(const char *path)
{
    static const struct {
        unsigned magic;
        const char *name;
    } network[] = {
        {NFS_SUPER_MAGIC, "NFS"}, {SMB_SUPER_MAGIC, "SMB"},   {0xFF534D42u, "CIFS"},
        {0xFE534D42u, "SMB2"},    {CEPH_SUPER_MAGIC, "Ceph"}, {0x0BD00BD0u, "Lustre"},
        {AFS_SUPER_MAGIC, "AFS"}, {0x47504653u, "GPFS"},      {CODA_SUPER_MAGIC, "Coda"},
    };
    struct statfs info;
    if (statfs(path, &info) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(network); i++) {
        if (network[i].magic == (unsigned)info.f_type) {
            return network[i].name;
        }
    }
    return NULL;
}

/* Whoever else can write there can replace the store, and whoever can read it has keys and kernels;
 * a link can be turned to another folder while the daemon runs. */
static enum gk_status check_owner(const char *path, struct gk_err *err)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return gk_fail(err, GK_IO, "state folder '%s': %s; " GK_HINT, path, strerror(errno));
    }
    if (S_ISLNK(info.st_mode)) {
        char target[1024];
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        return gk_fail(err, GK_INPUT,
                       "state folder '%s' is a symbolic link to '%s': name the folder itself", path,
                       target);
    }
    if (!S_ISDIR(info.st_mode)) {
        return gk_fail(err, GK_IO, "state folder '%s' is not a folder; " GK_HINT, path);
    }
    if (info.st_uid != geteuid()) {
        return gk_fail(
            err, GK_INPUT,
            "state folder '%s' belongs to user %u and we are user %u: its owner must run "
            "this, or " GK_HINT,
            path, (unsigned)info.st_uid, (unsigned)geteuid());
    }
    if (info.st_mode & 077) {
        return gk_fail(
            err, GK_INPUT,
            "state folder '%s' has mode %04o, so others can look into it: chmod 700 '%s'", path,
            (unsigned)(info.st_mode & 07777), path);
    }
    return GK_OK;
}

enum gk_status gk_state_dir_make(const char *path, struct gk_err *err)
{
    char *copy = gk_strdup(path);
    if (!copy) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = GK_OK;
    for (char *slash = strchr(copy + 1, '/'); slash && status == GK_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = make_one(copy, path, err);
        *slash = '/';
    }
    if (status == GK_OK) {
        status = make_one(copy, path, err);
    }
    free(copy);
    if (status != GK_OK) {
        return status;
    }
    status = check_owner(path, err);
    if (status != GK_OK) {
        return status;
    }
    if (access(path, R_OK | W_OK | X_OK) != 0) {
        return gk_fail(err, GK_IO, "state folder '%s' cannot be written: %s; " GK_HINT, path,
                       strerror(errno));
    }
    const char *network = network_name(path);
    if (network) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "state folder '%s' is on %s, a network file system, where the store's locks "
                       "do not hold; " GK_HINT,
                       path, network);
    }
    return GK_OK;
}

enum gk_status gk_backup_check(const char *path, struct gk_err *err)
{
    unsigned char head[20] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t size = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    /* Byte 18 of SQLite's header: 2 is a file that is written through a log. */
    return size == (ssize_t)sizeof head && memcmp(head, "SQLite format 3", 16) == 0 && head[18] == 2
               ? gk_fail(err, GK_INPUT,
                         "%s is a copy of a store and no backup: what stood in its log is not in "
                         "it; make one with gktune db backup",
                         path)
               : GK_OK;
}
