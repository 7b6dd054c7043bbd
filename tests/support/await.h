/** Waiting for a state. A test does not wait for a duration: what a machine
 *  needs for anything depends on what else it does. */
#ifndef ES_TESTS_AWAIT_H
#define ES_TESTS_AWAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** After this a wait is given up. No load makes a sound wait so long. */
enum { ES_PATIENCE_S = 60, ES_PATIENCE_MS = 1000 * ES_PATIENCE_S };

/** Longer than any test may take: a call that is given it must return for
 *  another reason than its time-out. */
enum { ES_FOR_EVER_MS = 3600 * 1000 };

/** Looks each millisecond until `condition` is true. After ES_PATIENCE_S the
 *  test fails, and says what it waited for; a forked child or another thread,
 *  which cannot fail a test, ends the process. */
#define es_await(condition)                                                    \
    do {                                                                       \
        int64_t es_await_until = 0;                                            \
        while (!(condition))                                                   \
            es_await_nap(&es_await_until, #condition, __FILE__, __LINE__);     \
    } while (0)

/** For es_await: a millisecond of the time up to *until, which is set at
 *  first. */
void es_await_nap(int64_t *until, const char *what, const char *file, int line);

/** Whether a thread sleeps until something wakes it. The first thread of a
 *  process has the number of the process. False if there is no such thread. */
bool es_is_asleep(pid_t process, pid_t thread);

#endif
