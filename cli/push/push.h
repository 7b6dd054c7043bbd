/** Pushes run files into a PostgreSQL database, once, or as they grow. */
#ifndef ES_CLI_PUSH_H
#define ES_CLI_PUSH_H

#include "cli/alerts/rules/rules_file.h"
#include "store/push/push.h"

typedef struct es_push_options {
    char *const *inputs; /* (n_inputs) run files and folders; borrowed */
    size_t n_inputs;
    const es_rules_file *rules; /* the user's rules; borrowed */
    bool has_rules, quiet, follow;
    int jobs;    /* number of connections */
    double poll; /* with follow: seconds between two rounds */
    double keep; /* days that runs are kept; 0: for ever */
} es_push_options;

typedef struct es_push_result {
    es_push_counts counts;
    uint64_t files, failed; /* of the last round; `failed` includes
                               unreadable folders */
    uint64_t old;           /* runs not pushed because of `keep` */
    int64_t deleted;        /* runs deleted because of `keep` */
} es_push_result;

/**
 * Pushes the inputs. A file that fails is reported on standard error and
 * counted, and the others are pushed. A lost connection is retried for six
 * seconds, or without limit if options->follow.
 *
 * Returns ES_OK; ES_EIO or another error of the database, or of a folder in
 * `inputs`; ES_ENOTFOUND: there is no run file; ES_ENOMEM.
 */
es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options) ES_MUST_USE;

#endif
