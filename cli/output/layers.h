/** Formats lists of layers as text with numbers, kinds and names. */
#ifndef ES_LAYERS_TEXT_H
#define ES_LAYERS_TEXT_H

#include "analyzer/base/text.h"
#include "store/layers.h"

/**
 * Appends the layers for which `layers` is true, as in " L0-2,9". If the kinds
 * of the layers are known, layers of the same kind are grouped, as in " L0-4
 * window, L5 full". A single layer is followed by the name of its module,
 * escaped for a terminal, as in " L3 window model.layers.3.self_attn".
 *
 *   known   descriptions of the run's layers, or NULL
 *   layers  (n + 1) true for each layer to append; the last element is false
 */
void es_layers_append(es_text *to, const es_layers *known, const bool *layers,
                      size_t n);

#endif
