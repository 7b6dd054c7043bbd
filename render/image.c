/* Images in the display list: their bytes lie among those of the texts. */
#include "render/picture_internal.h"

#include <math.h>
#include <string.h>

es_color es_image_color(const es_picture *picture,
                        const es_picture_shape *image, size_t i)
{
    es_color color;
    memcpy(&color, picture->text + image->first + i * sizeof color,
           sizeof color);
    return color;
}

const uint8_t *es_image_cells(const es_picture *picture,
                              const es_picture_shape *image)
{
    return (const uint8_t *)picture->text + image->first +
           image->n_colors * sizeof(es_color);
}

static uint32_t packed(es_color c)
{
    return (uint32_t)c.r << 16 | (uint32_t)c.g << 8 | c.b;
}

size_t es_image_repeats(double points, size_t n)
{
    double times = ceil(4 * points / (double)n);
    double most = floor(16384 / (double)n);
    return (size_t)fmax(1, fmin(times, most));
}

cairo_surface_t *es_image_surface(const es_picture *picture,
                                  const es_picture_shape *image, size_t across,
                                  size_t down)
{
    size_t n = image->n_columns, n_rows = image->n / n;
    int width = (int)(n * across), height = (int)(n_rows * down);
    const uint8_t *cells = es_image_cells(picture, image);
    uint32_t colors[256] = {0};
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    if (cairo_surface_status(surface) != CAIRO_STATUS_SUCCESS)
        return surface;
    for (size_t i = 0; i < image->n_colors; i++)
        colors[i] = packed(es_image_color(picture, image, i));
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
