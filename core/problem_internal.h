/* What problem.c (life, text) and problem_read.c (from JSON) share; nobody else includes this. */
#ifndef GK_CORE_PROBLEM_INTERNAL_H
#define GK_CORE_PROBLEM_INTERNAL_H

#include "core/problem.h"

/* The value of a field that is not INTS, and {"each":[..]}; NULL when out of memory. */
struct gk_json *problem_scalar_json(const struct gk_field *field, union gk_value value);
struct gk_json *problem_each_json(const int64_t *values, size_t count);

#endif
