/** Formats lists of layers as text with numbers, kinds and names. */
#ifndef ES_LAYERS_TEXT_H
#define ES_LAYERS_TEXT_H

#include "analyzer/base/text.h"
#include "store/layers.h"

/**
 * Appends the marked layers, such as " L0-2,9". If their kinds are known,
 * layers of the same kind are grouped, " L0-4 window, L5 full"; a single layer
 * is followed by its module's name, " L3 window model.layers.3.self_attn",
 * escaped for a terminal.
 *
 *   known   descriptions of the run's layers, or NULL
 *   layers  (n + 1) true for each listed layer; the last element is false
 */
void es_layers_append(es_text *to, const es_layers *known, const bool *layers,
                      size_t n);

#endif
