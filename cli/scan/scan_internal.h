/** Between reading the command line of a scan and judging it as a whole. */
#ifndef ES_SCAN_INTERNAL_H
#define ES_SCAN_INTERNAL_H

#include "analyzer/base/options.h"
#include "cli/scan/scan.h"

/** Indexes of the option table. */
enum {
    HEATMAP,
    CURVES,
    BANDS,
    NANS,
    FIGURE,
    ALL,
    STEP,
    SERIES,
    PHASE,
    MAX,
    FORMAT,
    SIZE,
    FOR,
    TITLE,
    COLORMAP,
    THEME,
    LOG,
    SPREAD,
    HEADS,
    PERPLEXITY,
    TOKENS,
    COST,
    RECURSIVE,
    WHERE,
    SORT,
    COMPARE,
    BASELINE,
    JSON,
    JSONL,
    CSV,
    TUI,
    FOLLOW,
    QUIET,
    OUTPUT,
    CHECK,
    RULES,
    SALVAGE,
    HELP,
    VERSION,
    N_OPTIONS
};

extern const es_option es_scan_table[];

/** What the options say before they are judged together. */
typedef struct es_scan_gathered {
    es_scan_options *to;
    const char *output;
    bool has_format, json, jsonl, csv, recursive;
    es_format format;
    bool given[N_OPTIONS];
    int picture_option; /* the last one that only a picture needs, or -1 */
} es_scan_gathered;

/**
 * Judges the options together: what excludes what, which output goes where,
 * which files are meant. Completes *gathered->to.
 *
 * ES_OK; ES_EUSAGE; ES_ENOTFOUND, ES_EIO (a folder); ES_ENOMEM.
 */
es_status es_scan_judge(es_scan_gathered *gathered) ES_MUST_USE;

#endif
