/*
 * Lays out and draws pages of panels, for all charts. Bisection finds the scale
 * factor, first for the widths and then for the heights, so that charts need
 * not know how margins, texts and plots share a page.
 */
#include "render/figures/page_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

#define COMFORTABLE 0.6 /* scale factor below which fewer columns are tried */
#define LEGIBLE 0.35    /* minimum scale factor if columns are added */
/* Minimum ratio of the scale factor for heights to that for widths. */
#define FLATTEST 0.5
#define BARE_AIR 4.0 /* space above plots that have no titles */
#define ROW_GAP 12.0
#define LEAST_BAR 80.0
#define LEAST_PAGE 190.0
#define TITLE_MOST 150.0 /* maximum width of a panel widened for its title */
#define KEY_LINE 12.0
#define SWATCH 8.0
#define KEY_TEXT (SWATCH + 4) /* distance from a key's left end to its text */
#define KEY_GAP 14.0
#define CUT_NOTE 14.0 /* height of a note that has one line */
#define NOTE_GAP 8.0  /* space above a long note */

es_status es_page_begin(es_page *page, size_t n)
{
    page->canvas.colors = es_theme_colors(page->style->theme);
    page->n_panels = n;
    if (!n)
        return es_fail(ES_EUSAGE, "%s needs at least one run", page->name);
    return es_alloc(&page->panels, n, sizeof *page->panels, "the panels");
}

void es_page_clear(es_page *page)
{
    free(page->panels);
    page->panels = NULL;
}

bool es_page_is_first(const es_page *page, size_t i)
{
    return i % page->n_columns == 0;
}

void es_page_add_key(es_page *page, es_page_swatch swatch, const char *text)
{
    if (page->n_keys < ES_PAGE_KEYS)
        page->keys[page->n_keys++] = (es_page_key){swatch, text};
}

void es_page_look_at(es_page *page, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i]))
            continue;
        if (es_is_missing(values[i]))
            page->missing = true;
        else
            page->nonfinite = true;
    }
}

void es_page_explain(es_page *page, es_page_swatch swatch)
{
    if (page->nonfinite)
        es_page_add_key(page, swatch, "NaN or infinite");
    if (page->missing)
        es_page_add_key(page, ES_SWATCH_BLANK, "missing");
}

/* --- margins --------------------------------------------------------------*/

static double key_width(const es_page_key *key)
{
    return KEY_TEXT +
           es_text_width(key->text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) + KEY_GAP;
}

/* Returns true if all keys of the legend fit into one line; otherwise every key
 * gets a separate line. */
static bool keys_fit(const es_page *page, double width)
{
    double wanted = -KEY_GAP;
    for (size_t i = 0; i < page->n_keys; i++)
        wanted += key_width(&page->keys[i]);
    return wanted <= width;
}

/* Returns the number of lines of a note after the first one. */
static double extra_lines(size_t n_lines)
{
    return n_lines > 1 ? (double)(n_lines - 1) : 0;
}

static void measure_footer(es_page *page, double width)
{
    bool beside = keys_fit(page, width - page->plots.x - ES_MARGIN);
    size_t n_keys = beside && page->n_keys ? 1 : page->n_keys;
    size_t n_lines = page->note ? es_page_break_note(page, 0) : 0;
    page->note_lines = n_lines;
    page->footer = n_keys ? 3 + KEY_LINE * (double)n_keys : 0;
    if (page->note && !page->long_note)
        page->footer += CUT_NOTE + ES_PAGE_NOTE_LINE * extra_lines(n_lines);
    else if (n_lines)
        page->footer += NOTE_GAP + ES_PAGE_NOTE_LINE * (double)n_lines;
}

/* --- the grid -------------------------------------------------------------*/

/* Returns the width or height of plot i for a scale factor. */
static double size_of(es_page *page, size_t i, double factor,
                      es_page_size *size, double natural)
{
    return size ? size(page, i, factor) : floor(2 * factor * natural) / 2;
}

/* Places a column at x. The column is as wide as its widest plot, or as its
   titles need. Returns its right edge. */
static double place_column(es_page *page, size_t column, double x,
                           double factor)
{
    const es_page_frame *frame = page->style->frame;
    double left = column && frame ? frame->inner : 0, width = 0;
    for (size_t i = column; i < page->n_panels; i += page->n_columns) {
        es_page_panel *panel = &page->panels[i];
        double titles =
            fmin(es_page_title_width(page, i),
                 page->title_most > 0 ? page->title_most : TITLE_MOST);
        panel->plot.width =
            size_of(page, i, factor, page->width, page->plot_width);
        left = fmax(left, panel->left);
        width = fmax(width, fmax(panel->plot.width, fmin(1, factor) * titles));
    }
    for (size_t i = column; i < page->n_panels; i += page->n_columns) {
        page->panels[i].plot.x = x + left;
        page->panels[i].width = width;
    }
    return x + left + width;
}

/* Returns half of the width that the content leaves free. */
static double half_spare(double whole, double width)
{
    return floor((whole - width) / 2);
}

/* Places the columns of the page for a scale factor. Returns the width that the
 * page needs. */
static double place_across(es_page *page, double factor)
{
    double x = ES_MARGIN + page->left + page->extra_left;
    for (size_t column = 0; column < page->n_columns; column++)
        x = place_column(page, column, x + (column ? ES_GUTTER : 0), factor);
    page->plots.x = page->panels[0].plot.x;
    page->plots.width = x - page->plots.x;
    page->bar.x = x + page->right + ES_BAR_GAP;
    double width = x + page->right + ES_MARGIN + page->extra_right +
                   es_bar_width(page->scale, page->scale_text);
    if (page->arrange)
        page->arrange(page);
    double whole = page->style->width > 0 ? page->style->width
                                          : ceil(fmax(width, LEAST_PAGE));
    page->note_width = page->long_note ? page->plots.width
                                       : whole - ES_MARGIN - page->plots.x -
                                             half_spare(whole, width);
    es_page_measure_head(page);
    measure_footer(page, page->style->width > 0 ? page->style->width : width);
    return width;
}

/* Places the rows of the page for a scale factor. Returns the height that the
 * page needs. */
static double place_down(es_page *page, double factor)
{
    double title = page->style->title ? ES_TITLE_SIZE + 9 : 0;
    double y = ES_MARGIN + title + page->above, end = y;
    page->plots.y = y + page->head + page->air;
    for (size_t row = 0; row < page->n_rows; row++) {
        y += page->head + page->air;
        for (size_t k = 0; k < page->n_columns; k++) {
            size_t i = row * page->n_columns + k;
            if (i == page->n_panels)
                break;
            es_box *plot = &page->panels[i].plot;
            plot->y = y;
            plot->height =
                size_of(page, i, factor, page->height, page->plot_height);
            end = fmax(end, y + plot->height);
        }
        y = end + page->foot + (row + 1 < page->n_rows ? ROW_GAP : 0);
    }
    page->plots.height = end - page->plots.y;
    if (es_scale_is_there(page->scale)) {
        double least = es_bar_least_height(page->scale, page->scale_text);
        page->bar.y = page->plots.y;
        page->bar.height =
            fmax(fmax(page->plots.height, least), fmin(1, factor) * LEAST_BAR);
        y = fmax(y, page->bar.y + page->bar.height + 6);
    }
    return y + page->below + page->footer + ES_MARGIN;
}

/* Finds the largest scale factor at which `place` needs at most `wanted`
 * points, and lays out the page with it. Returns 0 if there is no such
 * factor. */
static double solve_factor(es_page *page, double wanted,
                           double (*place)(es_page *page, double factor))
{
    double low = 0, high = 1;
    while (high < 1e6 && place(page, high) <= wanted)
        high *= 2;
    for (int i = 0; i < 50; i++) {
        double half = low + (high - low) / 2;
        if (place(page, half) <= wanted)
            low = half;
        else
            high = half;
    }
    place(page, low);
    return low;
}

/* Arranges the panels in n columns. Returns the smaller of the scale factors
 * for the requested width and the requested height. */
static double try_columns(es_page *page, size_t n)
{
    const es_figure_style *style = page->style;
    double factor = INFINITY;
    page->n_columns = n;
    page->n_rows = (page->n_panels + n - 1) / n;
    if (style->width > 0)
        factor = solve_factor(page, style->width, place_across);
    else
        place_across(page, 1);
    if (style->height > 0)
        factor = fmin(factor, solve_factor(page, style->height, place_down));
    return factor;
}

/* Returns the scale factor for the heights. It equals the factor for the
 * widths, or is smaller if the page would otherwise be too high. The columns
 * must have been placed. */
static double flatten(es_page *page, double across)
{
    const double tallest = page->style->tallest;
    if (!(tallest > 0) || place_down(page, across) <= tallest)
        return across;
    const double least = fmax(FLATTEST * fmin(across, 1), page->least_factor);
    return fmin(across, fmax(least, solve_factor(page, tallest, place_down)));
}

/* Returns the number of columns for a page of limited height: `best`, unless
 * the page would then be too high. In that case, increases the number until the
 * page is low enough or more columns would make the panels illegible. */
static size_t lower(es_page *page, size_t best, size_t most)
{
    const double tallest = page->style->tallest, width = page->style->width;
    const double least = fmax(LEGIBLE, page->least_factor);
    const size_t n = page->n_panels;
    size_t found = best;
    if (!(tallest > 0) || !(width > 0) || page->style->height > 0)
        return best;
    for (size_t n_rows = (n + best - 1) / best; n_rows >= 1; n_rows--) {
        const size_t n_columns = (n + n_rows - 1) / n_rows;
        const double across = try_columns(page, n_columns);
        if (n_columns > most || (n_columns > best && across < least))
            break;
        found = n_columns;
        if (place_down(page, flatten(page, across)) <= tallest)
            break;
    }
    return found;
}

/* Chooses the smallest number of rows with which the panels have a comfortable
 * size. All rows have about the same number of panels. */
static void choose_columns(es_page *page)
{
    size_t n = page->n_panels;
    size_t most = page->style->most_columns ? page->style->most_columns
                  : page->most_columns      ? page->most_columns
                                            : 4;
    size_t n_rows = (n + most - 1) / most, best = (n + n_rows - 1) / n_rows;
    if (page->style->frame && page->style->frame->n_columns) {
        try_columns(page, page->style->frame->n_columns);
        return;
    }
    double largest = try_columns(page, best);
    while (++n_rows <= n && largest < COMFORTABLE) {
        size_t n_columns = (n + n_rows - 1) / n_rows;
        double factor = try_columns(page, n_columns);
        if (factor > largest) {
            largest = factor;
            best = n_columns;
        }
    }
    best = lower(page, best, most);
    page->n_columns = best;
    page->n_rows = (n + best - 1) / best;
}

static es_status too_small(es_page *page)
{
    const es_figure_style *style = page->style;
    double width = ceil(place_across(page, page->least_factor));
    double height = ceil(place_down(page, page->least_factor));
    return es_fail(ES_EUSAGE,
                   "%s of %.0fx%.0f points is too small for its content: "
                   "choose at least %.0fx%.0f",
                   page->name, style->width > 0 ? style->width : width,
                   style->height > 0 ? style->height : height, width, height);
}

/* Widens the margins to the left and right of the plots to the widths that the
 * style's frame requests. */
static void widen_margins(es_page *page)
{
    const es_page_frame *frame = page->style->frame;
    double left = 0;
    page->extra_left = page->extra_right = 0;
    if (!frame)
        return;
    size_t n = frame->n_columns ? frame->n_columns : 1;
    for (size_t i = 0; i < page->n_panels; i += n)
        left = fmax(left, page->panels[i].left);
    double right =
        page->right + ES_MARGIN + es_bar_width(page->scale, page->scale_text);
    page->extra_left = fmax(0, frame->left - ES_MARGIN - page->left - left);
    page->extra_right = fmax(0, frame->right - right);
}

static void measure_frame(const es_page *page)
{
    es_page_frame *frame = page->style->frame;
    double own = 0;
    if (!frame)
        return;
    for (size_t i = 0; i < page->n_panels; i++)
        if (es_page_is_first(page, i))
            own = fmax(own, page->panels[i].left);
        else
            frame->own_inner = fmax(frame->own_inner, page->panels[i].left);
    frame->own_left = ES_MARGIN + page->left + own;
    frame->own_right =
        page->right + ES_MARGIN + es_bar_width(page->scale, page->scale_text);
    frame->own_columns = page->n_columns;
    frame->n_panels = page->n_panels;
}

es_status es_page_lay_out(es_page *page)
{
    const es_figure_style *style = page->style;
    double across = 1, down = 1;
    widen_margins(page);
    es_page_measure_head(page);
    if (page->head + page->air == 0)
        page->air = BARE_AIR;
    choose_columns(page);
    if (style->width > 0)
        across = down = solve_factor(page, style->width, place_across);
    if (style->width > 0 && !(style->height > 0)) {
        down = flatten(page, across);
        if (style->frame && page->composite_height > 0)
            down = fmin(down, page->composite_height / page->plot_height);
    }
    if (style->height > 0)
        down = solve_factor(page, style->height, place_down);
    if (style->height > 0 && !(style->width > 0)) {
        /* Place the columns again, because titles break differently at this
           width. */
        place_across(page, across = down);
        down = solve_factor(page, style->height, place_down);
    }
    if (fmin(across, down) < 0.999 * page->least_factor)
        return too_small(page);
    double width = place_across(page, across);
    double height = place_down(page, down);
    page->width_points =
        style->width > 0 ? style->width : ceil(fmax(width, LEAST_PAGE));
    page->height_points = style->height > 0 ? style->height : ceil(height);
    /* Divide the remaining space equally between opposite margins. */
    double dx = half_spare(page->width_points, width);
    double dy = half_spare(page->height_points, height);
    for (size_t i = 0; i < page->n_panels; i++) {
        page->panels[i].plot.x += dx;
        page->panels[i].plot.y += dy;
    }
    page->plots.x += dx;
    page->plots.y += dy;
    page->bar.x += dx;
    page->bar.y += dy;
    measure_frame(page);
    return ES_OK;
}

/* --- drawing --------------------------------------------------------------*/

static void draw_swatch(const es_canvas *canvas, double x, double y,
                        es_page_swatch swatch)
{
    const es_colors *colors = canvas->colors;
    const double top = y - SWATCH + 1;
    switch (swatch) {
    case ES_SWATCH_EDGE_ALARM:
        es_picture_rect(canvas->picture, x, y - 4, SWATCH, 4, colors->alarm);
        return;
    case ES_SWATCH_HATCHED:
        es_picture_hatch(canvas->picture, x, top, SWATCH, SWATCH,
                         colors->hatched, colors->hatching);
        break;
    case ES_SWATCH_ALARM:
        es_picture_rect(canvas->picture, x, top, SWATCH, SWATCH, colors->alarm);
        break;
    case ES_SWATCH_DOTS:
        es_picture_dot(canvas->picture, x + 2, y - 2.5, 1.5, colors->ink);
        es_picture_dot(canvas->picture, x + SWATCH - 2, y - 2.5, 1.5,
                       colors->muted);
        return;
    case ES_SWATCH_BLANK:
        break;
    }
    es_picture_frame(canvas->picture, x, top, SWATCH, SWATCH, 0.5,
                     colors->muted);
}

/* Draws the keys of the legend below the panels, and the note below the
 * keys. */
static void draw_footer(const es_page *page)
{
    const es_canvas *canvas = &page->canvas;
    double x = page->plots.x, y = page->height_points - ES_MARGIN - 2;
    double right = page->width_points - ES_MARGIN;
    bool beside = keys_fit(page, right - x);
    if (page->note && page->long_note)
        es_page_break_note(page, y + 2 - page->footer + NOTE_GAP - 3 +
                                     ES_PAGE_NOTE_LINE);
    else if (page->note) {
        const double extra = ES_PAGE_NOTE_LINE * extra_lines(page->note_lines);
        es_page_break_note(page, y - extra);
        y -= extra;
    }
    if (page->note)
        y -= CUT_NOTE + 1;
    if (!beside)
        y -= KEY_LINE * (double)(page->n_keys - 1);
    for (size_t i = 0; i < page->n_keys; i++) {
        const es_page_key *key = &page->keys[i];
        draw_swatch(canvas, x, y, key->swatch);
        es_draw_small(canvas, x + KEY_TEXT, y, ES_ALIGN_START,
                      canvas->colors->ink, key->text, right - x - KEY_TEXT);
        x += beside ? key_width(key) : 0;
        y += beside ? 0 : KEY_LINE;
    }
}

/* Draws the whole page except the background. */
static es_status draw_all(const es_page *page)
{
    const es_figure_style *style = page->style;
    double left = page->plots.x;
    if (style->title)
        es_draw_fitted(page->canvas.picture, left,
                       ES_MARGIN + ES_TITLE_SIZE - 1, ES_TITLE_SIZE,
                       ES_ALIGN_START, ES_WEIGHT_BOLD, page->canvas.colors->ink,
                       style->title, page->width_points - left - ES_MARGIN);
    for (size_t i = 0; i < page->n_panels; i++) {
        /* The titles of all panels in a row have the same height. */
        const double y = page->panels[i].plot.y - page->title_gap;
        es_page_draw_title(page, i, y);
        es_status status = page->draw(page, i);
        if (status < 0)
            return status;
    }
    if (page->draw_legend)
        page->draw_legend(page);
    es_draw_bar(&page->canvas, page->scale, page->scale_text, page->bar.x,
                page->bar.y, page->bar.height);
    draw_footer(page);
    return style->zoom > 0 ? es_picture_zoom(page->canvas.picture, style->zoom)
                           : ES_OK;
}

es_status es_page_draw(es_picture **out, es_page *page)
{
    es_picture *picture = NULL;
    es_status status =
        es_picture_new(&picture, page->width_points, page->height_points,
                       page->canvas.colors->paper);
    if (status < 0)
        return status;
    page->canvas.picture = picture;
    if ((status = draw_all(page)) == ES_OK)
        *out = picture;
    else
        es_picture_free(picture);
    page->canvas.picture = NULL;
    return status;
}
