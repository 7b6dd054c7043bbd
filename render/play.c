/*
 * Draws a display list on a Cairo context, for PNG and PDF. For PNG, edges snap
 * to the pixel grid; for PDF, coordinates stay in points.
 */
#include "render/picture_internal.h"

typedef struct player {
    const es_picture *picture;
    cairo_t *cr;
    double scale; /* pixels per point; 0 for a device without pixels */
} player;

static void use_color(cairo_t *cr, es_color color)
{
    cairo_set_source_rgba(cr, color.r / 255.0, color.g / 255.0, color.b / 255.0,
                          color.a / 255.0);
}

/* Returns the position nearest to x that lies between two pixels. */
static double edge(const player *p, double x)
{
    return p->scale > 0 ? round(x * p->scale) / p->scale : x;
}

static double whole_pixels(const player *p, double line_width)
{
    if (p->scale <= 0)
        return line_width;
    return fmax(1, round(line_width * p->scale)) / p->scale;
}

/* Returns a position for the centre of a horizontal or vertical line at which
 * both sides of the line lie on pixel edges, so that the line is sharp. */
static double middle(const player *p, double x, double line_width)
{
    double half = whole_pixels(p, line_width) / 2;
    return p->scale > 0 ? edge(p, x - half) + half : x;
}

static void outline(const player *p, const es_picture_shape *s)
{
    double x0 = edge(p, s->x), x1 = edge(p, s->x + s->width);
    double y0 = edge(p, s->y), y1 = edge(p, s->y + s->height);
    cairo_rectangle(p->cr, x0, y0, x1 - x0, y1 - y0);
}

static void play_rect(const player *p, const es_picture_shape *s)
{
    use_color(p->cr, s->color);
    outline(p, s);
    cairo_fill(p->cr);
}

static void play_frame(const player *p, const es_picture_shape *s)
{
    double x0 = middle(p, s->x, s->size);
    double x1 = middle(p, s->x + s->width, s->size);
    double y0 = middle(p, s->y, s->size);
    double y1 = middle(p, s->y + s->height, s->size);
    use_color(p->cr, s->color);
    cairo_set_line_width(p->cr, whole_pixels(p, s->size));
    cairo_rectangle(p->cr, x0, y0, x1 - x0, y1 - y0);
    cairo_stroke(p->cr);
}

/* Draws a hatching. On the whole page its lines are on x + y = k * spacing for
 * integers k, so that hatchings of adjacent areas join. */
static void play_hatch(const player *p, const es_picture_shape *s)
{
    const double spacing = ES_HATCH_SPACING;
    double last = s->x + s->width + s->y + s->height;
    play_rect(p, s);
    cairo_save(p->cr);
    outline(p, s);
    cairo_clip(p->cr);
    use_color(p->cr, s->stroke);
    cairo_set_line_width(p->cr, ES_HATCH_LINE);
    for (double k = ceil((s->x + s->y) / spacing); k * spacing < last; k++) {
        cairo_move_to(p->cr, k * spacing - s->y, s->y);
        cairo_line_to(p->cr, k * spacing - s->y - s->height, s->y + s->height);
    }
    cairo_stroke(p->cr);
    cairo_restore(p->cr);
}

static void play_line(const player *p, const es_picture_shape *s)
{
    double x0 = s->x, x1 = s->x + s->width, y0 = s->y, y1 = s->y + s->height;
    double line_width = s->size;
    if (s->width == 0 || s->height == 0)
        line_width = whole_pixels(p, s->size);
    if (s->width == 0)
        x0 = x1 = middle(p, s->x, s->size);
    else if (s->height == 0)
        y0 = y1 = middle(p, s->y, s->size);
    use_color(p->cr, s->color);
    cairo_set_line_width(p->cr, line_width);
    cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_BUTT);
    cairo_set_dash(p->cr, &s->dash, s->dash > 0, 0);
    cairo_move_to(p->cr, x0, y0);
    cairo_line_to(p->cr, x1, y1);
    cairo_stroke(p->cr);
    cairo_set_dash(p->cr, NULL, 0, 0);
}

static void play_polyline(const player *p, const es_picture_shape *s)
{
    const double *points = p->picture->numbers + s->first;
    bool down = false;
    for (size_t i = 0; i < s->n; i++) {
        const double *point = points + 2 * i;
        if (isnan(point[0]))
            down = false;
        else if (down)
            cairo_line_to(p->cr, point[0], point[1]);
        else {
            cairo_move_to(p->cr, point[0], point[1]);
            down = true;
        }
    }
    use_color(p->cr, s->color);
    cairo_set_line_width(p->cr, s->size);
    cairo_set_line_cap(p->cr, s->dash > 0 ? CAIRO_LINE_CAP_BUTT
                                          : CAIRO_LINE_CAP_ROUND);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(p->cr, &s->dash, s->dash > 0, 0);
    cairo_stroke(p->cr);
    cairo_set_dash(p->cr, NULL, 0, 0);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_MITER);
}

/* Adds a path around the spans [from, to): along the tops, then back along the
 * bottoms. */
static void outline_spans(const player *p, const es_picture_shape *s,
                          size_t from, size_t to)
{
    const double *spans = p->picture->numbers + s->first;
    double left = s->x + (double)from * s->size;
    double right = s->x + (double)to * s->size;
    cairo_move_to(p->cr, left, spans[2 * from]);
    for (size_t i = from; i < to; i++)
        cairo_line_to(p->cr, s->x + ((double)i + 0.5) * s->size, spans[2 * i]);
    cairo_line_to(p->cr, right, spans[2 * to - 2]);
    cairo_line_to(p->cr, right, spans[2 * to - 1]);
    for (size_t i = to; i-- > from;)
        cairo_line_to(p->cr, s->x + ((double)i + 0.5) * s->size,
                      spans[2 * i + 1]);
    cairo_line_to(p->cr, left, spans[2 * from + 1]);
    cairo_close_path(p->cr);
}

/*
 * Fills the spans of a series. On a device with pixels, each bar is filled
 * separately, which is several times as fast as one path. On other devices an
 * outline is filled, which takes a third of the bytes and shows no gaps between
 * bars.
 */
static void play_spans(const player *p, const es_picture_shape *s)
{
    const double *spans = p->picture->numbers + s->first;
    use_color(p->cr, s->color);
    for (size_t i = 0; p->scale > 0 && i < s->n; i++) {
        double top = spans[2 * i], bottom = spans[2 * i + 1];
        double x0 = edge(p, s->x + (double)i * s->size);
        double x1 = edge(p, s->x + (double)(i + 1) * s->size);
        if (!(top < bottom)) /* a gap */
            continue;
        x1 = fmax(x1, x0 + 1 / p->scale); /* a bar is at least one pixel wide */
        cairo_rectangle(p->cr, x0, top, x1 - x0, bottom - top);
        cairo_fill(p->cr);
    }
    if (p->scale > 0)
        return;
    for (size_t from = 0, to; from < s->n; from = to + 1) {
        to = es_spans_end(spans, from, s->n);
        if (to > from)
            outline_spans(p, s, from, to);
    }
    cairo_fill(p->cr);
}

static void play_dot(const player *p, const es_picture_shape *s)
{
    use_color(p->cr, s->color);
    cairo_new_sub_path(p->cr);
    cairo_arc(p->cr, s->x, s->y, s->size, 0, 2 * M_PI);
    cairo_fill(p->cr);
}

/*
 * Draws right-to-left text at the current point; `drawn` is the text of an
 * es_drawn. Formats that store text get the original letters together with the
 * glyphs, so that a search also finds joined letters.
 */
static void show_turned(cairo_t *cr, const char *drawn)
{
    const char *letters = drawn + strlen(drawn) + 1;
    cairo_glyph_t *glyphs = NULL;
    cairo_text_cluster_t *clusters = NULL; /* one cluster per character */
    cairo_text_cluster_flags_t flags;
    int n_glyphs, n_clusters;
    double x, y;
    cairo_get_current_point(cr, &x, &y);
    cairo_status_t status = cairo_scaled_font_text_to_glyphs(
        cairo_get_scaled_font(cr), x, y, drawn, -1, &glyphs, &n_glyphs,
        &clusters, &n_clusters, &flags);
    if (status == CAIRO_STATUS_SUCCESS) {
        const char *letter = letters;
        for (int i = 0; i < n_clusters; i++) {
            const char *first = letter++;
            while (((unsigned char)*letter & 0xc0) == 0x80)
                letter++;
            clusters[i].num_bytes = (int)(letter - first);
        }
        cairo_show_text_glyphs(cr, letters, -1, glyphs, n_glyphs, clusters,
                               n_clusters, flags);
    } else
        /* cairo_scaled_font_text_to_glyphs has failed; this call fails in the
         * same way and so stores the error in cr. */
        cairo_show_text(cr, drawn);
    cairo_glyph_free(glyphs);
    cairo_text_cluster_free(clusters);
}

/* Returns an image as a surface, with `across` x `down` pixels per cell. The
 * caller destroys the surface; its status is an error if memory ran out. */
static cairo_surface_t *image_surface(const es_picture *picture,
                                      const es_picture_shape *image,
                                      size_t across, size_t down)
{
    size_t n = image->n_columns, n_rows = image->n / n;
    const uint8_t *cells = es_image_cells(picture, image);
    uint32_t colors[256] = {0};
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)(n * across), (int)(n_rows * down));
    if (cairo_surface_status(surface) != CAIRO_STATUS_SUCCESS)
        return surface;
    for (size_t i = 0; i < image->n_colors; i++)
        colors[i] = es_color_packed(es_image_color(picture, image, i));
    unsigned char *data = cairo_image_surface_get_data(surface);
    int stride = cairo_image_surface_get_stride(surface);
    for (size_t y = 0; y < n_rows * down; y++) {
        uint32_t *row = (uint32_t *)(void *)(data + y * (size_t)stride);
        for (size_t x = 0; x < n * across; x++)
            row[x] = colors[cells[y / down * n + x / across]];
    }
    cairo_surface_mark_dirty(surface);
    return surface;
}

/* Draws an image with the exact colours of its cells. Filters are switched off,
 * because they would blend adjacent cells. */
static void play_image(const player *p, const es_picture_shape *s)
{
    double x = edge(p, s->x), y = edge(p, s->y);
    double width = edge(p, s->x + s->width) - x;
    double height = edge(p, s->y + s->height) - y;
    size_t n_columns = s->n_columns, n_rows = s->n / n_columns;
    bool pixels = p->scale > 0;
    size_t across = pixels ? 1 : es_image_repeats(width, n_columns);
    size_t down = pixels ? 1 : es_image_repeats(height, n_rows);
    if (!(width > 0 && height > 0))
        return;
    cairo_surface_t *surface = image_surface(p->picture, s, across, down);
    cairo_save(p->cr);
    cairo_rectangle(p->cr, x, y, width, height);
    cairo_translate(p->cr, x, y);
    cairo_scale(p->cr, width / (double)(n_columns * across),
                height / (double)(n_rows * down));
    cairo_set_source_surface(p->cr, surface, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(p->cr), CAIRO_FILTER_NEAREST);
    cairo_fill(p->cr);
    cairo_restore(p->cr);
    cairo_surface_destroy(surface);
}

static void play_text(const player *p, const es_picture_shape *s)
{
    static const double before[] = {
        [ES_ALIGN_START] = 0, [ES_ALIGN_MIDDLE] = 0.5, [ES_ALIGN_END] = 1};
    const char *text = p->picture->text + s->drawn;
    double width = 0;
    if (s->align != ES_ALIGN_START)
        width = es_drawn_width(text, s->size, s->weight);
    cairo_set_font_face(p->cr, es_font_face(s->weight));
    cairo_set_font_size(p->cr, s->size);
    use_color(p->cr, s->color);
    cairo_save(p->cr);
    cairo_translate(p->cr, s->x, s->y);
    cairo_rotate(p->cr, -s->degrees * M_PI / 180);
    cairo_move_to(p->cr, -width * before[s->align], 0);
    if (s->drawn == s->first)
        cairo_show_text(p->cr, text);
    else
        show_turned(p->cr, text);
    cairo_restore(p->cr);
    /* Remove the current point that cairo_show_text leaves. */
    cairo_new_path(p->cr);
}

static void play_clip(const player *p, const es_picture_shape *s)
{
    cairo_reset_clip(p->cr);
    outline(p, s);
    cairo_clip(p->cr);
}

static void play_unclip(const player *p, const es_picture_shape *s)
{
    (void)s;
    cairo_reset_clip(p->cr);
}

cairo_status_t es_picture_play(const es_picture *picture, cairo_t *cr,
                               double scale)
{
    static void (*const plays[])(const player *, const es_picture_shape *) = {
        [ES_SHAPE_RECT] = play_rect,         [ES_SHAPE_FRAME] = play_frame,
        [ES_SHAPE_HATCH] = play_hatch,       [ES_SHAPE_LINE] = play_line,
        [ES_SHAPE_POLYLINE] = play_polyline, [ES_SHAPE_SPANS] = play_spans,
        [ES_SHAPE_DOT] = play_dot,           [ES_SHAPE_IMAGE] = play_image,
        [ES_SHAPE_TEXT] = play_text,         [ES_SHAPE_CLIP] = play_clip,
        [ES_SHAPE_UNCLIP] = play_unclip,
    };
    player p = {picture, cr, scale};
    cairo_font_options_t *options = es_font_options();
    cairo_set_font_options(cr, options);
    cairo_font_options_destroy(options);
    if (scale > 0)
        cairo_scale(cr, scale, scale);
    use_color(cr, picture->background);
    cairo_paint(cr);
    for (size_t i = 0; i < picture->n_shapes; i++)
        plays[picture->shapes[i].kind](&p, &picture->shapes[i]);
    cairo_reset_clip(cr);
    return cairo_status(cr);
}

es_status es_cairo_status(cairo_status_t status)
{
    switch (status) {
    case CAIRO_STATUS_SUCCESS:
        return ES_OK;
    case CAIRO_STATUS_NO_MEMORY:
        return es_fail(ES_ENOMEM, "picture: out of memory");
    default:
        return es_fail(ES_EINTERNAL, "picture: %s",
                       cairo_status_to_string(status));
    }
}
