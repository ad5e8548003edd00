/* What a CUDA device is: identity, the key of its times, its clocks, its lock; what is not there.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/check.h"
#include "tests/unit/cuda_rig.h"
#include "worker/cuda/gpu_lock.h"

#define UUID "GPU-00112233-4455-6677-8899-aabbccddee00"

static void a_gpu_is_described(void **state)
{
    struct cuda_rig rig;
    struct gk_device_props props = {0}, by_uuid = {0}, read = {0};
    (void)state;
    cuda_rig_init(&rig);
    assert_ok(gk_device_cuda_describe(&rig.places, "cuda", &props, &rig.err), rig.err);
    assert_string_equal(props.device, "cuda:" UUID);
    assert_string_equal(props.uuid, UUID);
    assert_string_equal(props.arch, "sm_90a");
    assert_string_equal(props.target, "sm_90a");
    assert_string_equal(props.gpu, "h200-132sm");
    assert_false(props.modelled);
    assert_int_equal(props.sm, 90);
    assert_int_equal(props.cluster_max, 8);
    assert_int_equal(props.mem_bytes_per_us, 4916736);
    assert_int_equal(props.tensor_flops_per_clk_sm, 4096);
    assert_int_equal(props.work_limit, INT64_MAX);
    assert_int_equal(rig.fake->contexts, 0);
    assert_ok(gk_device_cuda_describe(&rig.places, props.device, &by_uuid, &rig.err), rig.err);
    assert_memory_equal(&props, &by_uuid, sizeof props);
    struct gk_json *json = gk_device_props_to_json(&props);
    assert_ok(gk_device_props_from_json(json, &read, &rig.err), rig.err);
    gk_json_free(json);
    rig.fake->major = 8;
    assert_ok(gk_device_cuda_describe(&rig.places, "cuda:0", &props, &rig.err), rig.err);
    assert_string_equal(props.target, "sm_80");
}

static void devices_are_listed(void **state)
{
    struct cuda_rig rig;
    struct gk_device_props all[4];
    uint32_t count = 0;
    (void)state;
    cuda_rig_init(&rig);
    rig.fake->device_count = 3;
    assert_ok(gk_device_cuda_list(&rig.places, all, 4, &count, &rig.err), rig.err);
    assert_int_equal(count, 3);
    assert_string_not_equal(all[0].uuid, all[2].uuid);
    assert_ok(gk_device_cuda_list(&rig.places, all, 2, &count, &rig.err), rig.err);
    assert_int_equal(count, 2);
    assert_status(gk_device_cuda_describe(&rig.places, "cuda:3", all, &rig.err), GK_NOT_FOUND,
                  rig.err);
    assert_contains(rig.err.text, "cuda:0 to cuda:2");
    assert_status(gk_device_cuda_describe(&rig.places, "cuda:x", all, &rig.err), GK_NOT_FOUND,
                  rig.err);
    assert_status(gk_device_cuda_describe(&rig.places, "cuda:GPU-1", all, &rig.err), GK_NOT_FOUND,
                  rig.err);
    assert_contains(rig.err.text, "3 CUDA devices");
}

static void what_is_missing_is_said(void **state)
{
    struct cuda_rig rig;
    struct gk_device *device = NULL;
    struct gk_device_props props;
    (void)state;
    cuda_rig_init(&rig);
    rig.places.cuda = "/nowhere/libcuda.so.1";
    assert_status(gk_device_cuda_open(&rig.places, "cuda:0", &device, &rig.err), GK_MISSING,
                  rig.err);
    assert_contains(rig.err.text, "/nowhere/libcuda.so.1");
    rig.places.cuda = GK_FAKE_NVML; /* a library, but no driver */
    assert_status(gk_device_cuda_describe(&rig.places, "cuda:0", &props, &rig.err), GK_UNSUPPORTED,
                  rig.err);
    assert_contains(rig.err.text, "cuInit");
}

static void without_nvml_nothing_is_zero(void **state)
{
    struct cuda_rig rig;
    struct gk_device_vitals now = {0};
    (void)state;
    cuda_rig_init(&rig);
    rig.places.nvml = "/nowhere/libnvidia-ml.so.1";
    assert_ok(gk_device_cuda_open(&rig.places, "cuda:0", &rig.device, &rig.err), rig.err);
    assert_ok(rig.device->ops->vitals(rig.device, &now, &rig.err), rig.err);
    assert_true(now.sm_clock_khz == -1 && now.memory_clock_khz == -1 && now.temperature_c == -1);
    assert_true(now.power_mw == -1 && now.power_limit_mw == -1 && now.throttle == -1);
    assert_int_equal(now.others, -1);
    rig.device->ops->close(rig.device);
    assert_int_equal(gk_nvml_processes(NULL, NULL, 0), -1);
}

/* It is there, and the GPU behind it is lost: what its calls left in their results is not read. */
static void a_failing_nvml_tells_nothing(void **state)
{
    struct cuda_rig rig;
    struct gk_device_vitals now = {0};
    struct gk_nvml_about about;
    struct gk_nvml *nvml = NULL;
    int64_t pids[2] = {0};
    (void)state;
    assert_int_equal(setenv("FAKE_NVML_RESULT", "15", 1), 0);
    cuda_rig_open(&rig);
    assert_ok(rig.ops->vitals(rig.device, &now, &rig.err), rig.err);
    assert_true(now.sm_clock_khz == -1 && now.memory_clock_khz == -1 && now.temperature_c == -1);
    assert_true(now.power_mw == -1 && now.power_limit_mw == -1 && now.throttle == -1);
    assert_int_equal(now.others, -1);
    cuda_rig_close(&rig);
    assert_ok(gk_nvml_open(GK_FAKE_NVML, UUID, &nvml, &rig.err), rig.err);
    gk_nvml_about(nvml, &about);
    assert_true(about.power_default_mw == -1 && about.power_limit_mw == -1);
    assert_true(about.sm_clock_max_khz == -1 && about.memory_clock_max_khz == -1);
    assert_string_equal(about.driver, "");
    assert_string_equal(about.vbios, "");
    assert_int_equal(gk_nvml_processes(nvml, pids, 2), -1);
    gk_nvml_close(nvml);
    assert_int_equal(unsetenv("FAKE_NVML_RESULT"), 0);
}

/* It was there, and does not come back from a call: nothing is known from then on, nobody waits
 * twice, and the device goes on. */
static void a_silent_nvml_holds_nobody_up(void **state)
{
    struct cuda_rig rig;
    struct gk_device_vitals now = {0};
    struct timespec begin, end;
    (void)state;
    cuda_rig_open(&rig);
    assert_int_equal(setenv("FAKE_NVML_SILENT", "1", 1), 0);
    for (int look = 0; look < 2; look++) {
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &begin), 0);
        assert_ok(rig.ops->vitals(rig.device, &now, &rig.err), rig.err);
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &end), 0);
        assert_true(end.tv_sec - begin.tv_sec <= (look ? 1 : 20));
        assert_true(now.sm_clock_khz == -1 && now.power_mw == -1 && now.throttle == -1);
        assert_int_equal(now.others, -1);
    }
    assert_ok(rig.ops->health(rig.device, &rig.err), rig.err);
    cuda_rig_close(&rig);
    assert_int_equal(unsetenv("FAKE_NVML_SILENT"), 0);
}

static void nvml_tells(void **state)
{
    struct cuda_rig rig;
    struct gk_device_vitals now = {0};
    struct gk_nvml_about about;
    struct gk_nvml *nvml = NULL;
    int64_t pids[2] = {0};
    (void)state;
    cuda_rig_open(&rig);
    assert_ok(rig.ops->vitals(rig.device, &now, &rig.err), rig.err);
    assert_int_equal(now.sm_clock_khz, 1755000);
    assert_int_equal(now.memory_clock_khz, 3201000);
    assert_int_equal(now.temperature_c, 0);
    assert_int_equal(now.power_mw, 350000); /* of this moment, not the average */
    assert_int_equal(now.power_limit_mw, 700000);
    assert_int_equal(now.throttle, 4);
    cuda_rig_close(&rig);
    assert_ok(gk_nvml_open(GK_FAKE_NVML, UUID, &nvml, &rig.err), rig.err);
    gk_nvml_about(nvml, &about);
    assert_string_equal(about.driver, "580.65.06");
    assert_int_equal(about.bus_width_bits, -1); /* this one has no such call */
    assert_int_equal(gk_nvml_processes(nvml, pids, 2), 1);
    assert_int_equal(pids[0], 4242);
    gk_nvml_close(nvml);
    assert_status(gk_nvml_open(GK_FAKE_NVML, "other", &nvml, &rig.err), GK_NOT_FOUND, rig.err);
}

/* Whoever asks is one of those that NVML lists, in a container under a number of the host. */
static void others_on_the_gpu_are_counted(void **state)
{
    static const struct {
        const char *listed;
        int64_t others;
    } cases[] = {{"0", -1}, {"1", 0}, {"2", 1}, {"64", 63}, {"65", 64}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct cuda_rig rig;
        struct gk_device_vitals now = {0};
        assert_int_equal(setenv("FAKE_NVML_PROCESSES", cases[i].listed, 1), 0);
        cuda_rig_open(&rig);
        assert_ok(rig.ops->vitals(rig.device, &now, &rig.err), rig.err);
        assert_int_equal(now.others, cases[i].others);
        cuda_rig_close(&rig);
    }
    assert_int_equal(unsetenv("FAKE_NVML_PROCESSES"), 0);
}

static void keys_hold_what_is_not_usual(void **state)
{
    static const int64_t h200 = INT64_C(150754820096), a100 = INT64_C(84987740160);
    static const struct {
        const char *name;
        int64_t sms, mem, limit, usual;
        const char *key;
    } cases[] = {
        {"NVIDIA H200", 132, h200, 700000, 700000, "h200-132sm"},
        {"NVIDIA H200", 132, h200, -1, -1, "h200-132sm"},
        {"NVIDIA H200", 132, h200, 500000, 700000, "h200-132sm-500w"},
        {"NVIDIA H200", 132, h200, 500000, -1, "h200-132sm-500w"},
        {"NVIDIA H200", 132, h200 / 2, 700000, 700000, "h200-132sm-70gb"},
        {"NVIDIA H100 80GB HBM3", 132, INT64_C(85024112640), 700000, 700000, "h100-132sm"},
        {"NVIDIA H100 PCIe", 114, INT64_C(85024112640), 350000, 350000, "h100-pcie-114sm"},
        {"NVIDIA A100-SXM4-80GB", 108, a100, 400000, 400000, "a100-sxm4-108sm-79gb"},
        {"NVIDIA H200 MIG 1g.18gb", 16, INT64_C(18) << 30, 700000, 700000, "h200-16sm-mig-1g18gb"},
        {"NVIDIA GeForce RTX 4090", 128, INT64_C(25282281472), 450000, 450000,
         "rtx-4090-128sm-24gb"},
        {"", 1, 1 << 30, -1, -1, "gpu-1sm-1gb"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        char key[64];
        gk_cuda_gpu_key(cases[i].name, cases[i].sms, cases[i].mem, cases[i].limit, cases[i].usual,
                        key);
        assert_string_equal(key, cases[i].key);
    }
}

static void one_worker_a_gpu(void **state)
{
    struct gk_gpu_lock *lock = NULL, *second = NULL;
    struct gk_err err = {0};
    char uuid[64], mine[32];
    int go[2], how = 0;
    char byte = 0;
    (void)state;
    (void)snprintf(uuid, sizeof uuid, "GPU-test-%ld", (long)getpid()); /* not another run's */
    assert_int_equal(gk_gpu_lock_holder(uuid), 0);
    assert_ok(gk_gpu_lock_take(uuid, &lock, &err), err);
    assert_status(gk_gpu_lock_take(uuid, &second, &err), GK_BUSY, err);
    (void)snprintf(mine, sizeof mine, "process %ld", (long)getpid());
    assert_contains(err.text, mine);
    assert_int_equal(gk_gpu_lock_holder(uuid), getpid());
    for (int i = 0; i < 1000; i++) { /* many askers, tended now and then */
        assert_int_equal(gk_gpu_lock_holder(uuid), getpid());
        if (i % 100 == 0) {
            gk_gpu_lock_tend(lock);
        }
    }
    gk_gpu_lock_tend(NULL);
    gk_gpu_lock_free(lock);
    gk_gpu_lock_free(NULL);
    assert_int_equal(gk_gpu_lock_holder(uuid), 0);
    /* A holder that is killed holds nothing. */
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = gk_gpu_lock_take(uuid, &lock, NULL) == GK_OK;
        _exit(good && write(go[1], "x", 1) == 1 && pause() == 0 ? 0 : 1);
    }
    assert_int_equal(read(go[0], &byte, 1), 1);
    assert_int_equal(gk_gpu_lock_holder(uuid), child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_ok(gk_gpu_lock_take(uuid, &lock, &err), err);
    gk_gpu_lock_free(lock);
    (void)close(go[0]);
    (void)close(go[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_is_described),
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(without_nvml_nothing_is_zero),
        cmocka_unit_test(a_failing_nvml_tells_nothing),
        cmocka_unit_test(nvml_tells),
        cmocka_unit_test(a_silent_nvml_holds_nobody_up),
        cmocka_unit_test(others_on_the_gpu_are_counted),
        cmocka_unit_test(keys_hold_what_is_not_usual),
        cmocka_unit_test(one_worker_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, cuda_rig_teardown);
}
