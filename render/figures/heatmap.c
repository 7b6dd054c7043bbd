/*
 * Heatmaps: a panel of cells for each run, its numbers, its labels and small
 * plots beside it. Neighbouring cells of one colour are one rectangle.
 */
#include "render/figures/heatmap_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <math.h>

/* What the content wants, in points. */
#define CELL_WIDTH 24.0
#define CELL_HEIGHT 20.0
#define PLOT_WIDTH 288.0
#define PLOT_HEIGHT 240.0
#define LEAST_CELL 3.0
#define LARGEST_PLOT 1200.0
#define SIDE_WIDTH 72.0
#define LEAST_FACTOR 0.05 /* of all that, when a size is requested */
#define FOOT 24.0         /* below a plot: column labels and "head" */

/* --- layout ---------------------------------------------------------------*/

/* A cell of n that share a plot. Whole half points where it has several. */
static double scaled_cell(int n, double cell, double plot, double factor)
{
    double least = fmin(LEAST_CELL, LARGEST_PLOT / n);
    double size = factor * fmax(least, fmin(cell, plot / n));
    return size >= 3 ? floor(2 * size + 1e-6) / 2 : size;
}

static double width_of(es_page *page, size_t i, double factor)
{
    es_heatmap_sheet *sheet = page->chart;
    es_heatmap_block *b = &sheet->blocks[i];
    size_t n_sides = sheet->figure->n_sides;
    int n = b->panel->n_heads;
    b->cell_width = scaled_cell(n, CELL_WIDTH, PLOT_WIDTH, factor);
    b->side_width = n_sides ? fmax(SIDE_WIDTH * fmin(1.5, factor),
                                   es_heatmap_side_width(b->sides, n_sides))
                            : 0;
    return b->cell_width * n + (double)n_sides * (ES_SIDE_GAP + b->side_width);
}

static double height_of(es_page *page, size_t i, double factor)
{
    es_heatmap_sheet *sheet = page->chart;
    es_heatmap_block *b = &sheet->blocks[i];
    int n = b->panel->n_layers;
    b->cell_height = scaled_cell(n, CELL_HEIGHT, PLOT_HEIGHT, factor);
    return b->cell_height * n;
}

static es_status check(const es_heatmap *figure)
{
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        if (panel->n_layers < 1 || panel->n_heads < 1)
            return es_fail(ES_EUSAGE,
                           "a heatmap of %d layers and %d heads: there must "
                           "be one of each",
                           panel->n_layers, panel->n_heads);
    }
    return ES_OK;
}

static double label_width(int largest)
{
    char text[ES_LABEL_MAX];
    snprintf(text, sizeof text, "%d", largest);
    return es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) + 4;
}

static void describe_panels(es_heatmap_sheet *sheet)
{
    const es_heatmap *figure = sheet->figure;
    es_page_special special = {false, false};
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        sheet->blocks[i].panel = panel;
        if (figure->n_sides)
            sheet->blocks[i].sides = figure->sides + i * figure->n_sides;
        sheet->page.panels[i] =
            (es_page_panel){.title = panel->title,
                            .subtitle = panel->subtitle,
                            .left = label_width(panel->n_layers - 1)};
        es_page_find_special(&special, panel->values,
                             (size_t)panel->n_layers * (size_t)panel->n_heads);
    }
    es_page_explain(&sheet->page, special, ES_SWATCH_HATCHED);
}

/* --- drawing --------------------------------------------------------------*/

typedef enum paint_kind { PAINT_COLOR, PAINT_HATCH, PAINT_BLANK } paint_kind;

static paint_kind paint_of(float value)
{
    if (es_is_missing(value))
        return PAINT_BLANK;
    return isfinite(value) ? PAINT_COLOR : PAINT_HATCH;
}

static bool same_paint(const es_color_scale *scale, float a, float b)
{
    if (paint_of(a) != paint_of(b))
        return false;
    if (paint_of(a) != PAINT_COLOR)
        return true;
    return es_scale_level(scale, (double)a) == es_scale_level(scale, (double)b);
}

/*
 * Cells [from, to) of one row, all of one paint. Each reaches `lap` points
 * under its later neighbours: viewers of vector files show a hairline where
 * areas only meet.
 */
static void draw_run(es_picture *picture, const es_heatmap_sheet *sheet,
                     const es_heatmap_block *b, int row, int from, int to,
                     double lap)
{
    float value =
        b->panel
            ->values[(size_t)row * (size_t)b->panel->n_heads + (size_t)from];
    double x = b->x + from * b->cell_width, y = b->y + row * b->cell_height;
    double width = (to - from) * b->cell_width, height = b->cell_height;
    if (to < b->panel->n_heads)
        width += lap;
    if (row + 1 < b->panel->n_layers)
        height += lap;
    if (paint_of(value) == PAINT_HATCH)
        es_picture_hatch(picture, x, y, width, height,
                         sheet->page.colors->hatched,
                         sheet->page.colors->hatching);
    else
        es_picture_rect(picture, x, y, width, height,
                        paint_of(value) == PAINT_COLOR
                            ? es_scale_color(&sheet->scale, (double)value)
                            : sheet->page.colors->paper);
}

static void draw_cells(es_picture *picture, const es_heatmap_sheet *sheet,
                       const es_heatmap_block *b)
{
    int n_heads = b->panel->n_heads;
    double lap = 0.4 * fmin(b->cell_width, b->cell_height);
    for (int row = 0; row < b->panel->n_layers; row++) {
        const float *values = b->panel->values + (size_t)row * (size_t)n_heads;
        for (int from = 0, to; from < n_heads; from = to) {
            to = from + 1;
            while (to < n_heads &&
                   same_paint(&sheet->scale, values[from], values[to]))
                to++;
            draw_run(picture, sheet, b, row, from, to, lap);
        }
    }
}

static void draw_values(es_picture *picture, const es_heatmap_sheet *sheet,
                        const es_heatmap_block *b)
{
    const es_heatmap_panel *panel = b->panel;
    char text[ES_LABEL_MAX];
    for (int row = 0; row < panel->n_layers; row++) {
        double y = b->y + (row + 0.5) * b->cell_height;
        const float *values =
            panel->values + (size_t)row * (size_t)panel->n_heads;
        for (int head = 0; head < panel->n_heads; head++) {
            float value = values[head];
            es_heatmap_value(text, value,
                             b->compact ? ES_COMPACT : sheet->decimals);
            es_picture_text(
                picture, b->x + (head + 0.5) * b->cell_width,
                y + 0.36 * sheet->value_size, sheet->value_size,
                ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                es_text_on(es_scale_color(&sheet->scale, (double)value)), text);
        }
    }
}

static void draw_column_labels(es_picture *picture, const es_colors *colors,
                               const es_heatmap_block *b)
{
    char text[ES_LABEL_MAX];
    double bottom = b->y + b->panel->n_layers * b->cell_height;
    int step =
        es_power_step(label_width(b->panel->n_heads - 1) / b->cell_width);
    for (int head = 0; head < b->panel->n_heads; head += step) {
        double x = b->x + (head + 0.5) * b->cell_width;
        snprintf(text, sizeof text, "%d", head);
        if (step > 1)
            es_picture_line(picture, x, bottom, x, bottom + 2.5, 0.5,
                            colors->muted);
        es_picture_text(picture, x, bottom + 10.5, ES_SMALL_SIZE,
                        ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0, colors->ink,
                        text);
    }
    es_picture_text(picture, b->x + b->panel->n_heads * b->cell_width / 2,
                    bottom + 21, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                    ES_WEIGHT_NORMAL, 0, colors->ink, "head");
}

static es_status draw_block(es_picture *picture, const es_page *page, size_t i)
{
    const es_heatmap_sheet *sheet = page->chart;
    const es_heatmap_block *b = &sheet->blocks[i];
    const es_box cells = {b->x, b->y, b->panel->n_heads * b->cell_width,
                          b->panel->n_layers * b->cell_height};
    draw_cells(picture, sheet, b);
    es_picture_frame(picture, cells.x, cells.y, cells.width, cells.height, 0.5,
                     page->colors->muted);
    if (b->printed)
        draw_values(picture, sheet, b);
    es_heatmap_draw_sides(picture, sheet, b);
    draw_column_labels(picture, page->colors, b);
    es_draw_band_numbers(picture, page->colors, &cells,
                         (size_t)b->panel->n_layers, false,
                         es_page_is_first(page, i) ? "layer" : NULL,
                         b->x - page->panels[i].left - 6);
    return ES_OK;
}

es_status es_heatmap_lay_out(es_heatmap_sheet *out, const es_heatmap *figure)
{
    es_status status;
    *out = (es_heatmap_sheet){.figure = figure,
                              .scale = {figure->low, figure->high,
                                        figure->logarithmic,
                                        figure->style.colormap},
                              .page = {.name = "a heatmap",
                                       .style = &figure->style,
                                       .chart = out,
                                       .width = width_of,
                                       .height = height_of,
                                       .draw = draw_block,
                                       .least_factor = LEAST_FACTOR,
                                       .left = ES_LABEL_SIZE + 6, /* "layer" */
                                       .foot = FOOT,
                                       .title_gap = 5,
                                       .scale = &out->scale,
                                       .scale_text = figure->scale_text,
                                       .note = figure->note}};
    if ((status = check(figure)) < 0 ||
        (status = es_page_begin(&out->page, figure->n_panels)) < 0 ||
        (status = es_alloc(&out->blocks, figure->n_panels, sizeof *out->blocks,
                           "a heatmap")) < 0)
        return status;
    describe_panels(out);
    if ((status = es_page_lay_out(&out->page)) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        out->blocks[i].x = out->page.panels[i].plot.x;
        out->blocks[i].y = out->page.panels[i].plot.y;
    }
    out->decimals = es_heatmap_decimals(figure);
    es_heatmap_size_values(out);
    return ES_OK;
}

void es_heatmap_sheet_clear(es_heatmap_sheet *sheet)
{
    es_page_clear(&sheet->page);
    free(sheet->blocks);
    sheet->blocks = NULL;
}

es_status es_heatmap_draw(es_picture **out, const es_heatmap *figure)
{
    es_heatmap_sheet sheet;
    es_status status = es_heatmap_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_heatmap_sheet_clear(&sheet);
    return status;
}
