#include "render/figures/raster_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>

#define LEAST_BAND 5.0 /* height of a layer's heads that is set apart */

/* Colours of an image after those of the scale. */
enum { BLANK, ALARM, N_SPECIAL };

/* An image being made of a grid. */
typedef struct image {
    const es_raster_grid *grid;
    const es_box *box;
    size_t n_source;          /* columns of the grid */
    size_t n_columns, n_rows; /* of the image */
    uint8_t *cells;           /* (n_rows,n_columns) */
    int n_levels;
} image;

/* --- joining --------------------------------------------------------------*/

/* What tells of more wins. */
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

/* Where part i of n begins in `whole`. */
static size_t part(size_t i, size_t n, size_t whole)
{
    return (size_t)((double)i / (double)n * (double)whole + 1e-9);
}

static uint8_t cell_of(const image *im, const es_color_scale *scale,
                       float value)
{
    if (es_is_missing(value))
        return (uint8_t)(im->n_levels + BLANK);
    if (!isfinite(value))
        return (uint8_t)(im->n_levels + ALARM);
    return (uint8_t)es_scale_level(scale, (double)value);
}

static void fill(image *im, const es_color_scale *scale)
{
    for (size_t row = 0; row < im->n_rows; row++)
        for (size_t i = 0; i < im->n_columns; i++) {
            const size_t from[2] = {part(row, im->n_rows, im->grid->n_rows),
                                    part(i, im->n_columns, im->n_source)};
            const size_t to[2] = {part(row + 1, im->n_rows, im->grid->n_rows),
                                  part(i + 1, im->n_columns, im->n_source)};
            im->cells[row * im->n_columns + i] = cell_of(
                im, scale, es_raster_join(im->grid, im->n_source, from, to));
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

/* Marks above the columns, and to the right of the rows, in which there is
 * something not finite: each at least a point wide, for a cell may be less. */
static void draw_marks(es_picture *picture, const es_colors *colors,
                       const image *im)
{
    const es_box *box = im->box;
    double width = box->width / (double)im->n_columns;
    double height = box->height / (double)im->n_rows;
    for (size_t i = 0, to; i < im->n_columns; i = to + 1) {
        to = i;
        while (to < im->n_columns &&
               has_alarm(im, to, im->n_columns, im->n_rows))
            to++;
        es_picture_rect(picture, box->x + (double)i * width,
                        box->y - ES_RASTER_MARK - 1,
                        to > i ? fmax(1, (double)(to - i) * width) : 0,
                        ES_RASTER_MARK, colors->alarm);
    }
    for (size_t i = 0, to; i < im->n_rows; i = to + 1) {
        to = i;
        while (to < im->n_rows &&
               has_alarm(im, to * im->n_columns, 1, im->n_columns))
            to++;
        es_picture_rect(picture, box->x + box->width + 1,
                        box->y + (double)i * height, ES_RASTER_MARK,
                        to > i ? fmax(1, (double)(to - i) * height) : 0,
                        colors->alarm);
    }
}

static void paint(es_picture *picture, const es_raster_sheet *sheet,
                  const image *im)
{
    es_color palette[256];
    for (int i = 0; i < im->n_levels; i++)
        palette[i] = es_scale_level_color(&sheet->scale, i);
    palette[im->n_levels + BLANK] = sheet->colors->paper;
    palette[im->n_levels + ALARM] = sheet->colors->alarm;
    es_picture_image(picture, im->box->x, im->box->y, im->box->width,
                     im->box->height, im->cells, im->n_columns, im->n_rows,
                     palette, (size_t)im->n_levels + N_SPECIAL);
    draw_marks(picture, sheet->colors, im);
}

static es_status draw_grid(es_picture *picture, const es_raster_sheet *sheet,
                           const es_raster_grid *grid, size_t n_columns,
                           const es_box *box)
{
    image im = {.grid = grid,
                .box = box,
                .n_source = n_columns,
                .n_columns = fewer(n_columns, box->width),
                .n_rows = fewer(grid->n_rows, box->height),
                .n_levels = es_colormap_levels(sheet->scale.map)};
    im.cells = es_resize(NULL, im.n_columns * im.n_rows, 1);
    if (!im.cells)
        return es_fail(ES_ENOMEM, "raster: out of memory");
    fill(&im, &sheet->scale);
    paint(picture, sheet, &im);
    es_picture_frame(picture, box->x, box->y, box->width, box->height, 0.5,
                     sheet->colors->muted);
    free(im.cells);
    return ES_OK;
}

/* Numbers of the layers beside a box of as many bands, and its name. */
static void draw_layers(es_picture *picture, const es_raster_sheet *sheet,
                        const es_box *box, size_t n_layers, bool labelled,
                        const char *text)
{
    char label[ES_LABEL_MAX];
    double band = box->height / (double)n_layers;
    size_t step = (size_t)es_power_step((ES_SMALL_SIZE + 1.5) / band);
    for (size_t i = 0; i < n_layers; i += step) {
        double y = box->y + ((double)i + 0.5) * band;
        snprintf(label, sizeof label, "%zu", i);
        es_picture_line(picture, box->x - 2.5, y, box->x, y, 0.5,
                        sheet->colors->muted);
        es_picture_text(picture, box->x - 4, y + 0.36 * ES_SMALL_SIZE,
                        ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL, 0,
                        sheet->colors->ink, label);
    }
    if (labelled)
        es_picture_text(picture, box->x - sheet->left + ES_LABEL_SIZE,
                        box->y + box->height / 2, ES_LABEL_SIZE,
                        ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 90,
                        sheet->colors->ink, text);
}

/* The longest of the names that the height has room for. */
static const char *heads_text(const es_box *box)
{
    bool fits = es_text_width("heads of layer", ES_LABEL_SIZE,
                              ES_WEIGHT_NORMAL) < box->height;
    return fits ? "heads of layer" : box->height >= 28 ? "heads" : "";
}

/* Between the layers' heads, where that hides none of them and the lines are
 * not half of what there is to see. */
static void draw_separators(es_picture *picture, const es_raster_sheet *sheet,
                            const es_raster_block *b)
{
    size_t n_layers = b->panel->layers.n_rows;
    double band = b->heads.height / (double)n_layers;
    if (b->heads.height / (double)b->panel->heads.n_rows < 1 ||
        band < LEAST_BAND)
        return;
    for (size_t i = 1; i < n_layers; i++)
        es_picture_line(picture, b->heads.x, b->heads.y + (double)i * band,
                        b->heads.x + b->heads.width,
                        b->heads.y + (double)i * band, 0.5,
                        sheet->colors->paper);
}

static void draw_steps(es_picture *picture, const es_raster_sheet *sheet,
                       const es_raster_block *b)
{
    const es_box *lowest = b->heads.height > 0 ? &b->heads : &b->layers;
    const es_raster_panel *panel = b->panel;
    double whole = panel->last - panel->first + 1; /* no parts of a step */
    double most = fmin(fmin(8, lowest->width / 40), whole);
    es_axis axis = es_axis_make(panel->left, panel->right, false, lowest->x,
                                lowest->x + lowest->width, 2);
    axis.ticks = es_ticks_make(panel->first, panel->last, (int)fmax(most, 1));
    axis.labels = ES_LABELS_COUNT;
    es_draw_across(picture, sheet->colors, lowest, &axis, "step");
}

static es_status draw_block(es_picture *picture, const es_raster_sheet *sheet,
                            size_t i)
{
    const es_raster_block *b = &sheet->blocks[i];
    const es_raster_panel *panel = b->panel;
    bool labelled = i % sheet->n_columns == 0;
    es_draw_titles(picture, sheet->colors, b->layers.x,
                   b->layers.y - ES_RASTER_MARK - 5, b->layers.width,
                   sheet->head - ES_RASTER_MARK - 3, panel->title,
                   panel->subtitle);
    es_status status =
        draw_grid(picture, sheet, &panel->layers, panel->n_columns, &b->layers);
    draw_layers(picture, sheet, &b->layers, panel->layers.n_rows, labelled,
                b->layers.height >= 28 ? "layer" : "");
    if (status == ES_OK && panel->heads.n_rows) {
        status = draw_grid(picture, sheet, &panel->heads, panel->n_columns,
                           &b->heads);
        draw_separators(picture, sheet, b);
        draw_layers(picture, sheet, &b->heads, panel->layers.n_rows, labelled,
                    heads_text(&b->heads));
    }
    draw_steps(picture, sheet, b);
    return status;
}

static void draw_footer(es_picture *picture, const es_raster_sheet *sheet)
{
    const es_colors *colors = sheet->colors;
    double left = sheet->blocks[0].layers.x, x = left;
    double y = sheet->height - ES_MARGIN - 2;
    if (sheet->figure->note) {
        es_draw_fitted(picture, left, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, colors->muted, sheet->figure->note,
                       sheet->width - left - ES_MARGIN);
        y -= 15;
    }
    if (sheet->nonfinite) {
        es_picture_rect(picture, x, y - ES_SWATCH + 1, ES_SWATCH, ES_SWATCH,
                        colors->alarm);
        x = es_draw_swatch(picture, colors, x, y, false, "NaN or infinite");
    }
    if (sheet->missing)
        es_draw_swatch(picture, colors, x, y, false, "missing");
}

static es_status draw_sheet(es_picture *picture, const es_raster_sheet *sheet)
{
    double left = sheet->blocks[0].layers.x;
    es_status status = ES_OK;
    es_draw_page_title(picture, sheet->colors, left,
                       sheet->width - left - ES_MARGIN,
                       sheet->figure->style.title);
    for (size_t i = 0; i < sheet->figure->n_panels && status == ES_OK; i++)
        status = draw_block(picture, sheet, i);
    es_draw_bar(picture, sheet->colors,
                &(es_color_bar){&sheet->scale, sheet->figure->scale_text,
                                sheet->bar_x, sheet->bar_y, sheet->bar_height});
    draw_footer(picture, sheet);
    return status;
}

es_status es_raster_draw(es_picture **out, const es_raster *figure)
{
    es_raster_sheet sheet;
    es_picture *picture = NULL;
    es_status status = es_raster_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_picture_new(&picture, sheet.width, sheet.height,
                                sheet.colors->paper);
    if (status == ES_OK)
        status = draw_sheet(picture, &sheet);
    status = es_figure_finish(out, picture, &figure->style, status);
    es_raster_sheet_clear(&sheet);
    return status;
}
