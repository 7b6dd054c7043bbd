/** Panels of heads, for the figures that are heatmaps. */
#ifndef ES_FIGURE_HEADS_H
#define ES_FIGURE_HEADS_H

#include "cli/figures/drawing.h"
#include "render/figures/heatmap.h"

/** The values of run i's summary; strings and values are borrowed. */
es_heatmap_panel es_drawing_heads(const es_drawing *drawing, size_t i,
                                  const char *subtitle);

#endif
