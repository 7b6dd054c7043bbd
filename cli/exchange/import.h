/**
 * Text files of other programs, and of export: text in, calls out. The parsers
 * touch no run file; whoever is called may write one, or count.
 *
 * Messages name the file, the line, and the column: the cell of a CSV, the
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
    ES_IMPORT_HISTORY, /* a JSON object a line: a step and named numbers */
    ES_IMPORT_EVENTS,  /* an event file of TensorBoard */
    ES_IMPORT_WIDE     /* a header with a step and the names of numbers */
} es_import_format;

/** matrix|long|log|history|tensorboard|wide. ES_OK or ES_EUSAGE. */
es_status es_import_format_parse(es_import_format *out,
                                 const char *text) ES_MUST_USE;

/** Where the parsed run goes. What a call returns ends the parsing if it is
 *  not ES_OK, and is returned. */
typedef struct es_import_sink {
    void *user;

    /** Once, before the first sample. n_layer and n_head are known. Strings
     *  are borrowed: of `info` until the parsing ends, of `series` until
     *  begin returns. */
    es_status (*begin)(void *user, const es_run_info *info,
                       const es_text_series *series, size_t n_series);

    /** One sample of series `series` (index into begin's list): n values.
     *  Steps never decrease, except after `again`. */
    es_status (*sample)(void *user, size_t series, int64_t step,
                        const float *values, size_t n);

    /** A resumed log: samples at `step` and later are void. */
    es_status (*again)(void *user, int64_t step);

    /** An attention map; values (S,S) as store/map.h says. NULL: they are
     *  passed over. */
    es_status (*map)(void *user, const es_map *map, const float *values);
} es_import_sink;

typedef struct es_import_options {
    const es_run_info *given; /* known members win over the file's; or NULL */
    const char *name;         /* of the run if neither says one; or NULL */
    const char *series;       /* name of a matrix's or a log's; "entropy" */
    es_phase phase;           /* of a matrix, a log, and of columns of a long
                                 CSV that do not say theirs */
    int64_t step;             /* of a matrix */
    const char *tags;         /* of a history or event file: a pattern that is
                                 tried before those of cli/exchange/tags.h, or
                                 NULL */
    const char *step_key;     /* of a history or a wide table; NULL: one of the
                                 usual ones, by import_steps.h */
} es_import_options;

/**
 * Detects the format by content, and rewinds: the checksum of a record's length
 * begins an event file; '{' a history; a header that begins with step,layer
 * is a long CSV, another one with a step a wide table; a first cell that is a
 * number begins a matrix; a line like the log's anywhere makes a log; other
 * lines with separators are a matrix with a mistake in it.
 *
 * ES_OK; ES_EFORMAT (empty, a SQLite file, nothing of these); ES_EIO.
 */
es_status es_import_detect(es_import_format *out, es_line_reader *lines,
                           const es_import_options *options) ES_MUST_USE;

/** What a person should know of an import. */
typedef struct es_import_report {
    size_t n_samples;
    size_t n_ignored;  /* lines of a log that are something else */
    size_t n_names;    /* names of numbers that no series can have: a layer or
                          head too large, or more bytes than ES_TAG_MAX */
    size_t n_replaced; /* values of a log given twice: the last one counts */
    size_t n_again;    /* times that a log or a history went back to an earlier
                          step, or an event file says that it does */
    size_t n_damaged;  /* records of an event file, left out */
    size_t n_cut;      /* 1: the last line or record is not whole, and left out
                        */
    size_t n_above;    /* finite values of entropy* in nats above `ceiling` */
    float largest;     /* of these */
    double ceiling;    /* ln(ctx); NaN where nobody knows the context */
    char step_key[ES_STEP_KEY_MAX];    /* that was chosen of several; else "" */
    char other_keys[ES_STEP_KEYS_MAX]; /* 'a', 'b': the others */
    char tags[ES_TAG_MAX]; /* --tags for names that look like entropies of heads
                              and are not recognised; else "" */
    char tag[ES_TAG_MAX];  /* one of these */
} es_import_report;

/**
 * Parses the whole file, from its beginning.
 *
 *   report  written, also on failure
 *
 * ES_OK; ES_EFORMAT (not what the format wants); ES_EIO; ES_ENOMEM; what the
 * sink returned.
 *
 * A sample has a value of every layer and head, given or not, so a few bytes of
 * text can make a large one. All samples together take ES_IMPORT_BYTES at
 * most, or as much as ES_IMPORT_TIMES the text: beyond that it is ES_EFORMAT.
 *
 * Memory: a matrix once; of the others one step. A long CSV is read twice
 * (first for L, H and the shapes), its steps must not go back, the rows of a
 * step may come in any order. Of histories and event files the whole run.
 */
es_status es_import_parse(es_import_report *report, es_line_reader *lines,
                          es_import_format format,
                          const es_import_options *options,
                          const es_import_sink *sink) ES_MUST_USE;

#endif
