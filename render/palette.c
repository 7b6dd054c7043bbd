/*
 * The palette of a PNG: every colour that the picture names, exactly, and as
 * many blends of smoothed edges as 256 entries leave space for, like ones
 * merged.
 */
#include "render/palette_internal.h"

#include "analyzer/base/checked.h"
#include <string.h>

#define HASH_BITS 16
#define N_SLOTS (1u << HASH_BITS)
#define MOST_COLORS (N_SLOTS / 4 * 3)
#define RGB 0xffffffu

/* Open addressing, kept under three quarters full. */
struct es_palette {
    size_t n_colors;
    int n_entries;
    es_color entries[ES_PALETTE_MAX];
    uint32_t keys[N_SLOTS]; /* color + 1; 0: free */
    uint32_t counts[N_SLOTS];
    bool named[N_SLOTS];
    uint8_t entry[N_SLOTS];
};

/* One cell of the lattice and what fell into it. */
typedef struct cell {
    uint32_t key; /* cell + 1; 0: free */
    uint64_t n, r, g, b;
    uint8_t entry;
} cell;

#define CELL_BITS 10
#define N_CELLS (1u << CELL_BITS)

const uint32_t *es_pixels_row(const es_pixels *pixels, int y)
{
    const unsigned char *row =
        pixels->data + (size_t)y * (size_t)pixels->stride;
    return (const uint32_t *)(const void *)row; /* Cairo aligns its rows */
}

static uint32_t hash(uint32_t key, int bits)
{
    return key * UINT32_C(2654435761) >> (32 - bits);
}

/* The slot of a colour, or the free one where it would go. */
static uint32_t slot_of(const es_palette *palette, uint32_t color)
{
    uint32_t slot = hash(color, HASH_BITS);
    while (palette->keys[slot] && palette->keys[slot] != color + 1)
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

static uint32_t packed(es_color color)
{
    return (uint32_t)color.r << 16 | (uint32_t)color.g << 8 | color.b;
}

static es_color unpacked(uint32_t color)
{
    return (es_color){(uint8_t)(color >> 16), (uint8_t)(color >> 8),
                      (uint8_t)color, 255};
}

static bool count_run(es_palette *palette, uint32_t color, uint32_t n)
{
    uint32_t slot = slot_of(palette, color);
    if (!palette->keys[slot]) {
        if (palette->n_colors == MOST_COLORS)
            return false;
        palette->keys[slot] = color + 1;
        palette->n_colors++;
    }
    palette->counts[slot] += n;
    return true;
}

/* False if there are more colours than the table holds. */
static bool count_colors(es_palette *palette, const es_pixels *pixels)
{
    for (int y = 0; y < pixels->height; y++) {
        const uint32_t *row = es_pixels_row(pixels, y);
        for (int x = 0, start = 0; x < pixels->width; start = x) {
            uint32_t color = row[x] & RGB;
            while (x < pixels->width && (row[x] & RGB) == color)
                x++;
            if (!count_run(palette, color, (uint32_t)(x - start)))
                return false;
        }
    }
    return true;
}

static void name_color(es_palette *palette, es_color color)
{
    uint32_t slot = slot_of(palette, packed(color));
    if (palette->keys[slot] && color.a == 255)
        palette->named[slot] = true;
}

static void name_colors(es_palette *palette, const es_picture *picture)
{
    name_color(palette, picture->background);
    for (size_t i = 0; i < picture->n_shapes; i++) {
        const es_picture_shape *shape = &picture->shapes[i];
        name_color(palette, shape->color);
        name_color(palette, shape->stroke);
        for (size_t k = 0; k < shape->n_colors; k++)
            name_color(palette, es_image_color(picture, shape, k));
    }
}

/* An entry for each named colour, or for every one; false if too many. */
static bool enter_exact(es_palette *palette, bool all)
{
    palette->n_entries = 0;
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!palette->keys[slot] || !(all || palette->named[slot]))
            continue;
        if (palette->n_entries == ES_PALETTE_MAX)
            return false;
        palette->entry[slot] = (uint8_t)palette->n_entries;
        palette->entries[palette->n_entries++] =
            unpacked(palette->keys[slot] - 1);
    }
    return true;
}

static uint32_t lattice_key(uint32_t color, uint32_t pitch)
{
    es_color c = unpacked(color);
    return (uint32_t)c.r / pitch << 16 | (uint32_t)c.g / pitch << 8 |
           (uint32_t)c.b / pitch;
}

/* Sums the blends by their cells; false if there are no entries for the cells.
 */
static bool fill_cells(const es_palette *palette, cell *cells, uint32_t pitch)
{
    int n_free = ES_PALETTE_MAX - palette->n_entries;
    memset(cells, 0, N_CELLS * sizeof *cells);
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!palette->keys[slot] || palette->named[slot])
            continue;
        uint32_t color = palette->keys[slot] - 1;
        uint32_t key = lattice_key(color, pitch);
        cell *c = cell_of(cells, key);
        if (!c->key && n_free-- == 0)
            return false;
        c->key = key + 1;
        uint64_t n = palette->counts[slot];
        c->n += n;
        c->r += n * (color >> 16);
        c->g += n * (color >> 8 & 0xff);
        c->b += n * (color & 0xff);
    }
    return true;
}

static void enter_cells(es_palette *palette, cell *cells, uint32_t pitch)
{
    for (uint32_t i = 0; i < N_CELLS; i++) {
        cell *c = &cells[i];
        if (!c->key)
            continue;
        c->entry = (uint8_t)palette->n_entries;
        palette->entries[palette->n_entries++] =
            (es_color){(uint8_t)((c->r + c->n / 2) / c->n),
                       (uint8_t)((c->g + c->n / 2) / c->n),
                       (uint8_t)((c->b + c->n / 2) / c->n), 255};
    }
    for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
        if (!palette->keys[slot] || palette->named[slot])
            continue;
        uint32_t key = lattice_key(palette->keys[slot] - 1, pitch);
        palette->entry[slot] = cell_of(cells, key)->entry;
    }
}

static bool merge_blends(es_palette *palette, cell *cells)
{
    static const uint32_t pitches[] = {2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32};
    for (size_t i = 0; i < sizeof pitches / sizeof *pitches; i++) {
        if (fill_cells(palette, cells, pitches[i])) {
            enter_cells(palette, cells, pitches[i]);
            return true;
        }
    }
    return false;
}

/* False if 256 colours are not enough. */
static bool choose(es_palette *palette, cell *cells, const es_picture *picture,
                   const es_pixels *pixels)
{
    if (!count_colors(palette, pixels))
        return false;
    if (palette->n_colors <= ES_PALETTE_MAX)
        return enter_exact(palette, true);
    name_colors(palette, picture);
    return enter_exact(palette, false) && merge_blends(palette, cells);
}

es_status es_palette_make(es_palette **out, const es_picture *picture,
                          const es_pixels *pixels)
{
    es_palette *palette = NULL;
    cell *cells = NULL;
    es_status status;
    *out = NULL;
    if ((status = es_alloc(&palette, 1, sizeof *palette, "a palette")) ==
            ES_OK &&
        (status = es_alloc(&cells, N_CELLS, sizeof *cells, "a palette")) ==
            ES_OK &&
        choose(palette, cells, picture, pixels)) {
        *out = palette;
        palette = NULL;
    }
    free(palette);
    free(cells);
    return status;
}

void es_palette_free(es_palette *palette)
{
    free(palette);
}

int es_palette_colors(const es_palette *palette, es_color out[ES_PALETTE_MAX])
{
    memcpy(out, palette->entries,
           (size_t)palette->n_entries * sizeof *palette->entries);
    return palette->n_entries;
}

void es_palette_row(const es_palette *palette, uint8_t *out,
                    const uint32_t *pixels, int n)
{
    uint32_t last = pixels[0] & RGB;
    uint8_t entry = palette->entry[slot_of(palette, last)];
    for (int x = 0; x < n; x++) {
        uint32_t color = pixels[x] & RGB;
        if (color != last) {
            last = color;
            entry = palette->entry[slot_of(palette, color)];
        }
        out[x] = entry;
    }
}
