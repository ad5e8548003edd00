/*
 * The curves of gktune replay as an SVG of our own: a row of two panels for each space, the mean
 * fraction of the best recorded time over evaluations and over simulated seconds.
 *
 * Both axes of x are logarithmic: a search is judged by its first hundred evaluations as much as by
 * its last. The lower end of y is chosen for each space, or a flat space would be one line at the
 * top. Colours are told apart by people who see fewer of them, and on a light and a dark ground;
 * text and ground follow the reader's scheme.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/replay_grid.h"

#define PANEL_W 420.0
#define PANEL_H 220.0
#define LEFT    64.0
#define GAP     76.0
#define TOP     64.0
#define ROW     (PANEL_H + 92.0)
#define POINTS  96

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#c08a00", "#56b4e9", "#8a6fc0", "#7f7f7f"};
static const char *const dashes[] = {"", "7 3", "2 3"}; /* when the colours are used up */

struct panel {
    const struct replay_grid *grid;
    uint32_t space;
    bool by_time;
    double x, y;        /* upper left corner */
    double first, last; /* of the x axis: evaluations or ns */
    double low;         /* fraction at the lower end */
};

static double x_of(const struct panel *panel, double value)
{
    return panel->x + PANEL_W * log(value / panel->first) / log(panel->last / panel->first);
}

static double y_of(const struct panel *panel, double fraction)
{
    return panel->y + PANEL_H * (1 - (fraction - panel->low) / (1 - panel->low));
}

static void put_text(struct gk_buf *out, double x, double y, const char *anchor, const char *text)
{
    gk_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (const char *p = text; *p; p++) {
        switch (*p) {
        case '<':
            gk_buf_puts(out, "&lt;");
            break;
        case '>':
            gk_buf_puts(out, "&gt;");
            break;
        case '&':
            gk_buf_puts(out, "&amp;");
            break;
        default:
            gk_buf_putc(out, (uint8_t)*p < ' ' ? ' ' : *p);
        }
    }
    gk_buf_puts(out, "</text>\n");
}

/* ------------------------------------------------------------------ values */

static enum gk_status value_at(const struct panel *panel, uint32_t strategy, double x,
                               double *mean_out, struct gk_err *err)
{
    const struct replay_grid *grid = panel->grid;
    const struct gk_replay_baseline *baseline = grid->spaces[panel->space].baseline;
    struct gk_replay_stats stats = {0};
    enum gk_status status = GK_OK;
    if (strategy == grid->strategy_count) { /* random search, computed */
        double n = panel->by_time ? x / baseline->mean_cost_ns : x;
        uint32_t whole = n < 1 ? 1 : (uint32_t)n;
        double part = n < 1 ? 0 : n - whole, here = gk_replay_expected_fraction(baseline, whole);
        *mean_out = here + part * (gk_replay_expected_fraction(baseline, whole + 1) - here);
        return GK_OK;
    }
    const struct gk_replay_trace *traces = replay_grid_traces(grid, panel->space, strategy);
    status = panel->by_time
                 ? gk_replay_at_time(baseline, traces, grid->seeds, x, &stats, err)
                 : gk_replay_at_evals(baseline, traces, grid->seeds, (uint32_t)x, &stats, err);
    *mean_out = stats.mean;
    return status;
}

/* The lower end of y: under what random search has after a fortieth of the axis. */
static void choose_low(struct panel *panel)
{
    static const double heights[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8};
    double mean = 1, at = floor(fmax(panel->first, panel->last / 40));
    (void)value_at(panel, panel->grid->strategy_count, at, &mean, NULL); /* computed: no error */
    panel->low = 0;
    for (size_t i = GK_ARRAY_COUNT(heights); i > 0; i--) {
        if (1 - heights[i - 1] <= mean) {
            panel->low = 1 - heights[i - 1];
        }
    }
}

/* ------------------------------------------------------------------ axes */

static void seconds_text(double ns, char out[32])
{
    double seconds = ns * 1e-9;
    if (seconds < 60) {
        (void)snprintf(out, 32, "%.3g s", seconds);
    } else if (seconds < 3600) {
        (void)snprintf(out, 32, "%.3g min", seconds / 60);
    } else {
        (void)snprintf(out, 32, "%.3g h", seconds / 3600);
    }
}

static void put_x_tick(const struct panel *panel, double value, const char *text,
                       struct gk_buf *out)
{
    double x = x_of(panel, value);
    if (value < panel->first * 0.999 || value > panel->last * 1.001) {
        return;
    }
    gk_buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, panel->y,
                  panel->y + PANEL_H);
    put_text(out, x, panel->y + PANEL_H + 16, "middle", text);
}

static void put_axes(const struct panel *panel, struct gk_buf *out)
{
    static const double seconds[] = {1,   2,    5,    10,   20,    60,    120,   300,
                                     600, 1200, 3600, 7200, 18000, 36000, 86400, 172800};
    char text[32];
    for (int i = 0; i <= 4; i++) {
        double fraction = panel->low + (1 - panel->low) * i / 4, y = y_of(panel, fraction);
        gk_buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", panel->x, y,
                      panel->x + PANEL_W);
        (void)snprintf(text, sizeof text, "%.4g %%", 100 * fraction);
        put_text(out, panel->x - 6, y + 4, "end", text);
    }
    for (size_t i = 0; panel->by_time && i < GK_ARRAY_COUNT(seconds); i++) {
        seconds_text(seconds[i] * 1e9, text);
        put_x_tick(panel, seconds[i] * 1e9, text, out);
    }
    for (uint32_t i = 0; !panel->by_time && i < panel->grid->column_count; i++) {
        uint32_t evals = replay_column_evals(panel->grid, panel->space, i);
        (void)snprintf(text, sizeof text, "%u", evals);
        put_x_tick(panel, evals, text, out);
    }
    for (double n = 1; !panel->by_time && n <= 10; n = n < 2 ? 5 : n * 2) {
        (void)snprintf(text, sizeof text, "%.0f", n);
        put_x_tick(panel, n, text, out);
    }
    gk_buf_printf(out,
                  "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                  panel->x, panel->y, PANEL_W, PANEL_H);
    put_text(out, panel->x + PANEL_W / 2, panel->y + PANEL_H + 33, "middle",
             panel->by_time ? "simulated time of compiling and running" : "evaluations");
}

/* ------------------------------------------------------------------ curves */

static void put_stroke(const struct replay_grid *grid, uint32_t strategy, struct gk_buf *out)
{
    uint32_t count = GK_ARRAY_COUNT(colours);
    if (strategy == grid->strategy_count) {
        gk_buf_puts(out, "class=\"random\" stroke-dasharray=\"4 3\"");
        return;
    }
    const char *dash = dashes[strategy / count % GK_ARRAY_COUNT(dashes)];
    gk_buf_printf(out, "class=\"curve\" stroke=\"%s\"", colours[strategy % count]);
    if (*dash) {
        gk_buf_printf(out, " stroke-dasharray=\"%s\"", dash);
    }
}

static enum gk_status put_curve(const struct panel *panel, uint32_t strategy, struct gk_buf *out,
                                struct gk_err *err)
{
    double before = -1;
    gk_buf_puts(out, "<path ");
    put_stroke(panel->grid, strategy, out);
    gk_buf_printf(out, " clip-path=\"url(#p%u%c)\" d=\"", panel->space, panel->by_time ? 't' : 'e');
    for (int i = 0; i < POINTS; i++) {
        double x = panel->first * pow(panel->last / panel->first, (double)i / (POINTS - 1));
        double mean = 0;
        x = panel->by_time ? x : floor(x + 0.5);
        if (x <= before) {
            continue; /* the first evaluations are farther apart than points */
        }
        enum gk_status status = value_at(panel, strategy, x, &mean, err);
        if (status != GK_OK) {
            return status;
        }
        gk_buf_printf(out, "%c%.1f %.1f", before < 0 ? 'M' : 'L', x_of(panel, x),
                      y_of(panel, mean));
        before = x;
    }
    gk_buf_puts(out, "\"/>\n");
    return GK_OK;
}

static enum gk_status put_panel(const struct replay_grid *grid, uint32_t space, bool by_time,
                                struct gk_buf *out, struct gk_err *err)
{
    double unit = by_time ? grid->spaces[space].baseline->mean_cost_ns : 1;
    uint32_t evals = replay_column_evals(grid, space, grid->column_count - 1);
    struct panel panel = {.grid = grid,
                          .space = space,
                          .by_time = by_time,
                          .x = LEFT + by_time * (PANEL_W + GAP),
                          .y = TOP + space * ROW + 20,
                          .first = unit,
                          .last = unit * (evals > 1 ? evals : 2)};
    choose_low(&panel);
    gk_buf_printf(out,
                  "<clipPath id=\"p%u%c\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                  "height=\"%.1f\"/></clipPath>\n",
                  space, by_time ? 't' : 'e', panel.x, panel.y, PANEL_W, PANEL_H);
    put_axes(&panel, out);
    enum gk_status status = put_curve(&panel, grid->strategy_count, out, err);
    for (uint32_t i = 0; status == GK_OK && i < grid->strategy_count; i++) {
        status = put_curve(&panel, i, out, err);
    }
    return status;
}

static void put_legend(const struct replay_grid *grid, struct gk_buf *out)
{
    double x = LEFT;
    for (uint32_t i = 0; i <= grid->strategy_count; i++) {
        const char *name =
            i < grid->strategy_count ? grid->strategies[i]->name : "random, expected";
        gk_buf_puts(out, "<path ");
        put_stroke(grid, i, out);
        gk_buf_printf(out, " d=\"M%.1f 50H%.1f\"/>\n", x, x + 24);
        put_text(out, x + 30, 54, "start", name);
        x += 46 + 7.0 * (double)strlen(name);
    }
}

enum gk_status replay_svg(const struct replay_grid *grid, struct gk_buf *out, struct gk_err *err)
{
    double width = LEFT + 2 * PANEL_W + GAP + 24, height = TOP + grid->space_count * ROW + 8;
    enum gk_status status = GK_OK;
    gk_buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
        "height=\"%.0f\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
        "<style>\n"
        ":root{color-scheme:light dark;--ink:#1f2328;--ground:#ffffff;--grid:#d8dce1}\n"
        "@media (prefers-color-scheme:dark){:root{--ink:#e6e8eb;--ground:#14171b;--grid:#3a4048}}\n"
        "text{fill:var(--ink)} .ground{fill:var(--ground)} .grid{stroke:var(--grid);fill:none}\n"
        ".frame{stroke:var(--ink);fill:none} .curve{fill:none;stroke-width:2}\n"
        ".random{fill:none;stroke:var(--ink);stroke-width:1.4} .title{font-size:14px}\n"
        "</style>\n<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n",
        width, height, width, height);
    gk_buf_puts(out, "<g class=\"title\">");
    char title[128];
    (void)snprintf(title, sizeof title,
                   "Mean fraction of the best recorded time, %u runs, %u asked at once",
                   grid->seeds, grid->credit);
    put_text(out, LEFT, 28, "start", title);
    gk_buf_puts(out, "</g>\n");
    put_legend(grid, out);
    for (uint32_t i = 0; status == GK_OK && i < grid->space_count; i++) {
        put_text(out, LEFT, TOP + i * ROW + 12, "start", grid->spaces[i].name);
        status = put_panel(grid, i, false, out, err);
        if (status == GK_OK) {
            status = put_panel(grid, i, true, out, err);
        }
    }
    gk_buf_puts(out, "</svg>\n");
    return status == GK_OK ? gk_buf_status(out, err) : status;
}
