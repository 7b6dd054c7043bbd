/*
 * Implements the display list. Charts append shapes, which are checked and
 * copied here, so that the writers of file formats need no checks. If memory
 * runs out, the picture remembers this failure until it is written.
 */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"

#define LARGEST_SIDE 20000.0
#define LARGEST_COORDINATE 1e5

es_status es_picture_check_sides(double width, double height)
{
    if (width >= 1 && width <= LARGEST_SIDE && height >= 1 &&
        height <= LARGEST_SIDE)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "a picture of %.7gx%.7g points: each side must be from 1 "
                   "to %.0f",
                   width, height, LARGEST_SIDE);
}

es_status es_picture_new(es_picture **out, double width, double height,
                         es_color background)
{
    es_picture *picture = NULL;
    es_status status;
    if ((status = es_picture_check_sides(width, height)) < 0 ||
        (status = es_alloc(&picture, 1, sizeof *picture, "a picture")) < 0)
        return status;
    picture->width = width;
    picture->height = height;
    picture->background = background;
    *out = picture;
    return ES_OK;
}

void es_picture_free(es_picture *picture)
{
    if (!picture)
        return;
    free(picture->shapes);
    free(picture->numbers);
    free(picture->text);
    free(picture);
}

bool es_picture_reserve(void *pointer, size_t *capacity, size_t used, size_t n,
                        size_t size)
{
    void *array, *grown;
    size_t needed;
    if (!es_size_add(&needed, used, n))
        return false;
    if (needed <= *capacity)
        return true;
    size_t wanted = needed / 2 > *capacity ? needed : needed + *capacity;
    memcpy(&array, pointer, sizeof array);
    if (!(grown = es_resize(array, wanted, size)))
        return false;
    memcpy(pointer, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

/* Makes space for n more bytes of text. If memory runs out, sets
 * picture->failed and returns false. */
static bool reserve_text(es_picture *picture, size_t n)
{
    if (!picture->failed &&
        es_picture_reserve(&picture->text, &picture->text_capacity,
                           picture->n_text, n, 1))
        return true;
    picture->failed = true;
    return false;
}

static void append_shape(es_picture *picture, es_picture_shape shape)
{
    if (picture->failed ||
        !es_picture_reserve(&picture->shapes, &picture->shapes_capacity,
                            picture->n_shapes, 1, sizeof *picture->shapes))
        picture->failed = true;
    else
        picture->shapes[picture->n_shapes++] = shape;
}

/* Clamps a coordinate to the range that all output formats can draw. Returns
 * false if the coordinate is not finite. */
static bool settle_coordinate(double *x)
{
    if (!isfinite(*x))
        return false;
    *x = fmax(-LARGEST_COORDINATE, fmin(*x, LARGEST_COORDINATE));
    return true;
}

/* Clamps a length to the range that all output formats can draw. Returns false
 * if the length is not finite or not positive. */
static bool settle_length(double *x)
{
    return settle_coordinate(x) && *x > 0;
}

static void append_area(es_picture *picture, double x, double y, double width,
                        double height, es_picture_shape shape)
{
    if (!(settle_coordinate(&x) && settle_coordinate(&y) &&
          settle_length(&width) && settle_length(&height)))
        return;
    shape.x = x;
    shape.y = y;
    shape.width = width;
    shape.height = height;
    append_shape(picture, shape);
}

void es_picture_rect(es_picture *picture, double x, double y, double width,
                     double height, es_color fill)
{
    append_area(picture, x, y, width, height,
                (es_picture_shape){.kind = ES_SHAPE_RECT, .color = fill});
}

void es_picture_frame(es_picture *picture, double x, double y, double width,
                      double height, double line_width, es_color stroke)
{
    if (settle_length(&line_width))
        append_area(picture, x, y, width, height,
                    (es_picture_shape){.kind = ES_SHAPE_FRAME,
                                       .size = line_width,
                                       .color = stroke});
}

void es_picture_hatch(es_picture *picture, double x, double y, double width,
                      double height, es_color fill, es_color stroke)
{
    append_area(picture, x, y, width, height,
                (es_picture_shape){
                    .kind = ES_SHAPE_HATCH, .color = fill, .stroke = stroke});
}

void es_picture_line(es_picture *picture, double x0, double y0, double x1,
                     double y1, double line_width, es_color stroke)
{
    es_picture_dashed(picture, x0, y0, x1, y1, line_width, 0, stroke);
}

void es_picture_dashed(es_picture *picture, double x0, double y0, double x1,
                       double y1, double line_width, double dash,
                       es_color stroke)
{
    if (!(settle_coordinate(&x0) && settle_coordinate(&y0) &&
          settle_coordinate(&x1) && settle_coordinate(&y1) &&
          settle_length(&line_width) && settle_coordinate(&dash)))
        return;
    append_shape(picture, (es_picture_shape){.kind = ES_SHAPE_LINE,
                                             .x = x0,
                                             .y = y0,
                                             .width = x1 - x0,
                                             .height = y1 - y0,
                                             .size = line_width,
                                             .dash = dash,
                                             .color = stroke});
}

/* Appends a shape with n pairs of coordinates. A pair that is not finite
 * becomes a pair of NaN. */
static void append_pairs(es_picture *picture, es_picture_shape shape,
                         const double *pairs, size_t n)
{
    size_t count;
    if (picture->failed || !es_size_mul(&count, n, 2) ||
        !es_picture_reserve(&picture->numbers, &picture->numbers_capacity,
                            picture->n_numbers, count, sizeof *pairs)) {
        picture->failed = true;
        return;
    }
    double *to = picture->numbers + picture->n_numbers;
    for (size_t i = 0; i < count; i += 2) {
        double first = pairs[i], second = pairs[i + 1];
        bool there = settle_coordinate(&first) && settle_coordinate(&second);
        to[i] = there ? first : NAN;
        to[i + 1] = there ? second : NAN;
    }
    shape.first = picture->n_numbers;
    shape.n = n;
    picture->n_numbers += count;
    append_shape(picture, shape);
}

void es_picture_polyline(es_picture *picture, const double *points, size_t n,
                         double line_width, es_color stroke)
{
    es_picture_dashed_polyline(picture, points, n, line_width, 0, stroke);
}

void es_picture_dashed_polyline(es_picture *picture, const double *points,
                                size_t n, double line_width, double dash,
                                es_color stroke)
{
    if (n > 0 && settle_length(&line_width) && settle_coordinate(&dash))
        append_pairs(picture,
                     (es_picture_shape){.kind = ES_SHAPE_POLYLINE,
                                        .size = line_width,
                                        .dash = dash,
                                        .color = stroke},
                     points, n);
}

void es_picture_spans(es_picture *picture, double x, double column,
                      const double *spans, size_t n, es_color fill)
{
    if (n > 0 && settle_coordinate(&x) && settle_length(&column))
        append_pairs(
            picture,
            (es_picture_shape){
                .kind = ES_SHAPE_SPANS, .x = x, .size = column, .color = fill},
            spans, n);
}

#define MOST_COLORS 256
/* Maximum number of cells per side, a limit of Cairo. */
#define MOST_CELLS 32767

void es_picture_image(es_picture *picture, double x, double y, double width,
                      double height, const uint8_t *cells, size_t n_columns,
                      size_t n_rows, const es_color *palette, size_t n_colors)
{
    if (!n_columns || !n_rows || n_columns > MOST_CELLS ||
        n_rows > MOST_CELLS || !n_colors || n_colors > MOST_COLORS)
        return;
    size_t n = n_columns * n_rows, n_palette = n_colors * sizeof *palette;
    if (!reserve_text(picture, n_palette + n))
        return;
    char *to = picture->text + picture->n_text;
    memcpy(to, palette, n_palette);
    /* The writers rely on valid palette indices. */
    for (size_t i = 0; i < n; i++)
        to[n_palette + i] = (char)(cells[i] < n_colors ? cells[i] : 0);
    append_area(picture, x, y, width, height,
                (es_picture_shape){.kind = ES_SHAPE_IMAGE,
                                   .color = palette[0],
                                   .n_columns = n_columns,
                                   .n_colors = n_colors,
                                   .first = picture->n_text,
                                   .n = n});
    picture->n_text += n_palette + n;
}

void es_picture_dot(es_picture *picture, double x, double y, double radius,
                    es_color fill)
{
    if (settle_coordinate(&x) && settle_coordinate(&y) &&
        settle_length(&radius))
        append_shape(picture, (es_picture_shape){.kind = ES_SHAPE_DOT,
                                                 .x = x,
                                                 .y = y,
                                                 .size = radius,
                                                 .color = fill});
}

/* Copies n bytes of a string, including the NUL. Returns the offset of the
 * copy, or 0 with picture->failed set. */
static size_t append_string(es_picture *picture, const char *string, size_t n)
{
    if (!reserve_text(picture, n))
        return 0;
    memcpy(picture->text + picture->n_text, string, n);
    picture->n_text += n;
    return picture->n_text - n;
}

void es_picture_text(es_picture *picture, double x, double y, double size,
                     es_align align, es_font_weight weight, double degrees,
                     es_color color, const char *text)
{
    if (!(settle_coordinate(&x) && settle_coordinate(&y) &&
          settle_length(&size) && settle_coordinate(&degrees)) ||
        text[0] == '\0')
        return;
    char *clean = es_text_cleaned(text);
    if (!clean) {
        picture->failed = true;
        return;
    }
    es_picture_shape shape = {.kind = ES_SHAPE_TEXT,
                              .x = x,
                              .y = y,
                              .size = size,
                              .align = align,
                              .weight = weight,
                              .degrees = degrees,
                              .color = color,
                              .n = strlen(clean) + 1};
    shape.first = shape.drawn = append_string(picture, clean, shape.n);
    if (es_text_is_bidi(clean)) {
        es_drawn drawn = es_text_turn(clean);
        if (drawn.text)
            shape.drawn = append_string(picture, drawn.text, drawn.n);
        else
            picture->failed = true;
        shape.leftward = drawn.leftward;
        free(drawn.text);
    }
    append_shape(picture, shape);
    free(clean);
}

void es_picture_clip(es_picture *picture, double x, double y, double width,
                     double height)
{
    append_area(picture, x, y, width, height,
                (es_picture_shape){.kind = ES_SHAPE_CLIP});
}

void es_picture_unclip(es_picture *picture)
{
    append_shape(picture, (es_picture_shape){.kind = ES_SHAPE_UNCLIP});
}

es_status es_picture_zoom(es_picture *picture, double factor)
{
    if (!(factor > 0))
        return es_fail(ES_EUSAGE, "zoom factor %g: must be positive", factor);
    es_status status = es_picture_check_sides(picture->width * factor,
                                              picture->height * factor);
    if (status != ES_OK)
        return status;
    picture->width *= factor;
    picture->height *= factor;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        es_picture_shape *shape = &picture->shapes[i];
        shape->x *= factor;
        shape->y *= factor;
        shape->width *= factor;
        shape->height *= factor;
        shape->size *= factor;
        shape->dash *= factor;
    }
    for (size_t i = 0; i < picture->n_numbers; i++)
        picture->numbers[i] *= factor;
    return ES_OK;
}

/* Moves the n pairs of a polyline by (x, y). For spans, whose pairs consist of
 * two y positions, callers pass y as `x` too. */
static void move_numbers(double *numbers, size_t n, double x, double y)
{
    for (size_t i = 0; i < 2 * n; i += 2) {
        numbers[i] += x;
        numbers[i + 1] += y;
    }
}

void es_picture_add(es_picture *picture, const es_picture *other, double x,
                    double y)
{
    size_t n_text = picture->n_text, n_numbers = picture->n_numbers;
    if (other->failed || !reserve_text(picture, other->n_text) ||
        !es_picture_reserve(&picture->numbers, &picture->numbers_capacity,
                            n_numbers, other->n_numbers,
                            sizeof *picture->numbers)) {
        picture->failed = true;
        return;
    }
    if (other->n_text)
        memcpy(picture->text + n_text, other->text, other->n_text);
    if (other->n_numbers)
        memcpy(picture->numbers + n_numbers, other->numbers,
               other->n_numbers * sizeof *other->numbers);
    picture->n_text += other->n_text;
    picture->n_numbers += other->n_numbers;
    for (size_t i = 0; i < other->n_shapes; i++) {
        es_picture_shape shape = other->shapes[i];
        bool spans = shape.kind == ES_SHAPE_SPANS;
        bool numbered = spans || shape.kind == ES_SHAPE_POLYLINE;
        shape.first += numbered ? n_numbers : n_text;
        shape.drawn += n_text;
        shape.x += x;
        shape.y += y;
        if (numbered)
            move_numbers(picture->numbers + shape.first, shape.n, spans ? y : x,
                         y);
        append_shape(picture, shape);
    }
}

void es_picture_sides(const es_picture *picture, double *width, double *height)
{
    *width = picture->width;
    *height = picture->height;
}

es_status es_picture_check_ready(const es_picture *picture)
{
    if (es_text_ran_out() || picture->failed)
        return es_fail(ES_ENOMEM, "picture: out of memory");
    if (!es_font_face(ES_WEIGHT_NORMAL) || !es_font_face(ES_WEIGHT_BOLD))
        return es_fail(ES_ENOMEM, "cannot load the font DejaVu Sans: out of "
                                  "memory, or its file is damaged");
    return ES_OK;
}
