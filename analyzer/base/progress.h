/**
 * Draws one line of progress on a terminal: the amount done, the total, the
 * rate and the time left. The program passes the output stream; nothing is
 * drawn unless the stream is a terminal that can move its cursor (TERM=dumb
 * cannot).
 *
 *     import big.csv: 12.3 of 40 MB, 8.1 MB/s, 3s left
 */
#ifndef ES_PROGRESS_H
#define ES_PROGRESS_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Unit for amounts in bytes, which are displayed in megabytes. */
#define ES_PROGRESS_BYTES "MB"

/** A progress line. Draws nothing if it is zero-initialised. */
typedef struct es_progress {
    FILE *out;        /* stream on which the line is drawn; NULL to draw
                         nothing */
    const char *name; /* name of the task; borrowed; must be safe to print on
                         a terminal */
    const char *unit; /* unit of the amount, for example "files"; borrowed */
    uint64_t total;   /* 0 if unknown */
    int64_t started;  /* es_now_ms() at the start */
    int64_t shown;    /* es_now_ms() at the last drawing; -1 before the first
                         drawing */
    bool is_drawn;
} es_progress;

/** Returns true if `out` is a terminal on which a line can be redrawn. */
bool es_progress_suits(FILE *out);

/**
 * Begins a line of progress. If `out` is NULL, as with --quiet, nothing is
 * drawn. The strings are borrowed.
 */
void es_progress_begin(es_progress *progress, FILE *out, const char *name,
                       const char *unit, uint64_t total);

/** Draws the line, unless it was drawn less than a tenth of a second ago. */
void es_progress_show(es_progress *progress, uint64_t done);

/**
 * Returns true if the last drawing was at least a tenth of a second ago. Meant
 * for callers that compose their own line for es_progress_draw.
 */
bool es_progress_is_due(const es_progress *progress);

/** Draws the caller's own line at once, truncated to the terminal's width. */
void es_progress_draw(es_progress *progress, const char *line);

/**
 * Erases the line so that other text can be printed. The line may be drawn
 * again.
 */
void es_progress_wipe(es_progress *progress);

/** Erases the line and ends the drawing; later calls draw nothing. */
void es_progress_end(es_progress *progress);

/**
 * Writes the text that es_progress_show would draw `seconds` after the start.
 * Returns `out`.
 */
char *es_progress_print(char *out, size_t size, const es_progress *progress,
                        uint64_t done, double seconds);

#define ES_DURATION_MAX 32

/**
 * Writes a duration: "12s", "3m05s", "2h10m", "3d04h"; "-" if it is negative,
 * NaN or too large. Returns `out`.
 */
char *es_duration_print(char out[ES_DURATION_MAX], double seconds);

#endif
