/**
 * Pushes run files into a PostgreSQL database, once or repeatedly as the files
 * grow.
 */
#ifndef ES_CLI_PUSH_H
#define ES_CLI_PUSH_H

#include "cli/alerts/rules/rules_file.h"
#include "store/push/push.h"

typedef struct es_push_options {
    char *const *inputs; /* (n_inputs) run files and folders; borrowed */
    size_t n_inputs;
    const es_rules_file *rules; /* the user's rules for finding alerts;
                                   borrowed */
    bool has_rules, quiet, follow;
    int jobs;    /* number of threads, each with a connection */
    double poll; /* seconds between two rounds, with follow */
    double keep; /* days after which runs are deleted from the database; 0:
                    never */
} es_push_options;

typedef struct es_push_result {
    es_push_counts counts;
    uint64_t files, failed; /* files of the last round; `failed` includes
                               unreadable folders */
    uint64_t old;           /* number of runs that were too old for `keep`
                               and not pushed */
    int64_t deleted;        /* number of runs that were deleted because of
                               `keep` */
} es_push_result;

/**
 * Pushes the inputs. A file that fails is reported on standard error and
 * counted, and the other files are pushed. A lost connection is retried for six
 * seconds, or without limit if options->follow is true.
 *
 * Returns ES_OK; ES_EIO or another error of the database or of a folder in
 * `inputs`; ES_ENOTFOUND if there is no run file; ES_ENOMEM.
 */
es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options) ES_MUST_USE;

#endif
