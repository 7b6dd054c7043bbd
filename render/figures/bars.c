/* Bars in groups, side by side or stacked, with their texts. */
#include "render/figures/bars_internal.h"

#include <math.h>

/* Height above the foot of a plot, in points. */
static double height_at(const es_bars_sheet *sheet, double value)
{
    return sheet->axis.start - es_axis_place(&sheet->axis, value);
}

/* --- side by side ---------------------------------------------------------*/

static void draw_text_above(es_picture *picture, const es_bars_sheet *sheet,
                            const es_box *bar, const char *text)
{
    double size = sheet->value_size, middle = bar->x + bar->width / 2;
    double width = es_text_width(text, size, ES_WEIGHT_NORMAL);
    bool turned = sheet->print == ES_BARS_TURNED;
    double across = turned ? size : width, up = turned ? width : size;
    /* No grid line through a number. */
    es_picture_rect(picture, middle - across / 2, bar->y - ES_BARS_GAP - up,
                    across, up + 1, sheet->page.colors->paper);
    es_picture_text(picture, turned ? middle + 0.36 * size : middle,
                    bar->y - ES_BARS_GAP, size,
                    turned ? ES_ALIGN_START : ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL,
                    turned ? 90 : 0, sheet->page.colors->ink, text);
}

static void draw_bar(es_picture *picture, const es_bars_sheet *sheet,
                     size_t panel, size_t group, size_t series)
{
    const es_bar *bar = es_bars_at(sheet->figure, panel, group, series);
    es_box area = es_bars_place(sheet, panel, group, series);
    const char *text = es_bar_text(bar, sheet->print);
    double bottom = area.y + area.height;
    area.height = isfinite(bar->value) ? height_at(sheet, bar->value) : 0;
    area.y = bottom - area.height;
    es_draw_pattern(picture, sheet->figure->style.theme, series, &area);
    if (text)
        draw_text_above(picture, sheet, &area, text);
}

/* --- on top of each other -------------------------------------------------*/

static void draw_text_inside(es_picture *picture, const es_bars_sheet *sheet,
                             const es_bar *bar, const es_box *area,
                             size_t series)
{
    const es_figure_style *style = &sheet->figure->style;
    es_color fill = es_theme_category(style->theme, series);
    const char *text = es_bar_text(bar, sheet->print), *detail = bar->detail;
    double size = sheet->value_size, line = size + 2;
    double x = area->x + area->width / 2;
    if (!text || area->height < line + 1)
        return;
    if (area->height < 2 * line + 1 ||
        (detail && es_text_width(detail, size, ES_WEIGHT_NORMAL) > area->width))
        detail = NULL;
    double y = area->y + area->height / 2 + 0.36 * size;
    y -= detail ? line / 2 : 0;
    if (es_pattern_has_lines(series))
        es_picture_rect(picture, area->x + 0.5, y - size, area->width - 1,
                        (detail ? 2 : 1) * line, fill);
    es_picture_text(picture, x, y, size, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                    es_text_on(fill), text);
    if (detail)
        es_picture_text(picture, x, y + line, size, ES_ALIGN_MIDDLE,
                        ES_WEIGHT_NORMAL, 0, es_text_on(fill), detail);
}

static void draw_stack(es_picture *picture, const es_bars_sheet *sheet,
                       size_t panel, size_t group)
{
    const es_bars *figure = sheet->figure;
    const char *const *totals = figure->panels[panel].totals;
    es_box area = es_bars_place(sheet, panel, group, 0);
    double bottom = area.y + area.height, sum = 0, top = bottom;
    for (size_t s = 0; s < figure->n_series; s++) {
        const es_bar *bar = es_bars_at(figure, panel, group, s);
        if (!(isfinite(bar->value) && bar->value > 0))
            continue;
        sum += bar->value;
        area.height = top - (bottom - height_at(sheet, sum));
        area.y = top = top - area.height;
        es_draw_pattern(picture, figure->style.theme, s, &area);
        draw_text_inside(picture, sheet, bar, &area, s);
    }
    if (totals && totals[group] && sheet->print != ES_BARS_NONE)
        es_draw_fitted(picture, area.x + area.width / 2, top - ES_BARS_GAP,
                       sheet->value_size, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL,
                       sheet->page.colors->ink, totals[group],
                       sheet->pitch - 1);
}

/* --- the rest -------------------------------------------------------------*/

static void draw_labels(es_picture *picture, const es_bars_sheet *sheet,
                        const es_box *plot)
{
    const es_bars *figure = sheet->figure;
    double bottom = plot->y + plot->height;
    for (size_t g = 0; g < figure->n_groups; g++) {
        double x = plot->x + sheet->pitch * ((double)g + 0.5);
        for (int i = 0; i < 2; i++)
            if (sheet->labels[g].lines[i])
                es_picture_text(picture, x, bottom + 10.5 + 9.0 * i,
                                ES_SMALL_SIZE, ES_ALIGN_MIDDLE,
                                ES_WEIGHT_NORMAL, 0, sheet->page.colors->ink,
                                sheet->labels[g].lines[i]);
    }
    if (figure->group_text)
        es_draw_fitted(
            picture, plot->x + plot->width / 2, bottom + sheet->page.foot - 2,
            ES_LABEL_SIZE, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL,
            sheet->page.colors->ink, figure->group_text, plot->width);
}

es_status es_bars_draw_panel(es_picture *picture, const es_page *page, size_t i)
{
    const es_bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    const es_box *plot = &page->panels[i].plot;
    es_axis axis = sheet->axis;
    double bottom = plot->y + plot->height;
    axis.start += plot->y;
    axis.end += plot->y;
    es_draw_upright(picture, page->colors, plot, &axis,
                    es_page_is_first(page, i), figure->y_text);
    for (size_t g = 0; g < figure->n_groups; g++) {
        if (figure->stacked)
            draw_stack(picture, sheet, i, g);
        for (size_t s = 0; !figure->stacked && s < figure->n_series; s++)
            draw_bar(picture, sheet, i, g, s);
    }
    es_picture_line(picture, plot->x, bottom, plot->x + plot->width, bottom,
                    0.5, page->colors->muted);
    draw_labels(picture, sheet, plot);
    return ES_OK;
}

es_status es_bars_draw(es_picture **out, const es_bars *figure)
{
    es_bars_sheet sheet;
    es_status status = es_bars_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_bars_sheet_clear(&sheet);
    return status;
}
