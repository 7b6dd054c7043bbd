/*
 * Draws rasters: two images per run, one of its layers and one of its heads,
 * over the steps. Where cells are smaller than a pixel, they are merged such
 * that every NaN and the most extreme value stay visible.
 */
#include "render/figures/raster.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "render/figures/page.h"

/* Sizes of the chart before scaling, in points. */
#define PLOT_WIDTH 330.0
#define LAYER_HEIGHT 7.0
#define LAYERS_LEAST 40.0
#define LAYERS_MOST 120.0
#define HEAD_HEIGHT 1.5
#define HEADS_LEAST 40.0
#define HEADS_MOST 260.0
#define LEAST_FACTOR 0.08
#define MARK 3.0 /* width of the marks at the edges of an image */
#define GAP 9.0  /* gap between the two images */
/* Minimum height of a layer at which lines are drawn between layers. */
#define LEAST_BAND 5.0
#define BEYOND 6.0 /* points by which a name may exceed its image */

/* Palette entries that follow the colours of the scale. */
enum { BLANK, ALARM, N_SPECIAL };

/* The layout of a raster figure on its page. */
typedef struct raster_sheet {
    es_page page;
    const es_raster *figure;
    es_color_scale scale;
    double left;   /* width of the layer labels */
    double factor; /* factor between natural and drawn heights of images */
} raster_sheet;

/* An image that is being made from the cells of a grid. */
typedef struct image {
    const es_raster_grid *grid;
    const es_box *box;
    size_t n_source;          /* number of columns of the grid that the image
                               * shows */
    size_t n_columns, n_rows; /* number of columns and rows of the image */
    uint8_t *cells;           /* (n_rows,n_columns) */
    int n_levels;
} image;

/* --- merging --------------------------------------------------------------*/

/* Returns the precedence of a value when cells are merged: 0 for missing, 1 for
 * finite, 2 for NaN and infinity. */
static int rank(float value)
{
    return es_is_missing(value) ? 0 : isfinite(value) ? 1 : 2;
}

static double away(float value, double level)
{
    return isfinite(level) && isfinite(value) ? fabs((double)value - level) : 0;
}

bool es_raster_wins(float value, float best, double level)
{
    int order = rank(value) - rank(best);
    return order > 0 || (order == 0 && away(value, level) > away(best, level));
}

float es_raster_join(const es_raster_grid *grid, size_t n_columns,
                     const size_t from[2], const size_t to[2])
{
    float best = es_missing();
    double farthest = 0;
    for (size_t row = from[0]; row < to[0]; row++) {
        const float *values = grid->values + row * n_columns;
        double level = (double)grid->levels[row];
        float own = values[from[1]];
        for (size_t i = from[1] + 1; i < to[1]; i++)
            if (es_raster_wins(values[i], own, level))
                own = values[i];
        if (rank(own) > rank(best) ||
            (rank(own) == rank(best) && away(own, level) > farthest)) {
            best = own;
            farthest = away(own, level);
        }
    }
    return best;
}

/* Returns the first cell of part i if `whole` cells are divided into n
 * parts. */
static size_t part(size_t i, size_t n, size_t whole)
{
    return (size_t)((double)i / (double)n * (double)whole + 1e-9);
}

static void fill(image *im, const es_color_scale *scale)
{
    for (size_t row = 0; row < im->n_rows; row++)
        for (size_t i = 0; i < im->n_columns; i++) {
            const size_t from[2] = {part(row, im->n_rows, im->grid->n_rows),
                                    part(i, im->n_columns, im->n_source)};
            const size_t to[2] = {part(row + 1, im->n_rows, im->grid->n_rows),
                                  part(i + 1, im->n_columns, im->n_source)};
            float value = es_raster_join(im->grid, im->n_source, from, to);
            int color = es_is_missing(value) ? im->n_levels + BLANK
                        : isfinite(value) ? es_scale_level(scale, (double)value)
                                          : im->n_levels + ALARM;
            im->cells[row * im->n_columns + i] = (uint8_t)color;
        }
}

static size_t fewer(size_t n, double points)
{
    double most = floor(points * ES_RASTER_DENSITY);
    return most < 1 ? 1 : (double)n < most ? n : (size_t)most;
}

/* --- drawing --------------------------------------------------------------*/

static bool has_alarm(const image *im, size_t from, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (im->cells[from + i * step] == im->n_levels + ALARM)
            return true;
    return false;
}

/* Draws marks above the columns of an image that contain a NaN or an infinity.
 * If `rows` is true, draws marks to the right of such rows instead. Marks are
 * at least one point wide, because cells may be smaller. */
static void draw_marks(const es_canvas *canvas, const image *im, bool rows)
{
    const es_box *box = im->box;
    size_t n = rows ? im->n_rows : im->n_columns;
    double each = (rows ? box->height : box->width) / (double)n;
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n; end++)
            if (!(rows ? has_alarm(im, end * im->n_columns, 1, im->n_columns)
                       : has_alarm(im, end, im->n_columns, im->n_rows)))
                break;
        double start = (double)i * each;
        double length = end > i ? fmax(1, (double)(end - i) * each) : 0;
        es_picture_rect(
            canvas->picture, rows ? box->x + box->width + 1 : box->x + start,
            rows ? box->y + start : box->y - MARK - 1, rows ? MARK : length,
            rows ? length : MARK, canvas->colors->alarm);
    }
}

static es_status draw_grid(const raster_sheet *sheet,
                           const es_raster_grid *grid, size_t n_columns,
                           const es_box *box)
{
    const es_canvas *canvas = &sheet->page.canvas;
    es_color palette[256];
    image im = {.grid = grid,
                .box = box,
                .n_source = n_columns,
                .n_columns = fewer(n_columns, box->width),
                .n_rows = fewer(grid->n_rows, box->height),
                .n_levels = es_colormap_levels(sheet->scale.map)};
    es_status status =
        es_alloc(&im.cells, im.n_columns * im.n_rows, 1, "a raster");
    if (status < 0)
        return status;
    fill(&im, &sheet->scale);
    for (int i = 0; i < im.n_levels; i++)
        palette[i] = es_scale_level_color(&sheet->scale, i);
    palette[im.n_levels + BLANK] = canvas->colors->paper;
    palette[im.n_levels + ALARM] = canvas->colors->alarm;
    es_picture_image(canvas->picture, box->x, box->y, box->width, box->height,
                     im.cells, im.n_columns, im.n_rows, palette,
                     (size_t)im.n_levels + N_SPECIAL);
    draw_marks(canvas, &im, false);
    draw_marks(canvas, &im, true);
    es_picture_frame(canvas->picture, box->x, box->y, box->width, box->height,
                     0.5, canvas->colors->muted);
    free(im.cells);
    return ES_OK;
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double layers_height(const es_raster_panel *panel)
{
    return clamp((double)panel->layers.n_rows * LAYER_HEIGHT, LAYERS_LEAST,
                 LAYERS_MOST);
}

/* Returns `name` if it fits, rotated, next to the box; otherwise NULL. */
static const char *fitting(const char *name, const es_box *box)
{
    double width = es_text_width(name, ES_LABEL_SIZE, ES_WEIGHT_NORMAL);
    return width <= box->height + BEYOND ? name : NULL;
}

/* Chooses the names that are drawn next to the image of the layers and the
 * image of the heads. If one of the names does not fit, sets both to NULL. The
 * caller then draws a single name for both images, which is correct because the
 * rows of both are numbered by layer. */
static void name_images(const char *names[2], const es_raster_panel *panel,
                        const es_box *layers, const es_box *heads)
{
    names[0] = fitting("layer", layers);
    names[1] = fitting("heads of layer", heads);
    if (!names[1])
        names[1] = fitting("heads", heads);
    if (panel->heads.n_rows && !(names[0] && names[1]))
        names[0] = names[1] = NULL;
}

/* Draws the image of the heads, which are grouped and numbered by layer. */
static es_status draw_heads(const raster_sheet *sheet,
                            const es_raster_panel *panel, const es_box *box,
                            const char *text, double text_x)
{
    const es_canvas *canvas = &sheet->page.canvas;
    size_t n_layers = panel->layers.n_rows;
    double band = box->height / (double)n_layers;
    es_status status = draw_grid(sheet, &panel->heads, panel->n_columns, box);
    /* Draw lines between layers if they hide no head and the layers are high
     * enough. */
    bool apart =
        box->height / (double)panel->heads.n_rows >= 1 && band >= LEAST_BAND;
    for (size_t i = 1; apart && i < n_layers; i++)
        es_picture_line(canvas->picture, box->x, box->y + (double)i * band,
                        box->x + box->width, box->y + (double)i * band, 0.5,
                        canvas->colors->paper);
    es_draw_band_numbers(canvas, box, n_layers, NULL, true, text, text_x);
    return status;
}

static es_status draw_panel(const es_page *page, size_t i)
{
    const raster_sheet *sheet = page->chart;
    const es_raster_panel *panel = &sheet->figure->panels[i];
    const es_box *plot = &page->panels[i].plot;
    es_box layers = *plot, heads = *plot;
    const char *names[2] = {NULL, NULL};
    double text_x = plot->x - sheet->left + ES_LABEL_SIZE;
    layers.height = sheet->factor * layers_height(panel);
    heads.y += layers.height + GAP;
    heads.height -= layers.height + GAP;
    if (es_page_is_first(page, i)) {
        name_images(names, panel, &layers, &heads);
        if (!names[0])
            es_draw_name(&page->canvas, text_x, plot->y + plot->height / 2, 90,
                         page->canvas.colors->ink, "layer");
    }
    es_status status =
        draw_grid(sheet, &panel->layers, panel->n_columns, &layers);
    es_draw_band_numbers(&page->canvas, &layers, panel->layers.n_rows, NULL,
                         true, names[0], text_x);
    if (status == ES_OK && panel->heads.n_rows)
        status = draw_heads(sheet, panel, &heads, names[1], text_x);
    /* ticks lie only at whole steps */
    double whole = panel->last - panel->first + 1;
    double most = fmin(fmin(8, plot->width / 40), whole);
    es_axis axis = es_axis_make(panel->left, panel->right, false, plot->x,
                                plot->x + plot->width, 2);
    axis.ticks = es_ticks_make(panel->first, panel->last, (int)fmax(most, 1));
    axis.labels = ES_LABELS_COUNT;
    es_draw_across(&page->canvas, plot, &axis, "step");
    return status;
}

/* --- layout ---------------------------------------------------------------*/

static double height_of(es_page *page, size_t i, double factor)
{
    raster_sheet *sheet = page->chart;
    const es_raster_panel *panel = &sheet->figure->panels[i];
    double n_heads = (double)panel->heads.n_rows;
    double heads = clamp(n_heads * HEAD_HEIGHT, HEADS_LEAST, HEADS_MOST);
    sheet->factor = factor;
    return factor * layers_height(panel) +
           (n_heads > 0 ? GAP + factor * heads : 0);
}

static es_status lay_out(raster_sheet *sheet)
{
    const es_raster *figure = sheet->figure;
    es_page *page = &sheet->page;
    char label[ES_LABEL_MAX];
    es_status status = es_page_begin(page, figure->n_panels);
    if (status < 0)
        return status;
    for (size_t i = 0; i < page->n_panels; i++) {
        const es_raster_panel *panel = &figure->panels[i];
        if (!panel->n_columns || !panel->layers.n_rows)
            return es_fail(ES_EUSAGE,
                           "a raster needs at least one layer and one step");
        es_page_look_at(page, panel->layers.values,
                        panel->layers.n_rows * panel->n_columns);
        es_page_look_at(page, panel->heads.values,
                        panel->heads.n_rows * panel->n_columns);
        snprintf(label, sizeof label, "%zu", panel->layers.n_rows);
        sheet->left = fmax(
            sheet->left, es_text_width(label, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    sheet->left += 5 + ES_LABEL_SIZE + 5; /* space for the rotated name */
    for (size_t i = 0; i < page->n_panels; i++)
        page->panels[i] =
            (es_page_panel){.title = figure->panels[i].title,
                            .subtitle = figure->panels[i].subtitle,
                            .left = sheet->left};
    es_page_explain(page, ES_SWATCH_ALARM);
    return es_page_lay_out(page);
}

es_status es_raster_draw(es_picture **out, const es_raster *figure)
{
    raster_sheet sheet = {.figure = figure,
                          .scale = {figure->low, figure->high,
                                    figure->logarithmic,
                                    figure->style.colormap},
                          .page = {.name = "a raster",
                                   .style = &figure->style,
                                   .chart = &sheet,
                                   .plot_width = PLOT_WIDTH,
                                   .height = height_of,
                                   .draw = draw_panel,
                                   .least_factor = LEAST_FACTOR,
                                   .right = MARK + 2,
                                   .foot = ES_AXIS_FOOT,
                                   .air = MARK + 3,
                                   .title_gap = MARK + 5,
                                   .scale = &sheet.scale,
                                   .scale_text = figure->scale_text,
                                   .note = figure->note}};
    es_status status = lay_out(&sheet);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_page_clear(&sheet.page);
    return status;
}
