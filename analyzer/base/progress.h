/**
 * One line of progress on a terminal: what is done, of how much, how fast, how
 * long it takes still. For programs: the stream is theirs, and without a
 * terminal that can move its cursor (TERM=dumb cannot) nothing is drawn.
 *
 *     import big.csv: 12.3 of 40 MB, 8.1 MB/s, 3s left
 */
#ifndef ES_PROGRESS_H
#define ES_PROGRESS_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ES_PROGRESS_BYTES "MB" /* the unit that is counted in bytes */

/** Zero is one that is silent. */
typedef struct es_progress {
    FILE *out;        /* NULL: silent */
    const char *name; /* borrowed; safe for a terminal */
    const char *unit; /* borrowed: "files" */
    uint64_t total;   /* 0: unknown */
    int64_t started;  /* es_now_ms */
    int64_t shown;    /* the same, of the last time; -1 before */
    bool is_drawn;
} es_progress;

/** A terminal on which a line can be drawn again. */
bool es_progress_suits(FILE *out);

/** out: NULL for silence, as of --quiet. Strings are borrowed. */
void es_progress_begin(es_progress *progress, FILE *out, const char *name,
                       const char *unit, uint64_t total);

/** Draws the line, unless that was done less than a tenth of a second ago. */
void es_progress_show(es_progress *progress, uint64_t done);

/** Whether es_progress_draw would be in time, for lines of one's own. */
bool es_progress_is_due(const es_progress *progress);

/** Draws a line of one's own, cut to the terminal's width, whenever it was
 *  drawn last. */
void es_progress_draw(es_progress *progress, const char *line);

/** Removes the line, for others to be printed; it may be drawn again. */
void es_progress_wipe(es_progress *progress);

/** Removes it, and is silent from now on. */
void es_progress_end(es_progress *progress);

/** The line of es_progress_show, after so many seconds. Returns out. */
char *es_progress_print(char *out, size_t size, const es_progress *progress,
                        uint64_t done, double seconds);

#define ES_DURATION_MAX 32

/** "12s", "3m05s", "2h10m", "3d04h"; "-" for what is no time. Returns out. */
char *es_duration_print(char out[ES_DURATION_MAX], double seconds);

#endif
