/*
 * Which configs are near to which: the neighbourhoods that searches step in. Inside search/ only.
 *
 * All of them list legal configs, whatever their use, without the config itself, in a fixed order.
 */
#ifndef GK_SEARCH_NEIGHBOURS_H
#define GK_SEARCH_NEIGHBOURS_H

#include "search/space.h"

enum neighbourhood {
    NEIGHBOURS_ADJACENT, /* one parameter, one value up or down the list */
    NEIGHBOURS_OTHER,    /* one parameter, any value that is not adjacent */
    NEIGHBOURS_HAMMING,  /* one parameter, any value */
    NEIGHBOURS_ALONG,    /* two parameters, one up and one down, where both steps alone are not
                            legal: along a constraint that ties them */
    NEIGHBOURHOODS
};

/* Enough for each neighbourhood. */
#define NEIGHBOURS_LIST_MAX (GK_PARAMS_MAX * GK_PARAM_VALUES_MAX)

/* Lists the neighbours of `index` in `tree`; returns how many. */
uint32_t neighbours_list(const struct gk_space *space, uint32_t tree, uint32_t index,
                         enum neighbourhood kind, uint32_t out[NEIGHBOURS_LIST_MAX]);

#endif
