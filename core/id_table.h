/*
 * A hash table from numbers to pointers: open addressing, no tombstones. For what is looked up by a
 * token or an id thousands of times a second. Key 0 is allowed; one thread a table.
 */
#ifndef GK_CORE_ID_TABLE_H
#define GK_CORE_ID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gk_table { /* all zero: empty */
    struct gk_table_slot {
        uint64_t key;
        void *value; /* NULL: a free slot */
    } * slots;
    size_t capacity, count;
};

void gk_table_fini(struct gk_table *table); /* the values stay the caller's */
/* Replaces a value of the same key. value is not NULL. False when out of memory: nothing changed.
 */
bool gk_table_put(struct gk_table *table, uint64_t key, void *value);
void *gk_table_get(const struct gk_table *table, uint64_t key); /* NULL: not there */
/* The value that was there, or NULL. */
void *gk_table_remove(struct gk_table *table, uint64_t key);

#endif
