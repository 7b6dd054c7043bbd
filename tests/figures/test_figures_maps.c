/* Tests that the figure of attention maps shows the right step, maps and
 * runs. */
#include "store/map.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { L = 3, H = 2 };

/** Records a run of three layers and two heads, with evaluations at steps 0,
 *  100 and 200. With `heads`, also records the maps of the heads. Returns the
 *  path. */
static const char *write_run(void **state, const char *name, bool heads)
{
    const char *path = es_folder_file(state, name);
    es_run_info info = es_run_of(L, H);
    es_recorded to = es_record(path, &info);
    float entropy[L * H];
    for (int i = 0; i < L * H; i++)
        entropy[i] = 2;
    for (int64_t step = 0; step < 200; step += 10)
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, entropy, L * H);
    for (int64_t step = 0; step <= 200; step += 100)
        for (int64_t layer = 0; layer < L; layer++)
            for (int64_t head = ES_MAP_MEAN; head < (heads ? H : 0); head++) {
                const es_map map = {ES_PHASE_EVAL, step, layer, head, 2, 8};
                const float values[] = {0.5f, NAN, 0.25f / (float)(1 + layer),
                                        0.125f};
                es_assert_ok(es_writer_map(to.writer, to.run, &map, values));
            }
    es_record_close(&to);
    return path;
}

TEST(a_run_has_a_map_for_each_layer)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy", write_run(state, "a.db", false));
    es_assert_ok(es_figure_fit(ES_FIGURE_MAPS, f.runs[0]));
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_maps);
    /* the final evaluation has the maps that are nearest to the last step */
    ASSERT_SAYS(picture, "layer 0", "layer 2",
                "evaluated at step 200; logarithmic colour scale", "key",
                "query", "mean weight", "NaN or infinite");
    ASSERT_SAYS_NOT(picture, "layer 3", "missing");
}

TEST(heads_of_a_layer_are_shown_if_recorded)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy", write_run(state, "a.db", true));
    f.options.by_head = true;
    f.options.layer = 2;
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_maps);
    ASSERT_SAYS(picture, "head 0", "head 1",
                "heads of layer 2; evaluated at step 200; logarithmic "
                "colour scale");
    f.options.layer = 3;
    es_assert_undrawn(&f, es_draw_maps, "heads of layer 3");
}

TEST(a_run_without_maps_is_told_how_to_record_them)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_write_run(run_db, "x", 30);
    es_figure_one(&f, "entropy", run_db);
    es_assert_unfit(&f, ES_FIGURE_MAPS, "train with --maps 32");
}

TEST(heads_of_a_run_with_maps_of_layers_only_are_refused)
{
    AUTO_BY(es_unfigure) es_figured f;
    es_figure_one(&f, "entropy", write_run(state, "a.db", false));
    f.options.by_head = true;
    es_assert_undrawn(&f, es_draw_maps, "--map-heads");
}

TEST(several_runs_have_a_row_each)
{
    const char *const paths[] = {write_run(state, "a.db", false),
                                 write_run(state, "b.db", true)};
    AUTO_BY(es_unfigure) es_figured f;
    es_figure(&f, "entropy", 2, paths);
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_maps);
    ASSERT_SAYS(picture, "layer 0", "layer 2",
                "evaluated at step 200; logarithmic colour scale");
}

TEST(a_damaged_map_is_an_empty_panel_with_a_note)
{
    AUTO_BY(es_unfigure) es_figured f;
    const char *path = write_run(state, "a.db", false);
    es_sqlite(path, "UPDATE attention_map SET value = zeroblob(16) WHERE"
                    " layer = 1 AND step = 200");
    es_figure_one(&f, "entropy", path);
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_maps);
    ASSERT_SAYS(
        picture, "layer 1", "no map",
        "evaluated at step 200; logarithmic colour scale; damaged maps: 1");
}

TEST_EACH(es_folder_make, es_folder_remove)
