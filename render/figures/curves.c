#include "render/figures/curves_internal.h"

#define SWATCH 8.0

/* Zeros have their own line where the scale is logarithmic. */
static void draw_zero(es_picture *picture, const es_colors *colors,
                      const es_curves_block *b)
{
    if (b->logarithmic && b->range.zeros)
        es_picture_text(picture, b->plot.x - 5,
                        es_curves_y(b, 0) + 0.36 * ES_SMALL_SIZE, ES_SMALL_SIZE,
                        ES_ALIGN_END, ES_WEIGHT_NORMAL, 0, colors->ink, "0");
}

static void draw_reference(es_picture *picture, const es_curves_sheet *sheet,
                           const es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    const es_box *plot = &b->plot;
    if (!isfinite(figure->reference) ||
        (b->logarithmic && figure->reference < b->upright.low))
        return;
    double y = es_curves_y(b, figure->reference);
    if (figure->reference_text) {
        double width = es_text_width(figure->reference_text,
                                     ES_SMALL_SIZE - 0.5, ES_WEIGHT_NORMAL);
        width = fmin(width, plot->width - 4);
        es_picture_rect(picture, plot->x + plot->width - width - 4, y - 10,
                        width + 4, 10,
                        sheet->colors->paper); /* no grid behind the text */
        es_draw_fitted(picture, plot->x + plot->width - 2, y - 3,
                       ES_SMALL_SIZE - 0.5, ES_ALIGN_END, ES_WEIGHT_NORMAL,
                       sheet->colors->muted, figure->reference_text,
                       plot->width - 4);
    }
    es_picture_dashed(picture, plot->x, y, plot->x + plot->width, y, 0.75, 3,
                      sheet->colors->muted);
}

static es_status draw_block(es_picture *picture, const es_curves_sheet *sheet,
                            size_t i)
{
    const es_curves *figure = sheet->figure;
    const es_curves_block *b = &sheet->blocks[i];
    const es_box *plot = &b->plot;
    bool labelled = figure->own_scales || i % sheet->n_columns == 0;
    es_draw_titles(picture, sheet->colors, plot->x, plot->y - 6, plot->width,
                   sheet->head, b->panel->title, b->panel->subtitle);
    es_draw_upright(picture, sheet->colors, plot, &b->upright, labelled,
                    figure->y_text);
    if (labelled)
        draw_zero(picture, sheet->colors, b);
    draw_reference(picture, sheet, b);
    es_draw_across(picture, sheet->colors, plot, &b->across,
                   figure->x_text ? figure->x_text : "step");
    if (b->first <= b->last)
        return es_curves_draw_lines(picture, sheet, b);
    es_picture_text(picture, plot->x + plot->width / 2,
                    plot->y + plot->height / 2, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                    ES_WEIGHT_NORMAL, 0, sheet->colors->muted, "no samples");
    return ES_OK;
}

/* What the marks at the edges of a plot mean; returns where the next goes. */
static double draw_meaning(es_picture *picture, const es_curves_sheet *sheet,
                           double x, double y, es_color color, const char *text)
{
    es_picture_rect(picture, x, y - 4, SWATCH, 4, color);
    es_draw_fitted(picture, x + SWATCH + 4, y, ES_SMALL_SIZE, ES_ALIGN_START,
                   ES_WEIGHT_NORMAL, sheet->colors->ink, text,
                   sheet->width - ES_MARGIN - x - SWATCH - 4);
    return x + SWATCH + 4 +
           es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) + 14;
}

static void draw_footer(es_picture *picture, const es_curves_sheet *sheet)
{
    const es_colors *colors = sheet->colors;
    double left = sheet->blocks[0].plot.x, x = left;
    double y = sheet->height - ES_MARGIN - 2;
    char text[64];
    if (sheet->figure->note) {
        es_draw_fitted(picture, left, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, colors->muted, sheet->figure->note,
                       sheet->width - left - ES_MARGIN);
        y -= 15;
    }
    if (sheet->stacked)
        draw_meaning(picture, sheet, x, y - 12, colors->alarm,
                     "NaN or infinite");
    else if (sheet->nonfinite)
        x = draw_meaning(picture, sheet, x, y, colors->alarm,
                         "NaN or infinite");
    if (isnan(sheet->beyond))
        return;
    snprintf(text, sizeof text, "above the scale, up to %.3g", sheet->beyond);
    draw_meaning(picture, sheet, x, y, colors->muted, text);
}

static es_status draw_sheet(es_picture *picture, const es_curves_sheet *sheet)
{
    double left = sheet->blocks[0].plot.x;
    es_status status = ES_OK;
    es_draw_page_title(picture, sheet->colors, left,
                       sheet->width - left - ES_MARGIN,
                       sheet->figure->style.title);
    for (size_t i = 0; i < sheet->figure->n_panels && status == ES_OK; i++)
        status = draw_block(picture, sheet, i);
    es_curves_draw_legend(picture, sheet);
    draw_footer(picture, sheet);
    return status;
}

es_status es_curves_draw(es_picture **out, const es_curves *figure)
{
    es_curves_sheet sheet;
    es_picture *picture = NULL;
    es_status status = es_curves_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_picture_new(&picture, sheet.width, sheet.height,
                                sheet.colors->paper);
    if (status == ES_OK)
        status = draw_sheet(picture, &sheet);
    status = es_figure_finish(out, picture, &figure->style, status);
    es_curves_sheet_clear(&sheet);
    return status;
}
