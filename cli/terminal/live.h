/** The files of the live view, for its keys and its screen (show.c). */
#ifndef ES_LIVE_H
#define ES_LIVE_H

#include "cli/runs/tree.h"
#include "cli/terminal/watched.h"

typedef struct es_live_file {
    const char *path; /* borrowed */
    es_stamp stamp;   /* when it was read */
    size_t n_runs;    /* of those watched */
    bool read;        /* once at least */
    bool running;     /* a process writes it, and some run has not ended */
    char *problem;    /* of the last reading; NULL: none */
} es_live_file;

typedef struct es_live {
    const es_summary_options *options; /* as they were given */
    es_summary_options summary;        /* of the series shown */
    char *series;                      /* summary.series once it was switched */
    es_live_file *files;               /* (n_files) */
    size_t n_files;
    es_watch_list runs;
    int64_t step;          /* ES_STEP_LAST: live; else stopped there */
    size_t first, n_shown; /* runs on the screen */
} es_live;

/**
 * Opens the files (n); those that cannot be read are reported, counted and left
 * out.
 *
 *   live      all zero
 *   n_failed  added to
 *   options   borrowed
 *
 * ES_OK, ES_ENOMEM: es_live_close it in both cases.
 */
es_status es_live_open(es_live *live, size_t *n_failed, char *const *inputs,
                       size_t n, const es_summary_options *options) ES_MUST_USE;

/**
 * Reads the files that have changed, or all of them if `anew`. What fails is
 * a file's or a run's `problem`, and tried again the next time.
 *
 *   out  written: something is to be drawn anew
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_live_read(bool *out, es_live *live, bool anew) ES_MUST_USE;

/** Shows `step` of every run; ES_STEP_LAST: the newest, as it comes.
 *  ES_OK, ES_ENOMEM. */
es_status es_live_move(es_live *live, int64_t step) ES_MUST_USE;

/** The next head series in order of names, or the one before; those of the
 *  first run on the screen. ES_OK, ES_ENOMEM. */
es_status es_live_switch(es_live *live, bool back) ES_MUST_USE;

/** No run is being written any more. */
bool es_live_has_ended(const es_live *live);

void es_live_close(es_live *live);

#endif
