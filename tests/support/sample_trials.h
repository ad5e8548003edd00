/*
 * A store full of trials as a GPU's search leaves them: configs drawn at random, records with all
 * that a worker measures and their digits, one in seven failed with a message.
 */
#ifndef GK_TESTS_SAMPLE_TRIALS_H
#define GK_TESTS_SAMPLE_TRIALS_H

#include "db/db.h"

#define SAMPLE_TRIALS_A_TASK 200

/* `count` trials in one finished job (the store is empty before); dies on an error. */
void sample_trials(struct gk_db *db, int64_t count);

#endif
