/* Which members a request may have, and of what type: a member that nobody reads, because it is
 * misspelt or of another type, would be left out in silence and the answer be one to another
 * question. Bounds of values are the verbs' own. */
#include <string.h>

#include "daemon/requests_internal.h"

#define BOOL   (1u << GK_JSON_BOOL)
#define INT    (1u << GK_JSON_INT)
#define STRING (1u << GK_JSON_STRING)
#define ARRAY  (1u << GK_JSON_ARRAY)
#define OBJECT (1u << GK_JSON_OBJECT)

struct member {
    const char *name; /* NULL: the end of the list */
    uint32_t types;   /* that are allowed, a bit each */
};

#define MEMBERS_MAX 24 /* of a verb, and one without a name behind them */

static const struct verb_members {
    const char *verb;
    struct member members[MEMBERS_MAX]; /* beside `verb` itself */
} VERBS[] = {
    {"status", {{0}}},
    {"blob_have", {{"hashes", ARRAY}}},
    {"blob_put", {{"hash", STRING}, {"offset", INT}, {"size", INT}, {"data", STRING}}},
    {"blob_get", {{"hash", STRING}, {"offset", INT}}},
    {"submit",
     {{"submit_id", STRING},
      {"what", STRING},
      {"op_names", ARRAY},
      {"problems", ARRAY},
      {"bundle", OBJECT},
      {"archs", ARRAY | STRING},
      {"devices", ARRAY},
      {"budget", OBJECT},
      {"strategy", STRING},
      {"seed", INT},
      {"priority", INT},
      {"policy", STRING},
      {"fresh", BOOL},
      {"incumbents", ARRAY},
      {"private_ok", BOOL},
      {"spread", BOOL},
      {"until_ms", INT},
      {"if_changed", BOOL},
      {"max_age_days", INT}}},
    {"submit_suite", {{"suite", STRING}, {"slot", STRING}, {"night", STRING}, {"sets", ARRAY}}},
    {"jobs", {{"cursor", INT}, {"state", STRING}}},
    {"show", {{"job", INT}, {"cursor", INT}}},
    {"watch", {{"job", INT}, {"after_event", INT}}},
    {"cancel", {{"job", INT}, {"jobs", ARRAY}, {"reason", STRING}}},
    {"pause", {{"job", INT}, {"jobs", ARRAY}, {"reason", STRING}}},
    {"resume", {{"job", INT}, {"jobs", ARRAY}, {"reason", STRING}}},
    {"retry", {{"job", INT}, {"jobs", ARRAY}, {"reason", STRING}}},
    {"finish", {{"job", INT}, {"jobs", ARRAY}, {"reason", STRING}}},
    {"trials", {{"job", INT}, {"failed", BOOL}, {"measured", BOOL}, {"cursor", INT}}},
    {"best", {{"op", STRING}, {"arch", STRING}, {"gpu", STRING}, {"job", INT}, {"cursor", INT}}},
    {"export_data",
     {{"ops", ARRAY}, {"arch", STRING}, {"gpu", STRING}, {"job", INT}, {"cursor", INT}}},
    {"workers",
     {{"action", STRING},
      {"worker", INT},
      {"device", STRING},
      {"reason", STRING},
      {"cursor", INT}}},
    {"spread", {{"op", STRING}, {"cursor", INT}}},
    {"db",
     {{"action", STRING},
      {"path", STRING},
      {"no_samples", BOOL},
      {"days", INT},
      {"dry_run", BOOL},
      {"reason", STRING}}},
    {"stop", {{"reason", STRING}}},
    {"keys", {{"action", STRING}}},
    {"drain", {{"on", BOOL}, {"reason", STRING}}},
    {"dead",
     {{"action", STRING},
      {"dead", INT},
      {"all", BOOL},
      {"settled", BOOL},
      {"reason", STRING},
      {"cursor", INT}}},
    {"audit", {{"verify", BOOL}, {"cursor", INT}}},
};

static const struct verb_members *members_of(const char *verb)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(VERBS); i++) {
        if (strcmp(VERBS[i].verb, verb) == 0) {
            return &VERBS[i];
        }
    }
    return NULL;
}

static const struct member *member_of(const struct verb_members *known, const char *name)
{
    for (const struct member *m = known->members; m->name; m++) {
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    return NULL;
}

static void add_unknown(struct gk_diag *diag, const struct verb_members *known, const char *name,
                        const char *extra)
{
    struct gk_buf there = {0};
    gk_buf_puts(&there, extra);
    for (const struct member *m = known->members; m->name; m++) {
        gk_buf_printf(&there, " %s", m->name);
    }
    (void)gk_diag_add(diag, GK_INPUT, "%s: there is no member '%.60s'; there are %s", known->verb,
                      name, gk_buf_text(&there));
    gk_buf_fini(&there);
}

static void add_type(struct gk_diag *diag, const struct verb_members *known,
                     const struct member *member, const struct gk_json *value)
{
    struct gk_buf allowed = {0};
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(value, shown);
    for (uint32_t type = GK_JSON_NULL; type <= GK_JSON_OBJECT; type++) {
        if (member->types & (1u << type)) {
            gk_buf_printf(&allowed, "%s%s", allowed.size > 0 ? " or " : "",
                          gk_json_type_name((enum gk_json_type)type));
        }
    }
    (void)gk_diag_add(diag, GK_INPUT, "%s: member '%s' is %s; %s is allowed", known->verb,
                      member->name, shown, gk_buf_text(&allowed));
    gk_buf_fini(&allowed);
}

enum gk_status request_members(const char *verb, const char *extra, const struct gk_json *body,
                               struct gk_err *err)
{
    const struct verb_members *known = members_of(verb);
    GK_ASSERT(known); /* a verb without a list would take anything */
    struct gk_diag diag;
    void *at = NULL;
    const char *name;
    const struct gk_json *value;
    gk_diag_init(&diag);
    while ((value = gk_json_next(body, &at, &name))) {
        const struct member *member = member_of(known, name);
        if (!member && strcmp(name, extra) != 0) {
            add_unknown(&diag, known, name, extra);
        } else if (member && !(member->types & (1u << gk_json_type(value)))) {
            add_type(&diag, known, member, value);
        }
    }
    enum gk_status status = gk_diag_status(&diag, err);
    gk_diag_fini(&diag);
    return status;
}
