/**
 * Waiting for a state. A test must not wait for a fixed duration: how long a
 * machine takes depends on what else it does.
 */
#ifndef ES_TESTS_AWAIT_H
#define ES_TESTS_AWAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * The time limit of a wait. Under no load does a correct program take so long.
 */
enum { ES_PATIENCE_S = 60, ES_PATIENCE_MS = 1000 * ES_PATIENCE_S };

/**
 * Longer than any test may take. A call with this time-out must return for
 * another reason.
 */
enum { ES_FOR_EVER_MS = 3600 * 1000 };

/**
 * Checks every millisecond until `condition` is true. After ES_PATIENCE_S the
 * test fails and names the condition. A forked child or another thread cannot
 * fail a test and ends the process instead.
 */
#define es_await(condition)                                                    \
    do {                                                                       \
        int64_t es_await_until = 0;                                            \
        while (!(condition))                                                   \
            es_await_nap(&es_await_until, #condition, __FILE__, __LINE__);     \
    } while (0)

/**
 * Sleeps a millisecond, for es_await. The first call sets *until, when the
 * time is up.
 */
void es_await_nap(int64_t *until, const char *what, const char *file, int line);

/**
 * Returns true if a thread sleeps until something wakes it, false if not or if
 * there is no such thread. The first thread of a process has the number of the
 * process.
 */
bool es_is_asleep(pid_t process, pid_t thread);

#endif
