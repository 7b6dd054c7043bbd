/* Draws attention maps as square images. Keys run from left to right, queries
 * from top to bottom. */
#include "render/figures/maps.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "render/figures/page.h"

/* Sizes of the chart before scaling, in points. */
#define SIDE 104.0
#define SMALL_SIDE 52.0
/* With more panels than this number, all panels are small. */
#define PANELS_MOST 24
#define LEAST_FACTOR 0.15
#define SMALL_COLUMNS 8
#define TICKS 3
#define TITLE_MOST 118.0

/* Palette entries that follow the colours of the scale. */
enum { BLANK, ALARM, N_SPECIAL };

typedef struct maps_sheet {
    es_page page;
    const es_map_figure *figure;
    es_color_scale scale;
    bool small;
} maps_sheet;

static es_axis axis_of(const es_map_panel *panel, double start, double end)
{
    es_axis axis =
        es_axis_make(0, (double)panel->n_ctx, false, start, end, TICKS);
    axis.labels = ES_LABELS_COUNT;
    return axis;
}

static int color_of(const es_color_scale *scale, float value)
{
    const int n = es_colormap_levels(scale->map);
    if (es_is_missing(value))
        return n + BLANK;
    return isfinite(value) ? es_scale_level(scale, (double)value) : n + ALARM;
}

static es_status draw_image(const maps_sheet *sheet, const es_map_panel *panel,
                            const es_box *plot)
{
    const es_canvas *canvas = &sheet->page.canvas;
    const int n_levels = es_colormap_levels(sheet->scale.map);
    const size_t side = (size_t)panel->size;
    es_color palette[256];
    uint8_t *cells = NULL;
    es_status status = es_alloc(&cells, side * side, sizeof *cells, "a map");
    if (status < 0)
        return status;
    for (size_t i = 0; i < side * side; i++)
        cells[i] = (uint8_t)color_of(&sheet->scale, panel->values[i]);
    for (int i = 0; i < n_levels; i++)
        palette[i] = es_scale_level_color(&sheet->scale, i);
    palette[n_levels + BLANK] = canvas->colors->paper;
    palette[n_levels + ALARM] = canvas->colors->alarm;
    es_picture_image(canvas->picture, plot->x, plot->y, plot->width,
                     plot->height, cells, side, side, palette,
                     (size_t)n_levels + N_SPECIAL);
    free(cells);
    return ES_OK;
}

static es_status draw_panel(const es_page *page, size_t i)
{
    const maps_sheet *sheet = page->chart;
    const es_map_panel *panel = &sheet->figure->panels[i];
    const es_canvas *canvas = &page->canvas;
    const es_box *plot = &page->panels[i].plot;
    es_status status = ES_OK;
    if (!sheet->small) {
        const es_axis across = axis_of(panel, plot->x, plot->x + plot->width);
        const es_axis down = axis_of(panel, plot->y, plot->y + plot->height);
        const bool first = es_page_is_first(page, i);
        es_draw_upright(canvas, plot, &down, first, first ? "query" : NULL);
        es_draw_across(canvas, plot, &across, "key");
    }
    /* Cover the grid lines of the axes. */
    es_picture_rect(canvas->picture, plot->x, plot->y, plot->width,
                    plot->height, canvas->colors->paper);
    if (panel->values)
        status = draw_image(sheet, panel, plot);
    else
        es_draw_label(canvas, plot->x + plot->width / 2,
                      plot->y + plot->height / 2, ES_ALIGN_MIDDLE,
                      canvas->colors->muted, "no map");
    es_picture_frame(canvas->picture, plot->x, plot->y, plot->width,
                     plot->height, 0.5, canvas->colors->muted);
    return status;
}

static es_status lay_out(maps_sheet *sheet)
{
    const es_map_figure *figure = sheet->figure;
    es_page *page = &sheet->page;
    es_status status = es_page_begin(page, figure->n_panels);
    if (status < 0)
        return status;
    sheet->small = figure->n_panels > PANELS_MOST;
    page->plot_width = page->plot_height = sheet->small ? SMALL_SIDE : SIDE;
    page->foot = sheet->small ? 0 : ES_AXIS_FOOT;
    page->most_columns = sheet->small ? SMALL_COLUMNS : 0;
    for (size_t i = 0; i < page->n_panels; i++) {
        const es_map_panel *panel = &figure->panels[i];
        const es_axis down = axis_of(panel, 0, SIDE);
        if (panel->size < 1 || panel->n_ctx < 1)
            return es_fail(ES_EUSAGE,
                           "a map of %d cells per side: at least "
                           "one is needed",
                           panel->size);
        page->panels[i] =
            (es_page_panel){.title = panel->title, .subtitle = panel->subtitle};
        if (!sheet->small)
            page->left = fmax(page->left, es_upright_width(&down, "query"));
        if (panel->values)
            es_page_look_at(page, panel->values,
                            (size_t)panel->size * (size_t)panel->size);
    }
    /* Later keys are always missing in a causal map and need no explanation. */
    page->missing = false;
    es_page_explain(page, ES_SWATCH_ALARM);
    return es_page_lay_out(page);
}

es_status es_maps_draw(es_picture **out, const es_map_figure *figure)
{
    maps_sheet sheet = {.figure = figure,
                        .scale = {figure->low, figure->high,
                                  figure->logarithmic, figure->style.colormap},
                        .page = {.name = "a figure of maps",
                                 .style = &figure->style,
                                 .chart = &sheet,
                                 .draw = draw_panel,
                                 .least_factor = LEAST_FACTOR,
                                 .title_most = TITLE_MOST,
                                 .title_gap = 5,
                                 .scale = &sheet.scale,
                                 .scale_text = figure->scale_text,
                                 .note = figure->note}};
    es_status status = lay_out(&sheet);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_page_clear(&sheet.page);
    return status;
}
