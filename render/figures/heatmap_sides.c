/* Small plots beside the heatmap: values of the layers, layer 0 on top. */
#include "render/figures/heatmap_internal.h"

#include <math.h>

#define DOT_RADIUS 1.8
#define TICK_WIDTH 26.0

static void draw_grid(es_picture *picture, const es_colors *colors,
                      const es_box *plot, const es_axis *axis)
{
    for (int i = 0; i < es_axis_n_ticks(axis); i++) {
        double x = es_axis_place(axis, es_axis_tick(axis, i));
        es_picture_line(picture, x, plot->y, x, plot->y + plot->height, 0.5,
                        colors->grid);
    }
}

/* One tick alone would not say how large a difference is. */
static es_axis make_axis(const es_heatmap_side *side, const es_box *plot)
{
    double start = plot->x + 3, end = plot->x + plot->width - 3;
    int most = (int)fmax(2, plot->width / TICK_WIDTH);
    es_axis axis;
    for (int i = 0; i < 4; i++) {
        axis = es_axis_make(side->low, side->high, false, start, end, most + i);
        if (es_axis_n_ticks(&axis) > 1)
            break;
    }
    return axis;
}

/* The dots are joined, so that the eye can follow them down the layers. */
static void draw_values(es_picture *picture, const es_colors *colors,
                        const es_heatmap_block *b, const float *values,
                        const es_axis *axis)
{
    double radius = fmin(DOT_RADIUS, 0.4 * b->cell_height);
    double x = NAN, y = NAN;
    for (int row = 0; row < b->panel->n_layers; row++) {
        double last_x = x, last_y = y;
        bool there = isfinite(values[row]);
        x = there ? es_axis_place(axis, (double)values[row]) : NAN;
        y = b->y + (row + 0.5) * b->cell_height;
        es_picture_line(picture, last_x, last_y, x, y, 0.75, colors->muted);
        es_picture_dot(picture, x, y, radius, colors->ink);
    }
}

/* Their texts may reach into the gaps. */
double es_heatmap_side_width(const es_heatmap_side *sides, size_t n)
{
    double widest = 0;
    for (size_t i = 0; i < n; i++)
        if (sides[i].text)
            widest = fmax(widest, es_title_width(sides[i].text, ES_LABEL_SIZE,
                                                 ES_WEIGHT_NORMAL));
    return fmax(0, widest + 4 - ES_SIDE_GAP);
}

void es_heatmap_draw_sides(es_picture *picture, const es_heatmap_sheet *sheet,
                           const es_heatmap_block *b)
{
    const es_colors *colors = sheet->page.colors;
    double x = b->x + b->panel->n_heads * b->cell_width;
    for (size_t i = 0; i < sheet->figure->n_sides; i++) {
        const es_heatmap_side *side = &b->sides[i];
        x += ES_SIDE_GAP;
        const es_box plot = {x, b->y, b->side_width,
                             b->panel->n_layers * b->cell_height};
        es_axis axis = make_axis(side, &plot);
        draw_grid(picture, colors, &plot, &axis);
        es_picture_line(picture, x, plot.y, x, plot.y + plot.height, 0.5,
                        colors->muted);
        draw_values(picture, colors, b, side->values, &axis);
        es_draw_across(picture, colors, &plot, &axis, side->text);
        x += plot.width;
    }
}
