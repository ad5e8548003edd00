/* Neighbourhoods. See neighbours.h. */
#include "search/neighbours.h"

#include <string.h>

static uint32_t one_parameter(const struct gk_space *space, uint32_t tree, uint8_t *digits,
                              enum neighbourhood kind, uint32_t *out)
{
    const struct gk_tree *def = &gk_space_def_of(space)->trees[tree];
    uint32_t count = 0;
    for (uint32_t i = 0; i < def->param_count; i++) {
        uint8_t own = digits[i];
        for (uint32_t value = 0; value < def->params[i].value_count; value++) {
            bool is_adjacent = value + 1 == own || value == own + 1u;
            bool is_wanted =
                kind == NEIGHBOURS_HAMMING || is_adjacent == (kind == NEIGHBOURS_ADJACENT);
            digits[i] = (uint8_t)value;
            if (value != own && is_wanted &&
                gk_space_find_digits(space, tree, digits, &out[count])) {
                count++;
            }
        }
        digits[i] = own;
    }
    return count;
}

/* Both steps at once; false when one of them alone, or both, are not there. */
static bool steps_together(const struct gk_space *space, uint32_t tree, const uint8_t *digits,
                           uint32_t up, uint32_t down, uint32_t *index_out)
{
    const struct gk_tree *def = &gk_space_def_of(space)->trees[tree];
    uint8_t moved[GK_PARAMS_MAX];
    uint32_t alone;
    if (digits[up] + 1u >= def->params[up].value_count || digits[down] == 0) {
        return false;
    }
    memcpy(moved, digits, sizeof moved);
    moved[up]++;
    bool is_free = gk_space_find_digits(space, tree, moved, &alone);
    moved[down]--;
    bool is_legal = gk_space_find_digits(space, tree, moved, index_out);
    moved[up]--;
    return is_legal && !(is_free && gk_space_find_digits(space, tree, moved, &alone));
}

static uint32_t along(const struct gk_space *space, uint32_t tree, const uint8_t *digits,
                      uint32_t *out)
{
    uint32_t params = gk_space_def_of(space)->trees[tree].param_count, count = 0;
    for (uint32_t up = 0; up < params; up++) {
        for (uint32_t down = 0; down < params; down++) {
            if (up != down && steps_together(space, tree, digits, up, down, &out[count])) {
                count++;
            }
        }
    }
    return count;
}

uint32_t neighbours_list(const struct gk_space *space, uint32_t tree, uint32_t index,
                         enum neighbourhood kind, uint32_t out[NEIGHBOURS_LIST_MAX])
{
    uint8_t digits[GK_PARAMS_MAX];
    gk_space_digits(space, index, digits);
    return kind == NEIGHBOURS_ALONG ? along(space, tree, digits, out)
                                    : one_parameter(space, tree, digits, kind, out);
}
