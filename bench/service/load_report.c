/* Numbers of a benchmark: see load.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/service/load.h"

#define STEP_NS 10000u
#define STEPS   2000000u

void load_histogram_init(struct load_histogram *histogram)
{
    *histogram = (struct load_histogram){.counts = calloc(STEPS, sizeof(uint32_t))};
    if (!histogram->counts) {
        load_die("out of memory for a histogram");
    }
}

void load_histogram_fini(struct load_histogram *histogram)
{
    free(histogram->counts);
}

void load_histogram_clear(struct load_histogram *histogram)
{
    memset(histogram->counts, 0, STEPS * sizeof(uint32_t));
    histogram->count = 0;
}

void load_histogram_add(struct load_histogram *histogram, uint64_t ns)
{
    uint64_t step = ns / STEP_NS;
    histogram->counts[step < STEPS ? step : STEPS - 1]++;
    histogram->count++;
}

double load_histogram_ms(const struct load_histogram *histogram, double part)
{
    uint64_t wanted = (uint64_t)(part * (double)histogram->count), seen = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        seen += histogram->counts[i];
        if (seen > wanted) {
            return (double)(i + 1) * STEP_NS / 1e6; /* the end of its step: never too low */
        }
    }
    return (double)STEPS * STEP_NS / 1e6;
}

struct load_report {
    struct gk_json *json;
    struct gk_buf table;
};

static void machine(char text_out[160])
{
    struct utsname name;
    char line[256], model[96] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon) {
            (void)snprintf(model, sizeof model, "%.90s", colon + 2);
            model[strcspn(model, "\n")] = '\0';
            break;
        }
    }
    if (file) {
        (void)fclose(file); /* it was only read */
    }
    (void)snprintf(text_out, 160, "%ld cores, %s, Linux %.40s", sysconf(_SC_NPROCESSORS_ONLN),
                   model, uname(&name) == 0 ? name.release : "?");
}

static double load_average(void)
{
    double load[1] = {0};
    return getloadavg(load, 1) == 1 ? load[0] : -1;
}

struct load_report *load_report_create(int argc, char **argv)
{
    struct load_report *report = calloc(1, sizeof *report);
    char text[160], date[32];
    time_t now = time(NULL);
    struct tm parts;
    struct gk_buf command = {0};
    if (!report || !(report->json = gk_json_new_object())) {
        load_die("out of memory");
    }
    for (int i = 0; i < argc; i++) {
        const char *slash = i == 0 ? strrchr(argv[0], '/') : NULL;
        gk_buf_printf(&command, "%s%s", i ? " " : "", slash ? slash + 1 : argv[i]);
    }
    machine(text);
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    load_report_note(report, "command", gk_buf_text(&command));
    load_report_note(report, "machine", text);
    load_report_note(report, "date", date);
    load_report_add(report, "load average before", load_average(), "", "");
    gk_buf_fini(&command);
    return report;
}

void load_report_add(struct load_report *report, const char *name, double value, const char *unit,
                     const char *goal)
{
    char shown[64];
    (void)snprintf(shown, sizeof shown, value != 0 && value < 10 && value > -10 ? "%.2f" : "%.0f",
                   value);
    gk_buf_printf(&report->table, "%-44s %14s %-9s %s\n", name, shown, unit, goal);
    if (!gk_json_set_real(report->json, name, value)) {
        load_die("out of memory");
    }
}

void load_report_note(struct load_report *report, const char *name, const char *text)
{
    gk_buf_printf(&report->table, "%-12s %s\n", name, text);
    if (!gk_json_set_string(report->json, name, text)) {
        load_die("out of memory");
    }
}

void load_report_print(struct load_report *report, bool json)
{
    if (json) {
        char *text = gk_json_text(report->json);
        (void)printf("%s\n", text ? text : "out of memory");
        free(text);
    } else {
        (void)fputs(gk_buf_text(&report->table), stdout);
    }
    (void)fflush(stdout); /* whoever reads it sees what is missing */
    gk_json_free(report->json);
    gk_buf_fini(&report->table);
    free(report);
}
