/** Processes of ours that are not waited for without end. */
#ifndef ES_WAIT_H
#define ES_WAIT_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Waits until `child` has ended, and reaps it. When the limit is over it is
 * ended by SIGKILL first.
 *
 *   how     as waitpid says it
 *   killed  what gets the signal: the child, or -child, the group it leads
 *   limit   seconds; without pidfd_open (Linux 5.3) there is none
 *
 * False: the limit was over.
 */
bool es_wait_ended(int *how, pid_t child, pid_t killed, double limit);

#endif
