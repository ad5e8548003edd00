/*
 * Whole messages from strangers into the daemon's core: lines of a letter (the type) and a body.
 * A worker with leases and a job are there. Whatever comes, the core answers and goes on: every
 * call is GK_OK, what it sends can be encoded, the store stays sound, and a new core starts from
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/device_props.h"
#include "daemon/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct gk_db *db;
    struct gk_core *core;
    struct gk_catalog *catalog;
    struct gk_json *bundle;
    uint64_t now_ns, session, seq;
    int64_t epoch;
};

static bool has(void *context, const struct gk_hash *hash)
{
    (void)context, (void)hash;
    return true;
}

static enum gk_status put(void *context, const struct gk_hash *hash, int64_t offset, int64_t size,
                          const void *bytes, size_t count, struct gk_err *err)
{
    (void)context, (void)hash, (void)offset, (void)size, (void)bytes, (void)count, (void)err;
    return GK_OK;
}

static enum gk_status get(void *context, const struct gk_hash *hash, int64_t offset,
                          char **bytes_out, size_t *count_out, int64_t *size_out,
                          struct gk_err *err)
{
    (void)context, (void)hash, (void)offset, (void)bytes_out, (void)count_out, (void)size_out;
    return gk_fail(err, GK_NOT_FOUND, "no blob here");
}

static enum gk_status catalog(void *context, const struct gk_json *files, const char *id,
                              const struct gk_catalog **catalog_out, struct gk_err *err)
{
    (void)files, (void)id, (void)err;
    *catalog_out = ((struct world *)context)->catalog;
    return GK_OK;
}

static void start(struct world *world)
{
    struct gk_err err = {0};
    GK_ASSERT(gk_db_start(world->db, &world->epoch, &err) == GK_OK);
    struct gk_core_setup setup = {.db = world->db,
                                  .files = {has, put, get, catalog, NULL, world},
                                  .epoch = world->epoch,
                                  .now_ns = world->now_ns,
                                  .wall_ms = 1750000000000u,
                                  .version = "fuzzed",
                                  .pid = 1};
    GK_ASSERT(gk_core_create(&setup, &world->core, &err) == GK_OK);
    GK_ASSERT(gk_db_commit(world->db, &err) == GK_OK);
}

static void tick(struct world *world)
{
    struct gk_err err = {0};
    struct gk_peer peer;
    struct gk_message message;
    uint64_t next = 0;
    unsigned char header[GK_HEADER_SIZE];
    struct gk_buf text = {0};
    world->now_ns += 200000000u;
    GK_ASSERT(gk_core_tick(world->core, world->now_ns, 1750000000000u, &next, &err) == GK_OK);
    GK_ASSERT(gk_db_commit(world->db, &err) == GK_OK);
    while (gk_core_take(world->core, &peer, &message)) {
        if (message.type == GK_MSG_WELCOME) {
            world->session = message.session;
        }
        GK_ASSERT(gk_wire_encode(&message, header, &text, &err) == GK_OK);
        gk_message_fini(&message);
    }
    gk_buf_fini(&text);
}

/* Takes the body. */
static void send(struct world *world, enum gk_message_type type, struct gk_json *body)
{
    struct gk_err err = {0};
    bool is_client = type == GK_MSG_REQUEST;
    struct gk_peer peer = {.bytes = {is_client ? 'c' : 'w'}, .size = 1, .roles = GK_ROLES_ALL};
    struct gk_message message = {.type = type,
                                 .session = is_client ? 0 : world->session,
                                 .seq = ++world->seq,
                                 .token = (uint64_t)gk_json_get_int(body, "token", 1),
                                 .body = body};
    GK_ASSERT(gk_core_message(world->core, &peer, &message, world->now_ns, 1750000000000u, &err) ==
              GK_OK);
    gk_message_fini(&message);
    tick(world);
}

static struct gk_json *parse(const char *text)
{
    struct gk_json *json = NULL;
    GK_ASSERT(gk_json_parse(text, strlen(text), "fuzz_core", &json, NULL) == GK_OK);
    return json;
}

static void furnish(struct world *world)
{
    struct gk_device_props props;
    struct gk_json *body = parse("{\"version_min\":1,\"version_max\":1,\"spool_id\":\"s\","
                                 "\"host\":\"h\",\"pid\":1,\"devices\":[],\"held\":[]}");
    GK_ASSERT(gk_device_props_builtin("emu:sm_80", &props, NULL) == GK_OK &&
              gk_json_push(gk_json_get_mutable(body, "devices"), gk_device_props_to_json(&props)));
    send(world, GK_MSG_HELLO, body);
    send(world, GK_MSG_READY, parse("{\"device\":0,\"credit\":4}"));
    body = parse("{\"verb\":\"submit\",\"submit_id\":\"a\",\"what\":\"w\",\"strategy\":\"random\","
                 "\"problems\":[\"scale{\\\"N\\\":4096}\"],\"archs\":[\"emu-sm_80\"],"
                 "\"budget\":{\"trials\":6},\"seed\":1}");
    GK_ASSERT(gk_json_set(body, "bundle", gk_json_copy(world->bundle)));
    send(world, GK_MSG_REQUEST, body);
    GK_ASSERT(world->session != 0 && gk_core_counters(world->core).held_leases > 0);
}

static void one_line(struct world *world, const uint8_t *line, size_t size)
{
    static const struct {
        char letter;
        enum gk_message_type type;
    } types[] = {{'H', GK_MSG_HELLO},    {'R', GK_MSG_READY},   {'S', GK_MSG_STARTED},
                 {'T', GK_MSG_RESULT},   {'L', GK_MSG_RELEASE}, {'D', GK_MSG_DEVICE_EVENT},
                 {'B', GK_MSG_BLOB_GET}, {'P', GK_MSG_PING},    {'O', GK_MSG_PONG},
                 {'Q', GK_MSG_REQUEST},  {'Y', GK_MSG_BYE},     {'E', GK_MSG_ERROR},
                 {'W', GK_MSG_WELCOME},  {'A', GK_MSG_ACK},     {'V', GK_MSG_EVENT}};
    struct gk_json *body = NULL;
    if (size < 2 ||
        gk_json_parse((const char *)line + 1, size - 1, "input", &body, NULL) != GK_OK ||
        !gk_json_is(body, GK_JSON_OBJECT)) {
        gk_json_free(body);
        return;
    }
    const char *verb = gk_json_get_string(body, "verb", "");
    const char *action = gk_json_get_string(body, "action", "");
    /* Not into files of this machine; and a submit needs the whole bundle. */
    if (strcmp(verb, "db") == 0 && strcmp(action, "check") != 0 && strcmp(action, "prune") != 0) {
        gk_json_free(body);
        return;
    }
    if (strcmp(verb, "submit") == 0 && !gk_json_get(body, "bundle")) {
        GK_ASSERT(gk_json_set(body, "bundle", gk_json_copy(world->bundle)));
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(types); i++) {
        if (types[i].letter == (char)line[0]) {
            send(world, types[i].type, body);
            return;
        }
    }
    gk_json_free(body);
}

static struct world *prepared(void)
{
    static struct world world;
    struct gk_diag diag;
    struct gk_bundle bundle;
    struct gk_err err = {0};
    if (!world.catalog) {
        gk_diag_init(&diag);
        GK_ASSERT(gk_hash_setup(&err) == GK_OK &&
                  gk_catalog_load(GK_SOURCE_DIR "/tests/data/kernels/toy", &world.catalog, &diag) ==
                      GK_OK &&
                  gk_catalog_bundle(world.catalog, &bundle, &err) == GK_OK);
        world.bundle = gk_bundle_to_json(&bundle);
        gk_bundle_fini(&bundle);
        gk_diag_fini(&diag);
    }
    world.now_ns = 1000000000u;
    world.session = world.seq = 0;
    return &world;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *world = prepared();
    struct gk_err err = {0};
    struct gk_json *report = NULL;
    GK_ASSERT(gk_db_open(":memory:", true, &world->db, &err) == GK_OK);
    start(world);
    furnish(world);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t count = end ? (size_t)(end - data) - at : size - at;
        one_line(world, data + at, count);
        at += count + 1;
    }
    gk_core_destroy(world->core);
    start(world); /* what strangers said does not keep the next start from coming up */
    tick(world);
    gk_core_destroy(world->core);
    GK_ASSERT(gk_db_check(world->db, &report, &err) == GK_OK);
    GK_ASSERT(gk_json_get_bool(report, "ok", false));
    gk_json_free(report);
    gk_db_close(world->db);
    return 0;
}
