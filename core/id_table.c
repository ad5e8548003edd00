/* See id_table.h. At most half of the slots are used, so a search for a missing key ends soon. */
#include "core/id_table.h"

#include <stdlib.h>

#define CAPACITY_FIRST 16

/* Tokens and ids count up: the multiplier (2^64 over the golden ratio) spreads neighbours. */
static size_t home_of(const struct gk_table *table, uint64_t key)
{
    key ^= key >> 32;
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (table->capacity - 1);
}

static struct gk_table_slot *find(const struct gk_table *table, uint64_t key)
{
    size_t at = home_of(table, key);
    while (table->slots[at].value && table->slots[at].key != key) {
        at = (at + 1) & (table->capacity - 1);
    }
    return &table->slots[at];
}

static bool grow(struct gk_table *table)
{
    struct gk_table larger = {.capacity = table->capacity ? 2 * table->capacity : CAPACITY_FIRST,
                              .count = table->count};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) {
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].value) {
            *find(&larger, table->slots[i].key) = table->slots[i];
        }
    }
    free(table->slots);
    *table = larger;
    return true;
}

void gk_table_fini(struct gk_table *table)
{
    if (table) {
        free(table->slots);
        *table = (struct gk_table){0};
    }
}

bool gk_table_put(struct gk_table *table, uint64_t key, void *value)
{
    if (2 * (table->count + 1) > table->capacity && !grow(table)) {
        return false;
    }
    struct gk_table_slot *slot = find(table, key);
    table->count += slot->value == NULL;
    *slot = (struct gk_table_slot){key, value};
    return true;
}

void *gk_table_get(const struct gk_table *table, uint64_t key)
{
    return table->count > 0 ? find(table, key)->value : NULL;
}

void *gk_table_remove(struct gk_table *table, uint64_t key)
{
    struct gk_table_slot *slot = table->count > 0 ? find(table, key) : NULL;
    void *value = slot ? slot->value : NULL;
    if (!value) {
        return NULL;
    }
    /* What stands behind it up to the next free slot may have been put there because this slot was
     * taken: it moves up, unless its home lies behind the hole. */
    size_t mask = table->capacity - 1, hole = (size_t)(slot - table->slots);
    for (size_t at = (hole + 1) & mask; table->slots[at].value; at = (at + 1) & mask) {
        size_t home = home_of(table, table->slots[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole] = (struct gk_table_slot){0};
    table->count--;
    return value;
}
