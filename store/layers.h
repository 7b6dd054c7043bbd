/**
 * Reads the description of the layers (names, kinds, ceilings) in a run's
 * configuration, and the facts that es_judge needs about a run.
 * store/run-file.md describes the JSON.
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
    ES_LAYER_SPARSE, /* attention to selected or compressed keys */
    ES_N_LAYER_KINDS
} es_layer_kind;

/** Returns the name of a kind, such as "window"; "" for ES_LAYER_UNKNOWN. */
const char *es_layer_kind_name(es_layer_kind kind);

typedef struct es_layer {
    char *name; /* name of the layer's module; NULL if unknown. It comes from an
                   untrusted file and must be escaped before it is printed */
    es_layer_kind kind;
} es_layer;

typedef struct es_layers {
    size_t n_layers, n_heads; /* number of the run's layers and of the heads of
                                 a layer */
    es_layer *list;           /* (n_layers) */
    /* ceilings of the entropies in nats (L,H), as in es_judge_run; NULL if the
     * run has no ceilings */
    double *ceilings;
    bool has_kinds;     /* true if the kind of at least one layer is known */
    size_t n_malformed; /* number of malformed members, which are ignored */
} es_layers;

/**
 * Reads the layers of run `run` (0-based).
 *
 *   out  owned by the caller; NULL if the configuration describes no layers
 *
 * Returns ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
es_status es_reader_layers(es_layers **out, es_reader *reader,
                           size_t run) ES_MUST_USE;

void es_layers_free(es_layers *layers); /* Frees `layers`, which may be NULL. */

/**
 * Returns true if two runs have the same descriptions of their layers. Either
 * argument may be NULL.
 */
bool es_layers_equal(const es_layers *a, const es_layers *b);

/**
 * Fills in the facts that es_judge needs about a run.
 *
 *   layers  the run's layers, whose ceilings are borrowed; or NULL
 *
 * The run is open-ended if its configuration does not state the planned number
 * of steps. A finished import is never open-ended, because it does not grow and
 * may be a single checkpoint of a model. Returns ES_OK, ES_EARGUMENT,
 * ES_ENOMEM.
 */
es_status es_reader_judged(es_judge_run *out, es_reader *reader, size_t run,
                           const es_layers *layers) ES_MUST_USE;

#endif
