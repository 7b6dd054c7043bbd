/** The tables of the colour maps. */
#ifndef ES_COLORMAP_INTERNAL_H
#define ES_COLORMAP_INTERNAL_H

#include "render/colormap.h"

#define ES_N_COLORMAPS 3
#define ES_COLORMAP_SIZE 256

/** x in [0,1]; see es_colormap_at. */
es_color es_colormap_diverging(bool dark, double x);

extern const uint8_t es_colormap_tables[ES_N_COLORMAPS][ES_COLORMAP_SIZE][3];

#endif
