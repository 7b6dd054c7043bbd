/* An image as the text that an SVG holds: a palette PNG in base 64. */
#include "render/write_internal.h"

#include "analyzer/base/checked.h"
#include <png.h>
#include <stdlib.h>
#include <string.h>

static void on_error(png_structp png, png_const_charp text)
{
    es_buffer *bytes = png_get_error_ptr(png);
    (void)text;
    bytes->failed = true;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_data(png_structp png, png_bytep data, size_t n)
{
    es_buffer_add(png_get_io_ptr(png), (const char *)data, n);
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void repeat_row(uint8_t *row, const uint8_t *cells, size_t n,
                       size_t times)
{
    for (size_t i = 0; i < n; i++, row += times)
        memset(row, cells[i], times);
}

static void write_header(png_structp png, png_infop info,
                         const es_picture *picture,
                         const es_picture_shape *image, size_t width,
                         size_t height)
{
    png_color colors[PNG_MAX_PALETTE_LENGTH];
    for (size_t i = 0; i < image->n_colors; i++) {
        es_color color = es_image_color(picture, image, i);
        colors[i] = (png_color){color.r, color.g, color.b};
    }
    png_set_filter(png, 0, PNG_FILTER_UP);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8,
                 PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(png, info, colors, (int)image->n_colors);
    png_write_info(png, info);
}

static void encode(png_structp png, png_infop info, const es_picture *picture,
                   const es_picture_shape *image, uint8_t *row)
{
    const uint8_t *cells = es_image_cells(picture, image);
    size_t n = image->n_columns, n_rows = image->n / n;
    size_t across = es_image_repeats(image->width, n);
    size_t down = es_image_repeats(image->height, n_rows);
    if (setjmp(png_jmpbuf(png)))
        return;
    write_header(png, info, picture, image, n * across, n_rows * down);
    for (size_t i = 0; i < n_rows * down; i++) {
        if (i % down == 0)
            repeat_row(row, cells + i / down * n, n, across);
        png_write_row(png, row);
    }
    png_write_end(png, info);
}

static void add_base64(es_buffer *to, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (i + 1 < n)
            bits |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n)
            bits |= bytes[i + 2];
        const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63],
                             i + 1 < n ? digits[bits >> 6 & 63] : '=',
                             i + 2 < n ? digits[bits & 63] : '='};
        es_buffer_add(to, four, sizeof four);
    }
}

void es_buffer_image(es_buffer *buffer, const es_picture *picture,
                     const es_picture_shape *image)
{
    es_buffer bytes = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &bytes,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    uint8_t *row = es_resize(NULL, image->n_columns,
                             es_image_repeats(image->width, image->n_columns));
    if (info && row) {
        png_set_write_fn(png, &bytes, on_data, on_flush);
        encode(png, info, picture, image, row);
    } else {
        bytes.failed = true;
    }
    png_destroy_write_struct(&png, &info);
    if (bytes.failed)
        buffer->failed = true;
    else
        add_base64(buffer, (const unsigned char *)bytes.data, bytes.n);
    free(bytes.data);
    free(row);
}
