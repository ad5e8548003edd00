// A library whose one thread-local word lies in a block of its own, eight bytes long.
#include <stdint.h>

#include "tests/support/tls_word.h"

_Thread_local uint64_t gk_tls_word_own;

uint64_t *gk_tls_word(void)
{
    return &gk_tls_word_own;
}
