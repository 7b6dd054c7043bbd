/**
 * Parsers of text files of other programs, and of export. They pass the run to
 * the callbacks of a sink and do not know run files; the sink may write a run
 * file, or count.
 *
 * Messages name the file, the line and the column: the cell of a CSV, the
 * character of a log.
 */
#ifndef ES_IMPORT_H
#define ES_IMPORT_H

#include "cli/exchange/about.h"
#include "cli/exchange/lines.h"
#include "cli/exchange/tags.h"

#define ES_IMPORT_FORMATS 6

#define ES_IMPORT_BYTES (256 << 20)
#define ES_IMPORT_TIMES 64

#define ES_STEP_KEY_MAX 32
#define ES_STEP_KEYS_MAX 160

typedef enum es_import_format {
    ES_IMPORT_MATRIX,  /* L lines of H numbers: one step of one head series */
    ES_IMPORT_LONG,    /* header step,layer,head,SERIES... */
    ES_IMPORT_LOG,     /* lines with "Step s - Layer l: v" */
    ES_IMPORT_HISTORY, /* a JSON object per line: a step and named numbers */
    ES_IMPORT_EVENTS,  /* an event file of TensorBoard */
    ES_IMPORT_WIDE     /* a header with a step and names of numbers */
} es_import_format;

/** Parses matrix|long|log|history|tensorboard|wide. Returns ES_OK or
 *  ES_EUSAGE. */
es_status es_import_format_parse(es_import_format *out,
                                 const char *text) ES_MUST_USE;

/** Receives the parsed run. A callback that does not return ES_OK ends the
 *  parsing, which returns its status. */
typedef struct es_import_sink {
    void *user;

    /** Called once, before the first sample. n_layer and n_head are known.
     *  Strings are borrowed: those of `info` until the parsing ends, those of
     *  `series` until begin returns. */
    es_status (*begin)(void *user, const es_run_info *info,
                       const es_text_series *series, size_t n_series);

    /** One sample of series `series` (index in begin's list) with n values.
     *  Steps never decrease, except after `again`. */
    es_status (*sample)(void *user, size_t series, int64_t step,
                        const float *values, size_t n);

    /** The log was resumed: samples at `step` and later are invalid. */
    es_status (*again)(void *user, int64_t step);

    /** An attention map with values (S,S), see store/map.h. May be NULL: maps
     *  are skipped. */
    es_status (*map)(void *user, const es_map *map, const float *values);
} es_import_sink;

typedef struct es_import_options {
    const es_run_info *given; /* known members replace the file's; or NULL */
    const char *name;         /* default name of the run; or NULL */
    const char *series;       /* name of a matrix's or log's series;
                                 "entropy" */
    es_phase phase;           /* of a matrix, a log, and columns of a long
                                 CSV without a prefix */
    int64_t step;             /* step of a matrix */
    const char *tags;         /* of a history or event file: a pattern that
                                 takes precedence over those of
                                 cli/exchange/tags.h; or NULL */
    const char *step_key;     /* of a history or a wide table; NULL: one of
                                 the names of import_steps.h */
} es_import_options;

/**
 * Detects the format by content, and rewinds. An event file begins with a
 * record length and its checksum; a history with '{'; a long CSV with a header
 * step,layer,...; a wide table with another header that has a step; a matrix
 * with a cell that is a number. A file with a line like that of a log anywhere
 * is a log. Other lines with separators are treated as a matrix with an error.
 *
 * Returns ES_OK; ES_EFORMAT (empty, an SQLite file, or an unknown format);
 * ES_EIO.
 */
es_status es_import_detect(es_import_format *out, es_line_reader *lines,
                           const es_import_options *options) ES_MUST_USE;

/** Results of an import, to be shown to the user. */
typedef struct es_import_report {
    size_t n_samples;
    size_t n_ignored;  /* lines of a log that do not match, rows without a
                          step */
    size_t n_names;    /* names that no series can have: a layer or head too
                          large, or more than ES_TAG_MAX bytes */
    size_t n_replaced; /* values given twice; the last one counts */
    size_t n_again;    /* times that the steps went back, or an event file
                          reported a restart */
    size_t n_damaged;  /* records of an event file, skipped */
    size_t n_cut;      /* 1: the last line or record is incomplete, and
                          skipped */
    size_t n_above;    /* finite values of entropy* in nats above `ceiling` */
    float largest;     /* the largest of these values */
    double ceiling;    /* ln(ctx); NaN if the context is unknown */
    char step_key[ES_STEP_KEY_MAX];    /* chosen from several keys; else "" */
    char other_keys[ES_STEP_KEYS_MAX]; /* 'a', 'b': the keys not chosen */
    char tags[ES_TAG_MAX]; /* --tags for names that look like entropies of
                              heads, but are not recognised; else "" */
    char tag[ES_TAG_MAX];  /* one of these names */
} es_import_report;

/**
 * Parses the whole file, from its beginning.
 *
 *   report  written, also on failure
 *
 * Returns ES_OK; ES_EFORMAT (the file does not have this format); ES_EIO;
 * ES_ENOMEM; otherwise the status of a callback.
 *
 * A sample has a value for every layer and head, so a short text can make a
 * large run. All samples together may take ES_IMPORT_BYTES, or ES_IMPORT_TIMES
 * the size of the text if that is more; beyond that ES_EFORMAT is returned.
 *
 * Memory: the whole matrix, history or event file; one step of a log or a long
 * CSV. A long CSV is read twice (first for L, H and the shapes); its steps must
 * not decrease, but the rows of a step may be in any order.
 */
es_status es_import_parse(es_import_report *report, es_line_reader *lines,
                          es_import_format format,
                          const es_import_options *options,
                          const es_import_sink *sink) ES_MUST_USE;

#endif
