/**
 * What a run's configuration says of its layers: names, kinds, ceilings; and
 * what a judge has to know of a run. store/README.md has the JSON.
 */
#ifndef ES_LAYERS_H
#define ES_LAYERS_H

#include "analyzer/flags/flags.h"
#include "store/reader.h"

typedef enum es_layer_kind {
    ES_LAYER_UNKNOWN,
    ES_LAYER_FULL,
    ES_LAYER_WINDOW,
    ES_LAYER_CROSS,
    ES_LAYER_ENCODER,
    ES_LAYER_LINEAR,
    ES_LAYER_SPARSE, /* chosen or compressed keys */
    ES_N_LAYER_KINDS
} es_layer_kind;

/** "window"; "" of ES_LAYER_UNKNOWN. */
const char *es_layer_kind_name(es_layer_kind kind);

typedef struct es_layer {
    char *name; /* of its module; NULL: unknown. From the file: escape it */
    es_layer_kind kind;
} es_layer;

typedef struct es_layers {
    size_t n_layers, n_heads; /* of the run */
    es_layer *list;           /* (n_layers) */
    double *ceilings;   /* (L,H) nats, as es_judge_run's; NULL: none is there */
    bool has_kinds;     /* some layer's is known */
    size_t n_malformed; /* parts that are not what they must be, and not used */
} es_layers;

/**
 * The layers of run `run` (0-based) of a reader.
 *
 *   out  owned by the caller; NULL if the configuration describes none
 *
 * ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
es_status es_reader_layers(es_layers **out, es_reader *reader,
                           size_t run) ES_MUST_USE;

void es_layers_free(es_layers *layers); /* NULL is fine */

/** Whether two runs' layers are alike; either may be NULL. */
bool es_layers_equal(const es_layers *a, const es_layers *b);

/**
 * What a judge has to know of a run.
 *
 *   layers  NULL, or the run's, whose ceilings are borrowed
 *
 * The run is open-ended if it does not say how many steps it plans, unless it
 * is a finished import: that is as long as it is going to be, and may be a
 * single state of a model. ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
es_status es_reader_judged(es_judge_run *out, es_reader *reader, size_t run,
                           const es_layers *layers) ES_MUST_USE;

#endif
