/* Names of policies: see policy.h. */
#include "core/policy.h"

#include <string.h>

static const char *const names[] = {
#define GK_POLICY_TEXT(name, text) text,
    GK_POLICY_MAP(GK_POLICY_TEXT)
#undef GK_POLICY_TEXT
};

const char *gk_policy_name(enum gk_policy policy)
{
    return (unsigned)policy < GK_POLICY_COUNT ? names[policy] : "unknown_policy";
}

bool gk_policy_from_name(const char *name, enum gk_policy *policy_out)
{
    for (unsigned i = 0; i < GK_POLICY_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *policy_out = (enum gk_policy)i;
            return true;
        }
    }
    return false;
}

const char *gk_policy_names(void)
{
#define GK_POLICY_LISTED(name, text) ", " text
    static const char list[] = GK_POLICY_MAP(GK_POLICY_LISTED);
#undef GK_POLICY_LISTED
    return list + 2; /* behind the first comma */
}
