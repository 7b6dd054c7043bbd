/*
 * Figures of curves: layout and everything about the lines, which
 * curves_lines.c draws; curves_scale.c has the axes, curves_legend.c the
 * colours and the legend.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"

/* What the content wants, in points. */
#define ONE_WIDTH 340.0
#define ONE_HEIGHT 210.0
#define MANY_WIDTH 250.0
#define MANY_HEIGHT 165.0
#define LEAST_FACTOR 0.3 /* of that, when a size is requested */

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
        es_picture_rect(
            picture, plot->x + plot->width - width - 4, y - 10, width + 4, 10,
            sheet->page.colors->paper); /* no grid behind the text */
        es_draw_fitted(picture, plot->x + plot->width - 2, y - 3,
                       ES_SMALL_SIZE - 0.5, ES_ALIGN_END, ES_WEIGHT_NORMAL,
                       sheet->page.colors->muted, figure->reference_text,
                       plot->width - 4);
    }
    es_picture_dashed(picture, plot->x, y, plot->x + plot->width, y, 0.75, 3,
                      sheet->page.colors->muted);
}

static es_status draw_block(es_picture *picture, const es_page *page, size_t i)
{
    const es_curves_sheet *sheet = page->chart;
    const es_curves *figure = sheet->figure;
    const es_curves_block *b = &sheet->blocks[i];
    const es_box *plot = &b->plot;
    bool labelled = figure->own_scales || es_page_is_first(page, i);
    es_draw_upright(picture, page->colors, plot, &b->upright, labelled,
                    figure->y_text);
    if (labelled)
        draw_zero(picture, page->colors, b);
    draw_reference(picture, sheet, b);
    es_draw_across(picture, page->colors, plot, &b->across,
                   figure->x_text ? figure->x_text : "step");
    if (b->first <= b->last)
        return es_curves_draw_lines(picture, sheet, b);
    es_picture_text(picture, plot->x + plot->width / 2,
                    plot->y + plot->height / 2, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                    ES_WEIGHT_NORMAL, 0, page->colors->muted, "no samples");
    return ES_OK;
}

/* --- layout ---------------------------------------------------------------*/

static void arrange(es_page *page)
{
    const es_curves_sheet *sheet = page->chart;
    if (sheet->below)
        page->below = 6 + es_curves_legend_height(sheet, page->plots.width) + 2;
}

/* The widest labels are those of the most ticks. */
static void measure_labels(es_curves_sheet *sheet)
{
    es_page *page = &sheet->page;
    double left = 0;
    for (size_t i = 0; i < page->n_panels; i++) {
        es_curves_block *b = &sheet->blocks[i];
        b->plot.height = page->plot_height;
        es_curves_set_upright(sheet, b);
        left = fmax(left, es_upright_width(&b->upright, sheet->figure->y_text));
    }
    left = ceil(2 * left) / 2;
    for (size_t i = 0; i < page->n_panels; i++)
        page->panels[i] =
            (es_page_panel){.title = sheet->blocks[i].panel->title,
                            .subtitle = sheet->blocks[i].panel->subtitle,
                            .left = sheet->figure->own_scales ? left : 0};
    page->left = sheet->figure->own_scales ? 0 : left;
}

static void explain_edges(es_curves_sheet *sheet)
{
    if (sheet->nonfinite)
        es_page_add_key(&sheet->page,
                        (es_page_key){ES_SWATCH_EDGE_ALARM, "NaN or infinite"});
    if (isnan(sheet->beyond))
        return;
    snprintf(sheet->beyond_text, sizeof sheet->beyond_text,
             "above the scale, up to %.3g", sheet->beyond);
    es_page_add_key(&sheet->page,
                    (es_page_key){ES_SWATCH_EDGE_MUTED, sheet->beyond_text});
}

/* The legend stands below where it leaves the panels too little width. */
static es_status place(es_curves_sheet *sheet)
{
    es_page *page = &sheet->page;
    for (;;) {
        bool beside = sheet->legend_width > 0 && !sheet->below;
        /* The last step's label is wider than the plot. */
        page->right = beside ? sheet->legend_width : 4;
        es_status status = es_page_lay_out(page);
        if (status != ES_EUSAGE || !sheet->movable || sheet->below)
            return status;
        sheet->below = true;
    }
}

static void place_legend(es_curves_sheet *sheet)
{
    const es_page *page = &sheet->page;
    const es_box *plots = &page->plots;
    if (sheet->below) {
        sheet->legend_x = plots->x;
        sheet->legend_y = plots->y + plots->height + ES_AXIS_FOOT + 6;
        sheet->legend_height = page->below - 8;
    } else {
        sheet->legend_x = plots->x + plots->width + ES_LEGEND_GAP;
        sheet->legend_y = plots->y - page->air;
        sheet->legend_height = plots->height + page->air;
    }
    /* A list, unless it is longer than the panels are high. */
    size_t n_lines = sheet->n_entries + (sheet->figure->line_text ? 1 : 0);
    sheet->listed = sheet->n_entries <= ES_LISTED_MOST &&
                    (double)n_lines * ES_LEGEND_LINE + 2 <=
                        sheet->legend_height + ES_AXIS_FOOT;
}

es_status es_curves_lay_out(es_curves_sheet *out, const es_curves *figure)
{
    bool many = figure->n_panels > 1;
    es_status status;
    *out = (es_curves_sheet){
        .figure = figure,
        .page = {.name = "a figure of curves",
                 .style = &figure->style,
                 .chart = out,
                 .plot_width = many ? MANY_WIDTH : ONE_WIDTH,
                 .plot_height = many ? MANY_HEIGHT : ONE_HEIGHT,
                 .arrange = arrange,
                 .draw = draw_block,
                 .draw_legend = es_curves_draw_legend,
                 .least_factor = LEAST_FACTOR,
                 .foot = ES_AXIS_FOOT,
                 .title_gap = 6,
                 .note = figure->note}};
    if ((status = es_page_begin(&out->page, figure->n_panels)) < 0 ||
        (status = es_alloc(&out->blocks, figure->n_panels, sizeof *out->blocks,
                           "curves")) < 0 ||
        (status = es_curves_measure_panels(out)) < 0)
        return status;
    measure_labels(out);
    es_curves_measure_legend(out);
    explain_edges(out);
    if ((status = place(out)) < 0)
        return status;
    place_legend(out);
    for (size_t i = 0; i < figure->n_panels; i++) {
        out->blocks[i].plot = out->page.panels[i].plot;
        es_curves_set_upright(out, &out->blocks[i]);
        es_curves_set_across(&out->blocks[i]);
    }
    return ES_OK;
}

void es_curves_sheet_clear(es_curves_sheet *sheet)
{
    es_page_clear(&sheet->page);
    free(sheet->blocks);
    sheet->blocks = NULL;
}

es_status es_curves_draw(es_picture **out, const es_curves *figure)
{
    es_curves_sheet sheet;
    es_status status = es_curves_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_curves_sheet_clear(&sheet);
    return status;
}
