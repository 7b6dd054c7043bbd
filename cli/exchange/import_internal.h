/** Shared between the parsers of import. */
#ifndef ES_IMPORT_INTERNAL_H
#define ES_IMPORT_INTERNAL_H

#include "cli/exchange/cells.h"
#include "cli/exchange/import.h"

/** One parse: what its parts hand around. */
typedef struct es_import {
    es_line_reader *lines;
    const es_import_options *options;
    const es_import_sink *sink;
    es_import_report *report;
    es_about about;
    bool begun;          /* the sink knows of the run: comments count no more */
    size_t largest_line; /* that made L or H what it is; 0: a comment did */
    uint64_t bytes;      /* of samples so far */
    bool bounded[ES_MAX_TEXT_SERIES]; /* by series: ln(ctx) bounds it */
} es_import;

es_status es_import_matrix(es_import *import) ES_MUST_USE;
es_status es_import_long(es_import *import) ES_MUST_USE;
es_status es_import_log(es_import *import) ES_MUST_USE;
es_status es_import_history(es_import *import) ES_MUST_USE;
es_status es_import_events(es_import *import) ES_MUST_USE;
es_status es_import_wide(es_import *import) ES_MUST_USE;

/** Whether a column of a wide table has steps, by its name: --step-key, or a
 * name that people use, in any case. */
bool es_import_is_step(const es_import_options *options, const char *name);

/** True if the file begins as an event file does; rewinds. */
es_status es_import_events_match(bool *out, es_line_reader *lines) ES_MUST_USE;

/**
 * The next line with something on it; lines of '#' are read into `about`.
 * ES_OK, ES_DONE, ES_EFORMAT, ES_EIO, ES_ENOMEM.
 */
es_status es_import_next(es_import *import, es_line *out) ES_MUST_USE;

/** A comment that is an attention map goes to the sink. ES_OK, also for any
 *  other comment; ES_EFORMAT; what the sink returns. */
es_status es_import_map(es_import *import, const es_line *line) ES_MUST_USE;

/** Nothing on it but blanks. */
bool es_import_is_blank(const es_line *line);

/** A number of a cell; "NA" is missing. Fails with the cell's place. */
es_status es_import_number(float *out, const es_cells *cells,
                           const char *text) ES_MUST_USE;

/** A whole number, also written "3.0", in [low, high]; cuts the text
 *  there. The same. */
es_status es_import_whole(int64_t *out, const es_cells *cells, char *text,
                          int64_t low, int64_t high) ES_MUST_USE;

/** Takes L and H as found, unless the file or the caller says more than that;
 *  then calls the sink's begin. ES_EFORMAT if they say less, or if L*H is
 *  too much. */
es_status es_import_begin(es_import *import, int64_t n_layer, int64_t n_head,
                          const es_text_series *series,
                          size_t n_series) ES_MUST_USE;

/** Hands one sample on, counts it, and refuses it where it would make the run
 *  far larger than the text. */
es_status es_import_sample(es_import *import, size_t series, int64_t step,
                           const float *values, size_t n) ES_MUST_USE;

/** The two halves of that: n more values; a sample whose values are counted. */
es_status es_import_check_growth(es_import *import, size_t n) ES_MUST_USE;
es_status es_import_hand_on(es_import *import, size_t series, int64_t step,
                            const float *values, size_t n) ES_MUST_USE;

/** "Step s - Layer l: v" in a line: where its three numbers begin. */
typedef struct es_log_line {
    const char *step, *layer, *value;
} es_log_line;

/** True if a line holds that, anywhere in it. Says nothing about v. */
bool es_import_log_match(es_log_line *out, const char *line);

#endif
