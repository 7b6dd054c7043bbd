/** What the files of a push share. */
#ifndef ES_CLI_PUSH_INTERNAL_H
#define ES_CLI_PUSH_INTERNAL_H

#include "cli/push/push.h"
#include "cli/runs/tree.h"

#define ES_PUSH_GROUP 32 /* small files at once: each is open */

/** One of several that push at once, by a connection of its own. */
typedef struct es_push_worker {
    es_pusher *pusher;
    const es_push_options *options;
    es_push_result result; /* of this one */
} es_push_worker;

/** A file that is to be pushed; zeroed but for path and stamp. */
typedef struct es_push_file {
    const char *path; /* borrowed */
    es_stamp stamp;
    struct es_known_file *known;
    es_reader *reader;
    char *place; /* absolute, without .db or .esf; to be freed */
    es_push_source source;
    bool is_pushed; /* in a group */
    /* A rank of a distributed training: nothing is pushed of it, which is fine
       if the joined run is there. */
    bool is_rank;
    char uuid[ES_UUID_SIZE];
    int64_t last_step;
} es_push_file;

es_status es_push_file_open(es_push_file *file) ES_MUST_USE;

/** All of its runs, one by one, but for those of ranks. Of several that fail
 * the first one's. */
es_status es_push_file_runs(es_push_worker *worker,
                            es_push_file *file) ES_MUST_USE;

/** It may be pushed with others. */
bool es_push_file_is_small(const es_push_file *file);

/** Those of the files (n, at most ES_PUSH_GROUP) for which that works: they
 *  are is_pushed afterwards. */
void es_push_file_group(es_push_worker *worker, es_push_file *const *files,
                        size_t n);

/** Of a rank, when all files of the round were pushed. ES_OK: the database has
 *  the joined run; ES_EFORMAT: not, or only up to an earlier step. */
es_status es_push_file_check_rank(es_pusher *pusher,
                                  const es_push_file *file) ES_MUST_USE;

void es_push_rest(double seconds);

#endif
