/** Runs that are read repeatedly from their files, for the terminal. */
#ifndef ES_WATCHED_H
#define ES_WATCHED_H

#include "cli/runs/summary.h"
#include "cli/runs/trace.h"

#define ES_WATCHED_LINES 2 /* lines over the steps with one value per run */

/** A line, or the lines of the layers, and the last step read. */
typedef struct es_watched_lines {
    es_trace *trace; /* NULL if nothing was read */
    size_t n;
    int64_t last;  /* last step read */
    float *newest; /* (2,n) values at `last`, and workspace */
} es_watched_lines;

/** A run. Initialise path and index, and everything else to zero. */
typedef struct es_watched {
    const char *path; /* borrowed */
    size_t index;     /* in its file, from 0 */

    es_run_summary *judged;  /* newest, with flags; NULL: no sample yet */
    es_run_summary *moment;  /* at a chosen step, without flags; or NULL */
    es_watched_lines layers; /* means of the layers; NaN if a head is not
                                finite */
    es_watched_lines lines[ES_WATCHED_LINES];
    float values[ES_WATCHED_LINES]; /* of `lines` at the step shown */
    char *name;                     /* NULL before the first read; owned */
    bool running;                   /* a process is writing the run */
    char *problem; /* message of the last read, or NULL; owned */
} es_watched;

/**
 * Reads the new samples of the run, or all samples if they were replaced. On
 * failure the previous data stay, and the message is stored as `problem`.
 *
 *   options  step: ES_STEP_LAST, or a step of the run
 *
 * Returns as es_summary_load.
 */
es_status es_watched_read(es_watched *run, es_reader *reader,
                          const es_summary_options *options) ES_MUST_USE;

/**
 * Shows the last sample at or before `step`, or the first one; ES_STEP_LAST
 * shows the newest again. Returns as es_summary_load.
 */
es_status es_watched_move(es_watched *run, es_reader *reader, int64_t step,
                          const es_summary_options *options) ES_MUST_USE;

/** Returns the step `by` samples after `step` (before it if negative) among the
 *  points of the lines, clamped to the first and last; `step` if there are
 * none. */
int64_t es_watched_step(const es_watched *run, int64_t step, int64_t by);

/** Returns the summary at the step shown; NULL if there is no sample yet. */
es_run_summary *es_watched_shown(const es_watched *run);

/** Returns the series of a line, such as "loss". */
const char *es_watched_line_name(int line);

/** Returns the number of lines with samples. */
int es_watched_n_lines(const es_watched *run);

/** Sets m of n runs. */
void es_watched_set_max(es_watched *runs, size_t n);

/** Frees all data of a run, so that the next call reads them again, for example
 * for another series. */
void es_watched_forget(es_watched *run);

typedef struct es_watch_list {
    es_watched *list; /* (n) */
    size_t n;
} es_watch_list;

es_status es_watch_list_add(es_watch_list *to, const char *path,
                            size_t index) ES_MUST_USE;
void es_watch_list_free(es_watch_list *runs);

#endif
