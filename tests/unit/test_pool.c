/* How many compile processes a worker may use, by what its devices do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/worker_state.h"

static struct worker *worker_of(uint32_t devices, bool modelled)
{
    struct worker *worker = calloc(1, sizeof *worker);
    assert_non_null(worker);
    worker->slot_count = 16;
    worker->bench_count = devices;
    for (uint32_t i = 0; i < devices; i++) {
        worker->benches[i].index = i;
        worker->benches[i].props.modelled = modelled;
    }
    return worker;
}

static uint32_t most_with(struct worker *worker, struct lease *leases, size_t count)
{
    worker->leases = count > 0 ? leases : NULL;
    for (size_t i = 0; i < count; i++) {
        leases[i].next = i + 1 < count ? &leases[i + 1] : NULL;
    }
    return pool_most(worker);
}

static void a_final_round_stills_its_share(void **state)
{
    struct lease leases[] = {{.device = 0, .state = LEASE_RUN},
                             {.device = 2, .is_final = true, .state = LEASE_RUN},
                             {.device = 1, .is_final = true, .state = LEASE_WAIT_ACK},
                             {.device = 3, .is_final = true, .state = LEASE_COMPILE}};
    struct worker *worker = worker_of(4, false);
    (void)state;
    assert_int_equal(most_with(worker, leases, 0), 16);
    assert_int_equal(most_with(worker, leases, 1), 16); /* a trial */
    assert_int_equal(most_with(worker, leases, 2), 12);
    assert_int_equal(most_with(worker, leases, 3), 8);
    assert_int_equal(most_with(worker, leases, 4), 8); /* its own cubins are compiled first */
    worker->benches[3].fenced = true;                  /* it has no share */
    assert_int_equal(most_with(worker, leases, 3), 5);
    free(worker);
    worker = worker_of(1, false);
    leases[1].device = 0;
    assert_int_equal(most_with(worker, leases, 2), 0);
    free(worker);
    worker = worker_of(1, true); /* a model's times know nothing of compilers */
    assert_int_equal(most_with(worker, leases, 2), 16);
    free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_final_round_stills_its_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
