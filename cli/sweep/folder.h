/**
 * The folder of a sweep. For each run it contains NAME.db, NAME.log (the output
 * of the training), NAME.cmd (its command line, which also shows that the run
 * belongs to the sweep), NAME.checkpoints if the spec sets checkpoint-every,
 * and NAME.end, which says how the training failed, if it did.
 */
#ifndef ES_SWEEP_FOLDER_H
#define ES_SWEEP_FOLDER_H

#include "cli/runs/tree.h"
#include "cli/sweep/plan.h"

#include <limits.h>

/**
 * A path. A path that is too long for the system is truncated, but remains too
 * long.
 */
typedef struct es_sweep_file {
    char path[PATH_MAX + 1];
} es_sweep_file;

/** Returns FOLDER/NAME + ending. */
es_sweep_file es_sweep_path(const char *folder, const char *name,
                            const char *ending);

/**
 * Returns FOLDER/NAME.db, or the fragment FOLDER/NAME.esf if only that exists:
 * on a shared file system a run is recorded into a fragment.
 */
es_sweep_file es_sweep_run_file(const char *folder, const char *name);

/**
 * Makes the folder if needed, keeps other sweeps out of it until the process
 * ends or *lock is closed, and stores the command lines of a plan.
 *
 *   lock  written; the caller closes it unless it is -1, also on failure
 *
 * ES_OK; ES_ELOCKED (the message names the other process and its host); ES_EIO
 * (also if a run of that name had another command line or does not belong to a
 * sweep; then nothing was written); ES_ENOMEM.
 */
es_status es_sweep_folder_take(int *lock, const char *folder,
                               const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Keeps other processes from training a run until the process ends or *lock is
 * closed: several hosts may be about to start it.
 *
 * ES_OK; ES_ELOCKED; ES_EIO (also: no run of that name). On failure *lock is
 * -1.
 */
es_status es_sweep_folder_take_run(int *lock, const char *folder,
                                   const char *name) ES_MUST_USE;

/**
 * Returns the process that holds the folder's lock: "process 12 on HOST"; "" if
 * it is not locked.
 */
void es_sweep_folder_holder(char *out, size_t size, const char *folder);

/**
 * Reads a run by its name, as a plan of one run.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (the folder has no such run); ES_EFORMAT, ES_ENOMEM.
 */
es_status es_sweep_folder_run(es_sweep_plan *out, const char *folder,
                              const char *name) ES_MUST_USE;

/** True if the run's program comes from the `command` of the spec. */
bool es_sweep_folder_is_command(const char *folder, const char *name);

/**
 * Lists the files of the folder with this ending, unsorted; release with
 * es_paths_free. ES_OK; ES_EIO, ES_ENOMEM.
 */
es_status es_sweep_folder_list(es_paths *out, const char *folder,
                               const char *ending) ES_MUST_USE;

/**
 * Lists the names of all runs, sorted; release with es_paths_free. ES_OK;
 * ES_EIO (not the folder of a sweep), ES_ENOMEM.
 */
es_status es_sweep_folder_names(es_paths *out, const char *folder) ES_MUST_USE;

/**
 * Sets *out to true if a run has a run file and a checkpoint to resume from.
 * ES_OK; ES_EIO: this could not be determined.
 */
es_status es_sweep_folder_can_resume(bool *out, const char *folder,
                                     const es_sweep_run *run) ES_MUST_USE;

/**
 * Removes the files of an earlier attempt of a run except its command line and
 * its checkpoints, which the trainer manages. If the run resumes, removes only
 * the files about its end.
 */
es_status es_sweep_folder_clear(const char *folder, const char *name,
                                bool goes_on) ES_MUST_USE;

/**
 * Removes anything at `path` except a regular file or a folder, before a file
 * is written there. ES_OK; ES_EIO.
 */
es_status es_sweep_make_way(const char *path) ES_MUST_USE;

/** Writes a small text file as a whole or not at all. */
es_status es_sweep_write(const char *folder, const char *name,
                         const char *ending, const char *text) ES_MUST_USE;

/**
 * Reads at most `size` - 1 bytes of the first line of such a file. Returns
 * false if it cannot be read.
 */
bool es_sweep_read(char *out, size_t size, const char *folder, const char *name,
                   const char *ending);

#endif
