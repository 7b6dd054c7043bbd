/**
 * Answers browsers: one process that waits for requests, for news from the
 * process that reads run files, and for the processes that answer requests.
 */
#ifndef ES_SERVE_SERVER_H
#define ES_SERVE_SERVER_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/serve/access.h"

typedef struct es_serve_options {
    char *const *roots; /* (n_roots) run files, folders and URLs */
    size_t n_roots;
    const es_rules_file *rules; /* NULL: default thresholds and no rules */
    int port;                   /* 0: any free port */
    const char *address;        /* address to listen on */
    const char *base;           /* path below which a proxy shows the page: ""
                                   or "/path" without a slash at the end */
    bool can_stop;              /* true if a page may stop runs */
    bool opens;                 /* true to open a browser */
    bool until_eof;             /* true to end when standard input ends */
    es_serve_access access;     /* with its token; and is_local */
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
