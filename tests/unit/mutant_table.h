/*
 * Mutants that change nothing, each with the reason, in a file of lines
 * "source | mutation | instruction | file: function: line | why"; source "*" is any, '#' begins a
 * comment. A process has one table.
 */
#ifndef GK_TESTS_UNIT_MUTANT_TABLE_H
#define GK_TESTS_UNIT_MUTANT_TABLE_H

#include "tests/unit/ptx_mutants.h"

#define MUTANT_FIELDS 5u

struct mutant_entry {
    char *field[MUTANT_FIELDS]; /* source, mutation, opcode, place, reason */
    uint32_t met;               /* survivors, counted by the caller */
    uint32_t dead;              /* rejected ones, likewise where a caller wants them */
};

/* Fails the test where a line has not all fields. */
void mutant_table_load(const char *path);
void mutant_table_free(void);
/* "file: function: text of the line" of a mutant, of a source in kernels/`folder`; "unknown". */
void mutant_place(const char *folder, const struct ptx_mutant *mutant, char *out, size_t room);
/* NULL: the table has none. */
struct mutant_entry *mutant_table_find(const char *source, const struct ptx_mutant *mutant,
                                       const char *place);
/* Prints and counts the entries that no survivor met, and those whose reason begins with
 * "elsewhere" of which none was rejected. */
uint32_t mutant_table_stale(void);

#endif
