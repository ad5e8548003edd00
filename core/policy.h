/*
 * How a time was measured: part of what a result belongs to. docs/DESIGN.md section 8.
 */
#ifndef GK_CORE_POLICY_H
#define GK_CORE_POLICY_H

#include <stdbool.h>

/* Text travels and is stored: append, never rename. */
#define GK_POLICY_MAP(X)                                                                           \
    X(COLD_GRAPH, "cold-graph") /* launches back to back in a graph, over sets that L2 forgets */  \
    X(COLD_GRAPH_PDL, "cold-graph-pdl") /* the same, each pipeline may begin in the one ahead */   \
    X(WARM, "warm")                     /* a graph over one set: operands are found in L2 */       \
    X(EAGER, "eager")                   /* as cold-graph, but launched one by one in a stream */

enum gk_policy {
#define GK_POLICY_ENUM(name, text) GK_POLICY_##name,
    GK_POLICY_MAP(GK_POLICY_ENUM)
#undef GK_POLICY_ENUM
        GK_POLICY_COUNT
};

const char *gk_policy_name(enum gk_policy policy);
bool gk_policy_from_name(const char *name, enum gk_policy *policy_out);
/* "cold-graph, cold-graph-pdl, warm, eager": for messages. */
const char *gk_policy_names(void);

#endif
