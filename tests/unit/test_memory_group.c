/* Control groups: what is read of v1 and v2; nothing is known where nothing can be read. */
#include "worker/memory_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/json.h"

static char root[] = "/tmp/gk-test-groups-XXXXXX";

static void folder(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(gk_file_store(path, text, strlen(text), NULL), GK_OK);
}

static void find(const char *lines, struct gk_memory_group *group_out)
{
    char proc[256];
    put("proc", lines);
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    gk_memory_group_find(proc, root, group_out);
}

static void tells(const struct gk_memory_group *group, const char *wanted)
{
    struct gk_buf text = {0};
    gk_memory_group_tell(group, &text);
    assert_string_equal(gk_buf_text(&text), wanted);
    gk_buf_fini(&text);
}

/* The limit may stand at a group above; "max" is none. */
static void unified(void **state)
{
    (void)state;
    struct gk_memory_group group;
    folder("farm");
    folder("farm/worker");
    put("farm/worker/memory.events",
        "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 0\n");
    put("farm/worker/memory.max", "max\n");
    put("farm/worker/memory.peak", "524288\n");
    find("0::/farm/worker\n", &group);
    assert_int_equal(gk_memory_group_kills(&group), 3);
    tells(&group, "peak 0.5 MiB");
    put("farm/memory.max", "1572864\n");
    tells(&group, "limit 1.5 MiB, peak 0.5 MiB");
    put("farm/worker/memory.max", "1048576\n");
    tells(&group, "limit 1.0 MiB, peak 0.5 MiB");
    put("farm/worker/memory.events", "low 0\noom_kill 4\n");
    assert_int_equal(gk_memory_group_kills(&group), 4);
}

/* Beside a v2 tree without controllers, as on hosts that are half way. */
static void two_trees(void **state)
{
    (void)state;
    struct gk_memory_group group;
    folder("memory");
    folder("memory/job");
    put("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
    put("memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/job/memory.max_usage_in_bytes", "3145728\n");
    find("5:devices:/\n4:memory:/job\n0::/job\n", &group);
    assert_int_equal(gk_memory_group_kills(&group), 7);
    tells(&group, "peak 3.0 MiB");
    put("memory/memory.limit_in_bytes", "4194304\n");
    tells(&group, "limit 4.0 MiB, peak 3.0 MiB");
}

static void nothing_is_known(void **state)
{
    (void)state;
    struct gk_memory_group group;
    find("0::/nowhere\n", &group);
    assert_int_equal(gk_memory_group_kills(&group), -1);
    tells(&group, "");
    find("", &group);
    assert_int_equal(gk_memory_group_kills(&group), -1);
    gk_memory_group_find("/nowhere/proc", root, &group);
    assert_int_equal(gk_memory_group_kills(&group), -1);
    folder("bare"); /* a kernel that does not count */
    put("bare/memory.events", "low 0\nmax 0\n");
    find("0::/bare\n", &group);
    assert_int_equal(gk_memory_group_kills(&group), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unified), cmocka_unit_test(two_trees),
                                       cmocka_unit_test(nothing_is_known)};
    return mkdtemp(root) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
