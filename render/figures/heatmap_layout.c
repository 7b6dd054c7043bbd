#include "render/figures/heatmap_internal.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the content wants, in points. */
#define CELL_WIDTH 24.0
#define CELL_HEIGHT 20.0
#define PLOT_WIDTH 288.0
#define PLOT_HEIGHT 240.0
#define LEAST_CELL 3.0
#define LARGEST_PLOT 1200.0
#define SIDE_WIDTH 72.0
#define LEAST_FACTOR 0.05 /* of all that, when a size is asked for */

#define LEAST_BAR 80.0
#define LEAST_PAGE 190.0
#define TITLE_ROOM 150.0 /* a narrow panel is widened for its title */
#define LARGEST_VALUE 8.0
#define LEAST_VALUE 5.0

static double natural_cell(int n, double cell, double plot)
{
    double least = fmin(LEAST_CELL, LARGEST_PLOT / n);
    return fmax(least, fmin(cell, plot / n));
}

static double scaled_cell(int n, double cell, double plot, double factor)
{
    double size = factor * natural_cell(n, cell, plot);
    return size >= 3 ? floor(2 * size + 1e-6) / 2 : size;
}

static double largest_label(int n, double size)
{
    char text[ES_LABEL_MAX];
    snprintf(text, sizeof text, "%d", n - 1);
    return es_text_width(text, size, ES_WEIGHT_NORMAL);
}

static double optional_width(const char *text, double size, es_weight weight)
{
    return text ? es_title_width(text, size, weight) : 0;
}

static void measure_block(es_heatmap_block *block,
                          const es_heatmap_panel *panel)
{
    block->panel = panel;
    block->left = largest_label(panel->n_layers, ES_SMALL_SIZE) + 4;
    block->title_width =
        fmax(optional_width(panel->title, ES_PANEL_TITLE_SIZE, ES_WEIGHT_BOLD),
             optional_width(panel->subtitle, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
}

static void note_special(es_heatmap_sheet *sheet, const es_heatmap_panel *panel)
{
    size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(panel->values[i]))
            sheet->missing = true;
        else if (!isfinite(panel->values[i]))
            sheet->nonfinite = true;
    }
}

/* Their texts may reach into the gaps. */
static double measure_sides(const es_heatmap_block *block)
{
    double widest = 0;
    for (size_t i = 0; i < block->n_sides; i++)
        widest = fmax(widest, optional_width(block->sides[i].text,
                                             ES_LABEL_SIZE, ES_WEIGHT_NORMAL));
    return fmax(0, widest + 4 - ES_SIDE_GAP);
}

static void measure(es_heatmap_sheet *sheet)
{
    const es_heatmap *figure = sheet->figure;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        measure_block(&sheet->blocks[i], panel);
        sheet->blocks[i].n_sides = figure->n_sides;
        if (figure->n_sides)
            sheet->blocks[i].sides = figure->sides + i * figure->n_sides;
        sheet->blocks[i].side_least = measure_sides(&sheet->blocks[i]);
        note_special(sheet, panel);
        sheet->head = fmax(sheet->head, es_head(panel->title, panel->subtitle));
    }
    sheet->top = figure->style.title ? ES_TITLE_SIZE + 9 : 0;
    sheet->scale = (es_color_scale){
        figure->low, figure->high, figure->logarithmic, figure->style.colormap};
    sheet->decimals = es_heatmap_decimals(figure);
    sheet->bar_room = es_bar_room(&sheet->scale, figure->scale_text);
    sheet->bar_least = es_bar_least_height(&sheet->scale, figure->scale_text);
    sheet->footer =
        (sheet->nonfinite || sheet->missing ? 15 : 0) + (figure->note ? 14 : 0);
}

/* Puts the blocks into their grid; returns the width they need. */
static double place_across(void *user, double factor)
{
    es_heatmap_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double x = ES_MARGIN + ES_LABEL_SIZE + 6; /* "layer" */
    for (size_t column = 0; column < sheet->n_columns; column++) {
        double left = 0, room = 0;
        for (size_t i = column; i < n; i += sheet->n_columns) {
            es_heatmap_block *b = &sheet->blocks[i];
            b->cell_width =
                scaled_cell(b->panel->n_heads, CELL_WIDTH, PLOT_WIDTH, factor);
            b->side_width =
                b->n_sides ? fmax(SIDE_WIDTH * fmin(1.5, factor), b->side_least)
                           : 0;
            double plot = b->cell_width * b->panel->n_heads +
                          (double)b->n_sides * (ES_SIDE_GAP + b->side_width);
            double titles = fmin(b->title_width, TITLE_ROOM);
            left = fmax(left, b->left);
            room = fmax(room, fmax(plot, fmin(1, factor) * titles));
        }
        for (size_t i = column; i < n; i += sheet->n_columns) {
            sheet->blocks[i].x = x + left;
            sheet->blocks[i].room = room;
        }
        x += left + room + (column + 1 < sheet->n_columns ? ES_GUTTER : 0);
    }
    return x + sheet->bar_room + ES_MARGIN;
}

/* The same from top to bottom; sets the bar's extent too. */
static double place_down(void *user, double factor)
{
    es_heatmap_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double y = ES_MARGIN + sheet->top, plots_end = y;
    sheet->bar_y = y + sheet->head;
    for (size_t row = 0; row < sheet->n_rows; row++) {
        double tallest = 0;
        y += sheet->head;
        for (size_t column = 0; column < sheet->n_columns; column++) {
            size_t i = row * sheet->n_columns + column;
            if (i >= n)
                break;
            es_heatmap_block *b = &sheet->blocks[i];
            b->cell_height = scaled_cell(b->panel->n_layers, CELL_HEIGHT,
                                         PLOT_HEIGHT, factor);
            b->y = y;
            tallest = fmax(tallest, b->cell_height * b->panel->n_layers);
        }
        plots_end = y + tallest;
        y = plots_end + ES_FOOT + (row + 1 < sheet->n_rows ? 12 : 0);
    }
    sheet->bar_height = plots_end - sheet->bar_y;
    if (es_scale_is_there(&sheet->scale))
        sheet->bar_height = fmax(fmax(sheet->bar_height, sheet->bar_least),
                                 fmin(1, factor) * LEAST_BAR);
    y = fmax(y, sheet->bar_y + sheet->bar_height + 6);
    return y + sheet->footer + ES_MARGIN;
}

static void shift(es_heatmap_sheet *sheet, double dx, double dy)
{
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        sheet->blocks[i].x += dx;
        sheet->blocks[i].y += dy;
    }
    sheet->bar_x += dx;
    sheet->bar_y += dy;
}

static es_status place(es_heatmap_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    const es_layout layout = {sheet,          place_across,
                              place_down,     LEAST_FACTOR,
                              "a heatmap",    sheet->figure->n_panels,
                              &sheet->n_rows, &sheet->n_columns};
    es_extent needed;
    es_status status = es_layout_fit(&needed, &layout, style);
    if (status != ES_OK)
        return status;
    sheet->bar_x = needed.width - ES_MARGIN - sheet->bar_room + ES_BAR_GAP;
    sheet->width =
        style->width > 0 ? style->width : ceil(fmax(needed.width, LEAST_PAGE));
    sheet->height = style->height > 0 ? style->height : ceil(needed.height);
    shift(sheet, floor((sheet->width - needed.width) / 2),
          floor((sheet->height - needed.height) / 2));
    return ES_OK;
}

/* "1.2e+05" is "1.2e5". */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e)
        return;
    char *to = e + 1 + (e[1] == '-'), *from = e + 2;
    while (*from == '0')
        from++;
    memmove(to, from, strlen(from) + 1);
}

void es_heatmap_value(char out[ES_LABEL_MAX], float value, int decimals)
{
    out[0] = '\0';
    if (!isfinite(value))
        return;
    if (decimals == ES_COMPACT)
        snprintf(out, ES_LABEL_MAX, "%.2g", (double)value);
    else
        snprintf(out, ES_LABEL_MAX, "%.*f", decimals, (double)value);
    if (out[0] == '-' && strtod(out, NULL) == 0)
        memmove(out, out + 1, strlen(out)); /* no -0.00 */
    shorten_exponent(out);
}

int es_heatmap_decimals(const es_heatmap *figure)
{
    double largest = 0;
    bool whole = true;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
        for (size_t k = 0; k < n; k++) {
            double value = (double)panel->values[k];
            if (!isfinite(value))
                continue;
            largest = fmax(largest, fabs(value));
            whole = whole && value == floor(value);
        }
    }
    if (largest == 0)
        return 2;
    if (largest >= 99999.5 || largest < 1e-3)
        return ES_COMPACT;
    if (whole)
        return 0;
    int exponent = (int)floor(log10(largest));
    if (exponent >= 1)
        return exponent == 1;
    return exponent >= -1 ? 2 : 1 - exponent;
}

/* Font size with which every value of the panel fits its cell. */
static double value_size(const es_heatmap_block *block, int decimals)
{
    const es_heatmap_panel *panel = block->panel;
    size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
    double tallest = fmin(LARGEST_VALUE, 0.6 * block->cell_height);
    double widest = 0;
    char text[ES_LABEL_MAX];
    if (tallest < LEAST_VALUE || block->cell_width < 2 * LEAST_VALUE)
        return 0;
    for (size_t i = 0; i < n; i++) {
        es_heatmap_value(text, panel->values[i], decimals);
        widest = fmax(widest, es_text_width(text, 1, ES_WEIGHT_NORMAL));
    }
    return fmin(tallest, (block->cell_width - 3) / widest);
}

/* All panels that print their values print them in one size. */
static void size_values(es_heatmap_sheet *sheet)
{
    sheet->value_size = LARGEST_VALUE;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        es_heatmap_block *b = &sheet->blocks[i];
        double size = value_size(b, sheet->decimals);
        if (size < LEAST_VALUE) {
            b->compact = true;
            size = value_size(b, ES_COMPACT);
        }
        b->printed = size >= LEAST_VALUE;
        if (b->printed)
            sheet->value_size = fmin(sheet->value_size, size);
    }
}

static es_status check(const es_heatmap *figure)
{
    if (figure->n_panels == 0)
        return es_fail(ES_EUSAGE, "a heatmap needs at least one run");
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

es_status es_heatmap_lay_out(es_heatmap_sheet *out, const es_heatmap *figure)
{
    *out = (es_heatmap_sheet){.figure = figure,
                              .colors = es_theme_colors(figure->style.theme)};
    es_status status = check(figure);
    if (status != ES_OK)
        return status;
    out->blocks = calloc(figure->n_panels, sizeof *out->blocks);
    if (!out->blocks)
        return es_fail(ES_ENOMEM, "heatmap: out of memory");
    measure(out);
    status = place(out);
    if (status == ES_OK)
        size_values(out);
    return status;
}

void es_heatmap_sheet_clear(es_heatmap_sheet *sheet)
{
    free(sheet->blocks);
    sheet->blocks = NULL;
}
