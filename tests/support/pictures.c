/* Reads PNG files, compares pictures with each other and with golden files by
 * blocks of pixels, and checks display lists. */
#include "tests/support/pictures.h"

#include "render/picture_internal.h"
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK 8
#define BLOCK_TOLERANCE 16.0

static bool read_header(es_image *out, png_structp png, png_infop info)
{
    png_read_info(png, info);
    out->width = (int)png_get_image_width(png, info);
    out->height = (int)png_get_image_height(png, info);
    out->color_type = png_get_color_type(png, info);
    png_colorp entries;
    if (png_get_PLTE(png, info, &entries, &out->n_palette) == 0)
        out->n_palette = 0;
    if (png_get_bit_depth(png, info) != 8)
        return false;
    png_set_palette_to_rgb(png);
    png_read_update_info(png, info);
    out->rgb = malloc((size_t)out->width * (size_t)out->height * 3);
    return out->rgb && png_get_rowbytes(png, info) == (size_t)out->width * 3;
}

static void read_notes(es_image *out, png_structp png, png_infop info)
{
    png_textp texts;
    int n = 0;
    png_get_text(png, info, &texts, &n);
    for (int i = 0; i < n && i < IMAGE_NOTES; i++) {
        out->keys[i] = strdup(texts[i].key);
        out->values[i] = strdup(texts[i].text);
        out->n_notes = i + 1;
    }
}

static bool read_body(es_image *out, png_structp png, png_infop info, FILE *in)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_init_io(png, in);
    if (!read_header(out, png, info))
        return false;
    for (int y = 0; y < out->height; y++)
        png_read_row(png, out->rgb + (size_t)y * (size_t)out->width * 3, NULL);
    png_read_end(png, info);
    read_notes(out, png, info);
    return true;
}

bool image_read(es_image *out, const void *bytes, size_t n)
{
    memset(out, 0, sizeof *out);
    /* fmemopen requires a buffer that is not const */
    void *copy = malloc(n + 1);
    memcpy(copy, bytes, n);
    FILE *in = fmemopen(copy, n, "rb");
    png_structp png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    bool good = in && read_body(out, png, info, in);
    png_destroy_read_struct(&png, &info, NULL);
    if (in)
        fclose(in);
    free(copy);
    if (!good)
        image_clear(out);
    return good;
}

void image_clear(es_image *image)
{
    free(image->rgb);
    for (int i = 0; i < image->n_notes; i++) {
        free(image->keys[i]);
        free(image->values[i]);
    }
    memset(image, 0, sizeof *image);
}

uint32_t image_at(const es_image *image, int x, int y)
{
    const unsigned char *p =
        image->rgb + ((size_t)y * (size_t)image->width + (size_t)x) * 3;
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

uint32_t image_color(es_color color)
{
    return (uint32_t)color.r << 16 | (uint32_t)color.g << 8 | color.b;
}

const char *image_note(const es_image *image, const char *key)
{
    for (int i = 0; i < image->n_notes; i++)
        if (strcmp(image->keys[i], key) == 0)
            return image->values[i];
    return NULL;
}

char *picture_bytes(size_t *n, const es_picture *picture, es_format format,
                    double scale, const es_picture_note *notes, size_t n_notes)
{
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, n);
    es_status status =
        es_picture_write(picture, out, format, scale, notes, n_notes);
    fclose(out);
    if (status == ES_OK)
        return bytes;
    fprintf(stderr, "%s\n", es_message());
    free(bytes);
    return NULL;
}

bool picture_image(es_image *out, const es_picture *picture, double scale)
{
    size_t n;
    memset(out, 0, sizeof *out);
    char *bytes = picture_bytes(&n, picture, ES_FORMAT_PNG, scale, NULL, 0);
    bool good = bytes && image_read(out, bytes, n);
    free(bytes);
    return good;
}

/* Returns the largest difference between the mean colours of a block in two
 * images, in any channel, from 0 to 255. */
static double block_difference(const es_image *a, const es_image *b, int left,
                               int top)
{
    double sums[3] = {0}, largest = 0;
    int n = 0;
    for (int y = top; y < top + BLOCK && y < a->height; y++) {
        for (int x = left; x < left + BLOCK && x < a->width; x++, n++) {
            uint32_t p = image_at(a, x, y), q = image_at(b, x, y);
            for (int c = 0; c < 3; c++)
                sums[c] +=
                    (double)(p >> 8 * c & 255) - (double)(q >> 8 * c & 255);
        }
    }
    for (int c = 0; c < 3; c++)
        largest = fmax(largest, fabs(sums[c]) / n);
    return largest;
}

double image_difference(const es_image *a, const es_image *b, int *x, int *y)
{
    double largest = 0;
    *x = *y = 0;
    if (a->width != b->width || a->height != b->height)
        return INFINITY;
    for (int top = 0; top < a->height; top += BLOCK) {
        for (int left = 0; left < a->width; left += BLOCK) {
            double difference = block_difference(a, b, left, top);
            if (difference <= largest)
                continue;
            largest = difference;
            *x = left;
            *y = top;
        }
    }
    return largest;
}

static bool same_image(const es_image *a, const es_image *b, const char *name)
{
    int x, y;
    double difference = image_difference(a, b, &x, &y);
    if (difference <= BLOCK_TOLERANCE)
        return true;
    if (isinf(difference))
        fprintf(stderr, "%s: %dx%d pixels, but the golden file has %dx%d\n",
                name, a->width, a->height, b->width, b->height);
    else
        fprintf(stderr, "%s: differs by %.0f at (%d,%d)\n", name, difference, x,
                y);
    return false;
}

static void save(const char *path, const char *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(bytes, 1, n, out) != n)
        fprintf(stderr, "cannot write %s\n", path);
    if (out)
        fclose(out);
}

static void save_difference(const char *name, const char *bytes, size_t n)
{
    const char *build = getenv("BUILD");
    char path[512];
    snprintf(path, sizeof path, "%s/golden", build ? build : "build");
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/golden/%s.png", build ? build : "build",
             name);
    save(path, bytes, n);
    fprintf(stderr, "%s: the new picture is stored in %s\n", name, path);
}

static char *read_file(size_t *n, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    char *bytes = NULL;
    size_t got;
    FILE *out = open_memstream(&bytes, n);
    char buffer[4096];
    while ((got = fread(buffer, 1, sizeof buffer, in)) > 0)
        fwrite(buffer, 1, got, out);
    fclose(out);
    fclose(in);
    return bytes;
}

bool picture_is_golden(const es_picture *picture, const char *name)
{
    char path[256];
    size_t n, n_golden = 0;
    es_image drawn = {0}, golden = {0};
    snprintf(path, sizeof path, "tests/golden/%s.png", name);
    char *bytes = picture_bytes(&n, picture, ES_FORMAT_PNG, 1, NULL, 0);
    if (!bytes)
        return false;
    if (getenv("ES_GOLDEN_UPDATE"))
        save(path, bytes, n);
    char *expected = read_file(&n_golden, path);
    bool same = expected && image_read(&drawn, bytes, n) &&
                image_read(&golden, expected, n_golden) &&
                same_image(&drawn, &golden, name);
    if (!same)
        save_difference(name, bytes, n);
    image_clear(&drawn);
    image_clear(&golden);
    free(expected);
    free(bytes);
    return same;
}

bool picture_is_finite(const es_picture *picture)
{
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        if (!(isfinite(s->x) && isfinite(s->y) && isfinite(s->width) &&
              isfinite(s->height) && isfinite(s->size) && isfinite(s->dash) &&
              isfinite(s->degrees)))
            return false;
    }
    for (size_t i = 0; i < picture->n_numbers; i += 2) {
        const double *pair = picture->numbers + i;
        bool gap = isnan(pair[0]) && isnan(pair[1]);
        if (!gap && !(isfinite(pair[0]) && isfinite(pair[1])))
            return false;
    }
    return true;
}

size_t picture_dots(double (*dots)[2], size_t most, const es_picture *picture)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        if (shape->kind != ES_SHAPE_DOT)
            continue;
        if (n < most) {
            dots[n][0] = shape->x;
            dots[n][1] = shape->y;
        }
        n++;
    }
    return n;
}

bool picture_says(const es_picture *picture, const char *text)
{
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *s = &picture->shapes[i];
        if (s->kind == ES_SHAPE_TEXT &&
            strcmp(picture->text + s->first, text) == 0)
            return true;
    }
    return false;
}

typedef struct box {
    double left, top, right, bottom;
    const char *text;
} box;

static box text_box(const es_picture *picture, const es_picture_shape *s)
{
    static const double before[] = {0, 0.5, 1};
    const char *text = picture->text + s->first;
    double width = es_text_width(text, s->size, s->weight);
    double start = -width * before[s->align], end = start + width;
    double height = 0.73 * s->size; /* height of capital letters and digits */
    if (s->degrees == 90)
        return (box){s->x - height, s->y - end, s->x, s->y - start, text};
    return (box){s->x + start, s->y - height, s->x + end, s->y, text};
}

static bool is_on_page(const box *b, const es_picture *picture)
{
    bool good = b->left >= 0 && b->top >= 0 && b->right <= picture->width &&
                b->bottom <= picture->height;
    if (!good)
        fprintf(stderr, "a text is not completely on the page: %s\n", b->text);
    return good;
}

static bool are_apart(const box *a, const box *b)
{
    bool good = a->right <= b->left || b->right <= a->left ||
                a->bottom <= b->top || b->bottom <= a->top;
    if (!good)
        fprintf(stderr, "overlap: %s, %s\n", a->text, b->text);
    return good;
}

bool picture_texts_are_apart(const es_picture *picture)
{
    box *boxes = calloc(picture->n_shapes + 1, sizeof *boxes);
    size_t n = 0;
    bool good = true;
    for (size_t i = 0; i < picture->n_shapes; i++) {
        if (picture->shapes[i].kind != ES_SHAPE_TEXT)
            continue;
        boxes[n] = text_box(picture, &picture->shapes[i]);
        good = good && is_on_page(&boxes[n], picture);
        for (size_t j = 0; j < n && good; j++)
            good = are_apart(&boxes[j], &boxes[n]);
        n++;
    }
    free(boxes);
    return good;
}
