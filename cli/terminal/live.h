/** The live view between its files, its keys and its screen. */
#ifndef ES_LIVE_H
#define ES_LIVE_H

#include "cli/runs/stamp.h"
#include "cli/terminal/keys.h"
#include "cli/terminal/watch_list.h"

typedef struct es_live_file {
    const char *path; /* borrowed */
    es_stamp stamp;   /* when it was read */
    size_t n_runs;    /* of those watched */
    bool read;        /* once at least */
    bool running;     /* a process writes it, and some run has not ended */
    char *problem;    /* of the last reading; NULL: none */
} es_live_file;

typedef struct es_live {
    const es_show_options *options;
    es_summary_options summary; /* of the series shown */
    char *series;               /* summary.series once it was switched */
    es_live_file *files;        /* (n_files) */
    size_t n_files;
    es_watch_list runs;
    int64_t step; /* ES_STEP_LAST: live; else stopped there */
    bool quit;

    size_t first, n_shown; /* runs on the screen */
    es_keys keys;
    char **rows; /* (n_rows) what is on the screen */
    size_t n_rows;
} es_live;

/** Opens the files; those that cannot be read are reported and left out.
 *  ES_OK, ES_ENOMEM. */
es_status es_live_open(es_live *live, es_show_result *out) ES_MUST_USE;

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

/** Frees all but the rows of the screen. */
void es_live_close(es_live *live);

/** es_show to follow: until the runs have ended or the user quits. */
es_status es_show_live(es_show_result *out,
                       const es_show_options *options) ES_MUST_USE;

#endif
