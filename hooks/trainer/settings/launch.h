/** Which of several ranks this process is: by option, or as the program says
 * that has started it. */
#ifndef ES_LAUNCH_H
#define ES_LAUNCH_H

#include "hooks/trainer/settings/settings.h"

/**
 * Settles settings->world and rank: --world 0, and a rank that was not given,
 * are those of Open MPI's mpirun or of Slurm's srun, in this order; a world by
 * itself has rank 0. Settles the rendezvous: RUN.db.ranks beside the run file.
 *
 *   note  (size) written: one line where processes were started together, but
 *         each trains by itself, because there is no --world; else ""
 *
 * ES_OK; ES_EUSAGE: there is no such rank, nobody says which one this is,
 * --world is not the number of processes that were started, or there is no
 * rendezvous.
 */
es_status es_launch_settle(es_settings *settings, char *note,
                           size_t size) ES_MUST_USE;

#endif
