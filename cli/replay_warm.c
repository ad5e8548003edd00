/*
 * Warm starts of gktune replay: the best configs of other recordings, as hints.
 *
 * A config is carried over by the names and values of its parameters; one that the space does not
 * have is left out, as the daemon does with a neighbour's winner. The best of each recording come
 * first, then the second best, and so on, so that one recording does not crowd out the others.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/replay_grid.h"

/* Indices of the ok rows with the least times, rising: a handful of a whole space. */
static uint32_t best_rows(const struct gk_recording *recording, uint32_t best[REPLAY_WARM_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < recording->count; i++) {
        const struct gk_replay_row *rows = recording->rows;
        uint32_t at = count;
        if (rows[i].outcome != GK_REPLAY_OK) {
            continue;
        }
        while (at > 0 && rows[best[at - 1]].time_ns > rows[i].time_ns) {
            at--;
        }
        if (at == REPLAY_WARM_MAX) {
            continue;
        }
        count += count < REPLAY_WARM_MAX;
        memmove(best + at + 1, best + at, (count - at - 1) * sizeof best[0]);
        best[at] = i;
    }
    return count;
}

/* The digit of the same value in another list of values. */
static bool carry_value(const struct gk_param *from, uint8_t digit, const struct gk_param *to,
                        uint8_t *digit_out)
{
    for (uint32_t i = 0; i < to->value_count; i++) {
        bool same = from->names && to->names     ? strcmp(from->names[digit], to->names[i]) == 0
                    : !from->names && !to->names ? from->values[digit] == to->values[i]
                                                 : false;
        if (same) {
            *digit_out = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static bool carry(const struct gk_recording *from, uint32_t index, const struct gk_recording *to,
                  uint32_t *index_out)
{
    const struct gk_tree *source = &from->def.trees[0], *target = &to->def.trees[0];
    uint8_t digits[GK_PARAMS_MAX] = {0}, carried[GK_PARAMS_MAX] = {0};
    gk_space_digits(from->space, index, digits);
    for (uint32_t i = 0; i < target->param_count; i++) {
        uint32_t k = 0;
        while (k < source->param_count &&
               strcmp(source->params[k].name, target->params[i].name) != 0) {
            k++;
        }
        if (k == source->param_count ||
            !carry_value(&source->params[k], digits[k], &target->params[i], &carried[i])) {
            return false;
        }
    }
    return gk_space_find_digits(to->space, 0, carried, index_out);
}

enum gk_status replay_warm(struct replay_space *space, struct gk_recording *const *others,
                           uint32_t count, struct gk_err *err)
{
    uint32_t(*best)[REPLAY_WARM_MAX] = calloc(count + 1u, sizeof best[0]);
    uint32_t *found = calloc(count + 1u, sizeof found[0]);
    space->hints = calloc((size_t)count * REPLAY_WARM_MAX + 1, sizeof space->hints[0]);
    enum gk_status status =
        best && found && space->hints ? GK_OK : gk_fail(err, GK_NOMEM, "no memory for warm starts");
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        found[i] = best_rows(others[i], best[i]);
    }
    for (uint32_t rank = 0; status == GK_OK && rank < REPLAY_WARM_MAX; rank++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t index;
            if (rank < found[i] && carry(others[i], best[i][rank], space->recording, &index)) {
                space->hints[space->hint_count++] = index; /* a repeat is passed over by ask */
            }
        }
    }
    free(best);
    free(found);
    return status;
}
