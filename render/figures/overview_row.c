/* Draws one row of an overview, for overview.c: texts, the dot of the value,
 * the bar of heads, the strip of layers, and the flags over time. */
#include "render/figures/overview_internal.h"

#include "analyzer/base/value.h"

#define ROW_INSET 1.5 /* space above and below each bar of a row, in points */
#define MOST_BAR 14.0 /* maximum height of the bars, in points */
#define DOT_RADIUS 2.0

static const char dash[] = "\xe2\x80\x93";

void es_overview_print(char out[ES_LABEL_MAX], const es_overview_sheet *s,
                       float value)
{
    /* A value beyond the end of the scale would be too long with decimals. */
    const int decimals = (double)value > s->most ? -1 : s->decimals;
    if (es_is_missing(value))
        snprintf(out, ES_LABEL_MAX, "%s", dash);
    else if (isnan(value))
        snprintf(out, ES_LABEL_MAX, "NaN");
    else
        snprintf(out, ES_LABEL_MAX, decimals < 0 ? "%.*g" : "%.*f",
                 decimals < 0 ? 4 : decimals, (double)value);
    es_label_typeset(out, ES_LABEL_MAX);
}

void es_overview_put(const es_overview_sheet *s, const es_overview_span *at,
                     double y, bool right, es_color color, const char *text)
{
    const double size = fmin(s->letters, 0.8 * s->row);
    if (at->width > 0)
        es_draw_fitted(s->page.canvas.picture,
                       right ? at->x + at->width : at->x, y + 0.36 * size, size,
                       right ? ES_ALIGN_END : ES_ALIGN_START, ES_WEIGHT_NORMAL,
                       color, text, at->width);
}

static void put_word(const es_overview_sheet *s, const es_overview_span *at,
                     double y, const es_overview_word *word)
{
    const es_theme theme = s->figure->style.theme;
    const es_colors *colors = s->page.canvas.colors;
    es_overview_put(s, at, y, false,
                    word->level == ES_LEVEL_INFO
                        ? colors->muted
                        : es_theme_level(theme, word->level),
                    word->text ? word->text : dash);
}

/* Draws an arrow that points to the right, with its tip at (x, y). */
static void draw_arrow(const es_canvas *canvas, double x, double y)
{
    const double r = DOT_RADIUS;
    es_picture_line(canvas->picture, x - 3 * r, y, x + r, y, 1,
                    canvas->colors->ink);
    for (int side = -1; side <= 1; side += 2)
        es_picture_line(canvas->picture, x - r, y + side * 1.4 * r, x + r, y, 1,
                        canvas->colors->ink);
}

/* Draws the value of a run as a number and as a dot, or as an arrow if it is
 * beyond the scale. A cross at the right end marks a value that is not
 * finite. */
static void draw_value(const es_overview_sheet *s, const es_overview_row *row,
                       double y)
{
    const es_canvas *canvas = &s->page.canvas;
    const es_colors *colors = canvas->colors;
    const bool missing = es_is_missing(row->value);
    const bool broken = !missing && !isfinite(row->value);
    const double end = s->dots.x + s->dots.width + 2, r = DOT_RADIUS;
    char text[ES_LABEL_MAX];
    es_overview_print(text, s, row->value);
    es_overview_put(s, &s->texts[s->figure->n_columns], y, true,
                    broken    ? colors->alarm
                    : missing ? colors->muted
                              : colors->ink,
                    text);
    if (row->low < row->high)
        es_picture_line(canvas->picture,
                        es_axis_place(&s->values, fmin(row->low, s->most)), y,
                        es_axis_place(&s->values, fmin(row->high, s->most)), y,
                        1.2, colors->muted);
    if (isfinite(row->value) && (double)row->value > s->most)
        draw_arrow(canvas, end, y);
    else if (isfinite(row->value))
        es_picture_dot(canvas->picture,
                       es_axis_place(&s->values, (double)row->value), y, r,
                       colors->ink);
    if (broken || row->nonfinite) {
        es_picture_line(canvas->picture, end - r, y - r, end + r, y + r, 1,
                        colors->alarm);
        es_picture_line(canvas->picture, end - r, y + r, end + r, y - r, 1,
                        colors->alarm);
    }
}

es_color es_overview_share_color(const es_overview_sheet *s, int share)
{
    return share == ES_OVERVIEW_SHARES - 1
               ? s->page.canvas.colors->alarm
               : es_colormap_at(s->scale.map, (share + 0.5) / 4);
}

#define SHARE_SIZE (ES_SMALL_SIZE - 0.5)
#define SHARE_SWATCH 4.0

static void write_share(char out[ES_LABEL_MAX], double share)
{
    snprintf(out, ES_LABEL_MAX,
             share < 0.0005 ? "<0.1%%"
             : share < 0.01 ? "%.1f%%"
                            : "%.0f%%",
             100 * share);
}

bool es_overview_is_beside(double share, double width)
{
    char text[ES_LABEL_MAX];
    /* A percentage of one or two digits needs at most 19 points. */
    if (!(share > 0) || (share >= 0.01 && share * width >= 19))
        return false;
    write_share(text, share);
    return es_text_width(text, SHARE_SIZE, ES_WEIGHT_NORMAL) + 3 >
           share * width;
}

/* Prints the percentage that belongs to a part of the bar. If the text fits
 * into the part, it is centred at x; otherwise it is printed next to the bar,
 * at *beside, after a square in the part's colour. */
static void print_share(const es_overview_sheet *s, double share, double x,
                        double y, es_color fill, double *beside)
{
    es_picture *picture = s->page.canvas.picture;
    const double size = fmin(SHARE_SIZE, 0.7 * s->row);
    const double drop = 0.36 * size, swatch = fmin(SHARE_SWATCH, size / 2);
    char text[ES_LABEL_MAX];
    write_share(text, share);
    if (share > 0 && !es_overview_is_beside(share, s->heads.width))
        es_picture_text(picture, x, y + drop, size, ES_ALIGN_MIDDLE,
                        ES_WEIGHT_NORMAL, 0, es_text_on(fill), text);
    if (!es_overview_is_beside(share, s->heads.width))
        return;
    const double left = *beside + 4, from = left + swatch + 1.5;
    *beside = from + es_text_width(text, size, ES_WEIGHT_NORMAL);
    if (*beside > s->beside.x + s->beside.width)
        return;
    es_picture_rect(picture, left, y - swatch / 2, swatch, swatch, fill);
    es_picture_text(picture, from, y + drop, size, ES_ALIGN_START,
                    ES_WEIGHT_NORMAL, 0, s->page.canvas.colors->ink, text);
}

static void draw_heads(const es_overview_sheet *s, const es_overview_row *row,
                       double top, double height)
{
    es_picture *picture = s->page.canvas.picture;
    double from = 0, beside = s->beside.x;
    for (int i = 0; i < ES_OVERVIEW_SHARES; i++) {
        const double x = s->heads.x + from * s->heads.width;
        const double width = row->shares[i] * s->heads.width;
        es_picture_rect(picture, x, top, width, height,
                        es_overview_share_color(s, i));
        if (s->figure->heads_only)
            print_share(s, row->shares[i], x + width / 2, top + height / 2,
                        es_overview_share_color(s, i), &beside);
        from += row->shares[i];
    }
    if (from > 0)
        es_picture_frame(picture, s->heads.x, top, s->heads.width, height, 0.4,
                         s->page.canvas.colors->muted);
}

static double layer_x(const es_overview_sheet *s, size_t layer)
{
    return s->layers.x +
           s->layers.width * (double)layer / (double)s->most_layers;
}

static void draw_layers(const es_overview_sheet *s, const es_overview_row *row,
                        double top, double height)
{
    const es_canvas *canvas = &s->page.canvas;
    for (size_t l = 0; l < row->n_layers; l++) {
        const float value = row->layers[l];
        if (es_is_missing(value))
            continue;
        es_picture_rect(canvas->picture, layer_x(s, l), top,
                        layer_x(s, l + 1) - layer_x(s, l), height,
                        isfinite(value)
                            ? es_scale_color(&s->scale, (double)value)
                            : canvas->colors->alarm);
    }
    if (row->n_layers)
        es_picture_frame(canvas->picture, s->layers.x, top,
                         layer_x(s, row->n_layers) - s->layers.x, height, 0.4,
                         canvas->colors->muted);
}

/* Draws a bar for the planned steps, over it a bar for the finished steps, and
 * over both the flags. */
static void draw_time(const es_overview_sheet *s, const es_overview_row *row,
                      double y, double height)
{
    es_picture *picture = s->page.canvas.picture;
    const es_colors *colors = s->page.canvas.colors;
    const double x = s->time.x;
    if (row->planned > 0)
        es_picture_rect(picture, x, y - 0.5,
                        es_axis_place(&s->steps, row->planned) - x, 1,
                        colors->grid);
    if (!isnan(row->last))
        es_picture_rect(picture, x, y - 0.75,
                        fmax(1.5, es_axis_place(&s->steps, row->last) - x), 1.5,
                        colors->muted);
    for (size_t i = 0; i < row->n_flags; i++) {
        const es_overview_flag *flag = &row->flags[i];
        const double from = es_axis_place(&s->steps, flag->from);
        const double width = es_axis_place(&s->steps, flag->to) - from;
        es_picture_rect(picture, fmin(from, x + s->time.width - 1.5),
                        y - height / 2, fmax(1.5, width), height,
                        es_theme_level(s->figure->style.theme, flag->level));
    }
}

void es_overview_draw_row(const es_overview_sheet *s,
                          const es_overview_row *row, double y)
{
    const es_overview *f = s->figure;
    const es_colors *colors = s->page.canvas.colors;
    const double height = fmin(s->row - 2 * ROW_INSET, MOST_BAR);
    const double top = y - height / 2;
    for (size_t k = 0; k < f->n_columns; k++)
        es_overview_put(s, &s->texts[k], y, f->columns[k].number,
                        row->texts[k] ? colors->ink : colors->muted,
                        row->texts[k] ? row->texts[k] : dash);
    draw_heads(s, row, top, height);
    if (f->heads_only)
        return;
    draw_value(s, row, y);
    draw_layers(s, row, top, height);
    draw_time(s, row, y, height);
    put_word(s, &s->texts[f->n_columns + 1], y, &row->flag);
    put_word(s, &s->texts[f->n_columns + 2], y, &row->status);
}
