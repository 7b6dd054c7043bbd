/**
 * Pushes run files into a PostgreSQL database, once or repeatedly as the files
 * grow.
 */
#ifndef ES_CLI_PUSH_H
#define ES_CLI_PUSH_H

#include "cli/alerts/rules/rules_file.h"
#include "store/push/push.h"

typedef struct es_push_options {
    char *const *inputs; /* paths of n_inputs run files and folders; borrowed */
    size_t n_inputs;
    const es_rules_file *rules; /* rules of the user, by which alerts are found;
                                   borrowed */
    bool has_rules, quiet, follow;
    int jobs;    /* number of threads, each with a separate connection */
    double poll; /* seconds between two rounds if `follow` is true */
    double keep; /* age in days after which runs are deleted from the database;
                    0 to keep all runs */
} es_push_options;

typedef struct es_push_result {
    es_push_counts counts;
    uint64_t files, failed; /* numbers of files and of failed files in the last
                               round; `failed` includes unreadable folders */
    uint64_t old;           /* number of runs that were not pushed because they
                               are older than `keep` days */
    int64_t deleted;        /* number of runs that were deleted because of
                               `keep` */
} es_push_result;

/**
 * Pushes the inputs. If a file fails, reports the failure on standard error,
 * counts it, and continues with the other files. If the connection is lost,
 * retries for six seconds, or without limit if options->follow is true.
 *
 * Returns ES_OK; ES_EIO or another error of the database or of a folder in
 * `inputs`; ES_ENOTFOUND if there is no run file; ES_ENOMEM.
 */
es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options) ES_MUST_USE;

#endif
