/* Chooses the colours and marks of the lines in a line chart, and draws its
 * legend. */
#include "render/figures/curves_internal.h"

/* Lowest position in the colour map that is used on a dark page. */
#define DARKEST 0.3
#define LEGEND_MOST 124.0 /* maximum width of the names in the legend */
/* Maximum share of the page's width that a legend takes. */
#define LARGEST_SHARE 0.28
/* Maximum share of the page's width that the legend takes in a figure with
 * several panels. */
#define SMALLER_SHARE 0.18
#define ENTRY_GAP 12.0
#define CIRCLE 16 /* number of corners of a circle */

/* Returns the name of a curve in the legend: its label without `line_text`. */
static const char *name_of(const es_curves *figure, const es_curve *curve)
{
    const char *label = curve->label ? curve->label : "";
    size_t n = figure->line_text ? strlen(figure->line_text) : 0;
    if (n > 0 && strncmp(label, figure->line_text, n) == 0 && label[n] == ' ')
        return label + n + 1;
    return label;
}

static es_color depth_color(const es_curves_sheet *sheet, size_t i)
{
    /* Leave out the lightest colours, which would be invisible on light
       paper. */
    static const double ends[] = {[ES_COLORMAP_VIRIDIS] = 0.92,
                                  [ES_COLORMAP_CIVIDIS] = 0.9,
                                  [ES_COLORMAP_MAGMA] = 0.82};
    const es_figure_style *style = &sheet->figure->style;
    es_colormap map = style->colormap;
    double depth =
        sheet->n_named > 1 ? (double)i / ((double)sheet->n_named - 1) : 0.25;
    if (style->theme == ES_THEME_DARK)
        return es_colormap_at(map, DARKEST + (1 - DARKEST) * depth);
    return es_colormap_at(map, ends[map] * depth);
}

es_color es_curve_color(const es_curves_sheet *sheet, const es_curve *curve,
                        size_t i)
{
    const double paler = 0.35;
    const es_colors *colors = sheet->page.canvas.colors;
    if (curve->pen == ES_PEN_INK)
        return colors->ink;
    if (sheet->figure->colors == ES_CURVES_BY_DEPTH)
        return depth_color(sheet, i);
    es_color own = es_theme_category(sheet->figure->style.theme, curve->color);
    const uint8_t paper[] = {colors->paper.r, colors->paper.g, colors->paper.b};
    uint8_t *channels[] = {&own.r, &own.g, &own.b};
    for (size_t k = 0; k < 3 && curve->pen == ES_PEN_THIN; k++)
        *channels[k] =
            (uint8_t)lround((1 - paler) * *channels[k] + paler * paper[k]);
    return own;
}

double es_curve_width(const es_curve *curve, size_t n_curves)
{
    switch (curve->pen) {
    case ES_PEN_THIN:
        return 0.7;
    case ES_PEN_INK:
        return 1.6;
    default:
        return n_curves > 16 ? 0.8 : 1.2;
    }
}

bool es_curve_is_marked(const es_curves_sheet *sheet, const es_curve *curve)
{
    if (sheet->figure->colors != ES_CURVES_BY_CATEGORY)
        return false;
    if (curve->pen == ES_PEN_DASHED)
        return true;
    return curve->pen == ES_PEN_NORMAL && sheet->n_categories > 1;
}

/* --- marks ----------------------------------------------------------------*/

typedef struct outline {
    int n;       /* corners; 0: a cross */
    double turn; /* angle of the mark's first corner, in quarter turns */
    bool open;   /* the shape is filled with the background colour */
} outline;

static void draw_outline(es_picture *picture, double x, double y, double radius,
                         double pen, const outline *mark, es_color color)
{
    double points[2 * (CIRCLE + 1)];
    for (int i = 0; i <= mark->n; i++) {
        double angle = (mark->turn + 4.0 * i / mark->n) * M_PI_2;
        points[2 * i] = x + radius * cos(angle);
        points[2 * i + 1] = y + radius * sin(angle);
    }
    es_picture_polyline(picture, points, (size_t)mark->n + 1, pen, color);
}

void es_draw_mark(const es_canvas *canvas, double x, double y, size_t category,
                  es_color color, bool hollow)
{
    static const outline outlines[ES_N_MARKS] = {
        {CIRCLE, 0, false}, {4, 0.5, true}, {3, -1, false}, {CIRCLE, 0, true},
        {4, 0.5, false},    {3, -1, true},  {4, 0, false},  {0, 0.5, false},
        {3, 1, true},       {4, 0, true},   {0, 0, false},  {3, 1, false}};
    const outline *mark = &outlines[category % ES_N_MARKS];
    es_picture *picture = canvas->picture;
    if (mark->n < 3) {
        double c = ES_MARK_RADIUS * cos(mark->turn * M_PI_2);
        double s = ES_MARK_RADIUS * sin(mark->turn * M_PI_2);
        const double one[] = {x - c, y - s, x + c, y + s};
        const double other[] = {x + s, y - c, x - s, y + c};
        es_picture_polyline(picture, one, 2, 1.2, color);
        es_picture_polyline(picture, other, 2, 1.2, color);
        return;
    }
    if (mark->open && !hollow)
        es_picture_dot(picture, x, y, ES_MARK_RADIUS, canvas->colors->paper);
    draw_outline(picture, x, y, ES_MARK_RADIUS, 0.9, mark, color);
    if (!mark->open && !hollow)
        draw_outline(picture, x, y, ES_MARK_RADIUS / 2, 0.75 * ES_MARK_RADIUS,
                     mark, color);
}

/* --- place ----------------------------------------------------------------*/

/* Returns true if the legend should be below the panels, because it is too wide
 * or its list of categories is too long. A list of lines by depth can become a
 * colour bar instead. */
static bool belongs_below(const es_curves_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    double lines = (double)sheet->n_entries * ES_LEGEND_LINE;
    bool by_category = sheet->figure->colors == ES_CURVES_BY_CATEGORY;
    if (!sheet->movable)
        return false;
    if (by_category && sheet->entry_width > sheet->legend_width - ES_LEGEND_GAP)
        return true; /* a legend to the right of the panels would have to
                      * truncate its names */
    double share = sheet->figure->n_panels > 1 ? SMALLER_SHARE : LARGEST_SHARE;
    if (style->width > 0 && sheet->legend_width > share * style->width)
        return true;
    return by_category && lines > (style->height > 0 ? style->height / 2 : 130);
}

/* Adds a string and its NUL to an FNV-1a hash. */
static void add_number(uint64_t *number, const char *text)
{
    do {
        *number = (*number ^ (unsigned char)*text) * UINT64_C(1099511628211);
    } while (*text++);
}

/* Returns a hash of the legend's contents, which is equal for equal legends. */
static uint64_t legend_number(const es_curves_sheet *sheet)
{
    uint64_t number = UINT64_C(14695981039346656037);
    const es_curves *figure = sheet->figure;
    add_number(&number, figure->line_text ? figure->line_text : "");
    add_number(&number, figure->colors == ES_CURVES_BY_DEPTH ? "d" : "c");
    for (size_t i = 0; i < sheet->n_named; i++)
        add_number(&number, name_of(figure, &sheet->named[i]));
    return number;
}

void es_curves_measure_legend(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    double widest = 0;
    for (size_t i = 0; i < sheet->n_named; i++) {
        const char *name = name_of(figure, &sheet->named[i]);
        sheet->n_entries += name[0] != '\0';
        widest =
            fmax(widest, es_title_width(name, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    es_page_frame *frame = figure->style.frame;
    if (sheet->n_entries == 0)
        return;
    if (frame) {
        frame->legend = legend_number(sheet);
        if (frame->without_legend) {
            sheet->n_entries = 0;
            return;
        }
    }
    sheet->entry_width = ES_LEGEND_SWATCH + 5 + widest;
    widest = ES_LEGEND_SWATCH + 5 + fmin(widest, LEGEND_MOST);
    if (figure->line_text)
        widest =
            fmax(widest, fmin(LEGEND_MOST,
                              es_text_width(figure->line_text, ES_LABEL_SIZE,
                                            ES_WEIGHT_NORMAL)));
    sheet->legend_width = ES_LEGEND_GAP + widest;
    sheet->movable = sheet->n_entries <= ES_LISTED_MOST ||
                     figure->colors == ES_CURVES_BY_CATEGORY;
    sheet->below = belongs_below(sheet);
}

/* Returns the number of entries per line of a legend below the panels. The
 * number is chosen so that all lines have about the same length. */
static size_t in_a_line(const es_curves_sheet *sheet, double width)
{
    double most = floor((width + ENTRY_GAP) / (sheet->entry_width + ENTRY_GAP));
    double n = (double)sheet->n_entries;
    return (size_t)fmax(1, ceil(n / ceil(n / fmax(most, 1))));
}

double es_curves_legend_height(const es_curves_sheet *sheet, double width)
{
    size_t n = in_a_line(sheet, width);
    size_t lines = (sheet->n_entries + n - 1) / n;
    return (double)(lines + (sheet->figure->line_text ? 1 : 0)) *
           ES_LEGEND_LINE;
}

/* --- drawing --------------------------------------------------------------*/

static void draw_entry(const es_curves_sheet *sheet, size_t i, double x,
                       double y, double right)
{
    const es_canvas *canvas = &sheet->page.canvas;
    const es_curve *curve = &sheet->named[i];
    double middle = y + ES_LEGEND_LINE / 2, name = x + ES_LEGEND_SWATCH + 5;
    es_color color = es_curve_color(sheet, curve, i);
    es_picture_dashed(canvas->picture, x, middle, x + ES_LEGEND_SWATCH, middle,
                      fmax(1.6, es_curve_width(curve, 1)),
                      curve->pen == ES_PEN_DASHED ? ES_DASH : 0, color);
    if (es_curve_is_marked(sheet, curve))
        es_draw_mark(canvas, x + ES_LEGEND_SWATCH / 2, middle, curve->color,
                     color, false);
    es_draw_run_name(canvas->picture, name, middle + ES_SMALL_DROP,
                     ES_SMALL_SIZE, ES_WEIGHT_NORMAL, canvas->colors->ink,
                     name_of(sheet->figure, curve), right - name);
}

/* Draws the entries of the legend: in one column, or in lines if the legend is
 * below the panels. */
static void draw_list(const es_curves_sheet *sheet, double y)
{
    double right = sheet->page.width_points - ES_MARGIN;
    size_t n = sheet->below ? in_a_line(sheet, sheet->page.plots.width) : 1;
    double each = sheet->entry_width + ENTRY_GAP;
    size_t at = 0;
    for (size_t i = 0; i < sheet->n_named; i++) {
        if (!*name_of(sheet->figure, &sheet->named[i]))
            continue;
        double x = sheet->legend_x + (double)(at % n) * each;
        draw_entry(sheet, i, x, y + (double)(at / n) * ES_LEGEND_LINE,
                   sheet->below ? fmin(x + sheet->entry_width + 1, right)
                                : right);
        at++;
    }
}

/* Draws a colour bar with one block per line of the chart. The block of the
 * first line is at the top. */
static void draw_bar(const es_curves_sheet *sheet, double y)
{
    const es_canvas *canvas = &sheet->page.canvas;
    double x = sheet->legend_x, right = x + ES_LEGEND_SWATCH;
    double height = sheet->legend_y + sheet->legend_height - y;
    double each = height / (double)sheet->n_named;
    size_t step = (size_t)es_power_step((ES_SMALL_SIZE + 1.5) / each);
    for (size_t i = 0; i < sheet->n_named; i++) {
        double top = y + each * (double)i, middle = top + each / 2;
        es_picture_rect(canvas->picture, x, top, ES_LEGEND_SWATCH,
                        y + height - top,
                        es_curve_color(sheet, &sheet->named[i], i));
        if (i % step != 0)
            continue;
        es_picture_line(canvas->picture, right, middle, right + 2.5, middle,
                        0.5, canvas->colors->muted);
        es_draw_small(canvas, right + 5, middle + ES_SMALL_DROP, ES_ALIGN_START,
                      canvas->colors->ink,
                      name_of(sheet->figure, &sheet->named[i]),
                      sheet->page.width_points - ES_MARGIN - right - 5);
    }
}

void es_curves_draw_legend(const es_page *page)
{
    const es_curves_sheet *sheet = page->chart;
    const char *text = sheet->figure->line_text;
    double y = sheet->legend_y;
    if (sheet->legend_width == 0)
        return;
    if (text) {
        es_draw_fitted(page->canvas.picture, sheet->legend_x, y + 7,
                       ES_LABEL_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                       page->canvas.colors->ink, text,
                       page->width_points - ES_MARGIN - sheet->legend_x);
        y += ES_LEGEND_LINE + 2;
    }
    if (sheet->below || sheet->listed)
        draw_list(sheet, y);
    else
        draw_bar(sheet, y);
}
