/**
 * Declares the runs of the live view, which are read again when their files
 * change. Used by show.c.
 */
#ifndef ES_LIVE_H
#define ES_LIVE_H

#include "cli/runs/tree.h"
#include "cli/terminal/watched.h"

typedef struct es_live_file {
    const char *path; /* borrowed */
    es_stamp stamp;   /* size and time of the file when it was last read */
    size_t n_runs;    /* number of watched runs in this file */
    bool read;        /* true if the file has been read successfully */
    bool running;     /* true if a process is writing a run in this file */
    char *problem;    /* error message of the last read; NULL if it succeeded;
                         owned */
} es_live_file;

typedef struct es_live {
    const es_summary_options *options; /* as given */
    /* Options with which the runs are summarised; the member `series` is the
     * series that is shown. */
    es_summary_options summary;
    /* Name of the series that the user chose by a key; owned. NULL if the user
     * chose none. */
    char *series;
    es_live_file *files; /* (n_files) */
    size_t n_files;
    es_watch_list runs;
    /* Step that is shown; ES_STEP_LAST shows the newest step as runs grow. */
    int64_t step;
    /* Index of the first run on the screen, and number of runs on the
     * screen. */
    size_t first, n_shown;
} es_live;

/**
 * Opens n run files for the live view. Unreadable files are reported, counted
 * and left out.
 *
 *   live      zero-initialised; the caller closes it with es_live_close, also
 *             after an error
 *   n_failed  incremented by the number of unreadable files
 *   options   borrowed
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_live_open(es_live *live, size_t *n_failed, char *const *inputs,
                       size_t n, const es_summary_options *options) ES_MUST_USE;

/**
 * Reads the files that have changed, or all files if `anew` is true. If reading
 * a file or run fails, its `problem` is set to the error message, and the next
 * call retries.
 *
 *   out  set to true if the drawing must be updated
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_live_read(bool *out, es_live *live, bool anew) ES_MUST_USE;

/**
 * Shows every run at `step`; ES_STEP_LAST shows the newest step and continues
 * to do so as runs grow. Returns ES_OK or ES_ENOMEM.
 */
es_status es_live_move(es_live *live, int64_t step) ES_MUST_USE;

/**
 * Shows another series: the next head series in alphabetical order, or the
 * previous head series if `back` is true. The choices are the series of the
 * first run on the screen. Returns ES_OK or ES_ENOMEM.
 */
es_status es_live_switch(es_live *live, bool back) ES_MUST_USE;

/** Returns true if no process is writing any of the runs. */
bool es_live_has_ended(const es_live *live);

void es_live_close(es_live *live);

#endif
