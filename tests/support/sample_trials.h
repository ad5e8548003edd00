/*
 * A store full of trials as a GPU's search leaves them: configs drawn at random, records with all
 * that a worker measures and their digits, one in seven failed with a message.
 */
#ifndef GK_TESTS_SAMPLE_TRIALS_H
#define GK_TESTS_SAMPLE_TRIALS_H

#include "core/prng.h"
#include "db/db.h"

#define SAMPLE_TRIALS_A_TASK 200

/* `count` trials in one finished job (the store is empty before); dies on an error. */
void sample_trials(struct gk_db *db, int64_t count);

/* One record as a worker of a GPU sends it; the caller frees it. */
struct gk_json *sample_record(struct gk_prng *prng, uint32_t input_set);
/* That of a vendor's library that is not there. */
struct gk_json *sample_vendor_failure(void);

#endif
