/** Declarations that the parsers of import share. */
#ifndef ES_IMPORT_INTERNAL_H
#define ES_IMPORT_INTERNAL_H

#include "cli/exchange/cells.h"
#include "cli/exchange/import.h"

/** State of the import of one file. */
typedef struct es_import {
    es_line_reader *lines;
    const es_import_options *options;
    const es_import_sink *sink;
    es_import_report *report;
    es_about about;
    bool begun; /* true once the sink's `begin` was called; comments that
                   describe the run are ignored from then on */
    size_t largest_line; /* number of the text line with the largest layer or
                            head, which determined L or H; 0 if a comment or
                            option declared larger values */
    uint64_t bytes;      /* size in bytes of all samples so far */
    bool bounded[ES_MAX_TEXT_SERIES]; /* true for series of entropies, whose
                                         values should not exceed ln(ctx) */
} es_import;

es_status es_import_matrix(es_import *import) ES_MUST_USE;
es_status es_import_long(es_import *import) ES_MUST_USE;
es_status es_import_log(es_import *import) ES_MUST_USE;
es_status es_import_history(es_import *import) ES_MUST_USE;
es_status es_import_events(es_import *import) ES_MUST_USE;
es_status es_import_wide(es_import *import) ES_MUST_USE;

/**
 * Returns true if the column of a wide table, or the member of a history,
 * called `name` contains the steps: `name` equals the value of --step-key or,
 * without this option, is one of the usual names of steps, in upper or lower
 * case.
 */
bool es_import_is_step(const es_import_options *options, const char *name);

/** Sets *out to true if the file begins like an event file, then rewinds it. */
es_status es_import_events_match(bool *out, es_line_reader *lines) ES_MUST_USE;

/**
 * Reads the next line with content; parses lines that begin with '#' into
 * `about`. Returns ES_OK, ES_DONE, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
es_status es_import_next(es_import *import, es_line *out) ES_MUST_USE;

/**
 * If the comment line is an attention map, passes the map to the sink. Returns
 * ES_OK, also for any other comment; ES_EFORMAT if the map is malformed; or the
 * status of the sink.
 */
es_status es_import_map(es_import *import, const es_line *line) ES_MUST_USE;

/** Returns true if the line is empty or contains only blanks. */
bool es_import_is_blank(const es_line *line);

/** Reads the number in a cell; "NA" gives a missing value. The error message
 *  names the cell. */
es_status es_import_number(float *out, const es_cells *cells,
                           const char *text) ES_MUST_USE;

/** Reads an integer in [low, high] from a cell. The cell may contain a decimal
 *  point, as in "3.0", at which `text` is truncated. The error message names
 *  the cell. */
es_status es_import_whole(int64_t *out, const es_cells *cells, char *text,
                          int64_t low, int64_t high) ES_MUST_USE;

/** Calls the sink's `begin`. L and H are n_layer and n_head, or larger if the
 *  file or an option declares larger values. Returns ES_EFORMAT if the declared
 *  values are smaller, or if L*H is too large. */
es_status es_import_begin(es_import *import, int64_t n_layer, int64_t n_head,
                          const es_text_series *series,
                          size_t n_series) ES_MUST_USE;

/** Passes a sample to the sink and counts it; refuses a sample that would make
 *  the run much larger than the text. */
es_status es_import_sample(es_import *import, size_t series, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** es_import_sample consists of these two steps. es_import_check_growth checks
 *  the size limit for n more values. es_import_hand_on passes a sample to the
 *  sink without a check. */
es_status es_import_check_growth(es_import *import, size_t n) ES_MUST_USE;
es_status es_import_hand_on(es_import *import, size_t series, int64_t step,
                            const float *values, size_t n) ES_MUST_USE;

/** Pointers to the three numbers in a log line "Step s - Layer l: v". */
typedef struct es_log_line {
    const char *step, *layer, *value;
} es_log_line;

/** Returns true if `line` contains a log entry "Step s - Layer l: v" anywhere;
 *  does not check the value v. */
bool es_import_log_match(es_log_line *out, const char *line);

#endif
