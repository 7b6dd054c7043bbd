/* Creates curves that own their arrays, and draws figures of them. */
#include "tests/support/curve_bundles.h"
#include "tests/support/chance.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

float *row(const bundle *b, size_t curve)
{
    return b->values + curve * b->n;
}

bundle bundle_new(size_t n_curves, size_t n, double noise)
{
    bundle b = {calloc(n_curves + 1, sizeof *b.curves),
                calloc(n_curves + 1, sizeof *b.labels),
                calloc(n + 1, sizeof *b.steps),
                calloc(n_curves * n + 1, sizeof *b.values),
                n_curves,
                n};
    uint32_t x = 99;
    for (size_t i = 0; i < n; i++)
        b.steps[i] = (int64_t)i;
    for (size_t c = 0; c < n_curves; c++) {
        for (size_t i = 0; i < n; i++) {
            double t = (double)i / (double)n;
            double high = 1 + 2.5 * (double)(c + 1) / (double)n_curves;
            row(&b, c)[i] = (float)(high * (0.4 + 0.6 * exp(-3 * t)) +
                                    noise * (congruence_unit(&x) - 0.5));
        }
        snprintf(b.labels[c], sizeof b.labels[c], "layer %zu", c);
        b.curves[c] = (es_curve){
            .label = b.labels[c], .x = b.steps, .values = row(&b, c), .n = n};
    }
    return b;
}

void bundle_free(bundle *b)
{
    free(b->curves);
    free(b->labels);
    free(b->steps);
    free(b->values);
}

es_curves figure_of(const es_curves_panel *panels, size_t n)
{
    return (es_curves){.panels = panels,
                       .n_panels = n,
                       .y_text = "entropy (nats)",
                       .line_text = "layer",
                       .reference = 3.878,
                       .reference_text = "ceiling",
                       .note = "mean over the heads of a layer"};
}

es_picture *drawn(const es_curves *figure)
{
    es_picture *picture = NULL;
    return sound_picture(es_curves_draw(&picture, figure), &picture);
}

shot shot_of(const es_curves *figure, double scale)
{
    shot s = {.picture = drawn(figure), .scale = scale};
    assert_int_equal(es_curves_lay_out(&s.sheet, figure), ES_OK);
    assert_true(picture_image(&s.image, s.picture, scale));
    return s;
}

void shot_clear(shot *s)
{
    es_curves_sheet_clear(&s->sheet);
    es_picture_free(s->picture);
    image_clear(&s->image);
}

uint32_t pixel(const shot *s, size_t panel, double step, double value)
{
    const es_curves_block *b = &s->sheet.blocks[panel];
    return image_at(&s->image, (int)(es_curves_x(b, step) * s->scale),
                    (int)(es_curves_y(b, value) * s->scale));
}

uint32_t color_of(const shot *s, size_t curve)
{
    es_color c = es_curve_color(
        &s->sheet, &s->sheet.blocks[0].panel->curves[curve], curve);
    return (uint32_t)c.r << 16 | (uint32_t)c.g << 8 | c.b;
}

size_t count_shapes(const es_picture *picture, es_shape_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n_shapes; i++)
        n += picture->shapes[i].kind == kind;
    return n;
}
