/** What the terminal shows of runs, read from their files. */
#ifndef ES_WATCHED_H
#define ES_WATCHED_H

#include "cli/runs/summary.h"
#include "cli/runs/trace.h"

#define ES_WATCHED_LINES 2 /* over the steps, of the whole run */

/** A line, or the lines of the layers, and how far they were read. */
typedef struct es_watched_lines {
    es_trace *trace; /* NULL: nothing was read */
    size_t n;
    int64_t last;  /* step that was read last */
    float *newest; /* (2,n) of that step; and workspace */
} es_watched_lines;

/** One run. Zero with a path and a number is a good beginning. */
typedef struct es_watched {
    const char *path; /* borrowed */
    size_t index;     /* from 0 */

    es_run_summary *judged;  /* the newest; NULL: no sample yet */
    es_run_summary *moment;  /* at a step of its own, not judged; NULL: none */
    es_watched_lines layers; /* means of the layers, NaN where a head is not
                                finite */
    es_watched_lines lines[ES_WATCHED_LINES];
    float values[ES_WATCHED_LINES]; /* at the step shown */
    char *name;                     /* of the run; NULL before it was read */
    bool running;                   /* a process writes the run */
    char *problem;                  /* of the last reading; NULL: none */
} es_watched;

/**
 * Reads what is new of the run; its beginning is read again only if it was
 * replaced. On failure it keeps what it had, and the message as `problem`.
 *
 *   options  step: ES_STEP_LAST, or one that the run has
 *
 * Returns as es_summary_load.
 */
es_status es_watched_read(es_watched *run, es_reader *reader,
                          const es_summary_options *options) ES_MUST_USE;

/**
 * Shows another step than the newest: the last one that is not above `step`,
 * or the first. ES_STEP_LAST: back to the newest. Returns as es_summary_load.
 */
es_status es_watched_move(es_watched *run, es_reader *reader, int64_t step,
                          const es_summary_options *options) ES_MUST_USE;

/** The step `by` samples after `step` (before it if negative) among those that
 *  lines are drawn of; the first or last one beyond the ends. `step` itself
 *  if there is none. */
int64_t es_watched_step(const es_watched *run, int64_t step, int64_t by);

/** What is shown, at the step shown; NULL: nothing yet. */
es_run_summary *es_watched_shown(const es_watched *run);

/** The series of a line of the whole run: "loss". */
const char *es_watched_line_name(int line);

/** Number of the lines of the whole run that there is something of. */
int es_watched_n_lines(const es_watched *run);

/** Gives all of them their m. */
void es_watched_set_max(es_watched *runs, size_t n);

/** Frees what was read, so that it is read anew, as for another series. */
void es_watched_forget(es_watched *run);

typedef struct es_watch_list {
    es_watched *list; /* (n) */
    size_t n;
} es_watch_list;

es_status es_watch_list_add(es_watch_list *to, const char *path,
                            size_t index) ES_MUST_USE;
void es_watch_list_free(es_watch_list *runs);

#endif
