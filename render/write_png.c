/*
 * Writes PNG files through libpng's row interface, because the simplified
 * interface truncated wide rows in older versions, and Cairo's writer has no
 * palettes. The palette of a page contains the exact colours of all shapes. The
 * remaining entries of the 256 are for blends at smoothed edges; similar blends
 * share an entry. An image inside an SVG is also written as a PNG, in base64.
 */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include <png.h>

/* Maximum number of pixels per side, a limit of Cairo. */
#define LARGEST_SIDE 32767.0
#define MOST_PIXELS 1e8 /* maximum number of pixels, four bytes each */
#define POINTS_PER_METRE (72 / 0.0254)

enum { PALETTE_MAX = 256 };

/* --- palette --------------------------------------------------------------*/

#define HASH_BITS 16
#define N_SLOTS (1u << HASH_BITS)
#define MOST_COLORS (N_SLOTS / 4 * 3)
#define RGB 0xffffffu

/* A cell of the lattice that divides the RGB cube: the number of colours in the
 * cell, and the sums of their channels. */
typedef struct cell {
    uint32_t key; /* index of the cell in the RGB lattice + 1; 0: unused */
    uint64_t n, r, g, b;
    uint8_t entry;
} cell;

#define CELL_BITS 10
#define N_CELLS (1u << CELL_BITS)

/* The colours of a picture, in a hash table with open addressing. At most three
 * quarters of the slots are used. */
typedef struct palette {
    size_t n_colors;
    int n_entries;
    es_color entries[PALETTE_MAX];
    uint32_t keys[N_SLOTS]; /* colour + 1; 0: unused */
    uint32_t counts[N_SLOTS];
    bool named[N_SLOTS];
    uint8_t entry[N_SLOTS];
    cell cells[N_CELLS];
} palette;

/* Returns row y of a Cairo surface in the format RGB24: 0xXXRRGGBB, where XX is
 * undefined. */
static const uint32_t *row_of(cairo_surface_t *pixels, int y)
{
    const unsigned char *data = cairo_image_surface_get_data(pixels);
    size_t stride = (size_t)cairo_image_surface_get_stride(pixels);
    return (const uint32_t *)(const void *)(data + (size_t)y * stride);
}

static uint32_t hash(uint32_t key, int bits)
{
    return key * UINT32_C(2654435761) >> (32 - bits);
}

/* Returns the slot of a colour, or the unused slot in which it belongs. */
static uint32_t slot_of(const palette *p, uint32_t color)
{
    uint32_t slot = hash(color, HASH_BITS);
    while (p->keys[slot] && p->keys[slot] != color + 1)
        slot = (slot + 1) % N_SLOTS;
    return slot;
}

static cell *cell_of(cell *cells, uint32_t key)
{
    uint32_t slot = hash(key, CELL_BITS);
    while (cells[slot].key && cells[slot].key != key + 1)
        slot = (slot + 1) % N_CELLS;
    return &cells[slot];
}

static es_color unpacked(uint32_t color)
{
    return (es_color){(uint8_t)(color >> 16), (uint8_t)(color >> 8),
                      (uint8_t)color, 255};
}

/* Counts the pixels of each colour. Returns false if the table is too small for
 * all colours. */
static bool count_colors(palette *p, cairo_surface_t *pixels)
{
    int width = cairo_image_surface_get_width(pixels);
    for (int y = 0; y < cairo_image_surface_get_height(pixels); y++) {
        const uint32_t *row = row_of(pixels, y);
        for (int x = 0, start = 0; x < width; start = x) {
            uint32_t color = row[x] & RGB, slot = slot_of(p, color);
            while (x < width && (row[x] & RGB) == color)
                x++;
            if (!p->keys[slot] && p->n_colors++ == MOST_COLORS)
                return false;
            p->keys[slot] = color + 1;
            p->counts[slot] += (uint32_t)(x - start);
        }
    }
    return true;
}

static void name_color(palette *p, es_color color)
{
    uint32_t slot = slot_of(p, es_color_packed(color));
    if (p->keys[slot] && color.a == 255)
        p->named[slot] = true;
}

/* Adds a palette entry for each colour of a shape or, if `all` is true, for
 * every colour in the picture. Returns false if the palette cannot hold all of
 * them. */
static bool enter_exact(palette *p, bool all)
{
    p->n_entries = 0;
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!p->keys[slot] || !(all || p->named[slot]))
            continue;
        if (p->n_entries == PALETTE_MAX)
            return false;
        p->entry[slot] = (uint8_t)p->n_entries;
        p->entries[p->n_entries++] = unpacked(p->keys[slot] - 1);
    }
    return true;
}

static uint32_t lattice_key(uint32_t color, uint32_t pitch)
{
    es_color c = unpacked(color);
    return (uint32_t)c.r / pitch << 16 | (uint32_t)c.g / pitch << 8 |
           (uint32_t)c.b / pitch;
}

/* Divides the RGB cube into cells that are `pitch` wide, and adds each blended
 * colour to its cell. Returns false if more cells are used than palette entries
 * are free. */
static bool fill_cells(palette *p, uint32_t pitch)
{
    int n_free = PALETTE_MAX - p->n_entries;
    memset(p->cells, 0, sizeof p->cells);
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!p->keys[slot] || p->named[slot])
            continue;
        uint32_t color = p->keys[slot] - 1;
        uint32_t key = lattice_key(color, pitch);
        cell *c = cell_of(p->cells, key);
        if (!c->key && n_free-- == 0)
            return false;
        c->key = key + 1;
        uint64_t n = p->counts[slot];
        c->n += n;
        c->r += n * (color >> 16);
        c->g += n * (color >> 8 & 0xff);
        c->b += n * (color & 0xff);
    }
    return true;
}

static void enter_cells(palette *p, uint32_t pitch)
{
    for (uint32_t i = 0; i < N_CELLS; i++) {
        cell *c = &p->cells[i];
        if (!c->key)
            continue;
        c->entry = (uint8_t)p->n_entries;
        p->entries[p->n_entries++] =
            (es_color){(uint8_t)((c->r + c->n / 2) / c->n),
                       (uint8_t)((c->g + c->n / 2) / c->n),
                       (uint8_t)((c->b + c->n / 2) / c->n), 255};
    }
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!p->keys[slot] || p->named[slot])
            continue;
        uint32_t key = lattice_key(p->keys[slot] - 1, pitch);
        p->entry[slot] = cell_of(p->cells, key)->entry;
    }
}

/*
 * Finds a palette of at most 256 colours for the pixels; returns false if that
 * is impossible. If there are at most 256 colours, all are kept exactly.
 * Otherwise the colours of shapes are kept; the remaining colours, which are
 * blends at smoothed edges, are replaced by the mean of their cell in an RGB
 * lattice. The lattice is the finest one that fits, with a pitch of at most 32.
 * O(pixels).
 */
static bool make_palette(palette *p, const es_picture *picture,
                         cairo_surface_t *pixels)
{
    static const uint32_t pitches[] = {2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32};
    if (!count_colors(p, pixels))
        return false;
    if (p->n_colors <= PALETTE_MAX)
        return enter_exact(p, true);
    name_color(p, picture->background);
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        name_color(p, shape->color);
        name_color(p, shape->stroke);
        for (size_t k = 0; k < shape->n_colors; k++)
            name_color(p, es_image_color(picture, shape, k));
    }
    if (!enter_exact(p, false))
        return false;
    size_t i = 0, n = sizeof pitches / sizeof *pitches;
    while (i < n && !fill_cells(p, pitches[i]))
        i++;
    if (i < n)
        enter_cells(p, pitches[i]);
    return i < n;
}

/* --- encoding -------------------------------------------------------------*/

/* The input of the encoder. A separate struct ensures that no local variable
 * changes after setjmp. */
typedef struct png_job {
    es_buffer *out;
    size_t width, height;
    png_color colors[PALETTE_MAX];
    int n_colors; /* 0 for RGB */
    uint8_t *row; /* memory for one row, which `fill` writes */
    void (*fill)(const struct png_job *job, size_t y);
    /* cells of an image inside an SVG; NULL for a page */
    const uint8_t *cells;
    size_t across, down; /* number of pixels per cell */
    /* The following members are used only if the PNG is a page. */
    cairo_surface_t *pixels;
    palette *palette; /* NULL: write RGB without a palette */
    double scale;     /* pixels per point; 0 for an image inside an SVG */
    const es_picture_note *notes;
    char **values; /* values of the n_notes notes, cleaned by es_text_clean */
    size_t n_notes;
} png_job;

/* Handles an error of libpng. All arguments are valid, so the only possible
 * cause is lack of memory. */
static void on_error(png_structp png, png_const_charp text)
{
    es_buffer *out = png_get_error_ptr(png);
    (void)text;
    out->failed = true;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_data(png_structp png, png_bytep data, size_t n)
{
    es_buffer_add(png_get_io_ptr(png), (const char *)data, n);
}

static void on_flush(png_structp png)
{
    /* Does nothing, because es_picture_write flushes once at the end. */
    (void)png;
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text > 0x7e)
            return false;
    return true;
}

/* Makes a valid PNG keyword: 1 to 79 printable characters, without spaces at
 * the ends or two consecutive spaces. Any other character becomes '-'. */
static void clean_key(char out[80], const char *key)
{
    size_t n = 0;
    for (; *key && n < 79; key++) {
        bool blank = *key == ' ', plain = *key > ' ' && *key <= '~';
        bool fits = plain || (blank && n > 0 && key[1] && key[1] != ' ');
        out[n++] = fits ? *key : '-';
    }
    if (n == 0)
        out[n++] = '-';
    if (out[n - 1] == ' ')
        out[n - 1] = '-';
    out[n] = '\0';
}

static void describe_page(png_structp png, png_infop info, const png_job *job)
{
    png_uint_32 density = (png_uint_32)lround(job->scale * POINTS_PER_METRE);
    png_set_compression_level(png, 1);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_set_pHYs(png, info, density, density, PNG_RESOLUTION_METER);
    for (size_t i = 0; i < job->n_notes; i++) {
        char keyword[80], *value = job->values[i];
        clean_key(keyword, job->notes[i].key);
        png_text text = {.compression = is_ascii(value)
                                            ? PNG_TEXT_COMPRESSION_NONE
                                            : PNG_ITXT_COMPRESSION_NONE,
                         .key = keyword,
                         .text = value,
                         .text_length = strlen(value)};
        png_set_text(png, info, &text, 1);
    }
}

static void encode_rows(png_structp png, png_infop info, const png_job *job)
{
    if (setjmp(png_jmpbuf(png)))
        return;
    png_set_write_fn(png, job->out, on_data, on_flush);
    png_set_filter(png, 0, job->palette ? PNG_FILTER_NONE : PNG_FILTER_UP);
    png_set_IHDR(png, info, (png_uint_32)job->width, (png_uint_32)job->height,
                 8, job->n_colors ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (job->n_colors)
        png_set_PLTE(png, info, job->colors, job->n_colors);
    if (job->scale > 0)
        describe_page(png, info, job);
    png_write_info(png, info);
    for (size_t y = 0; y < job->height; y++) {
        job->fill(job, y);
        png_write_row(png, job->row);
    }
    png_write_end(png, info);
}

/* Encodes the PNG into job->out; on error sets job->out->failed. */
static void encode(const png_job *job)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, job->out,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (info && job->row)
        encode_rows(png, info, job);
    else
        job->out->failed = true;
    png_destroy_write_struct(&png, &info);
}

/* --- an image -------------------------------------------------------------*/

static void fill_image(const png_job *job, size_t y)
{
    size_t n = job->width / job->across;
    const uint8_t *cells = job->cells + y / job->down * n;
    for (size_t i = 0; y % job->down == 0 && i < n; i++)
        memset(job->row + i * job->across, cells[i], job->across);
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
    size_t n = image->n_columns, n_rows = image->n / n;
    png_job job = {.out = &bytes,
                   .n_colors = (int)image->n_colors,
                   .fill = fill_image,
                   .cells = es_image_cells(picture, image),
                   .across = es_image_repeats(image->width, n),
                   .down = es_image_repeats(image->height, n_rows)};
    for (size_t i = 0; i < image->n_colors; i++) {
        es_color color = es_image_color(picture, image, i);
        job.colors[i] = (png_color){color.r, color.g, color.b};
    }
    job.width = n * job.across;
    job.height = n_rows * job.down;
    job.row = es_resize(NULL, job.width, 1);
    encode(&job);
    if (bytes.failed)
        buffer->failed = true;
    else
        add_base64(buffer, (const unsigned char *)bytes.data, bytes.n);
    free(bytes.data);
    free(job.row);
}

/* --- a page ---------------------------------------------------------------*/

static void fill_page(const png_job *job, size_t y)
{
    const uint32_t *pixels = row_of(job->pixels, (int)y);
    const palette *p = job->palette;
    uint8_t *out = job->row, entry = 0;
    uint32_t last = RGB + 1; /* not a colour */
    for (size_t x = 0; p && x < job->width; x++) {
        uint32_t color = pixels[x] & RGB;
        if (color != last) {
            last = color;
            entry = p->entry[slot_of(p, color)];
        }
        *out++ = entry;
    }
    for (size_t x = 0; !p && x < job->width; x++) {
        *out++ = (uint8_t)(pixels[x] >> 16);
        *out++ = (uint8_t)(pixels[x] >> 8);
        *out++ = (uint8_t)pixels[x];
    }
}

static es_status write_pixels(const es_picture *picture, FILE *out,
                              cairo_surface_t *pixels, double scale,
                              const es_picture_note *notes, size_t n_notes)
{
    es_buffer bytes = {0};
    palette *colors = NULL;
    png_job job = {
        .out = &bytes,
        .width = (size_t)cairo_image_surface_get_width(pixels),
        .height = (size_t)cairo_image_surface_get_height(pixels),
        .fill = fill_page,
        .pixels = pixels,
        .scale = scale,
        .notes = notes,
    };
    es_status status;
    if ((status = es_alloc(&job.values, n_notes, sizeof *job.values,
                           "the notes")) < 0 ||
        (status = es_alloc(&job.row, job.width, 3, "a row")) < 0 ||
        (status = es_alloc(&colors, 1, sizeof *colors, "a palette")) < 0)
        goto done;
    for (; job.n_notes < n_notes; job.n_notes++)
        if (!(job.values[job.n_notes] =
                  es_text_cleaned(notes[job.n_notes].value))) {
            status = es_fail(ES_ENOMEM, "picture: out of memory");
            goto done;
        }
    if (make_palette(colors, picture, pixels)) {
        job.palette = colors;
        job.n_colors = colors->n_entries;
        for (int i = 0; i < job.n_colors; i++)
            job.colors[i] =
                (png_color){colors->entries[i].r, colors->entries[i].g,
                            colors->entries[i].b};
    }
    encode(&job);
    status = es_buffer_write(&bytes, out);
done:
    for (size_t i = 0; i < job.n_notes; i++)
        free(job.values[i]);
    free(job.values);
    free(job.row);
    free(colors);
    free(bytes.data);
    return status;
}

es_status es_png_check_size(double width, double height)
{
    if (width >= 1 && width <= LARGEST_SIDE && height >= 1 &&
        height <= LARGEST_SIDE && width * height <= MOST_PIXELS)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "a PNG of %.7gx%.7g pixels: each side must be from 1 to "
                   "%.0f pixels, and the area at most %.0f million: make it "
                   "smaller, or use svg or pdf",
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
    cairo_surface_flush(surface);
    if (status == ES_OK)
        status = write_pixels(picture, out, surface, scale, notes, n_notes);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return status;
}
