/* Reports of the emulated device for people: see emu_render.h. Pure: JSON in, text out. */
#include "cli/emu_render.h"

#include "cli/command.h"
#include "cli/emu_listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ launches */

static void render_shape(const struct gk_json *launch, const char *name, struct gk_buf *out)
{
    const struct gk_json *list = gk_json_get(launch, name);
    gk_buf_printf(out, "  %s %" PRId64, name, gk_json_int(gk_json_at(list, 0), 1));
    for (size_t i = 1; i < 3; i++) {
        int64_t value = gk_json_int(gk_json_at(list, i), 1);
        if (value > 1 || (i == 1 && gk_json_int(gk_json_at(list, 2), 1) > 1)) {
            gk_buf_printf(out, "x%" PRId64, value);
        }
    }
}

static void render_model(const struct gk_json *launch, struct gk_buf *out)
{
    static const char *const names[] = {"tensor", "dram",    "l2",    "shared", "fma",
                                        "fp64",   "special", "issue", "latency"};
    const struct gk_json *model = gk_json_get(launch, "model");
    const char *binds = gk_json_get_string(model, "binds", "");
    char text[32], member[32];
    if (!model) {
        return;
    }
    gk_time_text(gk_json_get_real(model, "total_ns", 0), text);
    gk_buf_printf(out, "  model    %s modelled:", text);
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        (void)snprintf(member, sizeof member, "%s_ns", names[i]);
        double ns = gk_json_get_real(model, member, 0);
        if (ns > 0) {
            gk_time_text(ns, text);
            gk_buf_printf(out, " %s %s%s,", names[i], text,
                          strcmp(names[i], binds) == 0 ? " (binds)" : "");
        }
    }
    gk_time_text(gk_json_get_real(model, "launch_ns", 0), text);
    gk_buf_printf(out, " launch %s; %" PRId64 " blocks an SM, waves %" PRId64 "\n", text,
                  gk_json_get_int(model, "blocks_per_sm", 0), gk_json_get_int(model, "waves", 0));
}

static void total_requests(const struct gk_json *launch, const char *what, const char *verb,
                           const char *requests, const char *took, struct gk_buf *out)
{
    char text[96];
    gk_emu_requests_text(gk_emu_number(launch, "counts", requests),
                         gk_emu_number(launch, "counts", took),
                         gk_emu_number(launch, "ideal", took), text);
    if (text[0]) {
        gk_buf_printf(out, "  %-8s %s: %s\n", what, verb, text);
    }
}

static void render_totals(const struct gk_json *launch, struct gk_buf *out)
{
    static const struct {
        const char *name, *text;
    } rest[] = {
        {"warp_instructions", "warp instructions"},
        {"tensor_flops", "tensor operations"},
        {"fma_ops", "fma"},
        {"fp64_ops", "fp64"},
        {"int_ops", "integer"},
        {"special_ops", "special"},
        {"global_atomics", "global atomics"},
        {"shared_atomics", "shared atomics"},
        {"local_requests", "local memory requests"},
        {"cp_async_bytes", "bytes by cp.async"},
        {"bulk_load_bytes", "bytes by bulk loads"},
        {"bulk_store_bytes", "bytes by bulk stores"},
        {"cp_async_waits", "waits for cp.async"},
        {"divergent_branches", "divergent branches"},
    };
    char text[32];
    const char *between = "";
    total_requests(launch, "global", "loads, sectors each", "global_load_requests",
                   "global_load_sectors", out);
    total_requests(launch, "global", "stores, sectors each", "global_store_requests",
                   "global_store_sectors", out);
    total_requests(launch, "shared", "requests, wavefronts each", "shared_requests",
                   "shared_wavefronts", out);
    gk_buf_puts(out, "  counts   ");
    for (size_t i = 0; i < GK_ARRAY_COUNT(rest); i++) {
        double value = gk_emu_number(launch, "counts", rest[i].name);
        if (value > 0) {
            gk_emu_count_text(value, text);
            gk_buf_printf(out, "%s%s %s", between, text, rest[i].text);
            between = ", ";
        }
    }
    gk_emu_count_text((double)gk_json_get_int(launch, "waits", 0), text);
    gk_buf_printf(out, "%s%s waits at barriers\n", between, text);
}

static void render_launch(const struct gk_json *report, const struct gk_json *launch,
                          const struct gk_emu_look *look, struct gk_buf *out)
{
    gk_buf_printf(out, "\nlaunch %s: kernel %s", gk_json_get_string(launch, "launch", "?"),
                  gk_json_get_string(launch, "kernel", "?"));
    render_shape(launch, "grid", out);
    render_shape(launch, "block", out);
    if (gk_json_int(gk_json_at(gk_json_get(launch, "cluster"), 0), 1) > 1) {
        render_shape(launch, "cluster", out);
    }
    int64_t regs = gk_json_get_int(launch, "regs", -1),
            spills = gk_json_get_int(launch, "spill_bytes", -1);
    if (regs >= 0) {
        gk_buf_printf(out, "  %" PRId64 " registers", regs);
    }
    if (spills > 0) {
        gk_buf_printf(out, "  %" PRId64 " bytes of spills", spills);
    }
    int64_t fixed = gk_json_get_int(launch, "static_smem", -1);
    gk_buf_printf(out, "  %" PRId64 " bytes of shared memory\n",
                  gk_json_get_int(launch, "dynamic_smem", 0) + (fixed > 0 ? fixed : 0));
    if (!gk_json_get_bool(launch, "ended", false)) {
        gk_buf_puts(out, "  it did not run to its end: these are the counts until then\n");
    }
    render_model(launch, out);
    render_totals(launch, out);
    if (look->source) {
        gk_emu_listing(report, launch, look->color, out);
    } else {
        gk_emu_table(launch, look, out);
    }
}

/* ------------------------------------------------------------------ the verdict */

static void render_rungs(const struct gk_json *run, struct gk_buf *out)
{
    const struct gk_json *rungs = gk_json_get(run, "rungs");
    for (size_t i = 0; i < gk_json_count(rungs); i++) {
        const struct gk_json *rung = gk_json_at(rungs, i);
        int64_t failed = gk_json_get_int(rung, "failed", 0);
        double got = gk_json_get_real(rung, "worst_got", 0);
        double want = gk_json_get_real(rung, "worst_want", 0);
        double bound = gk_json_get_real(rung, "worst_bound", 0);
        double norm = gk_json_get_real(rung, "norm_error", -1);
        gk_buf_printf(out, "    %-11s %s: %" PRId64 " elements of %s compared, %" PRId64 " wrong",
                      gk_json_get_string(rung, "name", "?"),
                      gk_json_get_bool(rung, "passed", false) ? "passed" : "FAILED",
                      gk_json_get_int(rung, "compared", 0), gk_json_get_string(rung, "tensor", "?"),
                      failed);
        if (gk_json_get_int(rung, "worst_index", -1) >= 0) {
            gk_buf_printf(
                out, "; nearest its bound: element %" PRId64 ", got %.6g, want %.6g, bound %.3g",
                gk_json_get_int(rung, "worst_index", -1), got, want, bound);
        }
        if (norm >= 0) {
            gk_buf_printf(out, "; relative error %.3g", norm);
        }
        gk_buf_putc(out, '\n');
    }
}

static void render_failure(const struct gk_json *failure, bool is_plain, struct gk_buf *out)
{
    const struct gk_json *places = gk_json_get(failure, "places");
    const char *schedule = gk_json_get_string(failure, "schedule", NULL);
    gk_buf_printf(out, "%s: %s", is_plain ? "FAILED" : "NOT VERIFIED",
                  gk_json_get_string(failure, "kind", "?"));
    gk_buf_printf(out, ", stage %s", gk_json_get_string(failure, "stage", "?"));
    if (schedule) {
        gk_buf_printf(out, ", schedule %s", schedule);
    }
    gk_buf_puts(out, "\n  ");
    gk_put_plain(gk_json_get_string(failure, "message", ""), true, out);
    gk_buf_putc(out, '\n');
    for (size_t i = 0; i < gk_json_count(places); i++) {
        const struct gk_json *place = gk_json_at(places, i);
        gk_buf_printf(out, "    %s:%" PRId64 ": ", gk_json_get_string(place, "file", "?"),
                      gk_json_get_int(place, "line", 0));
        gk_put_plain(gk_json_get_string(place, "text", ""), false, out);
        gk_buf_putc(out, '\n');
    }
}

/* What a plain kernel left in its buffers: nobody knows what is right. */
static void render_buffers(const struct gk_json *buffers, struct gk_buf *out)
{
    for (size_t i = 0; i < gk_json_count(buffers); i++) {
        const struct gk_json *buffer = gk_json_at(buffers, i),
                             *first = gk_json_get(buffer, "first");
        int64_t unwritten = gk_json_get_int(buffer, "unwritten_bytes", 0);
        int64_t nonfinite = gk_json_get_int(buffer, "nonfinite", 0);
        gk_buf_printf(
            out, "  argument %" PRId64 ", %s[%" PRId64 "]:", gk_json_get_int(buffer, "argument", 0),
            gk_json_get_string(buffer, "dtype", "?"), gk_json_get_int(buffer, "elements", 0));
        for (size_t k = 0; k < gk_json_count(first); k++) {
            const struct gk_json *value = gk_json_at(first, k);
            if (gk_json_is(value, GK_JSON_NULL)) {
                gk_buf_puts(out, " nan");
            } else {
                gk_buf_printf(out, " %.6g", gk_json_real(value, 0));
            }
        }
        if (gk_json_get(buffer, "least")) {
            gk_buf_printf(out, " ..; %.6g to %.6g", gk_json_get_real(buffer, "least", 0),
                          gk_json_get_real(buffer, "most", 0));
        }
        if (nonfinite > 0) {
            gk_buf_printf(out, "; %" PRId64 " not finite", nonfinite);
        }
        if (unwritten > 0) {
            gk_buf_printf(out, "; %" PRId64 " bytes nobody wrote", unwritten);
        }
        gk_buf_puts(out, gk_json_get_bool(buffer, "same", true)
                             ? "\n"
                             : "; OTHER BYTES than under the first schedule\n");
    }
}

static void render_plain(const struct gk_json *report, struct gk_buf *out)
{
    const struct gk_json *runs = gk_json_get(report, "runs");
    gk_buf_printf(out, "%s on %s\n", gk_json_get_string(report, "what", ""),
                  gk_json_get_string(report, "arch", ""));
    for (size_t i = 0; i < gk_json_count(runs); i++) {
        const struct gk_json *run = gk_json_at(runs, i);
        if (gk_json_get_bool(run, "ran", false)) {
            gk_buf_printf(out, "ran, schedule %s\n", gk_json_get_string(run, "schedule", "?"));
        }
    }
    render_buffers(gk_json_get(report, "buffers"), out);
}

static void render_verified(const struct gk_json *report, struct gk_buf *out)
{
    const struct gk_json *runs = gk_json_get(report, "runs");
    gk_buf_printf(out, "%s %s on %s\n", gk_json_get_string(report, "problem", ""),
                  gk_json_get_string(report, "config", ""), gk_json_get_string(report, "arch", ""));
    for (size_t i = 0; i < gk_json_count(runs); i++) {
        const struct gk_json *run = gk_json_at(runs, i);
        if (gk_json_get_bool(run, "verified", false)) {
            gk_buf_printf(out, "verified, schedule %s\n", gk_json_get_string(run, "schedule", "?"));
        }
        render_rungs(run, out);
    }
}

void gk_emu_render(const struct gk_json *report, const struct gk_emu_look *look, struct gk_buf *out)
{
    bool is_plain = gk_json_get(report, "ran") != NULL;
    const struct gk_json *failure = gk_json_get(report, "failure");
    const struct gk_json *launches = gk_json_get(report, "launches");
    if (is_plain) {
        render_plain(report, out);
    } else {
        render_verified(report, out);
    }
    if (failure) {
        render_failure(failure, is_plain, out);
    }
    for (size_t i = 0; i < gk_json_count(launches); i++) {
        render_launch(report, gk_json_at(launches, i), look, out);
    }
}
