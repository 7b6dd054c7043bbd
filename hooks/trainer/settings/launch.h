/** Determines which of several ranks this process is, from its options or from
 *  the launcher that started it. */
#ifndef ES_LAUNCH_H
#define ES_LAUNCH_H

#include "hooks/trainer/settings/settings.h"

/**
 * Fills in settings->world, rank and rendezvous. --world 0 and a missing rank
 * are taken from Open MPI's mpirun or else from Slurm's srun; a process that
 * trains alone has rank 0. The default rendezvous is RUN.db.ranks, next to the
 * run file.
 *
 *   note  (size) written: one line if several processes were started together
 *         but each trains alone, because --world is missing; else ""
 *
 * ES_OK; ES_EUSAGE: the rank is out of range or unknown, --world differs from
 * the number of processes that were started, or there is no rendezvous.
 */
es_status es_launch_settle(es_settings *settings, char *note,
                           size_t size) ES_MUST_USE;

#endif
