// What the sanitizers of a build with GKTUNE_SANITIZE do, for every program of it, however it is
// started: ctest, a script, a developer's shell. ASAN_OPTIONS and UBSAN_OPTIONS still win.
//
// intercept_tls_get_addr=0: up to GCC 13 the run time takes a block of thread-local storage that
// lies 16 bytes into a page for one of glibc before 2.25, and reads its bounds from the words in
// front of it, which are malloc's now. The search for leaks then scans whatever these say, and a
// run without a fault ends in "Tracer caught signal 11" (github.com/google/sanitizers, issue 1322).
// Rejected: use_tls=0, which calls leaked what only a thread's own variable points to.

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}
