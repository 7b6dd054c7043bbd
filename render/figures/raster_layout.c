#include "render/figures/raster_internal.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>

/* What the content wants, in points. */
#define PLOT_WIDTH 330.0
#define LAYER_HEIGHT 7.0
#define LAYERS_LEAST 40.0
#define LAYERS_MOST 120.0
#define HEAD_HEIGHT 1.5
#define HEADS_LEAST 40.0
#define HEADS_MOST 260.0
#define LEAST_FACTOR 0.08
#define LEAST_BAR 80.0

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double layers_height(const es_raster_panel *panel)
{
    double n = (double)panel->layers.n_rows;
    return n > 0 ? clamp(n * LAYER_HEIGHT, LAYERS_LEAST, LAYERS_MOST) : 0;
}

static double heads_height(const es_raster_panel *panel)
{
    double n = (double)panel->heads.n_rows;
    return n > 0 ? clamp(n * HEAD_HEIGHT, HEADS_LEAST, HEADS_MOST) : 0;
}

static void note_special(es_raster_sheet *sheet, const es_raster_grid *grid,
                         size_t n_columns)
{
    for (size_t i = 0; i < grid->n_rows * n_columns; i++) {
        if (isfinite(grid->values[i]))
            continue;
        if (es_is_missing(grid->values[i]))
            sheet->missing = true;
        else
            sheet->nonfinite = true;
    }
}

static void measure(es_raster_sheet *sheet)
{
    const es_raster *figure = sheet->figure;
    char label[ES_LABEL_MAX];
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_raster_panel *panel = &figure->panels[i];
        sheet->blocks[i].panel = panel;
        note_special(sheet, &panel->layers, panel->n_columns);
        note_special(sheet, &panel->heads, panel->n_columns);
        sheet->head = fmax(sheet->head, es_head(panel->title, panel->subtitle));
        snprintf(label, sizeof label, "%zu", panel->layers.n_rows);
        sheet->left = fmax(
            sheet->left, es_text_width(label, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    sheet->left += 5 + ES_LABEL_SIZE + 5; /* the turned text */
    sheet->head += 3 + ES_RASTER_MARK;
    sheet->top = figure->style.title ? ES_TITLE_SIZE + 9 : 0;
    sheet->scale = (es_color_scale){
        figure->low, figure->high, figure->logarithmic, figure->style.colormap};
    sheet->bar_room = es_bar_room(&sheet->scale, figure->scale_text);
    sheet->footer =
        (sheet->nonfinite || sheet->missing ? 15 : 0) + (figure->note ? 14 : 0);
}

static double place_across(void *user, double factor)
{
    es_raster_sheet *sheet = user;
    double width = factor * PLOT_WIDTH, x = ES_MARGIN;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        es_raster_block *b = &sheet->blocks[i];
        x = ES_MARGIN +
            (double)(i % sheet->n_columns) * (sheet->left + width + ES_GUTTER);
        b->layers.x = b->heads.x = x + sheet->left;
        b->layers.width = b->heads.width = width;
    }
    double n = (double)sheet->n_columns;
    return ES_MARGIN + n * (sheet->left + width + ES_RASTER_MARK + 2) +
           (n - 1) * (ES_GUTTER - ES_RASTER_MARK - 2) + sheet->bar_room +
           ES_MARGIN;
}

static double place_block(es_raster_block *b, double y, double factor)
{
    double layers = factor * layers_height(b->panel);
    double heads = factor * heads_height(b->panel);
    b->layers.y = y;
    b->layers.height = layers;
    b->heads.y = y + layers + (layers > 0 && heads > 0 ? ES_RASTER_GAP : 0);
    b->heads.height = heads;
    return b->heads.y + heads;
}

static double place_down(void *user, double factor)
{
    es_raster_sheet *sheet = user;
    double y = ES_MARGIN + sheet->top, end = y;
    sheet->bar_y = y + sheet->head;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        if (i % sheet->n_columns == 0 && i > 0)
            y = end + ES_AXIS_FOOT + 12;
        end =
            fmax(end, place_block(&sheet->blocks[i], y + sheet->head, factor));
    }
    sheet->bar_height = fmax(end - sheet->bar_y, fmin(1, factor) * LEAST_BAR);
    return fmax(end + ES_AXIS_FOOT, sheet->bar_y + sheet->bar_height + 6) +
           sheet->footer + ES_MARGIN;
}

static void shift(es_raster_sheet *sheet, double dx, double dy)
{
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        es_raster_block *b = &sheet->blocks[i];
        b->layers.x += dx;
        b->heads.x += dx;
        b->layers.y += dy;
        b->heads.y += dy;
    }
    sheet->bar_x += dx;
    sheet->bar_y += dy;
}

static es_status check(const es_raster *figure)
{
    if (!figure->n_panels)
        return es_fail(ES_EUSAGE, "a raster needs at least one run");
    for (size_t i = 0; i < figure->n_panels; i++)
        if (!figure->panels[i].n_columns || !figure->panels[i].layers.n_rows)
            return es_fail(ES_EUSAGE, "a raster needs a layer and a step");
    return ES_OK;
}

es_status es_raster_lay_out(es_raster_sheet *out, const es_raster *figure)
{
    const es_figure_style *style = &figure->style;
    es_extent needed;
    *out = (es_raster_sheet){.figure = figure,
                             .colors = es_theme_colors(style->theme)};
    es_status status = check(figure);
    if (status != ES_OK)
        return status;
    out->blocks = calloc(figure->n_panels, sizeof *out->blocks);
    if (!out->blocks)
        return es_fail(ES_ENOMEM, "raster: out of memory");
    measure(out);
    const es_layout layout = {.sheet = out,
                              .across = place_across,
                              .down = place_down,
                              .least_factor = LEAST_FACTOR,
                              .what = "a raster",
                              .n_panels = figure->n_panels,
                              .n_rows = &out->n_rows,
                              .n_columns = &out->n_columns};
    status = es_layout_fit(&needed, &layout, style);
    if (status != ES_OK)
        return status;
    out->bar_x = needed.width - ES_MARGIN - out->bar_room + ES_BAR_GAP;
    out->width = style->width > 0 ? style->width : ceil(needed.width);
    out->height = style->height > 0 ? style->height : ceil(needed.height);
    shift(out, floor((out->width - needed.width) / 2),
          floor((out->height - needed.height) / 2));
    return ES_OK;
}

void es_raster_sheet_clear(es_raster_sheet *sheet)
{
    free(sheet->blocks);
    sheet->blocks = NULL;
}
