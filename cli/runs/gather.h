/**
 * Reads the runs of many files, with several processes if there are many files,
 * since opening SQLite files keeps a CPU busy. Findings arrive in the order of
 * the files, whichever process finishes first.
 */
#ifndef ES_RUN_GATHER_H
#define ES_RUN_GATHER_H

#include "cli/runs/finding.h"

/** With fewer files than this number, the calling process reads all files. */
#define ES_GATHER_FEW 32

/** Callbacks that receive the findings of a job. The job borrows `user`. */
typedef struct es_gather_sink {
    void *user;
    /** Called at the start of input file i, before its findings. May be
     *  NULL. */
    void (*begin)(void *user, size_t i);
    /**
     * Called for each run.
     *
     *   run     owned by the callback, which frees it with es_summary_free
     *   reader  borrowed, open; NULL if another process read the run
     *   index   index of the run in the file
     *
     * If the callback fails, the failure is reported as a failure of the run.
     */
    es_status (*run)(void *user, es_run_summary *run, es_reader *reader,
                     size_t index);
    /** Called if a run or a file failed, with the status `code`; es_message()
     *  returns the reason. */
    void (*failed)(void *user, es_status code);
    /** Called for each damaged sample, whose series name is borrowed. sample is
     *  NULL if a part of a fragment could not be read (es_merge_is_behind). */
    void (*damaged)(void *user, const char *path, const es_damaged *sample);
    /** Called at the end of each input file, after its findings. May be
     *  NULL. */
    void (*end)(void *user);
} es_gather_sink;

typedef struct es_gather_job {
    char *const *inputs; /* (n_inputs) files */
    size_t n_inputs;
    const es_summary_options *options;
    bool settings;      /* true if the settings of each run must be read too */
    bool readers;       /* true if sink.run needs a reader; the calling process
                           then reads all files itself */
    size_t n_processes; /* maximum number of processes; 0 for one per CPU */
    es_gather_sink sink;
} es_gather_job;

/** Reads all inputs, and passes their findings and failures to the sink. */
void es_gather(const es_gather_job *job);

/** Returns the number of CPUs that this process may use, at least 1. */
size_t es_gather_processors(void);

/* --- streams --------------------------------------------------------------*/

/** Returns a sink that writes findings to a stream; the caller checks the
 *  stream with ferror. */
es_gather_sink es_gather_to(FILE *stream);

/**
 * Reads the findings of input `i` from a stream and passes them to the job's
 * sink.
 *
 * Returns ES_OK; ES_DONE if the stream ends before this input. Returns
 * ES_EFORMAT if the stream is invalid, or ES_ENOMEM; the sink has then received
 * the findings before the failure.
 */
es_status es_gather_from(FILE *stream, const es_gather_job *job,
                         size_t i) ES_MUST_USE;

#endif
