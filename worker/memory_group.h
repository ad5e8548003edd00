/*
 * What the kernel's control groups say of the memory of this process and its children: how often
 * somebody was killed for it, under which limit.
 */
#ifndef GK_WORKER_MEMORY_GROUP_H
#define GK_WORKER_MEMORY_GROUP_H

#include "core/buf.h"

struct gk_memory_group {
    char folder[4096]; /* of the group; "": there is none that can be read */
    size_t root_size;  /* the part of it that all groups share */
    bool unified;      /* cgroup v2; else v1 */
};

/* proc: /proc/self/cgroup; root: /sys/fs/cgroup. Without a group that can be read it is empty, and
 * what is asked of it is not known. */
void gk_memory_group_find(const char *proc, const char *root, struct gk_memory_group *group_out);

/* How many processes of the group the kernel has killed since it was made, those of groups within
 * included where the kernel counts them (v2); -1: not known. */
int64_t gk_memory_group_kills(const struct gk_memory_group *group);

/* "limit 512.0 MiB, peak 511.9 MiB": the limit is the nearest one up the tree. What is not known is
 * left out; "" if nothing is. */
void gk_memory_group_tell(const struct gk_memory_group *group, struct gk_buf *text);

#endif
