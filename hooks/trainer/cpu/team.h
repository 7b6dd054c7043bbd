/**
 * A team of threads that works on one task at a time. Between tasks, a thread
 * spins for about 50 us and then sleeps, because on a shared machine longer
 * spinning would take processor time from the team's other threads. With
 * OMP_WAIT_POLICY=passive in the environment, threads sleep almost at once.
 */
#ifndef ES_CPU_TEAM_H
#define ES_CPU_TEAM_H

#include "analyzer/base/status.h"

typedef struct es_team es_team;

/** Tells a task which thread it runs on, and how many threads the team has. */
typedef struct es_share {
    int thread, n_threads;
} es_share;

typedef void es_team_task(void *argument, es_share share);

/** Starts a team of n_threads >= 1 threads, including the caller. Returns
 *  ES_OK, or ES_ENOMEM if a thread cannot be started. */
es_status es_team_new(es_team **out, int n_threads) ES_MUST_USE;
void es_team_free(es_team *team); /* `team` may be NULL */

/**
 * Calls the task once on every thread, including the caller's (thread 0), and
 * returns when all calls have returned. Must not be called by two threads at
 * the same time, or from within a task.
 */
void es_team_run(es_team *team, es_team_task *task, void *argument);

/** Makes es_team_run add to *seconds the time in seconds that its caller waits
 *  for the other threads after finishing its own share. NULL stops timing. */
void es_team_time(es_team *team, double *seconds);

#endif
