/* Trials, their records, and leases. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "db/db_internal.h"

static const char TRIAL_COLUMNS[] = "job task seq batch template template_hash config config_id "
                                    "state attempt token worker reused stage "
                                    "failure message time_ns cost_ns input_set code_id record "
                                    "environment row_hash created_ms leased_ms "
                                    "recorded_ms";

enum gk_status gk_db_trial_insert(struct gk_db *db, const struct gk_json *trial, int64_t *trial_out,
                                  struct gk_err *err)
{
    return db_insert(db, "trials", TRIAL_COLUMNS, trial, trial_out, err);
}

enum gk_status gk_db_trial_add(struct gk_db *db, const struct gk_db_trial *trial,
                               int64_t *trial_out, struct gk_err *err)
{
    enum gk_status status = db_run(
        db, err,
        "INSERT INTO trials(job,task,seq,batch,template,template_hash,config,config_id,state,"
        "attempt,input_set,created_ms) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,'proposed',0,?9,?10)",
        "iiiissssii", trial->job, trial->task, trial->seq, trial->batch, trial->template_name,
        trial->template_hash, trial->config, trial->config_id, trial->input_set, trial->created_ms);
    if (status == GK_OK) {
        *trial_out = sqlite3_last_insert_rowid(db->handle);
    }
    return status;
}

enum gk_status gk_db_trial_update(struct gk_db *db, int64_t trial, const struct gk_json *changes,
                                  struct gk_err *err)
{
    return db_update(db, "trials", TRIAL_COLUMNS, "trial", trial, changes, err);
}

/* What a recorded row says: a flipped bit on the disk is seen by `db check`. */
void db_trial_hash(const struct gk_json *trial, char text_out[GK_HASH_TEXT_SIZE])
{
    static const char *const members[] = {"trial", "task",    "config_id", "state",
                                          "stage", "failure", "time_ns",   "record"};
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    for (size_t i = 0; i < GK_ARRAY_COUNT(members); i++) {
        struct gk_buf text = {0};
        const struct gk_json *value = gk_json_get(trial, members[i]);
        if (value) {
            (void)gk_json_canonical(value, &text, NULL); /* out of memory shows as another hash */
        }
        gk_hasher_text(&hasher, gk_buf_text(&text));
        gk_buf_fini(&text);
    }
    struct gk_hash hash = gk_hasher_final(&hasher);
    gk_hash_hex(&hash, text_out);
}

/* The record without what is stored apart; it shares the members of `record`. */
static struct gk_json *slim_record(const struct gk_json *record)
{
    struct gk_json *slim = gk_json_new_object();
    void *cursor = NULL;
    const char *key;
    const struct gk_json *value;
    while (slim && (value = gk_json_next(record, &cursor, &key))) {
        if (strcmp(key, "samples_ns") != 0 && strcmp(key, "environment") != 0 &&
            !gk_json_set(slim, key, gk_json_share(value))) {
            gk_json_free(slim);
            return NULL;
        }
    }
    const struct gk_json *samples = gk_json_get(record, "samples_ns");
    if (slim && samples && gk_record_drop_samples(slim, samples, NULL) != GK_OK) {
        gk_json_free(slim);
        return NULL;
    }
    return slim;
}

double db_record_cost(const struct gk_json *record)
{
    return gk_json_get_real(record, "compile_ns", 0) + gk_json_get_real(record, "verify_ns", 0) +
           gk_json_get_real(record, "measure_ns", 0);
}

static bool hash_piece(struct gk_hasher *hasher, struct gk_buf *piece)
{
    bool ok = !piece->failed;
    gk_hasher_text(hasher, gk_buf_text(piece));
    gk_buf_reset(piece);
    return ok;
}

/* The same as db_trial_hash() of the row, without making one. False: out of memory; a wrong hash
 * must never be stored, the scrub would take the row for damaged. */
static bool hash_outcome(const struct gk_db_outcome *outcome, char hash_out[GK_HASH_TEXT_SIZE])
{
    struct gk_hasher hasher;
    struct gk_buf piece = {0};
    const char *texts[] = {outcome->config_id, outcome->state, outcome->stage, outcome->failure};
    gk_hasher_init(&hasher);
    gk_buf_expect(&piece, 2 * GK_HASH_TEXT_SIZE); /* the config's id is the longest */
    gk_json_put_int(&piece, outcome->trial);
    bool ok = hash_piece(&hasher, &piece);
    gk_json_put_int(&piece, outcome->task);
    ok = hash_piece(&hasher, &piece) && ok;
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        if (texts[i]) {
            gk_json_put_string(&piece, texts[i]);
        }
        ok = hash_piece(&hasher, &piece) && ok;
    }
    if (isfinite(outcome->time_ns)) {
        gk_json_put_real(&piece, outcome->time_ns);
    }
    ok = hash_piece(&hasher, &piece) && ok;
    gk_hasher_text(&hasher, outcome->record);
    gk_buf_fini(&piece);
    struct gk_hash hash = gk_hasher_final(&hasher);
    gk_hash_hex(&hash, hash_out);
    return ok;
}

static enum gk_status put_environment(struct gk_db *db, const char *text,
                                      char id_out[GK_HASH_TEXT_SIZE], struct gk_err *err)
{
    struct gk_hash hash = gk_hash_text(text);
    gk_hash_hex(&hash, id_out);
    return db_run(db, err,
                  "INSERT INTO environments(environment,content) VALUES(?1,?2)"
                  " ON CONFLICT DO NOTHING",
                  "ss", id_out, text);
}

enum gk_status db_put_environment(struct gk_db *db, const struct gk_json *environment,
                                  char id_out[GK_HASH_TEXT_SIZE], struct gk_err *err)
{
    char *text = gk_json_text(environment);
    enum gk_status status = text ? put_environment(db, text, id_out, err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for an environment");
    free(text);
    return status;
}

enum gk_status gk_db_trial_done(struct gk_db *db, const struct gk_db_outcome *outcome,
                                struct gk_err *err)
{
    static const char update[] =
        "UPDATE trials SET "
        "state=?2,stage=?3,failure=?4,message=?5,time_ns=?6,cost_ns=?7,code_id=?8,"
        "record=?9,environment=?10,row_hash=?11,recorded_ms=?12,token=coalesce(?13,token),"
        "worker=coalesce(?14,worker),leased_ms=coalesce(?15,leased_ms),reused=coalesce(?16,reused)"
        " WHERE trial=?1";
    char environment_id[GK_HASH_TEXT_SIZE], hash[GK_HASH_TEXT_SIZE];
    enum gk_status status = GK_OK;
    if (outcome->environment) {
        status = put_environment(db, outcome->environment, environment_id, err);
    }
    if (status == GK_OK && !hash_outcome(outcome, hash)) {
        status = gk_fail(err, GK_NOMEM, "out of memory for trial %" PRId64, outcome->trial);
    }
    if (status == GK_OK) { /* a time that is not a number is bound as NULL */
        status = db_run(db, err, update, "issssrrssssihhhh", outcome->trial, outcome->state,
                        outcome->stage, outcome->failure, outcome->message, outcome->time_ns,
                        outcome->cost_ns, outcome->code_id, outcome->record,
                        outcome->environment ? environment_id : NULL, hash, outcome->wall_ms,
                        outcome->token, outcome->worker, outcome->leased_ms, outcome->reused);
    }
    if (status == GK_OK && outcome->samples) {
        status = db_run(db, err, "INSERT OR REPLACE INTO samples(trial,samples) VALUES(?1,?2)",
                        "is", outcome->trial, outcome->samples);
    }
    if (status == GK_OK && outcome->token > 0) {
        status = gk_db_lease_delete(db, outcome->token, err);
    }
    return status;
}

enum gk_status gk_db_trial_record(struct gk_db *db, int64_t trial, int64_t token, uint64_t wall_ms,
                                  const char *state, const struct gk_json *record,
                                  struct gk_err *err)
{
    struct gk_json *row = NULL, *slim = slim_record(record);
    const struct gk_json *samples = gk_json_get(record, "samples_ns"),
                         *environment = gk_json_get(record, "environment");
    char *kept = slim ? gk_json_text(slim) : NULL,
         *samples_text = gk_json_count(samples) > 0 ? gk_json_text(samples) : NULL,
         *environment_text = environment ? gk_json_text(environment) : NULL;
    enum gk_status status =
        kept && (samples_text || gk_json_count(samples) == 0) && (environment_text || !environment)
            ? db_row(db, err, &row, "SELECT task, config_id FROM trials WHERE trial=?1", "i", trial)
            : gk_fail(err, GK_NOMEM, "out of memory for trial %" PRId64, trial);
    if (status == GK_OK) {
        const char *failure = gk_json_get_string(record, "failure", NULL);
        bool ok = failure && strcmp(failure, "none") == 0;
        struct gk_db_outcome outcome = {.trial = trial,
                                        .task = gk_json_get_int(row, "task", 0),
                                        .token = token,
                                        .wall_ms = (int64_t)wall_ms,
                                        .config_id = gk_json_get_string(row, "config_id", ""),
                                        .state = state,
                                        .stage = gk_json_get_string(record, "stage", NULL),
                                        .failure = failure,
                                        .message = gk_json_get_string(record, "message", NULL),
                                        .code_id = gk_json_get_string(record, "code_id", NULL),
                                        .time_ns = ok ? gk_json_get_real(record, "time_ns", 0)
                                                      : (double)NAN,
                                        .cost_ns = db_record_cost(record),
                                        .record = kept,
                                        .samples = samples_text,
                                        .environment = environment_text};
        status = gk_db_trial_done(db, &outcome, err);
    }
    gk_json_free(row);
    gk_json_free(slim);
    free(kept);
    free(samples_text);
    free(environment_text);
    return status;
}

enum gk_status gk_db_trials_of(struct gk_db *db, int64_t task, int64_t from_seq, uint32_t most,
                               struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(db, err, rows_out,
                   "SELECT * FROM trials WHERE task=?1 AND seq>=?2 ORDER BY seq LIMIT ?3", "iii",
                   task, from_seq, (int64_t)most);
}

enum gk_status gk_db_trial_get(struct gk_db *db, int64_t trial, struct gk_json **trial_out,
                               struct gk_err *err)
{
    return db_row(db, err, trial_out, "SELECT * FROM trials WHERE trial=?1", "i", trial);
}

#define UNPARK                                                                                     \
    "UPDATE trials SET state='proposed', attempt=0, token=NULL, stage=NULL, failure=NULL,"         \
    " message=NULL, record=NULL, row_hash=NULL WHERE state='parked' AND "

enum gk_status gk_db_unpark(struct gk_db *db, int64_t task, int64_t *count_out, struct gk_err *err)
{
    enum gk_status status =
        db_int(db, err, count_out, "SELECT count(*) FROM trials WHERE task=?1 AND state='parked'",
               "i", task);
    return status == GK_OK && *count_out > 0 ? db_run(db, err, UNPARK "task=?1", "i", task)
                                             : status;
}

enum gk_status gk_db_unpark_trial(struct gk_db *db, int64_t trial, struct gk_err *err)
{
    return db_run(db, err, UNPARK "trial=?1", "i", trial);
}

enum gk_status gk_db_kills(struct gk_db *db, const char *config_id, const char *arch,
                           int64_t *count_out, struct gk_err *err)
{
    return db_peek(db, err, count_out,
                   "SELECT count(*) FROM trials r JOIN tasks k ON k.task=r.task WHERE "
                   "r.config_id=?1 AND k.arch=?2"
                   " AND r.failure IN ('crash','timeout') AND r.reused IS NULL AND r.trial>"
                   "coalesce((SELECT p.trial FROM pardons p WHERE p.config_id=?1 AND p.arch=?2),0)",
                   "ss", config_id, arch);
}

/* Whether both say the same, as canonical text; takes `b`. */
static bool same_text(const struct gk_json *a, struct gk_json *b)
{
    char *left = gk_json_text(a), *right = gk_json_text(b);
    bool same = left && right && strcmp(left, right) == 0;
    free(left);
    free(right);
    gk_json_free(b);
    return same;
}

static enum gk_status look_at_trial(struct gk_db *db, const struct gk_json *row,
                                    const struct gk_json *record, struct gk_err *err)
{
    struct gk_json *samples = NULL;
    int64_t trial = gk_json_get_int(row, "trial", 0);
    enum gk_status status =
        db_row(db, err, &samples, "SELECT samples FROM samples WHERE trial=?1", "i", trial);
    if (status != GK_OK && status != GK_NOT_FOUND) {
        return status;
    }
    const struct gk_json *sent = gk_json_get(record, "samples_ns"),
                         *kept = gk_json_get(samples, "samples");
    bool same = record && same_text(gk_json_get(row, "record"), slim_record(record)) &&
                gk_json_count(sent) == gk_json_count(kept) &&
                (gk_json_count(sent) == 0 || same_text(kept, gk_json_copy(sent)));
    gk_json_free(samples);
    return same ? GK_OK : gk_fail(err, GK_CONFLICT, "trial %" PRId64 " has another record", trial);
}

static enum gk_status look_at_pass(struct gk_db *db, int64_t token, int64_t pass,
                                   const struct gk_json *body, struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status = db_row(
        db, err, &row, "SELECT samples FROM passes WHERE token=?1 AND pass=?2", "ii", token, pass);
    if (status == GK_OK &&
        !same_text(gk_json_get(row, "samples"), gk_json_copy(gk_json_get(body, "samples")))) {
        status = gk_fail(err, GK_CONFLICT,
                         "pass %" PRId64 " of token %" PRId64 " has other samples", pass, token);
    }
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_result_look(struct gk_db *db, int64_t token, int64_t pass, int64_t worker,
                                 const struct gk_json *body, struct gk_err *err)
{
    struct gk_json *row = NULL;
    if (pass > 0) {
        return look_at_pass(db, token, pass, body, err);
    }
    enum gk_status status = db_row(
        db, err, &row, "SELECT trial,worker,record FROM trials WHERE token=?1 AND state='recorded'",
        "i", token);
    if (status == GK_OK && gk_json_get_int(row, "worker", worker) != worker) {
        status = gk_fail(err, GK_DENIED, "token %" PRId64 " was another worker's", token);
    } else if (status == GK_OK) {
        status = look_at_trial(db, row, gk_json_get(body, "record"), err);
    }
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_lease_add(struct gk_db *db, const struct gk_db_lease *lease,
                               struct gk_err *err)
{
    return db_run(
        db, err,
        "INSERT INTO leases(token,kind,job,task,trial,worker,device,attempt,epoch,started,"
        "granted_ms,device_key) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,0,?10,?11)",
        "isiihiiiiis", lease->token,
        lease->trial       ? "trial"
        : lease->is_spread ? "spread"
                           : "final",
        lease->job, lease->task, lease->trial, lease->worker, lease->device, lease->attempt,
        lease->epoch, lease->granted_ms, lease->device_key);
}

enum gk_status gk_db_lease_started(struct gk_db *db, int64_t token, struct gk_err *err)
{
    return db_run(db, err, "UPDATE leases SET started=1 WHERE token=?1", "i", token);
}

enum gk_status gk_db_lease_delete(struct gk_db *db, int64_t token, struct gk_err *err)
{
    return db_run(db, err, "DELETE FROM leases WHERE token=?1", "i", token);
}

enum gk_status gk_db_leases(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM leases ORDER BY token", "");
}
