/*
 * The schema and its migrations, forward only. A released step is never edited: a new version is
 * one more entry. db/README.md describes every column.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_internal.h"

static const char VERSION_1[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE bundles(id TEXT PRIMARY KEY, files JSON NOT NULL, templates JSON NOT NULL,"
    " created_ms INTEGER NOT NULL);"
    "CREATE TABLE problems(problem INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, op TEXT NOT NULL,"
    " canonical TEXT NOT NULL);"
    "CREATE TABLE jobs(job INTEGER PRIMARY KEY, submit_id TEXT NOT NULL UNIQUE, spec_key TEXT NOT "
    "NULL,"
    " what TEXT NOT NULL, ops JSON NOT NULL, bundle TEXT NOT NULL REFERENCES bundles(id),"
    " archs JSON NOT NULL, private_ok BOOL NOT NULL, budget_trials INTEGER NOT NULL,"
    " budget_s REAL NOT NULL, strategy TEXT NOT NULL, seed INTEGER NOT NULL,"
    " priority INTEGER NOT NULL, policy TEXT NOT NULL, incumbents JSON, state TEXT NOT NULL,"
    " finishing BOOL NOT NULL, created_ms INTEGER NOT NULL, ended_ms INTEGER,"
    " problems INTEGER NOT NULL, tasks INTEGER NOT NULL, done INTEGER NOT NULL,"
    " trials INTEGER NOT NULL, failed INTEGER NOT NULL);"
    "CREATE INDEX jobs_spec ON jobs(spec_key);"
    "CREATE INDEX jobs_open ON jobs(job) WHERE ended_ms IS NULL;"
    "CREATE TABLE tasks(task INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(job),"
    " problem INTEGER NOT NULL REFERENCES problems(problem), arch TEXT NOT NULL, gpu TEXT,"
    " state TEXT NOT NULL, props JSON, nvrtc TEXT, hints JSON, strategy_version INTEGER,"
    " trials INTEGER NOT NULL, verified INTEGER NOT NULL, failed INTEGER NOT NULL,"
    " spent_ns REAL NOT NULL, best_ns REAL, best_config TEXT, default_config TEXT, incumbent TEXT,"
    " round JSON, attempt INTEGER NOT NULL, verdict JSON, reason TEXT);"
    "CREATE INDEX tasks_job ON tasks(job, task);"
    "CREATE TABLE events(job INTEGER NOT NULL REFERENCES jobs(job), event INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, kind TEXT NOT NULL, body JSON NOT NULL,"
    " PRIMARY KEY(job, event)) WITHOUT ROWID;"
    "CREATE TABLE workers(worker INTEGER PRIMARY KEY, spool_id TEXT NOT NULL UNIQUE, host TEXT,"
    " pid INTEGER, build TEXT, boot_id TEXT, cores INTEGER, state TEXT NOT NULL,"
    " first_seen_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL);"
    "CREATE TABLE devices(worker INTEGER NOT NULL REFERENCES workers(worker), device TEXT NOT NULL,"
    " arch TEXT NOT NULL, gpu TEXT NOT NULL, uuid TEXT, name TEXT, nvrtc TEXT, props JSON NOT NULL,"
    " last_seen_ms INTEGER NOT NULL, PRIMARY KEY(worker, device)) WITHOUT ROWID;"
    "CREATE INDEX devices_arch ON devices(arch, gpu, last_seen_ms);"
    "CREATE TABLE environments(environment TEXT PRIMARY KEY, content JSON NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE trials(trial INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(job),"
    " task INTEGER NOT NULL REFERENCES tasks(task), seq INTEGER NOT NULL, batch INTEGER NOT NULL,"
    " template TEXT NOT NULL, template_hash TEXT NOT NULL, config TEXT NOT NULL, config_id TEXT "
    "NOT NULL,"
    " state TEXT NOT NULL, attempt INTEGER NOT NULL, token INTEGER, worker INTEGER,"
    " reused INTEGER, stage TEXT, failure TEXT, message TEXT, time_ns REAL, cost_ns REAL,"
    " input_set INTEGER NOT NULL, code_id TEXT, record JSON, environment TEXT, row_hash TEXT,"
    " created_ms INTEGER NOT NULL, leased_ms INTEGER, recorded_ms INTEGER);"
    "CREATE UNIQUE INDEX trials_task ON trials(task, seq);"
    "CREATE INDEX trials_job ON trials(job, trial);"
    "CREATE INDEX trials_config ON trials(config_id);"
    "CREATE INDEX trials_token ON trials(token) WHERE token IS NOT NULL;"
    "CREATE TABLE samples(trial INTEGER PRIMARY KEY REFERENCES trials(trial), samples JSON NOT "
    "NULL);"
    "CREATE TABLE leases(token INTEGER PRIMARY KEY, kind TEXT NOT NULL, job INTEGER NOT NULL,"
    " task INTEGER NOT NULL REFERENCES tasks(task), trial INTEGER REFERENCES trials(trial),"
    " worker INTEGER NOT NULL REFERENCES workers(worker), device INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, started BOOL NOT NULL,"
    " granted_ms INTEGER NOT NULL);"
    "CREATE TABLE passes(token INTEGER NOT NULL, pass INTEGER NOT NULL,"
    " task INTEGER NOT NULL REFERENCES tasks(task), at_ms INTEGER NOT NULL, samples JSON NOT NULL,"
    " failed JSON NOT NULL, PRIMARY KEY(token, pass)) WITHOUT ROWID;"
    "CREATE INDEX passes_task ON passes(task);"
    "CREATE TABLE picks(pick INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES "
    "problems(problem),"
    " op TEXT NOT NULL, arch TEXT NOT NULL, gpu TEXT NOT NULL, policy TEXT NOT NULL,"
    " kind TEXT NOT NULL, template TEXT NOT NULL, template_hash TEXT NOT NULL, config TEXT NOT "
    "NULL,"
    " config_id TEXT NOT NULL, time_ns REAL NOT NULL, default_ns REAL, default_config TEXT,"
    " margin REAL NOT NULL, noise_floor REAL NOT NULL, ties JSON NOT NULL, reason TEXT NOT NULL,"
    " ladder JSON NOT NULL, record JSON, modelled BOOL NOT NULL, nvrtc TEXT, environment TEXT,"
    " bundle TEXT NOT NULL REFERENCES bundles(id), job INTEGER NOT NULL, task INTEGER NOT NULL,"
    " trial INTEGER NOT NULL, passes INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " confirmed_ms INTEGER NOT NULL, UNIQUE(problem, arch, gpu, policy));"
    "CREATE INDEX picks_op ON picks(op, arch, gpu);";

/* Which problems share flags (for the pick by most tie sets), and why a job ended as it did. */
static const char VERSION_2[] = "ALTER TABLE tasks ADD COLUMN flags TEXT;"
                                "ALTER TABLE jobs ADD COLUMN reason TEXT;";

/* What a pass was measured under; what stands behind a pick beside its ties; what a job did in
 * which time. */
static const char VERSION_3[] =
    "ALTER TABLE passes ADD COLUMN environment JSON;"
    "ALTER TABLE picks ADD COLUMN incumbent_ns REAL;"
    "ALTER TABLE picks ADD COLUMN vendor JSON;"
    "ALTER TABLE picks ADD COLUMN regime TEXT;"
    "ALTER TABLE picks ADD COLUMN conditions JSON;"
    "CREATE TABLE rates(job INTEGER PRIMARY KEY REFERENCES jobs(job), verified INTEGER NOT NULL,"
    " failed INTEGER NOT NULL, duplicates INTEGER NOT NULL, cold INTEGER NOT NULL,"
    " warm INTEGER NOT NULL, told INTEGER NOT NULL, final_told INTEGER NOT NULL,"
    " search_ns REAL NOT NULL, device_ns REAL NOT NULL, final_ns REAL NOT NULL,"
    " gpu_verify_ns REAL NOT NULL, gpu_measure_ns REAL NOT NULL, gpu_final_ns REAL NOT NULL);";

/* What a reader of a pick's time has to know. */
static const char VERSION_4[] = "ALTER TABLE picks ADD COLUMN marks JSON;";

/* What operators do: the audit trail, devices that get no lease, workers that are being emptied,
 * dead letters, and configs that were let off what they did before. Trials that were parked, and
 * configs that killed twice, under an older schema are dead letters from now on. What
 * is out is what leases say: no trial is `leased` any more. */
#define OPERATORS_5                                                                                \
    "CREATE TABLE audit(line INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, who TEXT NOT NULL,"      \
    " what TEXT NOT NULL, target TEXT NOT NULL, reason TEXT NOT NULL, outcome TEXT NOT NULL,"      \
    " hash TEXT NOT NULL);"                                                                        \
    "CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN"                                  \
    " SELECT RAISE(ABORT, 'the audit trail is only added to'); END;"                               \
    "CREATE TRIGGER audit_undeleted BEFORE DELETE ON audit BEGIN"                                  \
    " SELECT RAISE(ABORT, 'the audit trail is only added to'); END;"                               \
    "CREATE TABLE fences(device TEXT PRIMARY KEY, since_ms INTEGER NOT NULL, origin TEXT NOT "     \
    "NULL,"                                                                                        \
    " cause TEXT NOT NULL, who TEXT NOT NULL) WITHOUT ROWID;"                                      \
    "ALTER TABLE workers ADD COLUMN drain_ms INTEGER;"                                             \
    "ALTER TABLE workers ADD COLUMN drain_reason TEXT;"                                            \
    "ALTER TABLE leases ADD COLUMN device_key TEXT;"                                               \
    "CREATE TABLE dead(dead INTEGER PRIMARY KEY, kind TEXT NOT NULL, job INTEGER NOT NULL,"        \
    " task INTEGER NOT NULL, trial INTEGER NOT NULL, template TEXT NOT NULL, config TEXT NOT "     \
    "NULL,"                                                                                        \
    " config_id TEXT NOT NULL, arch TEXT NOT NULL, attempts INTEGER NOT NULL, cause TEXT NOT "     \
    "NULL,"                                                                                        \
    " state TEXT NOT NULL, at_ms INTEGER NOT NULL, settled_ms INTEGER);"                           \
    "CREATE UNIQUE INDEX dead_trial ON dead(trial) WHERE kind='parked' AND state='dead';"          \
    "CREATE UNIQUE INDEX dead_config ON dead(config_id, arch) WHERE kind='quarantined' AND"        \
    " state='dead';"                                                                               \
    "CREATE TABLE pardons(config_id TEXT NOT NULL, arch TEXT NOT NULL, trial INTEGER NOT NULL,"    \
    " PRIMARY KEY(config_id, arch)) WITHOUT ROWID;"                                                \
    "UPDATE trials SET state='proposed', token=NULL WHERE state='leased';"                         \
    "INSERT INTO dead(kind,job,task,trial,template,config,config_id,arch,attempts,cause,state,"    \
    "at_ms)"                                                                                       \
    " SELECT 'parked',r.job,r.task,r.trial,r.template,r.config,r.config_id,k.arch,r.attempt,"      \
    "coalesce(r.message,''),'dead',coalesce(r.recorded_ms,r.created_ms)"                           \
    " FROM trials r JOIN tasks k ON k.task=r.task"                                                 \
    " WHERE r.state='parked' AND r.failure='infrastructure';"                                      \
    "INSERT INTO dead(kind,job,task,trial,template,config,config_id,arch,attempts,cause,state,"    \
    "at_ms)"                                                                                       \
    " SELECT 'quarantined',r.job,r.task,max(r.trial),r.template,r.config,r.config_id,k.arch,"      \
    "r.attempt,coalesce(r.message,''),'dead',coalesce(r.recorded_ms,r.created_ms)"                 \
    " FROM trials r JOIN tasks k ON k.task=r.task WHERE r.failure IN ('crash','timeout')"          \
    " AND r.reused IS NULL GROUP BY r.config_id, k.arch HAVING count(*)>=2;"

/* Whose key submitted a job, and whose a worker is; NULL: from before there were keys, or the local
 * socket. Suites: which night a job belongs to, when its time is over, why a problem of it was not
 * run. The scheduler's job that a worker runs in. */
static const char VERSION_5[] = "ALTER TABLE jobs ADD COLUMN key TEXT;"
                                "ALTER TABLE workers ADD COLUMN key TEXT;"
                                "ALTER TABLE jobs ADD COLUMN suite TEXT;"
                                "ALTER TABLE jobs ADD COLUMN slot TEXT;"
                                "ALTER TABLE jobs ADD COLUMN night TEXT;"
                                "ALTER TABLE jobs ADD COLUMN until_ms INTEGER;"
                                "ALTER TABLE tasks ADD COLUMN not_run TEXT;"
                                "ALTER TABLE workers ADD COLUMN job TEXT;"
                                /* Is a trial known already? and: does its config kill? A popular
                                 * config has a row in thousands of tasks. */
                                "DROP INDEX trials_config;"
                                "CREATE INDEX trials_config ON trials(config_id, task);"
                                "CREATE INDEX trials_kills ON trials(config_id)"
                                " WHERE failure IN ('crash','timeout');"
                                "CREATE INDEX tasks_problem ON tasks(problem, arch, gpu);"
                                "CREATE TABLE submits(submit_id TEXT PRIMARY KEY, job INTEGER NOT "
                                "NULL REFERENCES jobs(job), hash TEXT NOT NULL)"
                                " WITHOUT ROWID;" OPERATORS_5;

/* The same config on several GPUs of one key. spread: 16 a task, so that rows of one stand
 * together. */
static const char VERSION_6[] =
    "ALTER TABLE jobs ADD COLUMN spread BOOL;"
    "CREATE TABLE spreads(spread INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(task),"
    " job INTEGER NOT NULL, trial INTEGER NOT NULL, problem INTEGER NOT NULL REFERENCES "
    "problems(problem),"
    " op TEXT NOT NULL, arch TEXT NOT NULL, gpu TEXT NOT NULL, policy TEXT NOT NULL,"
    " template TEXT NOT NULL, config TEXT NOT NULL, config_id TEXT NOT NULL,"
    " device_key TEXT NOT NULL, worker INTEGER NOT NULL, time_ns REAL, passes INTEGER NOT NULL,"
    " regime TEXT NOT NULL, reason TEXT, at_ms INTEGER NOT NULL, UNIQUE(task, device_key));"
    "CREATE INDEX spreads_op ON spreads(op, arch, gpu, policy, task);";

/* Asked for with `--fresh`: its final rounds are held though the store knows their outcome. */
static const char VERSION_7[] = "ALTER TABLE jobs ADD COLUMN fresh BOOL;";

/* Configs of tasks that other tasks look at, instead of an index over all trials: see db_known.c.
 * Nothing is copied: what is missing is written down when it is looked for. */
static const char VERSION_8[] =
    "DROP INDEX trials_config;"
    "CREATE TABLE known(task INTEGER NOT NULL, config_id TEXT NOT NULL, trial INTEGER NOT NULL,"
    " PRIMARY KEY(task, config_id, trial)) WITHOUT ROWID;"
    "CREATE TABLE known_to(task INTEGER PRIMARY KEY, seq INTEGER NOT NULL);";

static const char *const STEPS[] = {VERSION_1, VERSION_2, VERSION_3, VERSION_4,
                                    VERSION_5, VERSION_6, VERSION_7, VERSION_8};
_Static_assert(sizeof STEPS / sizeof STEPS[0] == DB_SCHEMA_VERSION, "one step a version");

static enum gk_status pragma_int(struct gk_db *db, const char *sql, int64_t *value_out,
                                 struct gk_err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(statement);
    }
    enum gk_status status = rc == SQLITE_ROW ? GK_OK : db_fail(db, rc, sql, err);
    if (status == GK_OK) {
        *value_out = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement); /* repeats the error of the step */
    return status;
}

int64_t gk_db_schema(struct gk_db *db)
{
    int64_t version = 0;
    return pragma_int(db, "PRAGMA user_version", &version, NULL) == GK_OK ? version : 0;
}

/* What the older gktune can still open, should the newer one not be wanted. A migration that was
 * cut off has left the same copy. */
static enum gk_status keep_old(struct gk_db *db, int64_t version, struct gk_err *err)
{
    if (strcmp(db->path, ":memory:") == 0) {
        return GK_OK;
    }
    int64_t epoch = 0;
    enum gk_status status = db_int(db, err, &epoch, "SELECT value FROM meta WHERE key='epoch'", "");
    if (status != GK_OK && status != GK_NOT_FOUND) { /* one that was never started has none */
        return status;
    }
    char *path = gk_asprintf("%s.schema%" PRId64 "-epoch%" PRId64, db->path, version, epoch);
    status = path ? gk_db_backup(db, path, false, err)
                  : gk_fail(err, GK_NOMEM, "out of memory for a backup");
    free(path);
    return status == GK_OK || status == GK_EXISTS ? GK_OK
                                                  : gk_fail_in(err, status, "before the migration");
}

enum gk_status db_migrate(struct gk_db *db, bool may_migrate, struct gk_err *err)
{
    int64_t id = 0, version = 0, pages = 0;
    enum gk_status status = pragma_int(db, "PRAGMA application_id", &id, err);
    if (status == GK_OK) {
        status = pragma_int(db, "PRAGMA user_version", &version, err);
    }
    if (status == GK_OK) {
        status = pragma_int(db, "SELECT count(*) FROM sqlite_schema", &pages, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (pages > 0 && id != DB_APPLICATION_ID) {
        return gk_fail(err, GK_CORRUPT,
                       "%s is not a store of gktune (application id %" PRId64 ", wanted %d)",
                       db->path, id, DB_APPLICATION_ID);
    }
    if (version < 0) {
        return gk_fail(err, GK_CORRUPT, "store %s is damaged: it says schema %" PRId64, db->path,
                       version);
    }
    if (version > DB_SCHEMA_VERSION) {
        return gk_fail(err, GK_VERSION,
                       "store %s has schema %" PRId64
                       "; this gktune knows 1 to %d: use the newer one",
                       db->path, version, DB_SCHEMA_VERSION);
    }
    if (version == DB_SCHEMA_VERSION) {
        return GK_OK;
    }
    if (version > 0 && !may_migrate) {
        return gk_fail(err, GK_VERSION,
                       "store %s has schema %" PRId64
                       ", this gktune %d; a reading command does not "
                       "change a store: start gktuned or run a tuning command once",
                       db->path, version, DB_SCHEMA_VERSION);
    }
    char pragma[96];
    status = version > 0 ? keep_old(db, version, err) : GK_OK;
    if (status == GK_OK) {
        status = db_begin(db, err);
    }
    for (int64_t step = version; status == GK_OK && step < DB_SCHEMA_VERSION; step++) {
        status = db_exec(db, STEPS[step], err);
    }
    if (status == GK_OK) {
        (void)snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                       DB_APPLICATION_ID, DB_SCHEMA_VERSION);
        status = db_exec(db, pragma, err);
    }
    if (status == GK_OK) {
        return gk_db_commit(db, err);
    }
    gk_db_rollback(db);
    return status;
}
