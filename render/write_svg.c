/*
 * Writes SVG 1.1 directly from the display list, because Cairo would convert
 * text to outlines, but text should be searchable, selectable and editable. The
 * file has no scripts, style sheets or SVG 2 features, so that editors and
 * browsers show the same picture.
 */
#include "render/picture_internal.h"

#include <stdarg.h>
#include <stdlib.h>

#define FONTS                                                                  \
    "DejaVu Sans, Verdana, sans-serif" /* fallback fonts of similar width */

typedef struct svg {
    const es_picture *picture;
    es_buffer out;
    bool clipped; /* true while a clipping group is open */
} svg;

/* Rounds x in the same way as es_buffer_number, so that shapes computed from
 * rounded ends join without gaps. */
static double rounded(double x)
{
    return (double)llround(x * 100) / 100;
}

static void put_color(svg *s, const char *attribute, es_color c);

/*
 * Adds `format` to the output, and replaces in it
 *
 *   %s  by a string                %c  by a colour, from two arguments: "fill"
 *   %n  by a number                    or "stroke", and the es_color
 *   %l  by a length, which must    %a  by the corner and sides of a shape
 *       not round to zero
 */
static void put_format(svg *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    for (const char *next; *format; format = next) {
        next = format + strcspn(format, "%");
        es_buffer_add(&s->out, format, (size_t)(next - format));
        if (!*next)
            break;
        switch (next[1]) {
        case 's':
            es_buffer_text(&s->out, va_arg(arguments, const char *));
            break;
        case 'n':
            es_buffer_number(&s->out, va_arg(arguments, double));
            break;
        case 'l':
            es_buffer_number(&s->out, fmax(va_arg(arguments, double), 0.01));
            break;
        case 'c': {
            const char *attribute = va_arg(arguments, const char *);
            put_color(s, attribute, va_arg(arguments, es_color));
            break;
        }
        default: {
            const es_picture_shape *area =
                va_arg(arguments, const es_picture_shape *);
            put_format(s, " x=\"%n\" y=\"%n\" width=\"%l\" height=\"%l\"",
                       area->x, area->y,
                       rounded(area->x + area->width) - rounded(area->x),
                       rounded(area->y + area->height) - rounded(area->y));
        }
        }
        next += 2;
    }
    va_end(arguments);
}

static void put_color(svg *s, const char *attribute, es_color c)
{
    bool twice = c.r % 17 == 0 && c.g % 17 == 0 && c.b % 17 == 0; /* #rgb */
    char hex[8];
    if (twice)
        snprintf(hex, sizeof hex, "%x%x%x", c.r & 15u, c.g & 15u, c.b & 15u);
    else
        snprintf(hex, sizeof hex, "%02x%02x%02x", c.r, c.g, c.b);
    put_format(s, " %s=\"#%s\"", attribute, hex);
    if (c.a != 255)
        put_format(s, " %s-opacity=\"%n\"", attribute, c.a / 255.0);
}

static void write_rect(svg *s, const es_picture_shape *shape)
{
    put_format(s, "<rect%a%c/>\n", shape, "fill", shape->color);
}

static void write_frame(svg *s, const es_picture_shape *shape)
{
    put_format(s, "<rect%a fill=\"none\"%c stroke-width=\"%l\"/>\n", shape,
               "stroke", shape->color, shape->size);
}

/* A path that is being written, in relative steps of rounded coordinates. */
typedef struct pen {
    svg *s;
    double x, y; /* current point, in rounded coordinates */
} pen;

static void move_to(pen *p, double x, double y)
{
    p->x = rounded(x);
    p->y = rounded(y);
    /* No space is needed between two numbers if the second has a minus sign. */
    put_format(p->s, p->y < 0 ? "M%n%n" : "M%n %n", p->x, p->y);
}

static void line_to(pen *p, double x, double y)
{
    double right = rounded(rounded(x) - p->x);
    double down = rounded(rounded(y) - p->y);
    p->x = rounded(x);
    p->y = rounded(y);
    if (down == 0)
        put_format(p->s, "h%n", right);
    else if (right == 0)
        put_format(p->s, "v%n", down);
    else
        put_format(p->s, down < 0 ? "l%n%n" : "l%n %n", right, down);
}

/* Writes a hatching. Its lines are on x + y = k * spacing for all integers k,
 * so that hatchings of adjacent areas join. Lines end at a distance from the
 * border, because their round caps reach beyond the ends. */
static void write_hatch(svg *s, const es_picture_shape *shape)
{
    const double spacing = ES_HATCH_SPACING, inside = ES_HATCH_LINE / sqrt(8);
    double left = fmax(shape->x, 0) + inside, top = fmax(shape->y, 0) + inside;
    double right = fmin(shape->x + shape->width, s->picture->width) - inside;
    double bottom = fmin(shape->y + shape->height, s->picture->height) - inside;
    double last = left < right && top < bottom ? right + bottom : -INFINITY;
    pen p = {.s = s};
    write_rect(s, shape);
    put_format(s, "<path fill=\"none\"%c stroke-width=\"%l\" d=\"", "stroke",
               shape->stroke, ES_HATCH_LINE);
    for (double k = ceil((left + top) / spacing); k * spacing < last; k++) {
        double x0 = fmin(right, k * spacing - top);
        double x1 = fmax(left, k * spacing - bottom);
        move_to(&p, x0, k * spacing - x0);
        line_to(&p, x1, k * spacing - x1);
    }
    put_format(s, "\"/>\n");
}

static void write_line(svg *s, const es_picture_shape *shape)
{
    put_format(s,
               "<line x1=\"%n\" y1=\"%n\" x2=\"%n\" y2=\"%n\"%c"
               " stroke-width=\"%l\"",
               shape->x, shape->y, shape->x + shape->width,
               shape->y + shape->height, "stroke", shape->color, shape->size);
    if (shape->dash > 0)
        put_format(s, " stroke-dasharray=\"%l\"", shape->dash);
    put_format(s, "/>\n");
}

/* Writes a polyline. Points that round to the same position are merged, except
 * the first one after a move, because a line of zero length with round caps is
 * a dot. */
static void write_polyline(svg *s, const es_picture_shape *shape)
{
    const double *points = s->picture->numbers + shape->first;
    pen p = {.s = s};
    size_t run = 0; /* number of points since the last move */
    put_format(s,
               "<path fill=\"none\"%s stroke-linejoin=\"round\"%c"
               " stroke-width=\"%l\"",
               shape->dash > 0 ? "" : " stroke-linecap=\"round\"", "stroke",
               shape->color, shape->size);
    if (shape->dash > 0)
        put_format(s, " stroke-dasharray=\"%l\"", shape->dash);
    put_format(s, " d=\"");
    for (size_t i = 0; i < shape->n; i++) {
        double x = points[2 * i], y = points[2 * i + 1];
        if (isnan(x))
            run = 0;
        else if (run++ == 0)
            move_to(&p, x, y);
        else if (run == 2 || rounded(x) != p.x || rounded(y) != p.y)
            line_to(&p, x, y);
    }
    put_format(s, "\"/>\n");
}

/* Writes a path around the spans [from, to): along the tops, then back along
 * the bottoms. */
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
    put_format(s, "z");
}

static void write_spans(svg *s, const es_picture_shape *shape)
{
    const double *spans = s->picture->numbers + shape->first;
    put_format(s, "<path%c d=\"", "fill", shape->color);
    for (size_t from = 0, to; from < shape->n; from = to + 1) {
        to = es_spans_end(spans, from, shape->n);
        if (to > from)
            outline_spans(s, shape, from, to);
    }
    put_format(s, "\"/>\n");
}

static void write_dot(svg *s, const es_picture_shape *shape)
{
    put_format(s, "<circle cx=\"%n\" cy=\"%n\" r=\"%l\"%c/>\n", shape->x,
               shape->y, shape->size, "fill", shape->color);
}

/* Writes an image as an embedded PNG. The xlink namespace is declared on the
 * image, because most pictures have no image. */
static void write_image(svg *s, const es_picture_shape *shape)
{
    put_format(
        s,
        "<image xmlns:xlink=\"http://www.w3.org/1999/xlink\"%a"
        " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\""
        " xlink:href=\"data:image/png;base64,",
        shape);
    es_buffer_image(&s->out, s->picture, shape);
    put_format(s, "\"/>\n");
}

/* Returns true if a viewer would drop a space of the text. */
static bool has_spaces(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 &&
           (text[0] == ' ' || text[n - 1] == ' ' || strstr(text, "  "));
}

/* Writes a text. textLength makes a substitute font draw the text with the same
 * total width. xml:space is an attribute of the text itself, because Chromium
 * does not inherit it. */
static void write_text(svg *s, const es_picture_shape *shape)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"",
                                          " text-anchor=\"end\""};
    const char *strings = s->picture->text;
    int align = (int)shape->align;
    double width =
        es_drawn_width(strings + shape->drawn, shape->size, shape->weight);
    put_format(s, "<text x=\"%n\" y=\"%n\" font-size=\"%l\"%s%s%s%c", shape->x,
               shape->y, shape->size,
               shape->weight == ES_WEIGHT_BOLD ? " font-weight=\"bold\"" : "",
               /* In right-to-left text, "start" means the right end. */
               anchors[shape->leftward ? 2 - align : align],
               shape->leftward ? " direction=\"rtl\"" : "", "fill",
               shape->color);
    if (shape->degrees != 0)
        put_format(s, " transform=\"rotate(%n %n %n)\"", -shape->degrees,
                   shape->x, shape->y);
    if (has_spaces(strings + shape->first))
        put_format(s, " xml:space=\"preserve\"");
    if (width > 0)
        put_format(s, " textLength=\"%l\" lengthAdjust=\"spacingAndGlyphs\"",
                   width);
    put_format(s, ">");
    es_buffer_xml(&s->out, strings + shape->first);
    put_format(s, "</text>\n");
}

static void write_unclip(svg *s, const es_picture_shape *shape)
{
    (void)shape;
    put_format(s, s->clipped ? "</g>\n" : "");
    s->clipped = false;
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

/* Begins a clip. Its id consists of the coordinates: if several pictures are
 * put into one document, equal ids then mean equal rectangles. */
static void write_clip(svg *s, const es_picture_shape *shape)
{
    double x = shape->x, y = shape->y;
    double width = shape->width, height = shape->height;
    write_unclip(s, shape);
    if (!is_defined(s, shape))
        put_format(s,
                   "<clipPath id=\"clip_%n_%n_%n_%n\"><rect%a/></clipPath>\n",
                   x, y, width, height, shape);
    put_format(s, "<g clip-path=\"url(#clip_%n_%n_%n_%n)\">\n", x, y, width,
               height);
    s->clipped = true;
}

static void write_head(svg *s, const es_picture_note *notes, size_t n_notes)
{
    const es_picture *picture = s->picture;
    const char *title = es_note_title(notes, n_notes);
    put_format(
        s,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%npt\""
        " height=\"%npt\" viewBox=\"0 0 %n %n\" font-family=\"" FONTS "\""
        " text-rendering=\"geometricPrecision\">\n",
        picture->width, picture->height, picture->width, picture->height);
    if (title) {
        put_format(s, "<title>");
        es_buffer_clean(&s->out, title, true);
        put_format(s, "</title>\n");
    }
    if (n_notes > 0) {
        put_format(s, "<desc>");
        es_buffer_notes(&s->out, notes, n_notes, true);
        put_format(s, "</desc>\n");
    }
    put_format(s, "<rect width=\"100%s\" height=\"100%s\"%c/>\n", "%", "%",
               "fill", picture->background);
}

es_status es_picture_write_svg(const es_picture *picture, FILE *out,
                               const es_picture_note *notes, size_t n_notes)
{
    static void (*const writes[])(svg *, const es_picture_shape *) = {
        [ES_SHAPE_RECT] = write_rect,         [ES_SHAPE_FRAME] = write_frame,
        [ES_SHAPE_HATCH] = write_hatch,       [ES_SHAPE_LINE] = write_line,
        [ES_SHAPE_POLYLINE] = write_polyline, [ES_SHAPE_SPANS] = write_spans,
        [ES_SHAPE_DOT] = write_dot,           [ES_SHAPE_IMAGE] = write_image,
        [ES_SHAPE_TEXT] = write_text,         [ES_SHAPE_CLIP] = write_clip,
        [ES_SHAPE_UNCLIP] = write_unclip,
    };
    svg s = {.picture = picture};
    write_head(&s, notes, n_notes);
    for (size_t i = 0; i < picture->n_shapes; i++)
        writes[picture->shapes[i].kind](&s, &picture->shapes[i]);
    write_unclip(&s, NULL);
    put_format(&s, "</svg>\n");
    es_status status = es_buffer_write(&s.out, out);
    free(s.out.data);
    return status;
}
