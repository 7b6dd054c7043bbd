/** Run files into a PostgreSQL database, file by file: once, or as they grow.
 */
#ifndef ES_CLI_PUSH_H
#define ES_CLI_PUSH_H

#include "cli/alerts/rules/rules_file.h"
#include "store/push/push.h"

typedef struct es_push_options {
    char *const *inputs; /* (n_inputs) run files and folders; borrowed */
    size_t n_inputs;
    const es_rules_file *rules; /* the user's; borrowed */
    bool has_rules, quiet, follow;
    int jobs;    /* files that are pushed at once */
    double poll; /* seconds between two rounds, to follow */
    double keep; /* days; 0: for ever */
} es_push_options;

typedef struct es_push_result {
    es_push_counts counts;
    uint64_t files, failed; /* of the newest round; folders that cannot be read
                               are among those that failed */
    uint64_t old;           /* runs left out by `keep` */
    int64_t deleted;        /* by `keep` */
} es_push_result;

/**
 * A file that fails is reported on standard error and counted, and the others
 * go on. A connection that ends is opened again for six seconds; to follow, for
 * ever.
 *
 * ES_OK; ES_EIO and the like: of the database, or of a folder that the user
 * named; ES_ENOTFOUND: no run file; ES_ENOMEM.
 */
es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options) ES_MUST_USE;

#endif
