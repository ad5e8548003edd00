/* Small checks that cmocka lacks. Include after cmocka.h. */
#ifndef GK_TESTS_SUPPORT_CHECK_H
#define GK_TESTS_SUPPORT_CHECK_H

#include <string.h>

/* Fails with both texts shown unless `text` contains `part`. */
#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        const char *checked_text = (text);                                                         \
        const char *checked_part = (part);                                                         \
        if (!strstr(checked_text, checked_part)) {                                                 \
            fail_msg("'%s' is not in '%s'", checked_part, checked_text);                           \
        }                                                                                          \
    } while (0)

/* A status, with the message shown if it is another. `err` is a struct gk_err. */
#define assert_status(status, want, err)                                                           \
    do {                                                                                           \
        enum gk_status checked_status = (status);                                                  \
        if (checked_status != (want)) {                                                            \
            fail_msg("status %s, wanted %s: %s", gk_status_name(checked_status),                   \
                     gk_status_name(want), checked_status == GK_OK ? "" : (err).text);             \
        }                                                                                          \
    } while (0)

#define assert_ok(status, err) assert_status(status, GK_OK, err)

#endif
