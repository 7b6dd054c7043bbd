/* Draws the heatmap on the terminal: computes the layout, chooses the value
 * that is shown where several heads share a cell, and draws coloured half
 * blocks or ASCII shades. */
#include "cli/terminal/heat.h"

#include "analyzer/base/value.h"

#include <string.h>

static int divide_up(int a, int b)
{
    return a / b + (a % b > 0);
}

es_heat_layout es_heat_fit(int n_layers, int n_heads, int width, int height,
                           bool roomy, es_depth depth)
{
    es_heat_layout out = {.n_layers = n_layers,
                          .n_heads = n_heads,
                          .columns = 1,
                          .halves = depth == ES_DEPTH_ASCII ? 2 : 1,
                          .layers_in = 1,
                          .heads_in = 1};
    if (roomy && 2 * n_heads <= width && n_layers <= height) {
        out.columns = out.halves = 2;
    } else {
        out.layers_in = divide_up(n_layers, height * 2 / out.halves);
        out.heads_in = divide_up(n_heads, width);
    }
    out.width = divide_up(n_heads, out.heads_in) * out.columns;
    out.height = divide_up(divide_up(n_layers, out.layers_in) * out.halves, 2);
    return out;
}

void es_heat_layers_of_row(const es_heat_layout *layout, int row, int *first,
                           int *last)
{
    /* number of layers that share a row of text */
    int n = 2 / layout->halves * layout->layers_in;
    *first = row * n;
    *last = *first + n - 1 < layout->n_layers ? *first + n - 1
                                              : layout->n_layers - 1;
}

/* Returns the position of a finite value on the scale: 0 at the lower end, 1 at
 * the upper end. */
static double share_of(const es_heat_scale *scale, double value)
{
    return (value - scale->low) / (scale->high - scale->low);
}

/* Returns true if the value a is more critical than the value b: if it is
 * larger or, on a scale with two critical ends, nearer to an end. Both values
 * must be finite. */
static bool is_worse(const es_heat_scale *scale, float a, float b)
{
    if (!scale->ends_matter)
        return a > b;
    double from_a = fabs(share_of(scale, (double)a) - 0.5);
    double from_b = fabs(share_of(scale, (double)b) - 0.5);
    return from_a > from_b || (!(from_a < from_b) && a < b);
}

float es_heat_place(const float *values, const es_heat_layout *layout,
                    const es_heat_scale *scale, int layer, int head)
{
    float worst = es_missing();
    for (int l = 0; l < layout->layers_in; l++)
        for (int h = 0; h < layout->heads_in; h++) {
            int at_layer = layer * layout->layers_in + l;
            int at_head = head * layout->heads_in + h;
            if (at_layer >= layout->n_layers || at_head >= layout->n_heads)
                continue;
            float value = values[(size_t)at_layer * (size_t)layout->n_heads +
                                 (size_t)at_head];
            if (es_is_missing(value))
                continue;
            if (!isfinite(value))
                return value;
            if (es_is_missing(worst) || is_worse(scale, value, worst))
                worst = value;
        }
    return worst;
}

/* --- drawing --------------------------------------------------------------*/

/* Returns the colour of a value, or ES_INK_OWN for a missing value. */
static es_ink ink_of(float value, const es_heat_scale *scale)
{
    if (es_is_missing(value))
        return ES_INK_OWN;
    if (!isfinite(value))
        return es_ink_of(ES_BROKEN_COLOR);
    return es_ink_of(
        es_colormap_at(scale->map, share_of(scale, (double)value)));
}

/* Draws one character cell, in which the upper half shows the value `upper` and
 * the lower half the value `lower`. */
static void draw_cell(es_screen *screen, int x, int y, float upper, float lower,
                      const es_heat_scale *scale)
{
    const char *text = NULL;
    es_style style = ES_PLAIN;
    if (!isfinite(upper) && !es_is_missing(upper) && !isfinite(lower) &&
        !es_is_missing(lower)) {
        es_mark_broken(screen, x, y);
    } else if (screen->depth == ES_DEPTH_ASCII) {
        if (!es_is_missing(upper))
            text = es_mark_ascii(share_of(scale, (double)upper));
    } else if ((style.ink = ink_of(upper, scale)) != ES_INK_OWN) {
        style.paper = ink_of(lower, scale);
        text = "▀";
    } else if ((style.ink = ink_of(lower, scale)) != ES_INK_OWN) {
        text = "▄";
    }
    if (text)
        es_screen_write(screen, x, y, 1, text, style);
}

void es_heat_draw(es_screen *screen, int x, int y, const float *values,
                  const es_heat_layout *layout, const es_heat_scale *scale)
{
    for (int row = 0; row < layout->height; row++)
        for (int column = 0; column < layout->width; column++) {
            int head = column / layout->columns;
            int above = row * 2 / layout->halves;
            int below = (row * 2 + 1) / layout->halves;
            float upper = es_heat_place(values, layout, scale, above, head);
            float lower = es_heat_place(values, layout, scale, below, head);
            draw_cell(screen, x + column, y + row, upper, lower, scale);
        }
}

/* Returns the smallest number of the series 1, 2, 5, 10, 20, ... that is at
 * least `least`. */
static int nice_step(int least)
{
    int step = 1;
    for (int i = 0; step < least; i++)
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

static int digits_of(int number)
{
    int n = 1;
    for (; number > 9; number /= 10)
        n++;
    return n;
}

void es_heat_draw_axes(es_screen *screen, int x, int y,
                       const es_heat_layout *layout)
{
    int n = digits_of(layout->n_heads - 1);
    int least = divide_up((n + 2) * layout->heads_in, layout->columns);
    for (int head = 0; head < layout->n_heads; head += nice_step(least)) {
        int at = head / layout->heads_in * layout->columns;
        if (at + digits_of(head) <= layout->width || head == 0)
            es_screen_say(screen, x + at, y - 1, n, ES_FAINT, "%d", head);
    }
    for (int row = 0; row < layout->height; row++) {
        int first, last;
        es_heat_layers_of_row(layout, row, &first, &last);
        es_screen_say(screen, x - 1 - digits_of(first), y + row,
                      digits_of(first), ES_FAINT, "%d", first);
    }
}
