// A library that is loaded while threads run, so that its thread-local word is a block that the
// dynamic linker takes from malloc at each thread's first touch.
#ifndef GK_TESTS_TLS_WORD_H
#define GK_TESTS_TLS_WORD_H

#include <stdint.h>

// The calling thread's word; it lives as long as the thread.
uint64_t *gk_tls_word(void);

#endif
