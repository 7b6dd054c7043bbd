/*
 * PNG through libpng's row interface: its simplified one truncated wide rows
 * in older versions, and Cairo's own writer knows no palette.
 */
#include "render/palette_internal.h"

#include "analyzer/base/checked.h"
#include <errno.h>
#include <math.h>
#include <png.h>
#include <string.h>

#define LARGEST_SIDE 32767.0 /* Cairo's image surfaces hold no more */
#define MOST_PIXELS 1e8      /* of four bytes each while it is drawn */
#define POINTS_PER_METRE (72 / 0.0254)

/* What the callbacks of libpng have to know and leave behind. */
typedef struct sink {
    FILE *out;
    es_status status; /* set before a jump */
} sink;

static void on_error(png_structp png, png_const_charp text)
{
    sink *s = png_get_error_ptr(png);
    if (s->status == ES_OK)
        s->status = es_fail(ES_EINTERNAL, "picture: PNG: %s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_data(png_structp png, png_bytep data, size_t n)
{
    sink *s = png_get_io_ptr(png);
    if (fwrite(data, 1, n, s->out) == n)
        return;
    s->status =
        es_fail(ES_EIO, "picture: cannot be written: %s", strerror(errno));
    png_error(png, "write");
}

static void on_flush(png_structp png)
{
    (void)png; /* es_picture_write flushes, once */
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text > 0x7e)
            return false;
    return true;
}

/* A keyword has 1 to 79 printable characters, no blanks at its ends or two in
 * a row; anything else becomes '-'. */
static void clean_key(char out[80], const char *key)
{
    size_t n = 0;
    for (; *key && n < 79; key++) {
        bool blank = *key == ' ';
        bool plain = *key > ' ' && *key <= '~';
        bool fits = plain || (blank && n > 0 && key[1] && key[1] != ' ');
        out[n++] = fits ? *key : '-';
    }
    if (n == 0)
        out[n++] = '-';
    if (out[n - 1] == ' ')
        out[n - 1] = '-';
    out[n] = '\0';
}

static void write_note(png_structp png, png_infop info, const char *key,
                       char *value)
{
    char keyword[80];
    clean_key(keyword, key);
    png_text text = {.compression = is_ascii(value) ? PNG_TEXT_COMPRESSION_NONE
                                                    : PNG_ITXT_COMPRESSION_NONE,
                     .key = keyword,
                     .text = value,
                     .text_length = strlen(value)};
    png_set_text(png, info, &text, 1);
}

static void write_palette(png_structp png, png_infop info,
                          const es_palette *palette)
{
    es_color colors[ES_PALETTE_MAX];
    png_color entries[ES_PALETTE_MAX];
    int n = es_palette_colors(palette, colors);
    for (int i = 0; i < n; i++)
        entries[i] = (png_color){colors[i].r, colors[i].g, colors[i].b};
    png_set_PLTE(png, info, entries, n);
}

static void rgb_row(uint8_t *out, const uint32_t *pixels, int n)
{
    for (int x = 0; x < n; x++) {
        *out++ = (uint8_t)(pixels[x] >> 16);
        *out++ = (uint8_t)(pixels[x] >> 8);
        *out++ = (uint8_t)pixels[x];
    }
}

/* All that the encoder needs, so that nothing changes after its setjmp. */
typedef struct png_job {
    const es_pixels *pixels;
    const es_palette *palette; /* NULL: RGB */
    uint8_t *row;
    double scale;
    const es_picture_note *notes;
    char **values; /* of the notes, cleaned */
    size_t n_notes;
} png_job;

static void write_header(png_structp png, png_infop info, const png_job *job)
{
    png_uint_32 density = (png_uint_32)lround(job->scale * POINTS_PER_METRE);
    png_set_IHDR(png, info, (png_uint_32)job->pixels->width,
                 (png_uint_32)job->pixels->height, 8,
                 job->palette ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_set_pHYs(png, info, density, density, PNG_RESOLUTION_METER);
    if (job->palette)
        write_palette(png, info, job->palette);
    for (size_t i = 0; i < job->n_notes; i++)
        write_note(png, info, job->notes[i].key, job->values[i]);
    png_write_info(png, info);
}

static void encode(png_structp png, png_infop info, const png_job *job)
{
    const es_pixels *pixels = job->pixels;
    if (setjmp(png_jmpbuf(png)))
        return;
    png_set_compression_level(png, 1);
    png_set_filter(png, 0, job->palette ? PNG_FILTER_NONE : PNG_FILTER_UP);
    write_header(png, info, job);
    for (int y = 0; y < pixels->height; y++) {
        const uint32_t *row = es_pixels_row(pixels, y);
        if (job->palette)
            es_palette_row(job->palette, job->row, row, pixels->width);
        else
            rgb_row(job->row, row, pixels->width);
        png_write_row(png, job->row);
    }
    png_write_end(png, info);
}

static es_status run_job(const png_job *job, FILE *out)
{
    sink s = {out, ES_OK};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &s,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (info) {
        png_set_write_fn(png, &s, on_data, on_flush);
        encode(png, info, job);
    } else
        s.status = es_fail(ES_ENOMEM, "picture: out of memory");
    png_destroy_write_struct(&png, &info);
    return s.status;
}

static es_status clean_values(char **values, const es_picture_note *notes,
                              size_t n_notes)
{
    for (size_t i = 0; i < n_notes; i++) {
        values[i] = es_text_cleaned(notes[i].value);
        if (!values[i])
            return es_fail(ES_ENOMEM, "picture: out of memory");
    }
    return ES_OK;
}

static es_status write_pixels(const es_picture *picture, FILE *out,
                              const es_pixels *pixels, double scale,
                              const es_picture_note *notes, size_t n_notes)
{
    es_palette *palette = NULL;
    char **values = NULL;
    uint8_t *row = NULL;
    es_status status;
    if ((status = es_alloc(&values, n_notes, sizeof *values, "the notes")) <
            0 ||
        (status = es_alloc(&row, (size_t)pixels->width, 3, "a row")) < 0 ||
        (status = clean_values(values, notes, n_notes)) < 0 ||
        (status = es_palette_make(&palette, picture, pixels)) < 0)
        goto done;
    status = run_job(
        &(png_job){pixels, palette, row, scale, notes, values, n_notes}, out);
done:
    for (size_t i = 0; values && i < n_notes; i++)
        free(values[i]);
    free(values);
    free(row);
    es_palette_free(palette);
    return status;
}

es_status es_png_check_size(double width, double height)
{
    if (width >= 1 && width <= LARGEST_SIDE && height >= 1 &&
        height <= LARGEST_SIDE && width * height <= MOST_PIXELS)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "a PNG of %.7gx%.7g pixels: each side must be from 1 to "
                   "%.0f, and all %.0f million at most: make it smaller, or "
                   "use svg or pdf",
                   width, height, LARGEST_SIDE, MOST_PIXELS / 1e6);
}

es_status es_picture_write_png(const es_picture *picture, FILE *out,
                               double scale, const es_picture_note *notes,
                               size_t n_notes)
{
    double width = ceil(picture->width * scale - 1e-6);
    double height = ceil(picture->height * scale - 1e-6);
    es_status status = es_png_check_size(width, height);
    if (status != ES_OK)
        return status;
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)width, (int)height);
    cairo_t *cr = cairo_create(surface);
    status = es_cairo_status(es_picture_play(picture, cr, scale));
    if (status == ES_OK) {
        cairo_surface_flush(surface);
        es_pixels pixels = {cairo_image_surface_get_data(surface),
                            cairo_image_surface_get_width(surface),
                            cairo_image_surface_get_height(surface),
                            cairo_image_surface_get_stride(surface)};
        status = write_pixels(picture, out, &pixels, scale, notes, n_notes);
    }
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return status;
}
