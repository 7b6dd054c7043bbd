/* Tests figures of attention maps: golden pictures, sizes and refusals. */
#include "render/figures/maps.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

#include "analyzer/base/value.h"

enum { SIZE = 12, MOST = 40 };

/** Fills in the causal attention map with the number `map`. The higher the
 *  number, the less local the attention. Map 2 contains a NaN. */
static void fill(float *values, int map)
{
    for (int q = 0; q < SIZE; q++)
        for (int k = 0; k < SIZE; k++)
            values[q * SIZE + k] =
                k > q ? es_missing()
                      : (float)(0.5 * exp(-(q - k) / (1.0 + map)) + 1e-4);
    if (map == 2)
        values[SIZE * 7 + 3] = NAN;
}

static es_map_panel panels[MOST];
static float values[MOST][SIZE * SIZE];

static es_map_figure figure_of(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fill(values[i], (int)i);
        panels[i] = (es_map_panel){.title = i % 2 ? "SM+LN+G" : "layer 3",
                                   .subtitle = i % 2 ? "layer 3" : NULL,
                                   .values = values[i],
                                   .size = SIZE,
                                   .n_ctx = 96};
    }
    return (es_map_figure){.panels = panels,
                           .n_panels = n,
                           .low = 1e-3,
                           .high = 0.5,
                           .logarithmic = true,
                           .scale_text = "mean weight",
                           .note = "evaluated at step 300"};
}

static es_status draw(es_picture **out, const void *figure)
{
    return es_maps_draw(out, figure);
}

TEST(pictures_are_golden)
{
    es_map_figure figure = figure_of(4);
    es_picture *picture = NULL;
    panels[3].values = NULL; /* a damaged map */
    assert_golden(sound_picture(es_maps_draw(&picture, &figure), &picture),
                  "maps_four");
    figure = figure_of(30);
    figure.style.theme = ES_THEME_DARK;
    assert_golden(sound_picture(es_maps_draw(&picture, &figure), &picture),
                  "maps_thirty");
}

TEST(sizes_are_kept)
{
    es_map_figure figure = figure_of(5);
    assert_sizes_are_kept(draw, &figure, &figure.style);
}

TEST(one_cell_is_drawn_and_no_cell_is_refused)
{
    es_map_figure figure = figure_of(1);
    es_picture *picture = NULL;
    panels[0].size = panels[0].n_ctx = 1;
    es_picture_free(sound_picture(es_maps_draw(&picture, &figure), &picture));
    panels[0].size = 0;
    picture = NULL;
    assert_int_equal(es_maps_draw(&picture, &figure), ES_EUSAGE);
}

TEST_EACH(NULL, NULL)
