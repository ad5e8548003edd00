/* See sim_disk.h. */
#include "tests/sim/sim_disk.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX  8
#define SECTOR     512
#define FILE_BYTES (64u << 20)

struct content {
    unsigned char *bytes;
    size_t size, capacity;
};

struct disk_file {
    char name[512];
    bool exists;
    struct content now, safe; /* as the process sees it; as it is after a loss of power */
    size_t dirty_low, dirty_high;
    size_t cut; /* the shortest it was since the last sync; SIZE_MAX: it was not cut */
};

struct open_file {
    sqlite3_file base;
    struct disk_file *file;
};

static struct {
    struct disk_file files[FILES_MAX];
    struct gk_prng *prng;
    enum disk_fault fault;
    uint64_t left, operations;
    bool hit, dead, dying, full, sync_failed, ignore_syncs;
} disk;

static sqlite3_vfs disk_vfs;
static sqlite3_vfs *real_vfs;

/* ------------------------------------------------------------------ contents */

static bool reserve(struct content *content, size_t size)
{
    if (size <= content->capacity) {
        return true;
    }
    size_t capacity = content->capacity ? content->capacity : 1u << 16;
    while (capacity < size) {
        capacity *= 2;
    }
    unsigned char *bytes = size <= FILE_BYTES ? realloc(content->bytes, capacity) : NULL;
    if (!bytes) {
        return false;
    }
    memset(bytes + content->capacity, 0, capacity - content->capacity);
    content->bytes = bytes;
    content->capacity = capacity;
    return true;
}

static void resize(struct content *content, size_t size)
{
    if (size < content->size) {
        memset(content->bytes + size, 0, content->size - size);
    }
    content->size = size;
}

static void mark_dirty(struct disk_file *file, size_t low, size_t high)
{
    file->dirty_low = low < file->dirty_low ? low : file->dirty_low;
    file->dirty_high = high > file->dirty_high ? high : file->dirty_high;
}

static void mark_clean(struct disk_file *file)
{
    file->dirty_low = file->cut = SIZE_MAX;
    file->dirty_high = 0;
}

static struct disk_file *find(const char *name, bool make)
{
    struct disk_file *spare = NULL;
    for (int i = 0; i < FILES_MAX; i++) {
        if (disk.files[i].exists && strcmp(disk.files[i].name, name) == 0) {
            return &disk.files[i];
        }
        spare = spare || disk.files[i].exists ? spare : &disk.files[i];
    }
    if (make && spare && strlen(name) < sizeof spare->name) {
        memcpy(spare->name, name, strlen(name) + 1);
        spare->exists = true;
        resize(&spare->now, 0);
        resize(&spare->safe, 0);
        mark_clean(spare);
        return spare;
    }
    return NULL;
}

/* ------------------------------------------------------------------ faults */

/* SQLITE_OK: the operation may go on. */
static int operation(int io_error)
{
    disk.dying = false;
    if (disk.dead) {
        return io_error;
    }
    disk.operations++;
    if (disk.full && io_error == SQLITE_IOERR_WRITE) {
        return SQLITE_FULL;
    }
    if (disk.fault == DISK_FINE || --disk.left > 0) {
        return SQLITE_OK;
    }
    enum disk_fault fault = disk.fault;
    disk.fault = DISK_FINE;
    disk.hit = true;
    disk.dead = disk.dying = fault == DISK_DIES;
    disk.full = fault == DISK_FULL;
    if (fault == DISK_FULL) {
        return io_error == SQLITE_IOERR_WRITE ? SQLITE_FULL : SQLITE_OK;
    }
    disk.sync_failed = disk.sync_failed || io_error == SQLITE_IOERR_FSYNC;
    return io_error;
}

void disk_arm(enum disk_fault fault, uint64_t at)
{
    disk.fault = fault;
    disk.left = at;
    disk.hit = false;
}

void disk_make_room(void)
{
    disk.full = false;
}

void disk_die_now(void)
{
    disk.dead = true;
}

bool disk_is_dead(void)
{
    return disk.dead;
}

bool disk_fault_hit(void)
{
    return disk.hit;
}

bool disk_sync_failed(void)
{
    return disk.sync_failed;
}

uint64_t disk_operations(void)
{
    return disk.operations;
}

void disk_ignore_syncs(bool ignore)
{
    disk.ignore_syncs = ignore;
}

/* The sector as it is after the loss: old, new, or the first bytes of the new one. */
static void settle_sector(struct disk_file *file, size_t at, size_t size)
{
    unsigned char *now = file->now.bytes + at, *safe = file->safe.bytes + at;
    uint64_t fate = gk_prng_below(disk.prng, 8);
    size_t kept = fate < 4 ? 0 : fate < 7 ? size : (size_t)gk_prng_below(disk.prng, size);
    memcpy(now + kept, safe + kept, size - kept);
}

static void lose_power(struct disk_file *file)
{
    /* A cut is one change of the file system's books: it is there as a whole, and before what was
     * written behind it, or not at all. */
    if (file->cut < file->safe.size) {
        if (gk_prng_below(disk.prng, 2)) {
            resize(&file->safe, file->cut);
        } else {
            if (!reserve(&file->now, file->safe.size)) {
                abort();
            }
            memcpy(file->now.bytes, file->safe.bytes, file->safe.size); /* more than cut */
            file->now.size = file->safe.size;
            return;
        }
    }
    size_t size = file->now.size, high = file->dirty_high;
    if (file->dirty_low >= high && file->safe.size == size) {
        return;
    }
    high = high > size ? high : size;
    high = high > file->safe.size ? high : file->safe.size;
    if (!reserve(&file->now, high + SECTOR) || !reserve(&file->safe, high + SECTOR)) {
        abort(); /* a simulation without memory says nothing */
    }
    size_t low = file->dirty_low < high ? file->dirty_low / SECTOR * SECTOR : high;
    for (size_t at = low; at < high; at += SECTOR) {
        settle_sector(file, at, high - at < SECTOR ? high - at : SECTOR);
    }
    /* The length is a fact of its own: that of before or that of now. */
    size_t length = gk_prng_below(disk.prng, 2) ? file->now.size : file->safe.size;
    file->now.size = high;
    resize(&file->now, length);
}

void disk_revive(bool power_lost)
{
    for (int i = 0; i < FILES_MAX; i++) {
        struct disk_file *file = &disk.files[i];
        if (!file->exists) {
            continue;
        }
        if (power_lost) {
            lose_power(file);
        }
        if (!reserve(&file->safe, file->now.size)) {
            abort();
        }
        if (file->now.size > 0) {
            memcpy(file->safe.bytes, file->now.bytes, file->now.size);
        }
        file->safe.size = file->now.size;
        mark_clean(file);
    }
    disk.dead = disk.sync_failed = false;
    disk.fault = DISK_FINE;
}

void disk_reset(struct gk_prng *prng)
{
    for (int i = 0; i < FILES_MAX; i++) {
        free(disk.files[i].now.bytes);
        free(disk.files[i].safe.bytes);
    }
    memset(&disk, 0, sizeof disk);
    disk.prng = prng;
}

bool disk_flip_bit(void)
{
    for (int i = 0; i < FILES_MAX; i++) {
        struct content *now = &disk.files[i].now;
        if (disk.files[i].exists && now->size > 4096) {
            size_t at = (size_t)gk_prng_below(disk.prng, now->size);
            now->bytes[at] ^= (unsigned char)(1u << gk_prng_below(disk.prng, 8));
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ a file's methods */

static int file_close(sqlite3_file *handle)
{
    (void)handle;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *handle, void *out, int count, sqlite3_int64 offset)
{
    const struct content *now = &((struct open_file *)handle)->file->now;
    size_t at = (size_t)offset, want = (size_t)count;
    if (disk.dead) {
        return SQLITE_IOERR_READ;
    }
    size_t there = at >= now->size ? 0 : now->size - at;
    there = there < want ? there : want;
    if (there > 0) {
        memcpy(out, now->bytes + at, there);
    }
    memset((char *)out + there, 0, want - there);
    return there == want ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *handle, const void *bytes, int count, sqlite3_int64 offset)
{
    struct disk_file *file = ((struct open_file *)handle)->file;
    size_t at = (size_t)offset, size = (size_t)count;
    int rc = operation(SQLITE_IOERR_WRITE);
    if (rc != SQLITE_OK) {
        /* A process that dies in a write may leave part of it. */
        size = disk.dying && size > 0 ? (size_t)gk_prng_below(disk.prng, size) : 0;
    }
    if (size > 0) {
        if (!reserve(&file->now, at + size)) {
            return SQLITE_FULL;
        }
        memcpy(file->now.bytes + at, bytes, size);
        file->now.size = file->now.size > at + size ? file->now.size : at + size;
        mark_dirty(file, at, at + size);
    }
    return rc;
}

static int file_truncate(sqlite3_file *handle, sqlite3_int64 size)
{
    struct disk_file *file = ((struct open_file *)handle)->file;
    int rc = operation(SQLITE_IOERR_TRUNCATE);
    if (rc == SQLITE_OK && (size_t)size < file->now.size) {
        file->cut = (size_t)size < file->cut ? (size_t)size : file->cut;
        resize(&file->now, (size_t)size);
    }
    return rc;
}

static int file_sync(sqlite3_file *handle, int flags)
{
    struct disk_file *file = ((struct open_file *)handle)->file;
    (void)flags;
    int rc = operation(SQLITE_IOERR_FSYNC);
    if (rc != SQLITE_OK || disk.ignore_syncs) {
        return rc;
    }
    size_t high = file->dirty_high < file->now.size ? file->dirty_high : file->now.size;
    if (file->cut < file->safe.size) {
        resize(&file->safe, file->cut);
    }
    if (!reserve(&file->safe, file->now.size)) {
        return SQLITE_IOERR_FSYNC;
    }
    if (file->dirty_low < high) {
        memcpy(file->safe.bytes + file->dirty_low, file->now.bytes + file->dirty_low,
               high - file->dirty_low);
    }
    resize(&file->safe, file->now.size);
    mark_clean(file);
    return SQLITE_OK;
}

static int file_size(sqlite3_file *handle, sqlite3_int64 *size_out)
{
    *size_out = (sqlite3_int64)((struct open_file *)handle)->file->now.size;
    return disk.dead ? SQLITE_IOERR_FSTAT : SQLITE_OK;
}

static int file_lock(sqlite3_file *handle, int level)
{
    (void)handle;
    (void)level;
    return SQLITE_OK; /* one connection is all there ever is */
}

static int file_reserved(sqlite3_file *handle, int *held_out)
{
    (void)handle;
    *held_out = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *handle, int op, void *argument)
{
    (void)handle;
    (void)op;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *handle)
{
    (void)handle;
    return SECTOR;
}

static int characteristics(sqlite3_file *handle)
{
    (void)handle;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = file_close,
                                           .xRead = file_read,
                                           .xWrite = file_write,
                                           .xTruncate = file_truncate,
                                           .xSync = file_sync,
                                           .xFileSize = file_size,
                                           .xLock = file_lock,
                                           .xUnlock = file_lock,
                                           .xCheckReservedLock = file_reserved,
                                           .xFileControl = file_control,
                                           .xSectorSize = sector_size,
                                           .xDeviceCharacteristics = characteristics};

/* ------------------------------------------------------------------ the file system */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *handle, int flags,
                    int *flags_out)
{
    struct open_file *open = (struct open_file *)handle;
    (void)vfs;
    open->base.pMethods = NULL;
    if (disk.dead) {
        return SQLITE_CANTOPEN;
    }
    open->file = find(name ? name : "temporary", (flags & SQLITE_OPEN_CREATE) != 0);
    if (!open->file) {
        return SQLITE_CANTOPEN;
    }
    open->base.pMethods = &methods;
    if (flags_out) {
        *flags_out = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    (void)sync_folder;
    int rc = operation(SQLITE_IOERR_DELETE);
    struct disk_file *file = rc == SQLITE_OK ? find(name, false) : NULL;
    if (file) {
        file->exists = false;
    }
    return rc == SQLITE_OK && !file ? SQLITE_IOERR_DELETE_NOENT : rc;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *there_out)
{
    (void)vfs;
    (void)flags;
    *there_out = find(name, false) != NULL;
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    if (strlen(name) >= (size_t)size) {
        return SQLITE_CANTOPEN;
    }
    memcpy(out, name, strlen(name) + 1);
    return SQLITE_OK;
}

void disk_register(void)
{
    if (real_vfs) {
        return;
    }
    real_vfs = sqlite3_vfs_find(NULL);
    disk_vfs = *real_vfs; /* time, sleep and random numbers are its own */
    disk_vfs.iVersion = 1;
    disk_vfs.szOsFile = (int)sizeof(struct open_file);
    disk_vfs.zName = "simulated";
    disk_vfs.xOpen = vfs_open;
    disk_vfs.xDelete = vfs_delete;
    disk_vfs.xAccess = vfs_access;
    disk_vfs.xFullPathname = vfs_full_path;
    if (sqlite3_vfs_register(&disk_vfs, 1) != SQLITE_OK) {
        abort();
    }
}
