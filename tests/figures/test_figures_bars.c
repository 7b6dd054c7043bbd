/* Tests the figures that consist of bars or points and are drawn from run
 * files. Their values must agree with the output of --json. */
#include "cli/figures/cost.h"
#include "cli/runs/json.h"
#include "render/picture_internal.h"
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/shown.h"
#include "tests/support/test.h"

static es_picture *drawn(es_drawing *drawing, es_figure_kind kind)
{
    es_picture *picture = NULL;
    es_assert_ok(
        es_run_labels_make(&drawing->labels, drawing->runs, drawing->n));
    es_status status = es_figure_entries[kind].draw(&picture, drawing);
    es_drawing_clear(drawing);
    es_run_labels_free(&drawing->labels);
    return sound_picture(status, &picture);
}

static es_drawing drawing_of(const es_shown *shown)
{
    return (es_drawing){.runs = (const es_run_summary **)shown->runs,
                        .n = shown->n,
                        .note = "max = 3.87 (observed)",
                        .axis = "entropy (nats)"};
}

/* Returns the text that --json prints for the runs. The caller frees the text.
 */
static char *json_of(const es_shown *shown)
{
    char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    es_json json;
    assert_non_null(stream);
    es_json_begin(&json, stream, &shown->max, shown->observed);
    for (size_t i = 0; i < shown->n; i++)
        es_json_run(&json, shown->runs[i]);
    es_json_end(&json);
    fclose(stream);
    return text;
}

/* --- bands ----------------------------------------------------------------*/

TEST(bars_have_the_numbers_of_json)
{
    AUTO_BY(es_shown_free) es_shown shown;
    es_shown_published(&shown, state, (es_max){.policy = ES_MAX_OBSERVED});
    es_drawing drawing = drawing_of(&shown);
    AUTO(es_picture) picture = drawn(&drawing, ES_FIGURE_BANDS);
    char *json = json_of(&shown), *at = json;
    for (size_t i = 0; i < shown.n; i++) {
        double fractions[ES_N_BANDS];
        at = strstr(at, "\"fractions\":[");
        assert_non_null(at);
        at += strlen("\"fractions\":[");
        for (int b = 0; b < ES_N_BANDS; b++) {
            char text[16];
            fractions[b] = 100 * strtod(at, &at);
            at++;
            snprintf(text, sizeof text, "%.1f%%", fractions[b]);
            if (!picture_says(picture, text))
                snprintf(text, sizeof text, "%.0f", fractions[b]);
            if (!picture_says(picture, text))
                fail_msg("run %zu, band %d: no text '%s'", i, b, text);
        }
    }
    assert_true(picture_says(picture, "[3m/4,m]"));
    assert_false(picture_says(picture, "NaN or infinite"));
    free(json);
}

/* Records a run with 3 layers, 2 heads and one sample of entropies. */
static void record_heads(es_figured *out, void **state, const char *file,
                         const float *values)
{
    char *path = es_folder_file(state, file);
    es_run_info info = es_run_of(3, 2);
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 7, values, 6);
    es_record_value(&to, "loss", 7, 5);
    es_record_close(&to);
    es_figure_one(out, "entropy", path);
}

/* Two of the six heads are in the top band, one is NaN and one is missing. */
TEST(nan_heads_are_a_separate_group)
{
    const float values[] = {4, 3.5f, 0, NAN, 1.25f, es_missing()};
    AUTO_BY(es_unfigure) es_figured f;
    record_heads(&f, state, "bands.db", values);
    strcpy(f.drawing.note, "max = 4 (observed)");
    f.drawing.style.width = 400;
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_bands);
    /* the percentages are relative to the five heads that are not missing */
    ASSERT_SAYS(picture, "NaN or infinite", "20%", "40%", "0%", "step 7",
                "m = 4 (observed): the largest value of all runs shown");
    ASSERT_SAYS_NOT(picture, "16.7%", "m (observed) is unknown");
}

/* All heads of the run are NaN, and the axis still ends at 100%. */
TEST(heads_that_are_all_nan_are_drawn)
{
    const float values[] = {NAN, NAN, NAN, NAN, NAN, NAN};
    const es_run_summary *runs[6];
    AUTO_BY(es_unfigure) es_figured f;
    record_heads(&f, state, "nan.db", values);
    for (size_t i = 0; i < 6; i++)
        runs[i] = f.runs[0];
    f.drawing.runs = runs;
    f.drawing.n = 6;
    f.drawing.style.width = 486;
    AUTO(es_picture) picture = es_figured_picture(&f, es_draw_bands);
    ASSERT_SAYS(picture, "m (observed) is unknown", "100");
    ASSERT_SAYS_NOT(picture, "120");
}

TEST(a_series_without_heads_is_refused)
{
    const float values[] = {4, 3.5f, 0, 2, 1.25f, 1};
    es_figured f, loss;
    record_heads(&f, state, "loss.db", values);
    es_figure_one(&loss, "loss", f.runs[0]->path);
    es_assert_unfit(&loss, ES_FIGURE_BANDS,
                    "series loss has one value per run, but a figure of bands "
                    "needs one per head: try entropy");
    es_unfigure(&loss);
    es_unfigure(&f);
}

/* --- flops and pareto -----------------------------------------------------*/

typedef struct model {
    const char *name, *arch, *config;
    int64_t n_layer, d_model, batch;
    float ce; /* cross-entropy of the evaluation; 0: no evaluation */
} model;

static es_run_summary *record(void **state, const model *m)
{
    char file[64];
    snprintf(file, sizeof file, "%s.db", m->name);
    char *path = es_folder_file(state, file);
    es_run_info info = es_run_of(m->n_layer, 12);
    info.name = m->name;
    info.arch = m->arch;
    info.config = m->config;
    info.d_model = m->d_model;
    info.batch = m->batch;
    info.ctx = 128;
    info.vocab = 50257;
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 20, 2);
    const float earlier = 3;
    if (m->ce != 0)
        es_record_sample(&to, "ce", ES_PHASE_EVAL, 10, &earlier, 1);
    if (m->ce != 0)
        es_record_sample(&to, "ce", ES_PHASE_EVAL, 20, &m->ce, 1);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    return es_loaded_run(path, 0);
}

static const model models[] = {
    {"a", "SM+LN+G", NULL, 12, 768, 8, 1},
    {"b", "SM+ScFuFFNi6", "{\"mlp_mult\":4}", 12, 768, 8, 1.5f},
    {"c", "SM", "{\"accumulate\":2}", 12, 768, 8, NAN},
    {"d", "SM+R", NULL, 12, 768, ES_UNKNOWN, 1.25f},
};
enum { N_MODELS = 4 };

typedef struct costs {
    es_run_summary *summaries[N_MODELS];
    const es_run_summary *runs[N_MODELS];
    es_figure_options options;
    es_drawing drawing;
} costs;

static void set_up(costs *to, void **state, es_cost cost)
{
    *to = (costs){.options = {.cost = cost}};
    to->drawing = (es_drawing){.options = &to->options,
                               .runs = to->runs,
                               .n = N_MODELS,
                               .style = {.width = 1200}};
    for (size_t i = 0; i < N_MODELS; i++)
        to->runs[i] = to->summaries[i] = record(state, &models[i]);
}

static void tear_down(costs *c)
{
    for (size_t i = 0; i < N_MODELS; i++)
        es_summary_free(c->summaries[i]);
}

/* The shares of FLOPs must equal the published values, and models with equal
 * costs share a panel. */
TEST(flops_have_the_published_shares)
{
    static const char *const texts[] = {
        "14.5B",          "7.7B",  "29B", "16.3B", "58B", "36.2B", /* SM+LN+G */
        "906M",           "8.61B", /* SM+ScFuFFNi6 */
        "L = 12, d = 768"};
    costs c;
    set_up(&c, state, ES_COST_FLOPS);
    AUTO(es_picture) picture = drawn(&c.drawing, ES_FIGURE_FLOPS);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!picture_says(picture, texts[i]))
            fail_msg("no text '%s'", texts[i]);
    bool alike = false; /* set if the note names the models with equal costs */
    for (size_t i = 0; i < picture->n_shapes; i++)
        alike = alike || (picture->shapes[i].kind == ES_SHAPE_TEXT &&
                          strstr(picture->text + picture->shapes[i].first,
                                 "Same as SM+LN+G: SM, SM+R."));
    assert_true(alike);
    tear_down(&c);
}

TEST(an_unknown_shape_is_refused)
{
    static const struct {
        model m;
        const char *words;
    } cases[] = {
        {{"e", NULL, NULL, 3, 96, 8, 1}, "needs the run's architecture"},
        {{"f", "mine", NULL, 3, 96, 8, 1}, "such as SM+LN+G, not 'mine'"},
        {{"g", "SM", NULL, 3, ES_UNKNOWN, 8, 1}, "needs the run's d_model"}};
    for (size_t i = 0; i < 3; i++) {
        AUTO(es_run_summary) run = record(state, &cases[i].m);
        es_assert_status(ES_ENOTFOUND, cases[i].words,
                         es_figure_fit(ES_FIGURE_FLOPS, run));
        es_assert_status(ES_ENOTFOUND, cases[i].words,
                         es_figure_fit(ES_FIGURE_PARETO, run));
    }
    const model never = {"h", "SM", NULL, 3, 96, 8, 0};
    AUTO(es_run_summary) run = record(state, &never);
    es_assert_ok(es_figure_fit(ES_FIGURE_FLOPS, run));
    es_assert_status(ES_ENOTFOUND, "the run has no evaluation",
                     es_figure_fit(ES_FIGURE_PARETO, run));
}

static void expect_cost(costs *c, size_t i, es_cost cost, double wanted)
{
    es_modelled found = {-1, -1, -1};
    es_assert_ok(es_run_cost(&found, &c->drawing, c->runs[i], cost));
    es_drawing_clear(&c->drawing);
    assert_true(found.value == wanted);
    assert_true(found.low == wanted && found.high == wanted);
}

TEST(costs_are_those_of_the_model)
{
    es_modelled found;
    costs c;
    set_up(&c, state, ES_COST_TOKENS);
    expect_cost(&c, 0, ES_COST_FLOPS, 14495514624.0 + 7701921792.0);
    expect_cost(&c, 0, ES_COST_PARAMS, 12.0 * 12 * 768 * 768);
    expect_cost(&c, 1, ES_COST_PARAMS, (12.0 * 4 + 6) * 768 * 768);
    expect_cost(&c, 0, ES_COST_TOKENS, 20.0 * 8 * 128);
    expect_cost(&c, 2, ES_COST_TOKENS, 20.0 * 8 * 128 * 2);
    /* The summary describes step 10, whose evaluation has this perplexity. */
    c.summaries[0]->eval_ppl = (float)exp(3);
    expect_cost(&c, 0, ES_COST_TOKENS, 10.0 * 8 * 128);
    es_assert_status(
        ES_ENOTFOUND, "batch",
        es_run_cost(&found, &c.drawing, c.runs[3], ES_COST_TOKENS));
    tear_down(&c);
}

/* The costs must be close to the costs in AERO (table 4 and figure 1), where a
 * GELU costs more than a ReLU. */
TEST(private_costs_are_near_the_published_ones)
{
    static const struct {
        size_t run;
        double gigabytes, minutes;
    } cases[] = {{0, 25.32, 8.21}, {3, 25.32 / 3.41, 8.21 / 1.42}};
    costs c;
    set_up(&c, state, ES_COST_LATENCY);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const es_run_summary *run = c.runs[cases[i].run];
        es_modelled bytes, time;
        es_assert_ok(
            es_run_cost(&bytes, &c.drawing, run, ES_COST_COMMUNICATION));
        es_assert_ok(es_run_cost(&time, &c.drawing, run, ES_COST_LATENCY));
        assert_true(near(bytes.value / cases[i].gigabytes, 1, 0.005));
        assert_true(near(time.value / cases[i].minutes, 1, 0.02));
        assert_true(bytes.low < cases[i].gigabytes &&
                    cases[i].gigabytes < bytes.high);
        assert_true(time.low < cases[i].minutes &&
                    cases[i].minutes < time.high);
    }
    tear_down(&c);
}

TEST(an_unmodelled_private_cost_is_not_drawn)
{
    const model power = {"p", "PSM(4)+LN", NULL, 3, 96, 8, 1};
    AUTO(es_run_summary) run = record(state, &power);
    es_modelled found;
    es_assert_status(ES_ENOTFOUND, "no published figures for PowerSoftmax",
                     es_run_cost(&found, NULL, run, ES_COST_COMMUNICATION));
    es_assert_ok(es_run_cost(&found, NULL, run, ES_COST_FLOPS));
}

/* The note below the figure names the runs that cannot be drawn. */
TEST(runs_left_out_are_named)
{
    costs c;
    set_up(&c, state, ES_COST_TOKENS);
    AUTO(es_picture) picture = drawn(&c.drawing, ES_FIGURE_PARETO);
    ASSERT_SAYS(picture,
                "No finite perplexity: SM. Cost unknown: SM+R. Tokens trained "
                "on up to the evaluation. Lower left is better; the line is "
                "the Pareto front. Only the best of the runs with the same "
                "architecture and cost is labelled.",
                "tokens trained on");
    es_picture_free(picture);
    c.drawing.n = 1;
    c.runs[0] = c.runs[2];
    picture = drawn(&c.drawing, ES_FIGURE_PARETO);
    assert_true(picture_says(picture, "no finite values"));
    tear_down(&c);
}

TEST_GROUP(es_folder_make, es_folder_remove)
