/**
 * Waits until a condition is true. Tests must not wait for a fixed duration,
 * because the time that a machine needs depends on its load.
 */
#ifndef ES_TESTS_AWAIT_H
#define ES_TESTS_AWAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * The time limit of a wait, long enough for a correct program under any load.
 */
enum { ES_PATIENCE_S = 60, ES_PATIENCE_MS = 1000 * ES_PATIENCE_S };

/**
 * A timeout longer than any test may take, so that the call to which it is
 * passed must return for another reason.
 */
enum { ES_FOR_EVER_MS = 3600 * 1000 };

/**
 * Checks every millisecond until `condition` is true. After ES_PATIENCE_S the
 * test fails and names the condition. If es_await is called in a forked child
 * or in another thread, which cannot fail a test, it ends the process instead.
 */
#define es_await(condition)                                                    \
    do {                                                                       \
        int64_t es_await_until = 0;                                            \
        while (!(condition))                                                   \
            es_await_nap(&es_await_until, #condition, __FILE__, __LINE__);     \
    } while (0)

/**
 * Sleeps for a millisecond; used by es_await. The first call sets *until to the
 * end of the time limit. After this limit, fails the test with a message that
 * contains `what`, the text of the condition.
 */
void es_await_nap(int64_t *until, const char *what, const char *file, int line);

/**
 * Returns true if the thread sleeps until an event wakes it, and false if it
 * runs or does not exist. The first thread of a process has the same number as
 * the process.
 */
bool es_is_asleep(pid_t process, pid_t thread);

#endif
