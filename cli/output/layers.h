/** Layers as text: their numbers, and what is known of them. */
#ifndef ES_LAYERS_TEXT_H
#define ES_LAYERS_TEXT_H

#include "analyzer/base/text.h"
#include "store/layers.h"

/**
 * Appends " L0-2,9": the marked layers. Where their kinds are known those of a
 * kind stand together, " L0-4 window, L5 full"; a single one has its module's
 * name too, " L3 window model.layers.3.self_attn", escaped for a terminal.
 *
 *   known   of the run; or NULL
 *   layers  (n + 1) marks; the last one is false
 */
void es_layers_append(es_text *to, const es_layers *known, const bool *layers,
                      size_t n);

#endif
