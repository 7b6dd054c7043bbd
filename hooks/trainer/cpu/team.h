/**
 * A team of threads that works on one task at a time. Between tasks a thread
 * spins for some 50 us, then sleeps: on a machine that others use too, long
 * spinning takes away the very processor that the others of the team need.
 * OMP_WAIT_POLICY=passive makes it sleep at once.
 */
#ifndef ES_CPU_TEAM_H
#define ES_CPU_TEAM_H

#include "analyzer/base/status.h"

typedef struct es_team es_team;

/** Which of how many threads a call is made by. */
typedef struct es_share {
    int thread, n_threads;
} es_share;

typedef void es_team_task(void *argument, es_share share);

/** n_threads >= 1, the caller counted. ES_OK; ES_ENOMEM (no more threads). */
es_status es_team_new(es_team **out, int n_threads) ES_MUST_USE;
void es_team_free(es_team *team); /* NULL is fine */

/**
 * Calls the task once on every thread, the caller's (thread 0) included, and
 * returns when all calls have. One caller at a time; not from a task.
 */
void es_team_run(es_team *team, es_team_task *task, void *argument);

/** From now on es_team_run adds to *seconds for how long its caller waited for
 *  the others, done with its own share. NULL: no more. */
void es_team_time(es_team *team, double *seconds);

#endif
