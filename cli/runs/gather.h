/**
 * Reads the runs of many files, by several processes at once where there are
 * many: opening SQLite's files takes a processor all of its time. What they
 * find arrives in the order of the files, whichever process was first.
 */
#ifndef ES_RUN_GATHER_H
#define ES_RUN_GATHER_H

#include "cli/runs/finding.h"

/** Fewer files than this are read by the calling process. */
#define ES_GATHER_FEW 32

/** What becomes of what is found; borrowed. */
typedef struct es_gather_sink {
    void *user;
    /** Before input i of the job is read. NULL is fine. */
    void (*begin)(void *user, size_t i);
    /**
     * A run.
     *
     *   run     owned: es_summary_free
     *   reader  borrowed, open; NULL if another process read it
     *   index   of the run in the file
     *
     * A failure is reported as one of the run.
     */
    es_status (*run)(void *user, es_run_summary *run, es_reader *reader,
                     size_t index);
    /** A run, or a file, failed: es_message() says why, `code` is the status.
     */
    void (*failed)(void *user, es_status code);
    /** A sample was damaged; its series is borrowed. NULL: not all of the
     *  fragment was read (es_merge_is_behind). */
    void (*damaged)(void *user, const char *path, const es_damaged *sample);
    /** After an input; NULL is fine. */
    void (*end)(void *user);
} es_gather_sink;

typedef struct es_gather_job {
    char *const *inputs; /* (n_inputs) files */
    size_t n_inputs;
    const es_summary_options *options;
    bool settings;      /* es_run_settings_read of each run, too */
    bool readers;       /* sink.run needs a reader: one process */
    size_t n_processes; /* at most; 0: one for each processor */
    es_gather_sink sink;
} es_gather_job;

/** Reads them all; what fails goes to the sink. */
void es_gather(const es_gather_job *job);

/** The processors that this process may use; 1 at least. */
size_t es_gather_processors(void);

/* --- streams --------------------------------------------------------------*/

/** A sink that writes what it gets as findings; it is checked with ferror.
 *  `user` is the stream. */
es_gather_sink es_gather_to(FILE *stream);

/**
 * Hands what a stream says of one input to the job's sink; `i` is its number.
 *
 * ES_OK; ES_DONE: the stream has ended before it; ES_EFORMAT, ES_ENOMEM: what
 * came until then has been handed on.
 */
es_status es_gather_from(FILE *stream, const es_gather_job *job,
                         size_t i) ES_MUST_USE;

#endif
