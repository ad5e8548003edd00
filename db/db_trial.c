/* Trials, their records, and leases. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_internal.h"

static const char TRIAL_COLUMNS[] = "job task seq batch template template_hash config config_id "
                                    "state attempt token worker reused stage "
                                    "failure message time_ns cost_ns input_set code_id record "
                                    "environment row_hash created_ms leased_ms "
                                    "recorded_ms";
static const char LEASE_COLUMNS[] =
    "token kind job task trial worker device attempt epoch started granted_ms";

enum gk_status gk_db_trial_insert(struct gk_db *db, const struct gk_json *trial, int64_t *trial_out,
                                  struct gk_err *err)
{
    return db_insert(db, "trials", TRIAL_COLUMNS, trial, trial_out, err);
}

enum gk_status gk_db_trial_add(struct gk_db *db, const struct gk_db_trial *trial,
                               int64_t *trial_out, struct gk_err *err)
{
    enum gk_status status =
        db_run(db, err,
               "INSERT INTO trials(job,task,seq,batch,template,template_hash,config,config_id,state,"
               "attempt,input_set,created_ms) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,'proposed',0,?9,?10)",
               "iiiissssii", trial->job, trial->task, trial->seq, trial->batch, trial->template_name,
               trial->template_hash, trial->config, trial->config_id, trial->input_set,
               trial->created_ms);
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
    /* Read back it is a record without samples, not half a record. */
    if (slim && gk_json_get(record, "samples_ns") &&
        !gk_json_set(slim, "samples_ns", gk_json_new_array())) {
        gk_json_free(slim);
        return NULL;
    }
    return slim;
}

enum gk_status db_put_environment(struct gk_db *db, const struct gk_json *environment,
                                  char id_out[GK_HASH_TEXT_SIZE], struct gk_err *err)
{
    char *text = gk_json_text(environment);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory for an environment");
    }
    struct gk_hash hash = gk_hash_text(text);
    gk_hash_hex(&hash, id_out);
    enum gk_status status = db_run(db, err,
                                   "INSERT INTO environments(environment,content) VALUES(?1,?2)"
                                   " ON CONFLICT DO NOTHING",
                                   "ss", id_out, text);
    free(text);
    return status;
}

double db_record_cost(const struct gk_json *record)
{
    return gk_json_get_real(record, "compile_ns", 0) + gk_json_get_real(record, "verify_ns", 0) +
           gk_json_get_real(record, "measure_ns", 0);
}

static bool outcome_is_ok(const struct gk_json *record)
{
    return strcmp(gk_json_get_string(record, "failure", ""), "none") == 0;
}

/* The same as db_trial_hash() of the row, without making one: `text` is the slim record's. */
static void hash_outcome(const struct gk_db_outcome *outcome, const struct gk_json *slim,
                         const char *text, char hash_out[GK_HASH_TEXT_SIZE])
{
    struct gk_hasher hasher;
    struct gk_buf piece = {0};
    const char *texts[] = {outcome->config_id, outcome->state, gk_json_get_string(slim, "stage", ""),
                           gk_json_get_string(slim, "failure", "")};
    gk_hasher_init(&hasher);
    gk_buf_printf(&piece, "%" PRId64, outcome->trial);
    gk_hasher_text(&hasher, gk_buf_text(&piece));
    gk_buf_reset(&piece);
    gk_buf_printf(&piece, "%" PRId64, outcome->task);
    gk_hasher_text(&hasher, gk_buf_text(&piece));
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        gk_buf_reset(&piece);
        gk_json_put_string(&piece, texts[i]);
        gk_hasher_text(&hasher, gk_buf_text(&piece));
    }
    gk_buf_reset(&piece);
    if (outcome_is_ok(slim)) {
        struct gk_json *time = gk_json_new_real(gk_json_get_real(slim, "time_ns", 0));
        (void)gk_json_canonical(time, &piece, NULL); /* out of memory shows as another hash */
        gk_json_free(time);
    }
    gk_hasher_text(&hasher, gk_buf_text(&piece));
    gk_hasher_text(&hasher, text);
    gk_buf_fini(&piece);
    struct gk_hash hash = gk_hasher_final(&hasher);
    gk_hash_hex(&hash, hash_out);
}

static enum gk_status store_outcome(struct gk_db *db, const struct gk_db_outcome *outcome,
                                    const struct gk_json *slim, const char *environment_id,
                                    struct gk_err *err)
{
    static const char update[] =
        "UPDATE trials SET state=?2,stage=?3,failure=?4,message=?5,time_ns=?6,cost_ns=?7,code_id=?8,"
        "record=?9,environment=?10,row_hash=?11,recorded_ms=?12,token=coalesce(?13,token),"
        "worker=coalesce(?14,worker),leased_ms=coalesce(?15,leased_ms),reused=coalesce(?16,reused)"
        " WHERE trial=?1";
    char hash[GK_HASH_TEXT_SIZE];
    char *text = gk_json_text(slim);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory for trial %" PRId64, outcome->trial);
    }
    hash_outcome(outcome, slim, text, hash);
    enum gk_status status = db_run(
        db, err, update, "isjjjjrjssshhhhh", outcome->trial, outcome->state,
        gk_json_get(slim, "stage"), gk_json_get(slim, "failure"), gk_json_get(slim, "message"),
        outcome_is_ok(slim) ? gk_json_get(slim, "time_ns") : NULL, db_record_cost(slim),
        gk_json_get(slim, "code_id"), text, environment_id, hash, outcome->wall_ms, outcome->token,
        outcome->worker, outcome->leased_ms, outcome->reused);
    free(text);
    return status;
}

enum gk_status gk_db_trial_done(struct gk_db *db, const struct gk_db_outcome *outcome,
                                struct gk_err *err)
{
    const struct gk_json *samples = gk_json_get(outcome->record, "samples_ns");
    const struct gk_json *environment = gk_json_get(outcome->record, "environment");
    char environment_id[GK_HASH_TEXT_SIZE];
    struct gk_json *slim = slim_record(outcome->record);
    enum gk_status status =
        slim ? GK_OK
             : gk_fail(err, GK_NOMEM, "out of memory for trial %" PRId64, outcome->trial);
    if (status == GK_OK && environment) {
        status = db_put_environment(db, environment, environment_id, err);
    }
    if (status == GK_OK) {
        status = store_outcome(db, outcome, slim, environment ? environment_id : NULL, err);
    }
    if (status == GK_OK && gk_json_count(samples) > 0) {
        status = db_run(db, err, "INSERT OR REPLACE INTO samples(trial,samples) VALUES(?1,?2)",
                        "ij", outcome->trial, samples);
    }
    if (status == GK_OK && outcome->token > 0) {
        status = gk_db_lease_delete(db, outcome->token, err);
    }
    gk_json_free(slim);
    return status;
}

enum gk_status gk_db_trial_record(struct gk_db *db, int64_t trial, int64_t token, uint64_t wall_ms,
                                  const char *state, const struct gk_json *record,
                                  struct gk_err *err)
{
    struct gk_json *row = NULL;
    enum gk_status status =
        db_row(db, err, &row, "SELECT task, config_id FROM trials WHERE trial=?1", "i", trial);
    if (status == GK_OK) {
        struct gk_db_outcome outcome = {.trial = trial,
                                        .task = gk_json_get_int(row, "task", 0),
                                        .token = token,
                                        .wall_ms = (int64_t)wall_ms,
                                        .config_id = gk_json_get_string(row, "config_id", ""),
                                        .state = state,
                                        .record = record};
        status = gk_db_trial_done(db, &outcome, err);
    }
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_trials_of(struct gk_db *db, int64_t task, struct gk_json **rows_out,
                               struct gk_err *err)
{
    return db_rows(db, err, rows_out, "SELECT * FROM trials WHERE task=?1 ORDER BY seq", "i", task);
}

enum gk_status gk_db_trial_get(struct gk_db *db, int64_t trial, struct gk_json **trial_out,
                               struct gk_err *err)
{
    return db_row(db, err, trial_out, "SELECT * FROM trials WHERE trial=?1", "i", trial);
}

/* From the side of the tasks: a config is asked for in thousands of problems, a problem in few
 * tasks. */
enum gk_status gk_db_trial_same(struct gk_db *db, const char *config_id, int64_t problem,
                                const char *arch, const char *gpu, const char *policy,
                                const char *nvrtc, struct gk_json **trial_out, struct gk_err *err)
{
    int64_t trial = 0;
    enum gk_status status = db_peek(
        db, err, &trial,
        "SELECT r.trial FROM tasks k CROSS JOIN trials r ON r.config_id=?1 AND r.task=k.task"
        " CROSS JOIN jobs j ON j.job=k.job WHERE k.problem=?2 AND k.arch=?3 AND k.gpu=?4"
        " AND k.nvrtc=?6 AND j.policy=?5 AND r.state='recorded' AND r.record IS NOT NULL"
        " AND r.failure NOT IN ('infrastructure','quarantined','reference_failed')"
        " AND r.reused IS NULL ORDER BY r.trial LIMIT 1",
        "sissss", config_id, problem, arch, gpu, policy, nvrtc);
    return status == GK_OK
               ? db_row(db, err, trial_out, "SELECT trial, record FROM trials WHERE trial=?1", "i",
                        trial)
               : status;
}

enum gk_status gk_db_unpark(struct gk_db *db, int64_t task, struct gk_err *err)
{
    return db_run(db, err,
                  "UPDATE trials SET state='proposed', attempt=0, stage=NULL, failure=NULL, "
                  "message=NULL, record=NULL,"
                  " row_hash=NULL WHERE task=?1 AND state='parked'",
                  "i", task);
}

enum gk_status gk_db_kills(struct gk_db *db, const char *config_id, const char *arch,
                           int64_t *count_out, struct gk_err *err)
{
    return db_peek(db, err, count_out,
                   "SELECT count(*) FROM trials r JOIN tasks k ON k.task=r.task WHERE "
                   "r.config_id=?1 AND k.arch=?2"
                   " AND r.failure IN ('crash','timeout') AND r.reused IS NULL",
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

enum gk_status gk_db_lease_insert(struct gk_db *db, const struct gk_json *lease, struct gk_err *err)
{
    return db_insert(db, "leases", LEASE_COLUMNS, lease, NULL, err);
}

enum gk_status gk_db_lease_add(struct gk_db *db, const struct gk_db_lease *lease,
                               struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO leases(token,kind,job,task,trial,worker,device,attempt,epoch,started,"
                  "granted_ms) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,0,?10)",
                  "isiihiiiii", lease->token, lease->trial ? "trial" : "final", lease->job,
                  lease->task, lease->trial, lease->worker, lease->device, lease->attempt,
                  lease->epoch, lease->granted_ms);
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
