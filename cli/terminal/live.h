/** The files of the live view and their runs, for show.c. */
#ifndef ES_LIVE_H
#define ES_LIVE_H

#include "cli/runs/tree.h"
#include "cli/terminal/watched.h"

typedef struct es_live_file {
    const char *path; /* borrowed */
    es_stamp stamp;   /* of the file when it was read */
    size_t n_runs;    /* watched runs of this file */
    bool read;        /* the file was read successfully */
    bool running;     /* a process is writing a run of this file */
    char *problem;    /* message of the last read, or NULL; owned */
} es_live_file;

typedef struct es_live {
    const es_summary_options *options; /* as given */
    es_summary_options summary;        /* for the series shown */
    char *series;                      /* owned name after a switch, or NULL */
    es_live_file *files;               /* (n_files) */
    size_t n_files;
    es_watch_list runs;
    int64_t step;          /* step shown; ES_STEP_LAST: live */
    size_t first, n_shown; /* first run and number of runs on the screen */
} es_live;

/**
 * Opens n files. Unreadable files are reported, counted and left out.
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
 * Reads the files that have changed, or all files if `anew`. A failure is
 * stored as `problem` of the file or run, and the next call retries.
 *
 *   out  written; true if the drawing must be updated
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_live_read(bool *out, es_live *live, bool anew) ES_MUST_USE;

/** Shows `step` of every run; with ES_STEP_LAST the newest step at any time.
 * Returns ES_OK or ES_ENOMEM. */
es_status es_live_move(es_live *live, int64_t step) ES_MUST_USE;

/** Switches to the next head series by name, or the previous one if `back`, of
 * the first run on the screen. Returns ES_OK or ES_ENOMEM. */
es_status es_live_switch(es_live *live, bool back) ES_MUST_USE;

/** Returns true if no run is being written. */
bool es_live_has_ended(const es_live *live);

void es_live_close(es_live *live);

#endif
