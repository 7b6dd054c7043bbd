/*
 * SVG 1.1 straight from the display list: Cairo would turn every letter into
 * an outline, and text is to be found, selected and edited. No scripts, no
 * style sheets, nothing of SVG 2, so that editors read it as browsers do.
 */
#include "render/write_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONTS "DejaVu Sans, Verdana, sans-serif" /* wide ones: they fit */

/* A picture being written. */
typedef struct svg {
    const es_picture *picture;
    es_buffer out;
    bool clipped; /* a group is open */
} svg;

/* As es_buffer_number rounds: what is built from rounded ends has no seams. */
static double rounded(double x)
{
    return (double)llround(x * 100) / 100;
}

static void text(svg *s, const char *markup)
{
    es_buffer_text(&s->out, markup);
}

static void number(svg *s, double x)
{
    es_buffer_number(&s->out, x);
}

static void attribute(svg *s, const char *name, double x)
{
    text(s, " ");
    text(s, name);
    text(s, "=\"");
    number(s, x);
    text(s, "\"");
}

/* A length that must not vanish by rounding. */
static void length(svg *s, const char *name, double x)
{
    attribute(s, name, fmax(x, 0.01));
}

/* `what` is fill or stroke. */
static void color(svg *s, const char *attribute, es_color c)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t channels[] = {c.r, c.g, c.b};
    char hex[] = "=\"#rrggbb\"", *to = hex + 3;
    bool twice = c.r % 17 == 0 && c.g % 17 == 0 && c.b % 17 == 0; /* #rgb */
    for (size_t i = 0; i < 3; i++) {
        *to++ = digits[channels[i] >> 4];
        if (!twice)
            *to++ = digits[channels[i] & 15];
    }
    memcpy(to, "\"", 2);
    text(s, " ");
    text(s, attribute);
    text(s, hex);
    if (c.a == 255)
        return;
    text(s, " ");
    text(s, attribute);
    text(s, "-opacity=\"");
    number(s, c.a / 255.0);
    text(s, "\"");
}

static void area(svg *s, double x, double y, double width, double height)
{
    attribute(s, "x", x);
    attribute(s, "y", y);
    length(s, "width", rounded(x + width) - rounded(x));
    length(s, "height", rounded(y + height) - rounded(y));
}

static void write_rect(svg *s, const es_picture_shape *shape)
{
    text(s, "<rect");
    area(s, shape->x, shape->y, shape->width, shape->height);
    color(s, "fill", shape->color);
    text(s, "/>\n");
}

static void write_frame(svg *s, const es_picture_shape *shape)
{
    text(s, "<rect");
    area(s, shape->x, shape->y, shape->width, shape->height);
    text(s, " fill=\"none\"");
    color(s, "stroke", shape->color);
    length(s, "stroke-width", shape->size);
    text(s, "/>\n");
}

/* A path that is being built from relative, rounded steps. */
typedef struct pen {
    svg *s;
    double x, y; /* where it is, rounded */
} pen;

static void step(svg *s, const char *command, double x)
{
    text(s, command);
    number(s, x);
}

/* A minus sign parts two numbers by itself. */
static void pair(svg *s, const char *command, double x, double y)
{
    step(s, command, x);
    step(s, y < 0 ? "" : " ", y);
}

static void move_to(pen *p, double x, double y)
{
    p->x = rounded(x);
    p->y = rounded(y);
    pair(p->s, "M", p->x, p->y);
}

static void line_to(pen *p, double x, double y)
{
    double right = rounded(rounded(x) - p->x);
    double down = rounded(rounded(y) - p->y);
    p->x = rounded(x);
    p->y = rounded(y);
    if (down == 0)
        step(p->s, "h", right);
    else if (right == 0)
        step(p->s, "v", down);
    else
        pair(p->s, "l", right, down);
}

/* The lines x + y = k * spacing, so that the hatchings of neighbours run on.
 * They end as far inside as their square ends reach out. */
static void hatch_lines(svg *s, const es_picture_shape *shape,
                        double line_width)
{
    const double spacing = ES_HATCH_SPACING, inside = line_width / sqrt(8);
    double left = fmax(shape->x, 0) + inside, top = fmax(shape->y, 0) + inside;
    double right = fmin(shape->x + shape->width, s->picture->width) - inside;
    double bottom = fmin(shape->y + shape->height, s->picture->height) - inside;
    pen p = {.s = s};
    if (!(left < right && top < bottom))
        return;
    for (double k = ceil((left + top) / spacing); k * spacing < right + bottom;
         k++) {
        double x0 = fmin(right, k * spacing - top);
        double x1 = fmax(left, k * spacing - bottom);
        move_to(&p, x0, k * spacing - x0);
        line_to(&p, x1, k * spacing - x1);
    }
}

static void write_hatch(svg *s, const es_picture_shape *shape)
{
    write_rect(s, shape);
    text(s, "<path fill=\"none\"");
    color(s, "stroke", shape->stroke);
    length(s, "stroke-width", ES_HATCH_LINE);
    text(s, " d=\"");
    hatch_lines(s, shape, ES_HATCH_LINE);
    text(s, "\"/>\n");
}

static void write_line(svg *s, const es_picture_shape *shape)
{
    text(s, "<line");
    attribute(s, "x1", shape->x);
    attribute(s, "y1", shape->y);
    attribute(s, "x2", shape->x + shape->width);
    attribute(s, "y2", shape->y + shape->height);
    color(s, "stroke", shape->color);
    length(s, "stroke-width", shape->size);
    if (shape->dash > 0)
        length(s, "stroke-dasharray", shape->dash);
    text(s, "/>\n");
}

/* Points closer than the rounding are one; the first after a move is kept,
 * for its round ends make it a dot. */
static void write_polyline(svg *s, const es_picture_shape *shape)
{
    const double *points = s->picture->numbers + shape->first;
    pen p = {.s = s};
    size_t run = 0; /* points since the pen was lifted */
    text(s, "<path fill=\"none\" stroke-linecap=\"round\""
            " stroke-linejoin=\"round\"");
    color(s, "stroke", shape->color);
    length(s, "stroke-width", shape->size);
    text(s, " d=\"");
    for (size_t i = 0; i < shape->n; i++) {
        double x = points[2 * i], y = points[2 * i + 1];
        if (isnan(x))
            run = 0;
        else if (run++ == 0)
            move_to(&p, x, y);
        else if (run == 2 || rounded(x) != p.x || rounded(y) != p.y)
            line_to(&p, x, y);
    }
    text(s, "\"/>\n");
}

/* The outline of spans [from, to): along the tops, back along the bottoms. */
static void outline_spans(svg *s, const es_picture_shape *shape, size_t from,
                          size_t to)
{
    const double *spans = s->picture->numbers + shape->first;
    double left = shape->x + (double)from * shape->size;
    double right = shape->x + (double)to * shape->size;
    pen p = {.s = s};
    move_to(&p, left, spans[2 * from]);
    for (size_t i = from; i < to; i++)
        line_to(&p, shape->x + ((double)i + 0.5) * shape->size, spans[2 * i]);
    line_to(&p, right, spans[2 * to - 2]);
    line_to(&p, right, spans[2 * to - 1]);
    for (size_t i = to; i-- > from;)
        line_to(&p, shape->x + ((double)i + 0.5) * shape->size,
                spans[2 * i + 1]);
    line_to(&p, left, spans[2 * from + 1]);
    text(s, "z");
}

static void write_spans(svg *s, const es_picture_shape *shape)
{
    const double *spans = s->picture->numbers + shape->first;
    text(s, "<path");
    color(s, "fill", shape->color);
    text(s, " d=\"");
    for (size_t from = 0, to; from < shape->n; from = to + 1) {
        to = es_spans_end(spans, from, shape->n);
        if (to > from)
            outline_spans(s, shape, from, to);
    }
    text(s, "\"/>\n");
}

static void write_dot(svg *s, const es_picture_shape *shape)
{
    text(s, "<circle");
    attribute(s, "cx", shape->x);
    attribute(s, "cy", shape->y);
    length(s, "r", shape->size);
    color(s, "fill", shape->color);
    text(s, "/>\n");
}

/* A PNG within. The name space is said here: most pictures need none. */
static void write_image(svg *s, const es_picture_shape *shape)
{
    text(s, "<image xmlns:xlink=\"http://www.w3.org/1999/xlink\"");
    area(s, shape->x, shape->y, shape->width, shape->height);
    text(s, " preserveAspectRatio=\"none\""
            " style=\"image-rendering:pixelated\""
            " xlink:href=\"data:image/png;base64,");
    es_buffer_image(&s->out, s->picture, shape);
    text(s, "\"/>\n");
}

static void turn(svg *s, const es_picture_shape *shape)
{
    text(s, " transform=\"rotate(");
    number(s, -shape->degrees);
    text(s, " ");
    number(s, shape->x);
    text(s, " ");
    number(s, shape->y);
    text(s, ")\"");
}

/* Where text runs leftward, "start" is at its right. */
static void anchor(svg *s, const es_picture_shape *shape)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"",
                                          " text-anchor=\"end\""};
    int align = (int)shape->align;
    text(s, anchors[shape->leftward ? 2 - align : align]);
    if (shape->leftward)
        text(s, " direction=\"rtl\"");
}

/* With textLength a font of other widths takes the same width. */
static void write_text(svg *s, const es_picture_shape *shape)
{
    const char *strings = s->picture->text;
    double width =
        es_drawn_width(strings + shape->drawn, shape->size, shape->weight);
    text(s, "<text");
    attribute(s, "x", shape->x);
    attribute(s, "y", shape->y);
    length(s, "font-size", shape->size);
    if (shape->weight == ES_WEIGHT_BOLD)
        text(s, " font-weight=\"bold\"");
    anchor(s, shape);
    color(s, "fill", shape->color);
    if (shape->degrees != 0)
        turn(s, shape);
    if (width > 0) {
        length(s, "textLength", width);
        text(s, " lengthAdjust=\"spacingAndGlyphs\"");
    }
    text(s, ">");
    es_buffer_xml(&s->out, strings + shape->first);
    text(s, "</text>\n");
}

static void write_unclip(svg *s, const es_picture_shape *shape)
{
    (void)shape;
    if (s->clipped)
        text(s, "</g>\n");
    s->clipped = false;
}

/* Named by where it is: pictures may end up in one document, and then the
 * same name has to mean the same. */
static void clip_name(svg *s, const es_picture_shape *shape)
{
    const double sides[] = {shape->x, shape->y, shape->width, shape->height};
    text(s, "clip");
    for (size_t i = 0; i < 4; i++) {
        text(s, "_");
        number(s, sides[i]);
    }
}

static bool is_defined(const svg *s, const es_picture_shape *shape)
{
    for (const es_picture_shape *earlier = shape;
         earlier-- > s->picture->shapes;)
        if (earlier->kind == ES_SHAPE_CLIP && earlier->x == shape->x &&
            earlier->y == shape->y && earlier->width == shape->width &&
            earlier->height == shape->height)
            return true;
    return false;
}

static void write_clip(svg *s, const es_picture_shape *shape)
{
    write_unclip(s, shape);
    if (!is_defined(s, shape)) {
        text(s, "<clipPath id=\"");
        clip_name(s, shape);
        text(s, "\"><rect");
        area(s, shape->x, shape->y, shape->width, shape->height);
        text(s, "/></clipPath>\n");
    }
    text(s, "<g clip-path=\"url(#");
    clip_name(s, shape);
    text(s, ")\">\n");
    s->clipped = true;
}

static void write_metadata(svg *s, const es_picture_note *notes, size_t n_notes)
{
    const char *title = es_note_title(notes, n_notes);
    if (title) {
        text(s, "<title>");
        es_buffer_clean(&s->out, title, true);
        text(s, "</title>\n");
    }
    if (n_notes > 0) {
        text(s, "<desc>");
        es_buffer_notes(&s->out, notes, n_notes, true);
        text(s, "</desc>\n");
    }
}

/* xml:space keeps blanks at the ends of a text and runs of them. */
static void write_opening(svg *s)
{
    const es_picture *picture = s->picture;
    text(s, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"");
    number(s, picture->width);
    text(s, "pt\" height=\"");
    number(s, picture->height);
    text(s, "pt\" viewBox=\"0 0 ");
    number(s, picture->width);
    text(s, " ");
    number(s, picture->height);
    text(s, "\" font-family=\"" FONTS "\" text-rendering=\"geometricPrecision\""
            " xml:space=\"preserve\">\n");
}

static void write_background(svg *s)
{
    text(s, "<rect width=\"100%\" height=\"100%\"");
    color(s, "fill", s->picture->background);
    text(s, "/>\n");
}

static void write_shapes(svg *s)
{
    static void (*const writes[])(svg *, const es_picture_shape *) = {
        [ES_SHAPE_RECT] = write_rect,         [ES_SHAPE_FRAME] = write_frame,
        [ES_SHAPE_HATCH] = write_hatch,       [ES_SHAPE_LINE] = write_line,
        [ES_SHAPE_POLYLINE] = write_polyline, [ES_SHAPE_SPANS] = write_spans,
        [ES_SHAPE_DOT] = write_dot,           [ES_SHAPE_IMAGE] = write_image,
        [ES_SHAPE_TEXT] = write_text,         [ES_SHAPE_CLIP] = write_clip,
        [ES_SHAPE_UNCLIP] = write_unclip,
    };
    const es_picture *picture = s->picture;
    for (size_t i = 0; i < picture->n_shapes; i++)
        writes[picture->shapes[i].kind](s, &picture->shapes[i]);
    write_unclip(s, NULL);
}

es_status es_picture_write_svg(const es_picture *picture, FILE *out,
                               const es_picture_note *notes, size_t n_notes)
{
    svg s = {.picture = picture};
    write_opening(&s);
    write_metadata(&s, notes, n_notes);
    write_background(&s);
    write_shapes(&s);
    text(&s, "</svg>\n");
    es_status status = es_buffer_write(&s.out, out);
    free(s.out.data);
    return status;
}
