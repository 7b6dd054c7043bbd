#include "render/figures/heatmap_internal.h"

#include "analyzer/base/value.h"
#include <math.h>

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
        es_picture_hatch(picture, x, y, width, height, sheet->colors->hatched,
                         sheet->colors->hatching);
    else
        es_picture_rect(picture, x, y, width, height,
                        paint_of(value) == PAINT_COLOR
                            ? es_scale_color(&sheet->scale, (double)value)
                            : sheet->colors->paper);
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
    snprintf(text, sizeof text, "%d", b->panel->n_heads - 1);
    double wanted = es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) + 4;
    int step = es_power_step(wanted / b->cell_width);
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

static void draw_row_labels(es_picture *picture, const es_colors *colors,
                            const es_heatmap_block *b, bool named)
{
    char text[ES_LABEL_MAX];
    int step = es_power_step((ES_SMALL_SIZE + 1.5) / b->cell_height);
    for (int row = 0; row < b->panel->n_layers; row += step) {
        double y = b->y + (row + 0.5) * b->cell_height;
        snprintf(text, sizeof text, "%d", row);
        if (step > 1)
            es_picture_line(picture, b->x - 2.5, y, b->x, y, 0.5,
                            colors->muted);
        es_picture_text(picture, b->x - 4, y + 0.36 * ES_SMALL_SIZE,
                        ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL, 0,
                        colors->ink, text);
    }
    if (named)
        es_picture_text(picture, b->x - b->left - 6,
                        b->y + b->panel->n_layers * b->cell_height / 2,
                        ES_LABEL_SIZE, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 90,
                        colors->ink, "layer");
}

static void draw_block(es_picture *picture, const es_heatmap_sheet *sheet,
                       size_t i)
{
    const es_heatmap_block *b = &sheet->blocks[i];
    es_draw_titles(picture, sheet->colors, b->x, b->y - 5, b->room, sheet->head,
                   b->panel->title, b->panel->subtitle);
    draw_cells(picture, sheet, b);
    es_picture_frame(picture, b->x, b->y, b->panel->n_heads * b->cell_width,
                     b->panel->n_layers * b->cell_height, 0.5,
                     sheet->colors->muted);
    if (b->printed)
        draw_values(picture, sheet, b);
    es_heatmap_draw_sides(picture, sheet->colors, b);
    draw_column_labels(picture, sheet->colors, b);
    draw_row_labels(picture, sheet->colors, b, i % sheet->n_columns == 0);
}

static void draw_footer(es_picture *picture, const es_heatmap_sheet *sheet)
{
    double left = sheet->blocks[0].x;
    double x = left, y = sheet->height - ES_MARGIN - 2;
    if (sheet->figure->note) {
        es_draw_fitted(picture, left, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, sheet->colors->muted,
                       sheet->figure->note, sheet->width - left - ES_MARGIN);
        y -= 15;
    }
    if (sheet->nonfinite)
        x = es_draw_swatch(picture, sheet->colors, x, y, true,
                           "NaN or infinite");
    if (sheet->missing)
        es_draw_swatch(picture, sheet->colors, x, y, false, "missing");
}

static void draw_sheet(es_picture *picture, const es_heatmap_sheet *sheet)
{
    double left = sheet->blocks[0].x;
    es_draw_page_title(picture, sheet->colors, left,
                       sheet->width - left - ES_MARGIN,
                       sheet->figure->style.title);
    for (size_t i = 0; i < sheet->figure->n_panels; i++)
        draw_block(picture, sheet, i);
    es_draw_bar(picture, sheet->colors,
                &(es_color_bar){&sheet->scale, sheet->figure->scale_text,
                                sheet->bar_x, sheet->bar_y, sheet->bar_height});
    draw_footer(picture, sheet);
}

es_status es_heatmap_draw(es_picture **out, const es_heatmap *figure)
{
    es_heatmap_sheet sheet;
    es_picture *picture = NULL;
    es_status status = es_heatmap_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_picture_new(&picture, sheet.width, sheet.height,
                                sheet.colors->paper);
    if (status == ES_OK)
        draw_sheet(picture, &sheet);
    status = es_figure_finish(out, picture, &figure->style, status);
    es_heatmap_sheet_clear(&sheet);
    return status;
}
