/** Showing runs: what the command line asked for, and how it is done. */
#ifndef ES_SCAN_H
#define ES_SCAN_H

#include "cli/summary.h"
#include "render/figures/figure.h"
#include "render/picture.h"

typedef enum es_picture_kind {
    ES_PICTURE_HEATMAP,
    ES_PICTURE_CURVES,
    ES_N_PICTURES
} es_picture_kind;

/** What an option that asks for a picture says. */
typedef struct es_picture_request {
    bool wanted;
    const char *file; /* "-": standard output; NULL: a name of ours */
    es_format format;
} es_picture_request;

typedef enum es_text_kind {
    ES_TEXT_TABLE,
    ES_TEXT_JSON,
    ES_TEXT_CSV,
    ES_TEXT_NONE
} es_text_kind;

/** Strings are argv's. */
typedef struct es_scan_options {
    char **inputs; /* (n_inputs) */
    size_t n_inputs;
    es_summary_options summary;
    es_picture_request pictures[ES_N_PICTURES];
    const char *title;
    double width, height; /* pixels of a PNG, points of others; 0: as wanted */
    es_colormap colormap;
    es_text_kind text;
    const char *text_file; /* "-": standard output */
    bool quiet, check;
} es_scan_options;

/**
 * Reads and checks the command line.
 *
 *   out   es_scan_options_free, also on failure
 *
 * ES_OK; ES_DONE (--help, --version: printed); ES_EUSAGE; ES_ENOMEM.
 */
es_status es_scan_options_parse(es_scan_options *out, int argc,
                                char **argv) ES_MUST_USE;

void es_scan_options_free(es_scan_options *options);

/**
 * Draws one picture of all runs and writes it; says so on standard error.
 *
 *   runs      (n) in order; their m is final
 *   n_failed  written: runs that could not be shown and were left out; each
 *             has been told of on standard error
 *
 * ES_OK; ES_ENOTFOUND (no run is left); ES_EUSAGE (no room in the size asked
 * for); ES_EIO, ES_ENOMEM.
 */
es_status es_scan_draw(size_t *n_failed, const es_scan_options *options,
                       es_picture_kind kind, const es_run_summary *const *runs,
                       size_t n) ES_MUST_USE;

#endif
