/**
 * Stores the data of a run that the terminal shows, and updates them from the
 * run file.
 */
#ifndef ES_WATCHED_H
#define ES_WATCHED_H

#include "cli/runs/summary.h"
#include "cli/runs/trace.h"

/* Number of sparklines of series with one value per step. */
#define ES_WATCHED_LINES 2

/**
 * The samples of one or several sparklines, and the last step that has been
 * read.
 */
typedef struct es_watched_lines {
    es_trace *trace; /* points of the sparklines; NULL if no sample has been
                        read yet */
    size_t n;
    int64_t last;  /* last step read */
    float *newest; /* the n values at step `last`, followed by n values of
                      workspace */
} es_watched_lines;

/**
 * A run on the terminal. The caller sets path and index, and all other members
 * to zero.
 */
typedef struct es_watched {
    const char *path; /* borrowed */
    size_t index;     /* index of the run in its file, from 0 */

    /* Summary at the newest step, including the flags; NULL before the first
     * sample. */
    es_run_summary *judged;
    /* Summary at the step that the user chose, without flags; NULL if the
     * newest step is shown. */
    es_run_summary *moment;
    es_watched_lines layers; /* means of the layers; the mean is NaN if a head
                                is not finite */
    es_watched_lines lines[ES_WATCHED_LINES];
    float values[ES_WATCHED_LINES]; /* values of the series in `lines` at the
                                       step shown */
    char *name;                     /* name of the run, owned; NULL before the
                                       first read */
    bool running;                   /* true if a process is writing the run */
    char *problem; /* error message of the last read, owned; NULL if it
                      succeeded */
} es_watched;

/**
 * Reads the new samples of the run, or all samples if the earlier samples were
 * replaced. On failure, the data of the last successful read are kept, and
 * `problem` is set to the error message.
 *
 *   options  the member `step` must be ES_STEP_LAST or a step of the run
 *
 * Returns the statuses of es_summary_load.
 */
es_status es_watched_read(es_watched *run, es_reader *reader,
                          const es_summary_options *options) ES_MUST_USE;

/**
 * Shows the run at the last sample at or before `step`, or at the first sample
 * if all samples are later; ES_STEP_LAST shows the newest sample again. Returns
 * the statuses of es_summary_load.
 */
es_status es_watched_move(es_watched *run, es_reader *reader, int64_t step,
                          const es_summary_options *options) ES_MUST_USE;

/**
 * Returns the step that is `by` points of the sparklines after `step`, or
 * before `step` if `by` is negative. The result is limited to the first and the
 * last point. Returns `step` if there are no points.
 */
int64_t es_watched_step(const es_watched *run, int64_t step, int64_t by);

/** Returns the summary at the step shown; NULL if there is no sample yet. */
es_run_summary *es_watched_shown(const es_watched *run);

/** Returns the name of the series that a sparkline shows, such as "loss". */
const char *es_watched_line_name(int line);

/** Returns the number of sparklines that have samples. */
int es_watched_n_lines(const es_watched *run);

/**
 * Sets the upper end of the colour scale of n runs to the largest entropy of
 * all these runs.
 */
void es_watched_set_max(es_watched *runs, size_t n);

/**
 * Frees all data of a run, so that the next read starts from the beginning, for
 * example to show another series.
 */
void es_watched_forget(es_watched *run);

typedef struct es_watch_list {
    es_watched *list; /* (n) */
    size_t n;
} es_watch_list;

es_status es_watch_list_add(es_watch_list *to, const char *path,
                            size_t index) ES_MUST_USE;
void es_watch_list_free(es_watch_list *runs);

#endif
