/* Tests the overview chart with every kind of row and in several sizes. */
#include "render/figures/overview.h"

#include "analyzer/base/value.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

static const es_overview_column columns[] = {{"arch", false}, {"lr", true}};
static const char *const texts[][2] = {
    {"SM+LN+G", "0.001"}, {"SM", NULL}, {"a long name of a run", "0.1"}};
static const es_overview_flag flags[] = {{20, 80, ES_LEVEL_WARNING},
                                         {60, 61, ES_LEVEL_CRITICAL}};
static float layers[3][6];

static void make_rows(es_overview_row rows[3])
{
    for (int l = 0; l < 6; l++) {
        layers[0][l] = (float)l / 2;
        layers[1][l] = l == 1 ? NAN : l == 2 ? es_missing() : 1;
    }
    rows[0] = (es_overview_row){texts[0],
                                12,
                                10,
                                15,
                                true,
                                {0.25, 0.25, 0.25, 0.125, 0.125},
                                layers[0],
                                6,
                                flags,
                                2,
                                100,
                                100,
                                {"nan (1 of 3)", ES_LEVEL_CRITICAL},
                                {"finished", ES_LEVEL_INFO}};
    rows[1] = (es_overview_row){texts[1],
                                NAN,
                                0,
                                0,
                                true,
                                {1, 0, 0, 0, 0},
                                layers[1],
                                3,
                                flags,
                                1,
                                80,
                                100,
                                {"overload", ES_LEVEL_WARNING},
                                {"failed", ES_LEVEL_ERROR}};
    rows[2] = (es_overview_row){
        .texts = texts[2], .value = es_missing(), .last = NAN, .planned = NAN};
}

static es_overview figure_of(const es_overview_row *rows, size_t n)
{
    return (es_overview){.columns = columns,
                         .n_columns = 2,
                         .rows = rows,
                         .n_rows = n,
                         .row_word = "run",
                         .value_text = "perplexity",
                         .heads_text = "heads by quarter",
                         .layers_text = "layers: mean entropy",
                         .low = 0,
                         .high = 3,
                         .scale_text = "entropy (nats)",
                         .note = "m: max = 3 (observed)"};
}

TEST(every_kind_of_row_is_golden)
{
    es_overview_row rows[3];
    make_rows(rows);
    es_overview figure = figure_of(rows, 3);
    figure.n_more = 7;
    es_picture *picture = NULL;
    sound_picture(es_overview_draw(&picture, &figure), &picture);
    ASSERT_SAYS(picture, "and 7 more runs", "missing", "NaN", "12.00",
                "0 to 3, entropy (nats)");
    assert_golden(picture, "overview");
}

/* A value that is far from the others is printed in full, and does not widen
 * the scale on which the others are drawn. */
TEST(a_value_far_away_does_not_stretch_the_scale)
{
    const float values[] = {16, 15, 1.5e22F, 12, 13};
    es_overview_row rows[5];
    es_picture *picture = NULL;
    make_rows(rows);
    for (size_t i = 0; i < 5; i++)
        rows[i] = (es_overview_row){
            .texts = texts[0], .value = values[i], .last = NAN, .planned = NAN};
    es_overview figure = figure_of(rows, 5);
    sound_picture(es_overview_draw(&picture, &figure), &picture);
    ASSERT_SAYS(picture, "16.00", "1.5\u00d710\u00b2\u00b2", "14");
    es_picture_free(picture);
}

/* A percentage that is wider than its segment is drawn next to the bar. */
TEST(small_shares_are_beside_the_bar)
{
    es_overview_row rows[3];
    es_picture *picture = NULL;
    make_rows(rows);
    es_overview figure = figure_of(rows, 2);
    figure.heads_only = true;
    const double shares[] = {0.04, 0.007, 0.0001, 0.9529, 0};
    for (int k = 0; k < ES_OVERVIEW_SHARES; k++)
        rows[0].shares[k] = shares[k];
    sound_picture(es_overview_draw(&picture, &figure), &picture);
    ASSERT_SAYS(picture, "4%", "0.7%", "<0.1%", "95%", "100%");
    ASSERT_SAYS_NOT(picture, "0%");
    es_picture_free(picture);
    figure.style.width = 234; /* too narrow for all percentages */
    sound_picture(es_overview_draw(&picture, &figure), &picture);
    es_picture_free(picture);
}

TEST(no_row_is_refused_and_one_row_is_enough)
{
    es_overview_row rows[3];
    es_picture *picture = NULL;
    make_rows(rows);
    es_overview figure = figure_of(rows, 0);
    assert_int_equal(es_overview_draw(&picture, &figure), ES_EUSAGE);
    for (size_t i = 0; i < 3; i++) {
        figure.rows = rows + i;
        figure.n_rows = 1;
        es_picture_free(
            sound_picture(es_overview_draw(&picture, &figure), &picture));
    }
}

TEST(a_narrow_overview_says_ppl)
{
    es_overview_row rows[3];
    es_picture *picture = NULL;
    make_rows(rows);
    es_overview figure = figure_of(rows, 3);
    figure.style.width = 190;
    sound_picture(es_overview_draw(&picture, &figure), &picture);
    ASSERT_SAYS(picture, "ppl");
    ASSERT_SAYS_NOT(picture, "perpl");
    es_picture_free(picture);
}

static es_status draw_any(es_picture **out, const void *figure)
{
    return es_overview_draw(out, figure);
}

TEST(a_requested_size_is_kept)
{
    es_overview_row rows[3];
    make_rows(rows);
    es_overview figure = figure_of(rows, 3);
    assert_sizes_are_kept(draw_any, &figure, &figure.style);
}
