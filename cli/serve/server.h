/**
 * Answers browsers in one process, which waits for requests, for messages from
 * the process that reads run files, and for the processes that answer requests.
 */
#ifndef ES_SERVE_SERVER_H
#define ES_SERVE_SERVER_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/serve/access.h"

typedef struct es_serve_options {
    char *const *roots; /* paths of n_roots run files and folders, or URLs */
    size_t n_roots;
    const es_rules_file *rules; /* thresholds and rules; NULL for the default
                                   thresholds and no rules */
    int port;                   /* TCP port; 0 for any free port */
    const char *address;        /* address to listen on */
    const char *base;           /* path below which a proxy shows the page: ""
                                   or "/path" without a slash at the end */
    bool can_stop;              /* true if a page may request that a training
                                   run stop */
    bool opens;                 /* true to open a browser */
    bool until_eof;             /* true to end when standard input ends */
    es_serve_access access;     /* the caller has set the token, is_local and
                                   the host names */
} es_serve_options;

/**
 * Prints the address of the page on standard output, and serves it until
 * SIGINT, SIGTERM or SIGHUP.
 *
 * Returns ES_OK after a signal; ES_EIO if libmicrohttpd is not installed, the
 * address cannot be used, or a folder cannot be read; ES_ENOMEM.
 */
es_status es_serve_run(es_serve_options *options) ES_MUST_USE;

#endif
