/**
 * Manages the folder of a sweep. For each run the folder contains NAME.db,
 * NAME.log (the output of the training process) and NAME.cmd (the command line,
 * which also marks the run as part of the sweep). If the spec sets
 * checkpoint-every, the folder also contains NAME.checkpoints; if the training
 * failed, it contains NAME.end, which describes the failure.
 */
#ifndef ES_SWEEP_FOLDER_H
#define ES_SWEEP_FOLDER_H

#include "cli/runs/tree.h"
#include "cli/sweep/plan.h"

#include <limits.h>

/**
 * A path in the folder. A path that is too long for the system is truncated to
 * a length that the system also refuses, so that opening the path fails.
 */
typedef struct es_sweep_file {
    char path[PATH_MAX + 1];
} es_sweep_file;

/** Returns the path FOLDER/NAME followed by an ending such as ".log". */
es_sweep_file es_sweep_path(const char *folder, const char *name,
                            const char *ending);

/**
 * Returns the path of a run file: FOLDER/NAME.db, or FOLDER/NAME.esf if only
 * this fragment exists. A run on a shared file system is recorded into a
 * fragment.
 */
es_sweep_file es_sweep_run_file(const char *folder, const char *name);

/**
 * Creates the folder if needed, locks it against other sweeps until the process
 * ends or *lock is closed, and stores the command lines of a plan.
 *
 *   lock  set to the lock's descriptor or -1; the caller closes the descriptor,
 *         also on failure
 *
 * Returns ES_OK; ES_ELOCKED (the message names the other process and its host);
 * ES_EIO; ES_ENOMEM. ES_EIO is also returned, before anything is written, if
 * the folder has a run of the same name that has another command line or does
 * not belong to a sweep.
 */
es_status es_sweep_folder_take(int *lock, const char *folder,
                               const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Locks a run, so that no other process or host trains it, until the process
 * ends or *lock is closed.
 *
 * Returns ES_OK; ES_ELOCKED; ES_EIO (also if there is no run of that name). On
 * failure *lock is -1.
 */
es_status es_sweep_folder_take_run(int *lock, const char *folder,
                                   const char *name) ES_MUST_USE;

/**
 * Describes the process that holds the folder's lock as "process 12 on HOST";
 * returns "" if the folder is not locked.
 */
void es_sweep_folder_holder(char *out, size_t size, const char *folder);

/**
 * Reads the stored command line of the run `name` as a plan that contains only
 * this run.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * Returns ES_OK; ES_EUSAGE (the folder has no such run); ES_EFORMAT, ES_ENOMEM.
 */
es_status es_sweep_folder_run(es_sweep_plan *out, const char *folder,
                              const char *name) ES_MUST_USE;

/**
 * Returns true if the run's command line was made from the key `command` of the
 * spec.
 */
bool es_sweep_folder_is_command(const char *folder, const char *name);

/**
 * Lists the files of the folder with the given ending, unsorted; release the
 * list with es_paths_free. Returns ES_OK, ES_EIO or ES_ENOMEM.
 */
es_status es_sweep_folder_list(es_paths *out, const char *folder,
                               const char *ending) ES_MUST_USE;

/**
 * Lists the names of all runs, sorted; release the list with es_paths_free.
 * Returns ES_OK; ES_EIO if this is not the folder of a sweep; ES_ENOMEM.
 */
es_status es_sweep_folder_names(es_paths *out, const char *folder) ES_MUST_USE;

/**
 * Sets *out to true if a run has a run file and a checkpoint to resume from.
 * Returns ES_OK, or ES_EIO if the folders cannot be read.
 */
es_status es_sweep_folder_can_resume(bool *out, const char *folder,
                                     const es_sweep_run *run) ES_MUST_USE;

/**
 * Removes the files of an earlier attempt of a run, except its command line and
 * its checkpoints, which the trainer manages. If the run is to be resumed,
 * removes only the files that describe the end of the earlier attempt.
 */
es_status es_sweep_folder_clear(const char *folder, const char *name,
                                bool goes_on) ES_MUST_USE;

/**
 * Removes a link, FIFO or device at `path` before a file is written there;
 * keeps a regular file or a folder. Returns ES_OK or ES_EIO.
 */
es_status es_sweep_make_way(const char *path) ES_MUST_USE;

/**
 * Writes a small text file. If writing fails, an existing file of that name is
 * unchanged.
 */
es_status es_sweep_write(const char *folder, const char *name,
                         const char *ending, const char *text) ES_MUST_USE;

/**
 * Reads at most `size` - 1 bytes of the first line of a text file. Returns
 * false if the file cannot be read.
 */
bool es_sweep_read(char *out, size_t size, const char *folder, const char *name,
                   const char *ending);

#endif
