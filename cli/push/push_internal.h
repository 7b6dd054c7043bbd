/** Internal declarations shared by the sources of cli/push. */
#ifndef ES_CLI_PUSH_INTERNAL_H
#define ES_CLI_PUSH_INTERNAL_H

#include "cli/push/push.h"
#include "cli/runs/tree.h"

/* Maximum number of small files that a worker keeps open and pushes
   together. */
#define ES_PUSH_GROUP 32

/** A worker, which pushes files through its own connection. Several workers run
 *  in parallel. */
typedef struct es_push_worker {
    es_pusher *pusher;
    const es_push_options *options;
    es_push_result result; /* counts of what this worker has pushed */
} es_push_worker;

/** State of the flag detection of a run, which continues when the run's file is
 *  pushed again. */
typedef struct es_push_judged es_push_judged;

/** State of a pushed file that is kept until the file is pushed again. */
typedef struct es_push_known {
    es_stamp stamp;
    bool is_done, is_reported;
    es_push_judged **judged; /* (n_judged) state of the flag detection of each
                                run; elements may be NULL */
    size_t n_judged;
    char path[];
} es_push_known;

/** Returns true if at least one run of the file has not ended, so that the
 *  detection of its flags continues at the next push. */
bool es_push_known_grows(const es_push_known *known);

void es_push_known_forget(es_push_known *known); /* frees the states of flag
                                                    detection */

/**
 * A file to be pushed. All members except path, stamp and known are initially
 * zero.
 */
typedef struct es_push_file {
    const char *path; /* borrowed */
    es_stamp stamp;
    es_push_known *known; /* borrowed */
    es_reader *reader;
    char *place; /* absolute path of the file without .db or .esf; owned */
    es_push_source source;
    bool is_pushed; /* true once the file was pushed in a group */
    /* True if the file holds one rank of a distributed training run. Such a
     * file is never pushed, which is only reported as a failure if the database
     * lacks the joined run. */
    bool is_rank;
    char uuid[ES_UUID_SIZE];
    int64_t last_step;
} es_push_file;

es_status es_push_file_open(es_push_file *file) ES_MUST_USE;

/** Pushes the runs of the file one by one, except runs that hold a single rank
 *  of a distributed training run. Returns ES_OK, or the status of the first run
 *  that failed. */
es_status es_push_file_runs(es_push_worker *worker,
                            es_push_file *file) ES_MUST_USE;

/** Returns true if the file is small enough to be pushed in a group. */
bool es_push_file_is_small(const es_push_file *file);

/**
 * Pushes n files, at most ES_PUSH_GROUP, in one transaction. Sets is_pushed of
 * each file that was pushed successfully.
 */
void es_push_file_group(es_push_worker *worker, es_push_file *const *files,
                        size_t n);

/**
 * Checks if the database has the joined run of a file that holds one rank.
 * Called after all files have been pushed. Returns ES_OK if the database has
 * the joined run; ES_EFORMAT if the joined run is missing or ends at an
 * earlier step than the rank.
 */
es_status es_push_file_check_rank(es_pusher *pusher,
                                  const es_push_file *file) ES_MUST_USE;

void es_push_rest(double seconds);

#endif
