/** Declarations that the parsers of import share. */
#ifndef ES_IMPORT_INTERNAL_H
#define ES_IMPORT_INTERNAL_H

#include "cli/exchange/cells.h"
#include "cli/exchange/import.h"

/** State of one parse. */
typedef struct es_import {
    es_line_reader *lines;
    const es_import_options *options;
    const es_import_sink *sink;
    es_import_report *report;
    es_about about;
    bool begun;          /* the run was passed to the sink; later comments
                            are ignored */
    size_t largest_line; /* line that determined L or H; 0: a comment */
    uint64_t bytes;      /* total size of all samples so far */
    bool bounded[ES_MAX_TEXT_SERIES]; /* true if ln(ctx) bounds the series */
} es_import;

es_status es_import_matrix(es_import *import) ES_MUST_USE;
es_status es_import_long(es_import *import) ES_MUST_USE;
es_status es_import_log(es_import *import) ES_MUST_USE;
es_status es_import_history(es_import *import) ES_MUST_USE;
es_status es_import_events(es_import *import) ES_MUST_USE;
es_status es_import_wide(es_import *import) ES_MUST_USE;

/** Returns true if a column of a wide table has steps, by its name: --step-key,
 *  or a usual name in any case. */
bool es_import_is_step(const es_import_options *options, const char *name);

/** Sets *out if the file begins like an event file; rewinds. */
es_status es_import_events_match(bool *out, es_line_reader *lines) ES_MUST_USE;

/**
 * Reads the next line with content; lines with '#' are read into `about`.
 * Returns ES_OK, ES_DONE, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
es_status es_import_next(es_import *import, es_line *out) ES_MUST_USE;

/** Passes a comment that is an attention map to the sink. Returns ES_OK, also
 *  for any other comment; ES_EFORMAT; otherwise the status of the sink. */
es_status es_import_map(es_import *import, const es_line *line) ES_MUST_USE;

/** Returns true if the line is empty or only has blanks. */
bool es_import_is_blank(const es_line *line);

/** Reads the number of a cell; "NA" is missing. A failure names the cell. */
es_status es_import_number(float *out, const es_cells *cells,
                           const char *text) ES_MUST_USE;

/** Reads a whole number in [low, high], also written "3.0"; truncates the text
 *  at the point. A failure names the cell. */
es_status es_import_whole(int64_t *out, const es_cells *cells, char *text,
                          int64_t low, int64_t high) ES_MUST_USE;

/** Begins the run with L and H as found, or larger if the file or the caller
 *  says so; calls the sink's begin. Returns ES_EFORMAT if they are announced
 *  smaller, or if L*H is too large. */
es_status es_import_begin(es_import *import, int64_t n_layer, int64_t n_head,
                          const es_text_series *series,
                          size_t n_series) ES_MUST_USE;

/** Passes a sample to the sink and counts it; refuses a sample that would make
 *  the run much larger than the text. */
es_status es_import_sample(es_import *import, size_t series, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** The two parts of es_import_sample: check the limit for n more values; pass
 *  on a sample that was checked. */
es_status es_import_check_growth(es_import *import, size_t n) ES_MUST_USE;
es_status es_import_hand_on(es_import *import, size_t series, int64_t step,
                            const float *values, size_t n) ES_MUST_USE;

/** Positions of the numbers in a line "Step s - Layer l: v". */
typedef struct es_log_line {
    const char *step, *layer, *value;
} es_log_line;

/** Returns true if a line contains that anywhere; does not check the value
 *  v. */
bool es_import_log_match(es_log_line *out, const char *line);

#endif
