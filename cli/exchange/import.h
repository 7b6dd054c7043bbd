/**
 * Parses text files written by other programs or by export. The parsers pass
 * the run to the callbacks of a sink and do not access run files: one sink
 * writes a run file, another only counts samples.
 *
 * Messages name the file, the line and the column: the number of the cell in a
 * CSV, the number of the character in a log.
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
    ES_IMPORT_MATRIX,  /* one step of a series of heads, as L text lines of H
                          numbers */
    ES_IMPORT_LONG,    /* CSV with the header step,layer,head,SERIES... */
    ES_IMPORT_LOG,     /* text with lines "Step s - Layer l: v" */
    ES_IMPORT_HISTORY, /* one JSON object per line, with a step and named
                          numbers */
    ES_IMPORT_EVENTS,  /* event file of TensorBoard */
    ES_IMPORT_WIDE     /* CSV with a step column and columns of named numbers */
} es_import_format;

/** Parses matrix|long|log|history|tensorboard|wide. Returns ES_OK or
 *  ES_EUSAGE. */
es_status es_import_format_parse(es_import_format *out,
                                 const char *text) ES_MUST_USE;

/** Receives the parsed run. If a callback does not return ES_OK, parsing ends
 *  and returns the callback's status. */
typedef struct es_import_sink {
    void *user;

    /** Called once, before the first sample; info->n_layer and n_head are set.
     *  All strings are borrowed: those of `info` are valid until parsing ends,
     *  those of `series` until the callback returns. */
    es_status (*begin)(void *user, const es_run_info *info,
                       const es_text_series *series, size_t n_series);

    /** Called for each sample, with the index of its series in the list passed
     *  to `begin` and its n values. Steps never decrease, except after
     *  `again`. */
    es_status (*sample)(void *user, size_t series, int64_t step,
                        const float *values, size_t n);

    /** Called when the input shows that training was resumed at `step`: the
     *  samples passed so far at `step` and later are invalid. */
    es_status (*again)(void *user, int64_t step);

    /** Called for an attention map with values (S,S), see store/map.h. If NULL,
     *  maps are skipped. */
    es_status (*map)(void *user, const es_map *map, const float *values);
} es_import_sink;

typedef struct es_import_options {
    /* Description that the user gives; its known members replace those in the
     * file; may be NULL. */
    const es_run_info *given;
    const char *name;   /* name of the run if the file has none; may be
                           NULL */
    const char *series; /* name of the series of a matrix or log; usually
                           "entropy" */
    es_phase phase;     /* phase of a matrix, a log, and long CSV columns
                           without a phase prefix */
    int64_t step;       /* step number of a matrix */
    const char *tags;   /* pattern for names in a history, table or event file,
                           which takes precedence over the patterns of
                           cli/exchange/tags.h; may be NULL */
    const char *step_key; /* name of a history's step member or of a wide
                             table's step column; NULL: choose one of the usual
                             names (import_steps.h) */
} es_import_options;

/**
 * Detects the format by content, and rewinds. An event file begins with a
 * record length and its checksum; a history with '{'; a long CSV with a header
 * step,layer,...; a wide table with another header that has a step column; a
 * matrix with a number. A file that contains a log line anywhere is a log. Any
 * other file whose lines have separators is treated as a matrix, so that the
 * parser of matrices reports the error.
 *
 * Returns ES_OK; ES_EFORMAT (empty, an SQLite file, or an unknown format);
 * ES_EIO.
 */
es_status es_import_detect(es_import_format *out, es_line_reader *lines,
                           const es_import_options *options) ES_MUST_USE;

/** Results of an import, to be shown to the user. */
typedef struct es_import_report {
    size_t n_samples;
    size_t n_ignored; /* number of skipped log lines that do not match, or of
                         skipped rows without a step */
    size_t n_names; /* number of names skipped because the layer or head is too
                       large, or the name exceeds ES_TAG_MAX bytes */
    size_t n_replaced; /* number of values given more than once (the last one is
                          used) */
    size_t n_again; /* number of restarts, where the steps decreased or an event
                       file reported a restart */
    size_t n_damaged; /* number of damaged records of an event file, which were
                         skipped */
    size_t n_cut;     /* 1 if the last line or record is incomplete, and
                         therefore skipped; else 0 */
    size_t n_above; /* number of entropies (series named entropy*, in nats) that
                       are finite and above `ceiling` */
    float largest;  /* largest of the entropies above `ceiling` */
    double ceiling; /* ln(ctx), the maximum of an entropy; NaN if the context
                       length is unknown */
    char step_key[ES_STEP_KEY_MAX];    /* name of the chosen step counter if the
                                          file has several; else "" */
    char other_keys[ES_STEP_KEYS_MAX]; /* names of the other step counters, in
                                          the form "'a', 'b'" */
    char tags[ES_TAG_MAX]; /* suggested value of --tags if unknown names look
                              like entropies of heads; else "" */
    char tag[ES_TAG_MAX];  /* one of the unknown names that look like entropies
                              of heads */
} es_import_report;

/**
 * Parses the whole file, from its beginning.
 *
 *   report  receives the results, even on failure
 *
 * Returns ES_OK; ES_EFORMAT (the file does not have this format); ES_EIO;
 * ES_ENOMEM; otherwise the status of a callback.
 *
 * A sample has a value for every layer and head, so a short text can make a
 * large run. If the samples together exceed ES_IMPORT_BYTES and also
 * ES_IMPORT_TIMES the size of the text, ES_EFORMAT is returned.
 *
 * Keeps the complete matrix, history, wide table or event file in memory, but
 * only one step of a log or a long CSV. A long CSV is read twice (first for the
 * numbers of layers and heads and the shapes); its steps must not decrease, but
 * the rows of a step may be in any order.
 */
es_status es_import_parse(es_import_report *report, es_line_reader *lines,
                          es_import_format format,
                          const es_import_options *options,
                          const es_import_sink *sink) ES_MUST_USE;

#endif
