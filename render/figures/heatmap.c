/*
 * Draws heatmaps. The panel of a run has one cell per head, with numbers and
 * labels, and small plots to the right. Adjacent cells of the same colour are
 * drawn as one rectangle.
 */
#include "render/figures/heatmap.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "render/figures/page.h"

/* Sizes of the chart before scaling, in points. */
#define CELL_WIDTH 24.0
#define CELL_HEIGHT 20.0
#define PLOT_WIDTH 288.0
#define PLOT_HEIGHT 240.0
#define LEAST_CELL 3.0
#define LARGEST_PLOT 1200.0
#define SIDE_WIDTH 72.0
#define SIDE_GAP 16.0     /* gap to the left of each small plot */
#define LEAST_FACTOR 0.05 /* minimum scale if a page size is requested */
#define FOOT 24.0         /* height of the column labels below a plot */
#define DOT_RADIUS 1.8
#define TICK_WIDTH 26.0 /* minimum width per tick of a small plot */
#define PANELS_MOST 12  /* more panels than this are drawn as thumbnails */
#define THUMB_CELL 6.0
#define THUMB_WIDTH 84.0
#define THUMB_HEIGHT 38.0
#define THUMB_TITLE 118.0
#define THUMB_COLUMNS 8

/* One panel of a heatmap, as placed on the page. */
typedef struct heatmap_block {
    const es_heatmap_panel *panel;
    const es_heatmap_side *sides;   /* (n_sides) */
    double x, y;                    /* top left corner of the plot */
    double cell_width, cell_height; /* as drawn */
    /* Width of each small plot; 0: no small plots. */
    double side_width;
    bool printed; /* true if the cells are large enough to show their values */
} heatmap_block;

typedef struct heatmap_sheet {
    es_page page;
    const es_heatmap *figure;
    heatmap_block *blocks; /* (n_panels) */
    es_color_scale scale;
    /* True if the panels are thumbnails without numbers and axes. */
    bool small;
    /* Note, followed by the subtitle that all thumbnails share. */
    char note[640];
    int decimals;      /* decimals of the numbers in the cells; COMPACT if
                          numbers then fit into more panels */
    double value_size; /* font size of the numbers in the cells */
} heatmap_sheet;

/* --- numbers --------------------------------------------------------------*/

#define COMPACT (-1) /* value of `decimals`: two significant digits (1.2e5) */
#define LARGEST_VALUE 8.0
#define LEAST_VALUE 5.0

/* Prints the number in a cell, or "" if the value is not finite. */
static void print_value(char out[ES_LABEL_MAX], float value, int decimals)
{
    out[0] = '\0';
    if (!isfinite(value))
        return;
    if (decimals == COMPACT)
        snprintf(out, ES_LABEL_MAX, "%.2g", (double)value);
    else
        snprintf(out, ES_LABEL_MAX, "%.*f", decimals, (double)value);
    if (out[0] == '-' && strtod(out, NULL) == 0)
        memmove(out, out + 1, strlen(out)); /* no -0.00 */
    es_text_shorten_exponents(out);
    char *e = strchr(out, 'e');
    if (e)
        *e = 'E'; /* a cell has no space for "×10", so it shows "E" */
    es_label_typeset(out, ES_LABEL_MAX);
    if (e && (e = strchr(out, 'E')))
        *e = 'e';
}

/* Returns the number of decimals that suits the finite values of all panels: 0
 * for counts, 2 for values of about one, COMPACT if there would be too many
 * digits. */
static int decimals_of(const es_heatmap *figure)
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
        return COMPACT;
    if (whole)
        return 0;
    int exponent = (int)floor(log10(largest));
    if (exponent >= 1)
        return exponent == 1;
    return exponent >= -1 ? 2 : 1 - exponent;
}

/* Returns the font size at which every value of the panel fits into its
 * cell. */
static double value_size(const heatmap_block *block, int decimals)
{
    const es_heatmap_panel *panel = block->panel;
    size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
    double tallest = fmin(LARGEST_VALUE, 0.6 * block->cell_height);
    double widest = 0;
    char text[ES_LABEL_MAX];
    if (tallest < LEAST_VALUE || block->cell_width < 2 * LEAST_VALUE)
        return 0;
    for (size_t i = 0; i < n; i++) {
        print_value(text, panel->values[i], decimals);
        widest = fmax(widest, es_text_width(text, 1, ES_WEIGHT_NORMAL));
    }
    return fmin(tallest, (block->cell_width - 3) / widest);
}

static bool same_cells(const heatmap_block *a, const heatmap_block *b)
{
    return a->cell_width == b->cell_width && a->cell_height == b->cell_height;
}

/* Decides which panels show numbers with `decimals` decimals, and sets the font
 * size of all numbers. Panels whose cells have the same size are treated alike:
 * either all show numbers or none does. */
static void size_values(heatmap_sheet *sheet, int decimals)
{
    const size_t n = sheet->figure->n_panels;
    sheet->decimals = decimals;
    sheet->value_size = LARGEST_VALUE;
    for (size_t i = 0; i < n; i++)
        sheet->blocks[i].printed = true;
    for (size_t i = 0; i < n; i++) {
        double size = value_size(&sheet->blocks[i], decimals);
        if (size >= LEAST_VALUE)
            continue;
        for (size_t k = 0; k < n; k++)
            if (same_cells(&sheet->blocks[i], &sheet->blocks[k]))
                sheet->blocks[k].printed = false;
    }
    for (size_t i = 0; i < n; i++)
        if (sheet->blocks[i].printed)
            sheet->value_size = fmin(sheet->value_size,
                                     value_size(&sheet->blocks[i], decimals));
}

static size_t count_printed(const heatmap_sheet *sheet)
{
    size_t n = 0;
    for (size_t i = 0; i < sheet->figure->n_panels; i++)
        n += sheet->blocks[i].printed;
    return n;
}

/* Prints the numbers in cells with fewer digits if they then fit into more
 * panels. */
static void choose_values(heatmap_sheet *sheet)
{
    const int decimals = decimals_of(sheet->figure);
    size_values(sheet, COMPACT);
    const size_t n = count_printed(sheet);
    size_values(sheet, decimals);
    if (count_printed(sheet) < n)
        size_values(sheet, COMPACT);
}

/* --- layout ---------------------------------------------------------------*/

/* Returns the size of one of n cells of a plot. Sizes from 3 points on are
 * rounded to half points. */
static double scaled_cell(int n, double cell, double plot, double factor)
{
    double least = fmin(LEAST_CELL, LARGEST_PLOT / n);
    double size = factor * fmax(least, fmin(cell, plot / n));
    return size >= 3 ? floor(2 * size + 1e-6) / 2 : size;
}

static double thumb_cell(int n, double plot, double factor)
{
    return factor * fmin(THUMB_CELL, plot / n);
}

/* Returns the minimum width of a small plot. The text below it may extend into
 * the gaps at its sides. */
static double side_width(const es_heatmap_side *sides, size_t n)
{
    double widest = 0;
    for (size_t i = 0; i < n; i++)
        if (sides[i].text)
            widest = fmax(widest, es_title_width(sides[i].text, ES_LABEL_SIZE,
                                                 ES_WEIGHT_NORMAL));
    return fmax(0, widest + 4 - SIDE_GAP);
}

static double width_of(es_page *page, size_t i, double factor)
{
    heatmap_sheet *sheet = page->chart;
    heatmap_block *b = &sheet->blocks[i];
    size_t n_sides = sheet->figure->n_sides;
    int n = b->panel->n_heads;
    b->cell_width = sheet->small
                        ? thumb_cell(n, THUMB_WIDTH, factor)
                        : scaled_cell(n, CELL_WIDTH, PLOT_WIDTH, factor);
    b->side_width = n_sides ? fmax(SIDE_WIDTH * fmin(1.5, factor),
                                   side_width(b->sides, n_sides))
                            : 0;
    return b->cell_width * n + (double)n_sides * (SIDE_GAP + b->side_width);
}

static double height_of(es_page *page, size_t i, double factor)
{
    heatmap_sheet *sheet = page->chart;
    heatmap_block *b = &sheet->blocks[i];
    int n = b->panel->n_layers;
    b->cell_height = sheet->small
                         ? thumb_cell(n, THUMB_HEIGHT, factor)
                         : scaled_cell(n, CELL_HEIGHT, PLOT_HEIGHT, factor);
    return b->cell_height * n;
}

static const char *marks_of(const es_heatmap *figure, size_t panel)
{
    return figure->marks ? figure->marks[panel] : NULL;
}

static double label_width(int largest, bool marked)
{
    char text[ES_LABEL_MAX];
    snprintf(text, sizeof text, "%d%s", largest, marked ? " w" : "");
    return es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) + 4;
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
    return paint_of(a) == paint_of(b) &&
           (paint_of(a) != PAINT_COLOR || es_scale_level(scale, (double)a) ==
                                              es_scale_level(scale, (double)b));
}

static void draw_cells(const heatmap_sheet *sheet, const heatmap_block *b)
{
    const es_canvas *canvas = &sheet->page.canvas;
    int n_layers = b->panel->n_layers, n_heads = b->panel->n_heads;
    /* Each cell extends underneath its right and lower neighbours, because
     * viewers of vector files show a thin gap between areas that only touch. */
    double lap = 0.4 * fmin(b->cell_width, b->cell_height);
    for (int row = 0; row < n_layers; row++) {
        const float *values = b->panel->values + (size_t)row * (size_t)n_heads;
        double y = b->y + row * b->cell_height;
        double height = b->cell_height + (row + 1 < n_layers ? lap : 0);
        for (int from = 0, to; from < n_heads; from = to) {
            to = from + 1;
            while (to < n_heads &&
                   same_paint(&sheet->scale, values[from], values[to]))
                to++;
            double x = b->x + from * b->cell_width;
            double width = (to - from) * b->cell_width;
            width += to < n_heads ? lap : 0;
            paint_kind paint = paint_of(values[from]);
            if (paint == PAINT_HATCH)
                es_picture_hatch(canvas->picture, x, y, width, height,
                                 canvas->colors->hatched,
                                 canvas->colors->hatching);
            else
                es_picture_rect(
                    canvas->picture, x, y, width, height,
                    paint == PAINT_COLOR
                        ? es_scale_color(&sheet->scale, (double)values[from])
                        : canvas->colors->paper);
        }
    }
}

static void draw_values(const heatmap_sheet *sheet, const heatmap_block *b)
{
    const es_heatmap_panel *panel = b->panel;
    double size = sheet->value_size;
    char text[ES_LABEL_MAX];
    for (int i = 0; i < panel->n_layers * panel->n_heads; i++) {
        int row = i / panel->n_heads, head = i % panel->n_heads;
        print_value(text, panel->values[i], sheet->decimals);
        es_picture_text(
            sheet->page.canvas.picture, b->x + (head + 0.5) * b->cell_width,
            b->y + (row + 0.5) * b->cell_height + 0.36 * size, size,
            ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
            es_text_on(es_scale_color(&sheet->scale, (double)panel->values[i])),
            text);
    }
}

static void draw_column_labels(const es_canvas *canvas, const heatmap_block *b)
{
    char text[ES_LABEL_MAX];
    double bottom = b->y + b->panel->n_layers * b->cell_height;
    int n_heads = b->panel->n_heads;
    int step = es_power_step(label_width(n_heads - 1, false) / b->cell_width);
    for (int head = 0; head < n_heads; head += step) {
        double x = b->x + (head + 0.5) * b->cell_width;
        snprintf(text, sizeof text, "%d", head);
        if (step > 1)
            es_picture_line(canvas->picture, x, bottom, x, bottom + 2.5, 0.5,
                            canvas->colors->muted);
        es_draw_label(canvas, x, bottom + 10.5, ES_ALIGN_MIDDLE,
                      canvas->colors->ink, text);
    }
    es_draw_name(canvas, b->x + n_heads * b->cell_width / 2, bottom + 21, 0,
                 canvas->colors->ink, "head");
}

/* Draws the axis below a small plot. If the first and the last label would
 * touch, both are moved outwards into the gaps, because a scale cannot be read
 * from one label. */
static void draw_side_axis(const es_canvas *canvas, const es_box *plot,
                           const es_axis *axis, const char *text)
{
    const double bottom = plot->y + plot->height;
    const int last = axis->ticks.n - 1;
    char labels[2][ES_LABEL_MAX];
    double x[2], wanted = 3;
    for (int i = 0; i < 2 && last > 0; i++) {
        x[i] = es_axis_place(axis, es_axis_tick(axis, i * last));
        es_axis_label(labels[i], axis, i * last);
        wanted += es_text_width(labels[i], ES_SMALL_SIZE, ES_WEIGHT_NORMAL) / 2;
    }
    /* Leave out labels that would touch even if they are moved. */
    if (last < 1 || wanted + 2 <= x[1] - x[0] ||
        wanted - x[1] + x[0] > SIDE_GAP) {
        es_draw_across(canvas, plot, axis, text);
        return;
    }
    const double apart = fmax(0, wanted - x[1] + x[0]) / 2;
    es_picture_line(canvas->picture, plot->x, bottom, plot->x + plot->width,
                    bottom, 0.5, canvas->colors->muted);
    for (int i = 0; i < 2; i++) {
        es_picture_line(canvas->picture, x[i], bottom, x[i], bottom + 3, 0.5,
                        canvas->colors->muted);
        es_draw_label(canvas, x[i] + (i ? apart : -apart), bottom + 11.5,
                      ES_ALIGN_MIDDLE, canvas->colors->ink, labels[i]);
    }
    es_draw_name(canvas, plot->x + plot->width / 2, bottom + 22, 0,
                 canvas->colors->ink, text);
}

/* Draws a small plot to the right of a heatmap: one dot per layer, layer 0 at
 * the top. */
static void draw_side(const es_canvas *canvas, const heatmap_block *b,
                      const es_heatmap_side *side, const es_box *plot)
{
    const es_colors *colors = canvas->colors;
    double start = plot->x + 3, end = plot->x + plot->width - 3;
    int most = (int)fmax(2, plot->width / TICK_WIDTH);
    es_axis axis = es_axis_make(side->low, side->high, false, start, end, most);
    /* Add ticks, because values cannot be compared if there is only one
       tick. */
    for (int i = 1; i < 4 && axis.ticks.n <= 1; i++)
        axis = es_axis_make(side->low, side->high, false, start, end, most + i);
    for (int i = 0; i < axis.ticks.n; i++) {
        double x = es_axis_place(&axis, es_axis_tick(&axis, i));
        es_picture_line(canvas->picture, x, plot->y, x, plot->y + plot->height,
                        0.5, colors->grid);
    }
    es_picture_line(canvas->picture, plot->x, plot->y, plot->x,
                    plot->y + plot->height, 0.5, colors->muted);
    /* Join the dots by lines, so that the eye can follow them down the
       layers. */
    double radius = fmin(DOT_RADIUS, 0.4 * b->cell_height);
    double x = NAN, y = NAN;
    for (int row = 0; row < b->panel->n_layers; row++) {
        double last_x = x, last_y = y, value = (double)side->values[row];
        x = isfinite(value) ? es_axis_place(&axis, value) : NAN;
        y = b->y + (row + 0.5) * b->cell_height;
        es_picture_line(canvas->picture, last_x, last_y, x, y, 0.75,
                        colors->muted);
        es_picture_dot(canvas->picture, x, y, radius, colors->ink);
    }
    draw_side_axis(canvas, plot, &axis, side->text);
}

static es_status draw_block(const es_page *page, size_t i)
{
    const heatmap_sheet *sheet = page->chart;
    const heatmap_block *b = &sheet->blocks[i];
    const es_canvas *canvas = &page->canvas;
    const es_box cells = {b->x, b->y, b->panel->n_heads * b->cell_width,
                          b->panel->n_layers * b->cell_height};
    es_box side = {cells.x + cells.width + SIDE_GAP, b->y, b->side_width,
                   cells.height};
    draw_cells(sheet, b);
    es_picture_frame(canvas->picture, cells.x, cells.y, cells.width,
                     cells.height, 0.5, canvas->colors->muted);
    if (b->printed)
        draw_values(sheet, b);
    for (size_t k = 0; k < sheet->figure->n_sides; k++) {
        draw_side(canvas, b, &b->sides[k], &side);
        side.x = side.x + side.width + SIDE_GAP;
    }
    if (sheet->small)
        return ES_OK;
    draw_column_labels(canvas, b);
    es_draw_band_numbers(canvas, &cells, (size_t)b->panel->n_layers,
                         marks_of(sheet->figure, i), false,
                         es_page_is_first(page, i) ? "layer" : NULL,
                         b->x - page->panels[i].left - 6);
    return ES_OK;
}

/* Turns the panels into thumbnails without axes. If all panels have the same
 * subtitle, it is moved to the note. */
static void shrink(heatmap_sheet *sheet)
{
    const es_heatmap *figure = sheet->figure;
    const char *common = figure->panels[0].subtitle;
    es_page *page = &sheet->page;
    page->left = page->foot = 0;
    page->title_most = THUMB_TITLE;
    page->most_lines = 2;
    page->most_columns = THUMB_COLUMNS;
    for (size_t i = 1; i < figure->n_panels && common; i++) {
        const char *subtitle = figure->panels[i].subtitle;
        if (!subtitle || strcmp(subtitle, common) != 0)
            common = NULL;
    }
    if (!common)
        return;
    for (size_t i = 0; i < figure->n_panels; i++)
        page->panels[i].subtitle = NULL;
    snprintf(sheet->note, sizeof sheet->note, "%.80s%s%.540s", common,
             figure->note ? "; " : "", figure->note ? figure->note : "");
    page->note = sheet->note;
}

static es_status lay_out(heatmap_sheet *sheet)
{
    const es_heatmap *figure = sheet->figure;
    es_page *page = &sheet->page;
    es_status status;
    sheet->small = figure->n_panels > PANELS_MOST && !figure->n_sides;
    if ((status = es_page_begin(page, figure->n_panels)) < 0 ||
        (status = es_alloc(&sheet->blocks, figure->n_panels,
                           sizeof *sheet->blocks, "a heatmap")) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        if (panel->n_layers < 1 || panel->n_heads < 1)
            return es_fail(ES_EUSAGE,
                           "a heatmap of %d layers and %d heads: at least one "
                           "of each is needed",
                           panel->n_layers, panel->n_heads);
        sheet->blocks[i].panel = panel;
        if (figure->n_sides)
            sheet->blocks[i].sides = figure->sides + i * figure->n_sides;
        page->panels[i] = (es_page_panel){
            .title = panel->title,
            .subtitle = panel->subtitle,
            .left = sheet->small ? 0
                                 : label_width(panel->n_layers - 1,
                                               marks_of(figure, i))};
        es_page_look_at(page, panel->values,
                        (size_t)panel->n_layers * (size_t)panel->n_heads);
    }
    es_page_explain(page, ES_SWATCH_HATCHED);
    if (sheet->small)
        shrink(sheet);
    if ((status = es_page_lay_out(page)) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        sheet->blocks[i].x = page->panels[i].plot.x;
        sheet->blocks[i].y = page->panels[i].plot.y;
    }
    if (!sheet->small)
        choose_values(sheet);
    return ES_OK;
}

es_status es_heatmap_draw(es_picture **out, const es_heatmap *figure)
{
    heatmap_sheet sheet = {.figure = figure,
                           .scale = {figure->low, figure->high,
                                     figure->logarithmic,
                                     figure->style.colormap},
                           .page = {.name = "a heatmap",
                                    .style = &figure->style,
                                    .chart = &sheet,
                                    .width = width_of,
                                    .height = height_of,
                                    .draw = draw_block,
                                    .least_factor = LEAST_FACTOR,
                                    .left = ES_LABEL_SIZE + 6, /* "layer" */
                                    .foot = FOOT,
                                    .title_gap = 5,
                                    .scale = &sheet.scale,
                                    .scale_text = figure->scale_text,
                                    .note = figure->note}};
    es_status status = lay_out(&sheet);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_page_clear(&sheet.page);
    free(sheet.blocks);
    return status;
}
