/*
 * Configs and problems of the templates that together reach every line which orders something: all
 * stages are used again, the last tile lies where sums are staged, parts of K meet on other blocks.
 */
#ifndef GK_TESTS_UNIT_TEMPLATE_CASES_H
#define GK_TESTS_UNIT_TEMPLATE_CASES_H

#include "tests/unit/template_rig.h"

uint32_t template_case_count(void);
const struct template_case *template_case_at(uint32_t index);

#endif
