/* The numbers in the cells of a heatmap: how many decimals distinguish them,
 * and the size of letters with which they fit. */
#include "render/figures/heatmap_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_VALUE 8.0
#define LEAST_VALUE 5.0

/* "1.2e+05" is "1.2e5". */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e)
        return;
    char *to = e + 1 + (e[1] == '-'), *from = e + 2;
    while (*from == '0')
        from++;
    memmove(to, from, strlen(from) + 1);
}

void es_heatmap_value(char out[ES_LABEL_MAX], float value, int decimals)
{
    out[0] = '\0';
    if (!isfinite(value))
        return;
    if (decimals == ES_COMPACT)
        snprintf(out, ES_LABEL_MAX, "%.2g", (double)value);
    else
        snprintf(out, ES_LABEL_MAX, "%.*f", decimals, (double)value);
    if (out[0] == '-' && strtod(out, NULL) == 0)
        memmove(out, out + 1, strlen(out)); /* no -0.00 */
    shorten_exponent(out);
}

int es_heatmap_decimals(const es_heatmap *figure)
{
    double largest = 0;
    bool whole = true;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_heatmap_panel *panel = &figure->panels[i];
        size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
        for (size_t k = 0; k < n; k++) {
            double value = (double)panel->values[k];
            if (!isfinite(value))
                continue;
            largest = fmax(largest, fabs(value));
            whole = whole && value == floor(value);
        }
    }
    if (largest == 0)
        return 2;
    if (largest >= 99999.5 || largest < 1e-3)
        return ES_COMPACT;
    if (whole)
        return 0;
    int exponent = (int)floor(log10(largest));
    if (exponent >= 1)
        return exponent == 1;
    return exponent >= -1 ? 2 : 1 - exponent;
}

/* Font size with which every value of the panel fits its cell. */
static double value_size(const es_heatmap_block *block, int decimals)
{
    const es_heatmap_panel *panel = block->panel;
    size_t n = (size_t)panel->n_layers * (size_t)panel->n_heads;
    double tallest = fmin(LARGEST_VALUE, 0.6 * block->cell_height);
    double widest = 0;
    char text[ES_LABEL_MAX];
    if (tallest < LEAST_VALUE || block->cell_width < 2 * LEAST_VALUE)
        return 0;
    for (size_t i = 0; i < n; i++) {
        es_heatmap_value(text, panel->values[i], decimals);
        widest = fmax(widest, es_text_width(text, 1, ES_WEIGHT_NORMAL));
    }
    return fmin(tallest, (block->cell_width - 3) / widest);
}

/* All panels that print their values print them in one size. */
void es_heatmap_size_values(es_heatmap_sheet *sheet)
{
    sheet->value_size = LARGEST_VALUE;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        es_heatmap_block *b = &sheet->blocks[i];
        double size = value_size(b, sheet->decimals);
        if (size < LEAST_VALUE) {
            b->compact = true;
            size = value_size(b, ES_COMPACT);
        }
        b->printed = size >= LEAST_VALUE;
        if (b->printed)
            sheet->value_size = fmin(sheet->value_size, size);
    }
}
