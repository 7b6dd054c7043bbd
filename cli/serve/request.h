/** Requests whose answers need run files. Parses the arguments in the address
 *  of a request. */
#ifndef ES_SERVE_REQUEST_H
#define ES_SERVE_REQUEST_H

#include "cli/figures/figures.h"
#include "cli/serve/listing.h"

typedef enum es_serve_ask {
    ES_SERVE_SERIES,
    ES_SERVE_MAPS,
    ES_SERVE_DRAW,
    ES_SERVE_EXPORT, /* api/draw with format=csv */
    ES_SERVE_STOP
} es_serve_ask;

#define ES_SERVE_PLACES_MOST 150 /* maximum number of runs in a figure */
#define ES_SERVE_BLOCK_RUNS 64   /* maximum number of runs in api/series */
#define ES_SERVE_NAMES_MOST 8
#define ES_SERVE_MARK_MOST 48

/** A run that a request names. */
typedef struct es_serve_place {
    char key[ES_SERVE_KEY];
    char *path; /* path or URL for es_reader_open */
    size_t number;
    int phase; /* es_phase of the run's summary */
} es_serve_place;

typedef struct es_serve_request {
    es_serve_ask ask;
    es_serve_place runs[ES_SERVE_PLACES_MOST]; /* (n_runs) */
    size_t n_runs;
    char *names[ES_SERVE_NAMES_MOST]; /* (n_names) series */
    size_t n_names;
    /* For each of the n_marks blocks of series on the page, a mark that
     * identifies the last sample that the page already has; "" to request the
     * complete block. */
    char marks[ES_SERVE_BLOCK_RUNS][ES_SERVE_MARK_MOST];
    size_t n_marks;
    int phase;       /* es_phase; -1 if no phase was given */
    int64_t step;    /* requested step; ES_STEP_LAST if none was given */
    size_t n_values; /* maximum number of values per series in the answer */
    /* the n_figures figures on one page, from top to bottom */
    es_figure_kind figures[ES_COMPOSITE_MOST];
    size_t n_figures;
    int format; /* es_format of a figure */
    /* options of figures; a request sets theme, logarithmic, full and steps */
    es_figure_options style;
} es_serve_request;

/** Creates a request without arguments. Returns ES_OK or ES_ENOMEM. */
es_status es_serve_request_new(es_serve_request **out,
                               es_serve_ask ask) ES_MUST_USE;

void es_serve_request_free(es_serve_request *request);

/**
 * Adds an argument NAME=VALUE of the address. Unknown names are ignored.
 * Returns ES_OK; ES_EUSAGE (an invalid value, or too many values); ES_ENOTFOUND
 * (an unknown run); ES_ENOMEM.
 */
es_status es_serve_request_add(es_serve_request *request,
                               const es_serve_listing *listing,
                               const char *name, const char *value) ES_MUST_USE;

/** Checks a request to which all arguments were added. Returns ES_OK or
 *  ES_EUSAGE. */
es_status es_serve_request_check(const es_serve_request *request) ES_MUST_USE;

#endif
