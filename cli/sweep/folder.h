/**
 * The folder of a sweep. Of each run it has NAME.db, NAME.log (what the
 * training printed), NAME.cmd (its command line, which also shows that the run
 * belongs to the sweep), NAME.checkpoints, if the spec says checkpoint-every,
 * and NAME.end, if the training itself failed: how.
 */
#ifndef ES_SWEEP_FOLDER_H
#define ES_SWEEP_FOLDER_H

#include "cli/runs/tree.h"
#include "cli/sweep/plan.h"

#include <limits.h>

/** A path; one that the system would not take is cut, but not so far that it
 *  would. */
typedef struct es_sweep_file {
    char path[PATH_MAX + 1];
} es_sweep_file;

/** FOLDER/NAME + ending */
es_sweep_file es_sweep_path(const char *folder, const char *name,
                            const char *ending);

/** FOLDER/NAME.db, or the fragment FOLDER/NAME.esf that lies there instead: on
 * a file system that hosts share a run records into that. */
es_sweep_file es_sweep_run_file(const char *folder, const char *name);

/**
 * Makes the folder if it is not there, keeps other sweeps out of it until the
 * process ends or *lock is closed, and puts down the command lines of a plan.
 *
 *   lock  to be closed unless it is -1, also on failure
 *
 * ES_OK; ES_ELOCKED (the message names the other's process and host); ES_EIO
 * (also: a run of that name is there and had another command line, or is not a
 * sweep's; then nothing was written); ES_ENOMEM.
 */
es_status es_sweep_folder_take(int *lock, const char *folder,
                               const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Keeps others off one run, until the process ends or *lock is closed: several
 * hosts may be about to train it.
 *
 * ES_OK; ES_ELOCKED; ES_EIO (also: no run of that name): *lock is -1.
 */
es_status es_sweep_folder_take_run(int *lock, const char *folder,
                                   const char *name) ES_MUST_USE;

/** Who has taken it: "process 12 on HOST"; "" if nobody has. */
void es_sweep_folder_holder(char *out, size_t size, const char *folder);

/**
 * A run by its name alone, as a plan of one.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (the folder has no such run); ES_EFORMAT, ES_ENOMEM.
 */
es_status es_sweep_folder_run(es_sweep_plan *out, const char *folder,
                              const char *name) ES_MUST_USE;

/** True if the run's command line is of a program that the spec's command
 *  names. */
bool es_sweep_folder_is_command(const char *folder, const char *name);

/** The files of the folder with this ending, in any order; es_paths_free.
 *  ES_OK; ES_EIO, ES_ENOMEM. */
es_status es_sweep_folder_list(es_paths *out, const char *folder,
                               const char *ending) ES_MUST_USE;

/** The names of all runs, by name. es_paths_free. ES_OK; ES_EIO (no sweep's
 *  folder), ES_ENOMEM. */
es_status es_sweep_folder_names(es_paths *out, const char *folder) ES_MUST_USE;

/** Whether a run has a run file and a checkpoint to go on with. ES_OK; ES_EIO:
 *  that cannot be known. */
es_status es_sweep_folder_can_resume(bool *out, const char *folder,
                                     const es_sweep_run *run) ES_MUST_USE;

/**
 * Removes what an earlier try of a run left, but its command line and its
 * checkpoints, which are the trainer's; of one that goes on, only what was
 * said of its end.
 */
es_status es_sweep_folder_clear(const char *folder, const char *name,
                                bool goes_on) ES_MUST_USE;

/** Removes what lies at `path` unless it is a regular file or a folder: it is
 *  about to be written. ES_OK; ES_EIO. */
es_status es_sweep_make_way(const char *path) ES_MUST_USE;

/** A small text file, whole or not at all. */
es_status es_sweep_write(const char *folder, const char *name,
                         const char *ending, const char *text) ES_MUST_USE;

/** The first `size` - 1 bytes of one; false if there is none. */
bool es_sweep_read(char *out, size_t size, const char *folder, const char *name,
                   const char *ending);

#endif
