// A sanitized program may end while threads hold thread-local blocks of a library that was loaded
// at run time, wherever these lie: see tests/support/sanitizer_options.c.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/tls_word.h"

// Each thread's first block lies at the front of a page of its own allocator cache, behind 16 bytes
// of the allocator's: all of them were where the run time is mistaken (GCC 12).
#define THREADS 400

static struct {
    uint64_t *(*word)(void);
    sem_t touched;
    uint64_t *words[THREADS];
} shared;

static void *touch_and_stay(void *slot)
{
    *(uint64_t **)slot = shared.word();
    (void)sem_post(&shared.touched);
    while (pause() < 0) { // a signal that is handled does not end it either
    }
    return NULL;
}

// What is looked for comes after the test: the search for leaks, with all threads still there.
static void ends_with_blocks_at_the_start_of_a_page(void **state)
{
    (void)state;
    void *library = dlopen(GK_TLS_WORD_LIBRARY, RTLD_NOW);
    assert_non_null(library);
    *(void **)&shared.word = dlsym(library, "gk_tls_word");
    assert_non_null(shared.word);
    assert_int_equal(sem_init(&shared.touched, 0, 0), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, touch_and_stay, &shared.words[i]), 0);
        assert_int_equal(pthread_detach(thread), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(sem_wait(&shared.touched), 0);
    }
    size_t taken_for_old_glibc = 0;
    for (size_t i = 0; i < THREADS; i++) {
        taken_for_old_glibc += (uintptr_t)shared.words[i] % 4096 == 16;
    }
    assert_true(taken_for_old_glibc > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_blocks_at_the_start_of_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
