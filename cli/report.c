/* What several commands print or read in the same way. Only stdout is written here. */
#include "cli/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum gk_status gk_print_json(const struct gk_cli *cli, const struct gk_json *json,
                             struct gk_err *err)
{
    (void)cli;
    struct gk_buf text = {0};
    enum gk_status status = isatty(STDOUT_FILENO) ? gk_json_pretty(json, &text, err)
                                                  : gk_json_canonical(json, &text, err);
    if (status == GK_OK) {
        (void)fwrite(gk_buf_text(&text), 1, text.size,
                     stdout); /* gk_finish_output looks at errors */
        (void)fputc('\n', stdout);
    }
    gk_buf_fini(&text);
    return status;
}

const char *gk_source_kernels(void)
{
    return GKTUNE_SOURCE_KERNELS;
}

enum gk_status gk_finish_output(struct gk_err *err)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno == EPIPE) {
            return GK_OK; /* the reader, head perhaps, has had enough */
        }
        return gk_fail(err, GK_IO, "cannot write to standard output: %s",
                       errno ? strerror(errno) : "an earlier write failed");
    }
    return GK_OK;
}

enum gk_status gk_load_catalog(const struct gk_cli *cli, const char *what,
                               struct gk_catalog **catalog_out, struct gk_err *err)
{
    if (!cli->kernels_dir) {
        return gk_fail(err, GK_MISSING,
                       "the folder of kernels was not found beside gktune; name it by --kernels");
    }
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = what ? gk_catalog_load_for(cli->kernels_dir, what, catalog_out, &diag)
                                 : gk_catalog_load(cli->kernels_dir, catalog_out, &diag);
    if (status != GK_OK) {
        enum gk_status told = gk_diag_status(&diag, err);
        status = told != GK_OK ? told : gk_fail(err, status, "%s: cannot be loaded", what);
    }
    gk_diag_fini(&diag);
    return status;
}

enum gk_status gk_choose_op(const struct gk_catalog *catalog, const char *what,
                            const struct gk_op **op_out, struct gk_err *err)
{
    const struct gk_op *op = gk_catalog_find(catalog, what);
    if (!op && gk_catalog_op_count(catalog) == 1) {
        op = gk_catalog_op(catalog, 0);
    }
    if (!op) {
        struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
        return gk_fail(err, GK_USAGE, "family '%s' has several ops; name one of %s", what,
                       lookup.names(lookup.context));
    }
    *op_out = op;
    return GK_OK;
}

void gk_put_plain(const char *text, bool keep_lines, struct gk_buf *out)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool line = *p == '\n' || *p == '\t';
        if ((*p < 0x20 && !(line && keep_lines)) || *p == 0x7F) {
            gk_buf_printf(out, "\\x%02x", *p);
        } else if (*p == 0xC2 && p[1] >= 0x80 && p[1] <= 0x9F) { /* U+0080 to U+009F */
            gk_buf_printf(out, "\\xc2\\x%02x", p[1]);
            p++;
        } else {
            gk_buf_putc(out, (char)*p);
        }
    }
}

void gk_time_text(double time_ns, char text_out[32])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    if (!(time_ns > 0)) {
        (void)snprintf(text_out, 32, "-");
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(units); i++) {
        if (time_ns >= units[i].unit || i + 1 == GK_ARRAY_COUNT(units)) {
            double value = time_ns / units[i].unit;
            int digits = value >= 100 ? 1 : value >= 10 ? 2 : 3;
            (void)snprintf(text_out, 32, "%.*f %s", digits, value, units[i].name);
            return;
        }
    }
}

void gk_age_text(int64_t then_ms, int64_t now_ms, char text_out[32])
{
    int64_t s = now_ms > then_ms ? (now_ms - then_ms) / 1000 : 0;
    if (then_ms <= 0) {
        (void)snprintf(text_out, 32, "-");
    } else if (s < 120) {
        (void)snprintf(text_out, 32, "%" PRId64 " s", s);
    } else if (s < 7200) {
        (void)snprintf(text_out, 32, "%" PRId64 " min", s / 60);
    } else if (s < 172800) {
        (void)snprintf(text_out, 32, "%" PRId64 " h", s / 3600);
    } else {
        (void)snprintf(text_out, 32, "%" PRId64 " d", s / 86400);
    }
}

enum gk_status gk_parse_job(const char *text, int64_t *job_out, struct gk_err *err)
{
    const char *digits = strncmp(text, "job", 3) == 0 ? text + 3 : text;
    if (gk_parse_int(digits, "JOB", 1, INT64_MAX, job_out, NULL) != GK_OK) {
        return gk_fail(err, GK_USAGE,
                       "'%s' is not a job; a number as `gktune jobs` shows it is needed", text);
    }
    return GK_OK;
}
