#include "render/figures/curves_internal.h"

#include <math.h>

#define SWATCH 8.0

static void draw_y_axis(es_picture *picture, const es_curves_sheet *sheet,
                        const es_curves_block *b, bool labelled)
{
    char text[ES_LABEL_MAX];
    for (int i = 0; i < sheet->ticks.n; i++) {
        double y = es_curves_y(sheet, b, es_ticks_at(&sheet->ticks, i));
        es_picture_line(picture, b->x, y, b->x + b->width, y, 0.5,
                        sheet->colors->grid);
        if (!labelled)
            continue;
        es_label_value(text, &sheet->ticks, i);
        es_picture_text(picture, b->x - 5, y + 0.36 * ES_SMALL_SIZE,
                        ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL, 0,
                        sheet->colors->ink, text);
    }
    if (labelled && sheet->figure->y_text)
        es_picture_text(picture, b->x - sheet->label_room + ES_LABEL_SIZE - 1,
                        b->y + b->height / 2, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                        ES_WEIGHT_NORMAL, 90, sheet->colors->ink,
                        sheet->figure->y_text);
}

static void draw_axes(es_picture *picture, const es_colors *colors,
                      const es_curves_block *b)
{
    double bottom = b->y + b->height;
    es_picture_line(picture, b->x, bottom, b->x + b->width, bottom, 0.5,
                    colors->muted);
    es_picture_line(picture, b->x, b->y, b->x, bottom, 0.5, colors->muted);
}

static void draw_steps(es_picture *picture, const es_colors *colors,
                       const es_curves_block *b)
{
    char text[ES_LABEL_MAX];
    double bottom = b->y + b->height;
    for (int i = 0; i < b->ticks.n; i++) {
        double step = es_ticks_at(&b->ticks, i), x = es_curves_x(b, step);
        es_label_count(text, step);
        es_picture_line(picture, x, bottom, x, bottom + 3, 0.5, colors->muted);
        es_picture_text(picture, x, bottom + 11.5, ES_SMALL_SIZE,
                        ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0, colors->ink,
                        text);
    }
    es_picture_text(picture, b->x + b->width / 2, bottom + 22, ES_LABEL_SIZE,
                    ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0, colors->ink, "step");
}

static void draw_reference(es_picture *picture, const es_curves_sheet *sheet,
                           const es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    if (!isfinite(figure->reference))
        return;
    double y = es_curves_y(sheet, b, figure->reference);
    if (figure->reference_text) {
        double width = es_text_width(figure->reference_text,
                                     ES_SMALL_SIZE - 0.5, ES_WEIGHT_NORMAL);
        width = fmin(width, b->width - 4);
        es_picture_rect(picture, b->x + b->width - width - 4, y - 10, width + 4,
                        10, sheet->colors->paper); /* no grid behind the text */
        es_draw_fitted(picture, b->x + b->width - 2, y - 3, ES_SMALL_SIZE - 0.5,
                       ES_ALIGN_END, ES_WEIGHT_NORMAL, sheet->colors->muted,
                       figure->reference_text, b->width - 4);
    }
    es_picture_dashed(picture, b->x, y, b->x + b->width, y, 0.75, 3,
                      sheet->colors->muted);
}

static es_status draw_block(es_picture *picture, const es_curves_sheet *sheet,
                            size_t i)
{
    const es_curves_block *b = &sheet->blocks[i];
    es_status status = ES_OK;
    es_draw_titles(picture, sheet->colors, b->x, b->y - 6, b->width,
                   sheet->head, b->panel->title, b->panel->subtitle);
    draw_y_axis(picture, sheet, b, i % sheet->n_columns == 0);
    draw_reference(picture, sheet, b);
    draw_axes(picture, sheet->colors, b);
    if (b->first <= b->last)
        status = es_curves_draw_lines(picture, sheet, b);
    else
        es_picture_text(picture, b->x + b->width / 2, b->y + b->height / 2,
                        ES_LABEL_SIZE, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                        sheet->colors->muted, "no samples");
    draw_steps(picture, sheet->colors, b);
    return status;
}

static void draw_list(es_picture *picture, const es_curves_sheet *sheet,
                      double y)
{
    double x = sheet->legend_x, names = x + ES_LEGEND_SWATCH + 5;
    for (size_t i = 0; i < sheet->n_named; i++, y += ES_LEGEND_LINE) {
        double middle = y + ES_LEGEND_LINE / 2;
        es_picture_line(picture, x, middle, x + ES_LEGEND_SWATCH, middle, 2,
                        es_curve_color(sheet, i));
        es_draw_fitted(picture, names, middle + 0.36 * ES_SMALL_SIZE,
                       ES_SMALL_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                       sheet->colors->ink,
                       es_curve_name(sheet->figure, &sheet->named[i]),
                       sheet->width - ES_MARGIN - names);
    }
}

/* A block for each line, in the lines' order from the top. */
static void draw_bar(es_picture *picture, const es_curves_sheet *sheet,
                     double y)
{
    double x = sheet->legend_x, right = x + ES_LEGEND_SWATCH;
    double height = sheet->legend_y + sheet->legend_height - y;
    double each = height / (double)sheet->n_named;
    size_t step = (size_t)es_power_step((ES_SMALL_SIZE + 1.5) / each);
    for (size_t i = 0; i < sheet->n_named; i++) {
        double top = y + each * (double)i;
        es_picture_rect(picture, x, top, ES_LEGEND_SWATCH, y + height - top,
                        es_curve_color(sheet, i));
        if (i % step != 0)
            continue;
        double middle = top + each / 2;
        es_picture_line(picture, right, middle, right + 2.5, middle, 0.5,
                        sheet->colors->muted);
        es_draw_fitted(picture, right + 5, middle + 0.36 * ES_SMALL_SIZE,
                       ES_SMALL_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                       sheet->colors->ink,
                       es_curve_name(sheet->figure, &sheet->named[i]),
                       sheet->width - ES_MARGIN - right - 5);
    }
}

static void draw_legend(es_picture *picture, const es_curves_sheet *sheet)
{
    double y = sheet->legend_y;
    if (sheet->legend_room == 0)
        return;
    if (sheet->figure->line_text) {
        es_draw_fitted(picture, sheet->legend_x, y + 7, ES_LABEL_SIZE,
                       ES_ALIGN_START, ES_WEIGHT_NORMAL, sheet->colors->ink,
                       sheet->figure->line_text,
                       sheet->width - ES_MARGIN - sheet->legend_x);
        y += ES_LEGEND_LINE + 2;
    }
    if (sheet->listed)
        draw_list(picture, sheet, y);
    else
        draw_bar(picture, sheet, y);
}

static void draw_footer(es_picture *picture, const es_curves_sheet *sheet)
{
    double left = sheet->blocks[0].x, y = sheet->height - ES_MARGIN - 2;
    if (sheet->figure->note) {
        es_draw_fitted(picture, left, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, sheet->colors->muted,
                       sheet->figure->note, sheet->width - left - ES_MARGIN);
        y -= 15;
    }
    if (!sheet->nonfinite)
        return;
    es_picture_rect(picture, left, y - 4, SWATCH, 4, sheet->colors->alarm);
    es_picture_text(picture, left + SWATCH + 4, y, ES_SMALL_SIZE,
                    ES_ALIGN_START, ES_WEIGHT_NORMAL, 0, sheet->colors->ink,
                    "NaN or infinite");
}

static es_status draw_sheet(es_picture *picture, const es_curves_sheet *sheet)
{
    const char *title = sheet->figure->style.title;
    double left = sheet->blocks[0].x;
    es_status status = ES_OK;
    if (title)
        es_draw_fitted(picture, left, ES_MARGIN + ES_TITLE_SIZE - 1,
                       ES_TITLE_SIZE, ES_ALIGN_START, ES_WEIGHT_BOLD,
                       sheet->colors->ink, title,
                       sheet->width - left - ES_MARGIN);
    for (size_t i = 0; i < sheet->figure->n_panels && status == ES_OK; i++)
        status = draw_block(picture, sheet, i);
    draw_legend(picture, sheet);
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
