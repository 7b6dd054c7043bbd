/** Child processes: the programs of the Debian package sentencepiece. */
#ifndef ES_CORPUS_CHILD_H
#define ES_CORPUS_CHILD_H

#include "analyzer/base/status.h"
#include <stdio.h>
#include <sys/types.h>

typedef struct es_child {
    const char *name; /* argv[0], borrowed */
    FILE *errors;     /* what it says */
    pid_t pid;        /* 0: none runs */
} es_child;

/**
 * Starts argv[0], found in PATH, without a shell. Its standard input is `in`
 * from the beginning, its standard output is `out`; both stay the caller's,
 * who does not touch them until the child has ended.
 *
 *   argv   borrowed until the child has ended
 *   in     NULL for an empty input
 *   out    NULL throws the output away
 *   folder the child's working directory; NULL for ours
 *
 * ES_OK; ES_EIO (there is no such program: names the package to install).
 */
es_status es_child_start(es_child *child, char *const argv[], FILE *in,
                         FILE *out, const char *folder) ES_MUST_USE;

/**
 * Waits for the end. ES_OK if it exited with 0; ES_EIO with the last line of
 * what it said if it did not, or died of a signal; ES_EIO if we were told to
 * stop: the child is ended then.
 */
es_status es_child_wait(es_child *child) ES_MUST_USE;

/** Ends it if it still runs; frees. Nothing happens to a zeroed child. */
void es_child_stop(es_child *child);

/**
 * From now on SIGINT, SIGTERM and SIGHUP end the children and make what waits
 * for them, or starts one, fail, so that nothing is left behind; and ends of
 * children are told of, though whoever started us may have them ignored.
 */
void es_child_catch_signals(void);

/** The signal that came; 0 if none did. */
int es_child_signal(void);

/** Start and wait. */
es_status es_child_run(char *const argv[], FILE *in, FILE *out,
                       const char *folder) ES_MUST_USE;

#endif
