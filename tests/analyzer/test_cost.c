/* Compares the counts of operations, communication and latency of private
   inference with the tables that AERO published:
   samples/private-inference/aero_tables.csv. */
#include "analyzer/cost/cost.h"
#include "tests/support/test.h"

#include <string.h>

#define TABLES "samples/private-inference/aero_tables.csv"
enum { ROWS_MAX = 32, CELLS = 18, CELL_MAX = 16 };

/* Columns of the CSV file. */
enum {
    TABLE,
    GROUP,
    ARCH,
    LAYERS,
    CTX,
    WIDTH,
    HEADS,
    PERPLEXITY,
    NORMS,
    ACTIVATION,
    FFNS,
    FFN_KIND,
    FLOPS_FFN,
    FLOPS_ATTENTION,
    GIGABYTES,
    MINUTES,
    SAVING_BYTES,
    SAVING_TIME
};

typedef struct table_row {
    char cells[CELLS][CELL_MAX];
    es_cost_model model;
} table_row;

static table_row rows[ROWS_MAX];
static size_t n_rows;

static bool is(const table_row *row, int cell, const char *text)
{
    return strcmp(row->cells[cell], text) == 0;
}

static double number(const table_row *row, int cell)
{
    return *row->cells[cell] ? atof(row->cells[cell]) : (double)NAN;
}

static int read_tables(void **state)
{
    char line[512];
    FILE *file = fopen(TABLES, "r");
    (void)state;
    if (!file || !fgets(line, sizeof line, file))
        return -1;
    while (n_rows < ROWS_MAX && fgets(line, sizeof line, file)) {
        table_row *row = &rows[n_rows++];
        char *rest = line, *cell;
        line[strcspn(line, "\r\n")] = 0;
        for (int i = 0; i < CELLS && (cell = strsep(&rest, ",")); i++)
            snprintf(row->cells[i], CELL_MAX, "%s", cell);
        if (es_arch_parse(&row->model.shape.arch, row->cells[ARCH]) != ES_OK)
            return -1;
        row->model.shape.n_layer = atoi(row->cells[LAYERS]);
        row->model.shape.n_head = atoi(row->cells[HEADS]);
        row->model.shape.d_model = atoi(row->cells[WIDTH]);
        row->model.shape.mlp_mult = 4;
        row->model.shape.simplified = is(row, GROUP, "SOTA");
        row->model.final_norm =
            is(row, GROUP, "SOTA") ? ES_COST_FINAL_ON : ES_COST_FINAL_AUTO;
        row->model.ctx = atoi(row->cells[CTX]);
        row->model.vocab = is(row, TABLE, "T7") ? 16384 : 50257;
    }
    return fclose(file);
}

TEST_GROUP(read_tables, NULL)

/* Returns the model whose costs a row of the published tables reports. For
   models with the simplified block, table 7 reports the costs of the full
   block. */
static es_cost_model as_charged(const table_row *row)
{
    es_cost_model model = row->model;
    model.shape.simplified = model.shape.simplified && !is(row, TABLE, "T7");
    return model;
}

static es_cost_model model_of(const char *arch)
{
    es_cost_model model = {
        .shape = {.n_layer = 12, .n_head = 12, .d_model = 768, .mlp_mult = 4},
        .ctx = 128,
        .vocab = 50257};
    assert_int_equal(es_arch_parse(&model.shape.arch, arch), ES_OK);
    return model;
}

/* --- counts ---------------------------------------------------------------*/

static bool prints(double flops, const char *cell)
{
    char text[CELL_MAX];
    snprintf(text, sizeof text, "%.1f", flops / 1e9);
    return strcmp(text, cell) == 0;
}

TEST(attention_flops_are_those_of_every_printed_cell)
{
    size_t n = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const es_cost_model *model = &rows[i].model;
        double flops = es_flops_forward(&model->shape, model->ctx).attention;
        if (!prints(flops, rows[i].cells[FLOPS_ATTENTION]))
            fail_msg("row %zu: %g", i, flops);
        n += !model->shape.simplified;
    }
    assert_int_equal(n_rows, 27);
    assert_int_equal(n, 20);
}

/* Two cells of the tables differ from the formula: 7.248 is printed as 7.3
   (table 7, ScFuFFN), and 1.661 as 1.2 (table 4, the simplified block with one
   FFN removed). */
TEST(ffn_flops_are_those_of_all_printed_cells_but_two)
{
    for (size_t i = 0; i < n_rows; i++) {
        const table_row *row = &rows[i];
        const es_cost_model *model = &row->model;
        double flops = es_flops_forward(&model->shape, model->ctx).ffn;
        bool odd = (is(row, TABLE, "T7") && is(row, ARCH, "SM+ScFuFFN")) ||
                   (is(row, GROUP, "SOTA") && is(row, ARCH, "SM+ScFuFFNi1"));
        if (prints(flops, row->cells[FLOPS_FFN]) == odd)
            fail_msg("row %zu: %g", i, flops);
    }
}

TEST(nonlinear_operations_are_those_of_the_tables)
{
    for (size_t i = 0; i < n_rows; i++) {
        const table_row *row = &rows[i];
        const double t = number(row, CTX), d = number(row, WIDTH);
        const double activated = number(row, FFNS) * t * 4 * d;
        double counts[ES_N_COST_ITEMS];
        es_cost_count(counts, &row->model);
        assert_true(counts[ES_COST_SOFTMAX] ==
                    number(row, LAYERS) * number(row, HEADS) * t * t);
        assert_true(counts[ES_COST_LAYER_NORM] == number(row, NORMS) * t * d);
        assert_true(counts[ES_COST_GELU] ==
                    (is(row, ACTIVATION, "G") ? activated : 0));
        assert_true(counts[ES_COST_RELU] ==
                    (is(row, ACTIVATION, "R") ? activated : 0));
    }
}

static void expect_inventory(const es_cost_model *model, const char *expected)
{
    es_cost_line lines[ES_COST_LINES_MAX];
    char text[1024] = "", line[ES_COST_LINE_MAX];
    const size_t n = es_cost_inventory(lines, model);
    for (size_t i = 0; i < n; i++) {
        strcat(text, i ? "; " : "");
        strcat(text, es_cost_line_print(line, &lines[i]));
    }
    assert_string_equal(text, expected);
}

TEST(the_inventory_is_written_as_published)
{
    es_cost_model model = model_of("SM+LN+G");
    model.vocab = 0;
    expect_inventory(&model,
                     "SM: 144 x R^128x128; LN: 24 x R^128x768; "
                     "G: 12 x R^128x3072; projections: 48 x R^128x768 "
                     "R^768x768; scores: 144 x R^128x64 R^64x128; values: "
                     "144 x R^128x128 R^128x64; FFN in: 12 x R^128x768 "
                     "R^768x3072; FFN out: 12 x R^128x3072 R^3072x768");
    model = model_of("PSM(4)+LN+ScFuFFNe3");
    model.shape.n_layer = 5;
    model.shape.n_head = 2;
    model.shape.d_model = 6;
    model.shape.simplified = true;
    model.ctx = 7;
    model.vocab = 11;
    expect_inventory(&model,
                     "PSM: 10 x R^7x7; LN: 7 x R^7x6; projections: 10 x "
                     "R^7x6 R^6x6; scores: 10 x R^7x3 R^3x7; values: 10 x "
                     "R^7x7 R^7x3; FFN fused: 2 x R^7x6 R^6x6; output: 1 x "
                     "R^7x6 R^6x11");
    model.ctx = 0;
    expect_inventory(&model, "");
}

/* Compares the counts for every part of the notation with counts that were
   computed by hand, for L = 3, H = 2, d = 4, T = 5, m = 3, V = 7. */
TEST(every_part_of_the_notation_is_counted)
{
    static const struct {
        const char *arch;
        double norm, gelu, relu, linear;
    } cases[] = {
        {"SM", 0, 0, 0, 20 * (24 + 24)},
        {"SM(t)+LN+GT", 120, 180, 0, 20 * (24 + 24)},
        {"EReg(SM(t)+R)", 0, 0, 180, 20 * (24 + 24)},
        {"SM+LR(layer)", 0, 0, 180, 20 * (24 + 24)},
        {"SM+G[0]+R[1-2]", 0, 60, 120, 20 * (24 + 24)},
        {"SM+LN+R[1]", 120, 0, 60, 20 * (24 + 24)},
        {"SM+ScFFN+WNorm(QKV)", 0, 0, 0, 20 * (24 + 24)},
        {"SM+ScFuFFN", 0, 0, 0, 20 * (24 + 6)},
        {"SM+LN+ScFuFFNi2", 80, 0, 0, 20 * (24 + 2)},
        {"SM+ScFuFFNe1", 0, 0, 0, 20 * (24 + 4)},
        {"SM(clip 9,gate)+ScFuFFN", 0, 0, 0, 20 * (30 + 6)},
        {"SM+LN+G+NoFFN[1]", 100, 120, 0, 20 * (24 + 16)},
        {"SM+LN+NoFFN", 60, 0, 0, 20 * 24},
        {"SM+R[0]+ScFuFFN[1]+NoFFN[1-2]", 0, 0, 60, 20 * (24 + 8)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_cost_model model = model_of(cases[i].arch);
        double counts[ES_N_COST_ITEMS];
        model.shape.n_layer = 3;
        model.shape.n_head = 2;
        model.shape.d_model = 4;
        model.shape.mlp_mult = 3;
        model.ctx = 5;
        model.vocab = 7;
        es_cost_count(counts, &model);
        const double expected[] = {150,
                                   cases[i].norm,
                                   cases[i].gelu,
                                   cases[i].relu,
                                   cases[i].linear,
                                   35,
                                   1};
        for (int k = 0; k < ES_N_COST_ITEMS; k++)
            if (counts[k] != expected[k])
                fail_msg("%s, %s: %g, not %g", cases[i].arch,
                         es_cost_item_name((es_cost_item)k), counts[k],
                         expected[k]);
    }
}

/* Counts the norms of models with L = 3. If all layers have LN, the norm after
   the last layer is not counted, as in AERO's tables. */
TEST(the_norms_of_a_model_are_counted)
{
    static const struct {
        const char *arch;
        es_cost_final_norm final;
        bool is_simplified;
        double n;
    } cases[] = {
        {"SM", ES_COST_FINAL_AUTO, false, 0},
        {"SM", ES_COST_FINAL_ON, false, 1},
        {"SM+LN", ES_COST_FINAL_AUTO, false, 6},
        {"SM+LN[0-2]", ES_COST_FINAL_ON, false, 6},
        {"SM+LN[1]", ES_COST_FINAL_AUTO, false, 3},
        {"SM+LN[1]", ES_COST_FINAL_ON, false, 3},
        {"SM+LN[1]", ES_COST_FINAL_OFF, false, 2},
        {"SM+RN[0-1]", ES_COST_FINAL_AUTO, false, 5},
        {"SM+LN[1]+NoFFN[1]", ES_COST_FINAL_AUTO, false, 2},
        {"SM+LN+NoFFN[1]", ES_COST_FINAL_AUTO, false, 5},
        {"SM", ES_COST_FINAL_ON, true, 2},
        {"SM", ES_COST_FINAL_OFF, true, 1},
        {"SM+LN", ES_COST_FINAL_ON, true, 3},
        {"SM+LN[1]", ES_COST_FINAL_ON, true, 3},
        {"SM+LN[0]", ES_COST_FINAL_ON, true, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_cost_model model = model_of(cases[i].arch);
        double counts[ES_N_COST_ITEMS];
        model.shape.n_layer = 3;
        model.shape.simplified = model.first_norm = cases[i].is_simplified;
        model.final_norm = cases[i].final;
        es_cost_count(counts, &model);
        if (counts[ES_COST_LAYER_NORM] != cases[i].n * 128 * 768)
            fail_msg("%s: %g norms, not %g", cases[i].arch,
                     counts[ES_COST_LAYER_NORM] / (128 * 768), cases[i].n);
    }
}

/* --- the model ------------------------------------------------------------*/

static double published(const table_row *row, es_cost_kind kind)
{
    return kind == ES_COST_BYTES ? 1e9 * number(row, GIGABYTES)
                                 : 60 * number(row, MINUTES);
}

/* Returns the root mean square of the relative errors over all rows. Stores in
 * n_within how many predicted intervals contain the published value. */
static double compare(es_cost_kind kind, size_t *n_within)
{
    double sum = 0;
    *n_within = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const es_cost_model model = as_charged(&rows[i]);
        const es_modelled cost = es_cost_predict(kind, &model);
        const double truth = published(&rows[i], kind);
        assert_true(es_cost_is_fitted(&model));
        sum += pow(cost.value / truth - 1, 2);
        *n_within += cost.low <= truth && truth <= cost.high;
    }
    return sqrt(sum / (double)n_rows);
}

TEST(modelled_costs_are_near_all_published_ones)
{
    size_t n_within;
    assert_true(compare(ES_COST_BYTES, &n_within) <= 0.005);
    assert_true(n_within >= 26);
    assert_true(compare(ES_COST_SECONDS, &n_within) <= 0.046);
    assert_true(n_within >= 26);
}

/* The saving "1" of the base models and the empty cells of the paper's table 7
   are not measurements. */
TEST(savings_and_their_intervals_meet_the_published_ones)
{
    static const struct {
        es_cost_kind kind;
        int cell;
        double most;
    } cases[] = {{ES_COST_BYTES, SAVING_BYTES, 0.02},
                 {ES_COST_SECONDS, SAVING_TIME, 0.125}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n = 0, n_within = 0, base = 0;
        for (size_t i = 0; i < n_rows; i++) {
            const double truth = number(&rows[i], cases[k].cell);
            if (!is(&rows[i], TABLE, rows[base].cells[TABLE]))
                base = i;
            if (i == base || isnan(truth))
                continue;
            const es_modelled saving = es_cost_saving(
                cases[k].kind, &rows[base].model, &rows[i].model);
            assert_true(fabs(saving.value / truth - 1) < cases[k].most);
            n_within += saving.low <= truth && truth <= saving.high;
            n++;
        }
        assert_int_equal(n, 18);
        assert_true(n_within >= 17);
    }
}

/* AERO's figure 1 orders the models of table 4 by communication, as the table
   does. If a GELU cost as much as a ReLU, the first two models would have the
   same cost. */
TEST(models_are_in_the_order_of_the_published_figure)
{
    static const char *const falling[] = {
        "SM+LN+G", "SM+LN+R", "SM+R", "SM+ScFFN", "SM+ScFuFFN", "SM+ScFuFFNi6"};
    for (size_t i = 1; i < sizeof falling / sizeof *falling; i++) {
        const es_cost_model more = model_of(falling[i - 1]);
        const es_cost_model less = model_of(falling[i]);
        assert_true(es_cost_predict(ES_COST_BYTES, &more).value >
                    es_cost_predict(ES_COST_BYTES, &less).value);
        assert_true(es_cost_predict(ES_COST_SECONDS, &more).value >
                    es_cost_predict(ES_COST_SECONDS, &less).value);
    }
    const es_cost_model gelu = model_of("SM+LN+G"), relu = model_of("SM+LN+R");
    const es_cost_model sm_relu = model_of("SM+R");
    assert_true(es_cost_saving(ES_COST_BYTES, &gelu, &relu).value > 2.5);
    /* In its text on figure 1, the paper reports that SM+R saves a factor of
     * 3.41 in communication and of 1.42 in time. */
    assert_true(
        near(es_cost_saving(ES_COST_BYTES, &gelu, &sm_relu).value, 3.41, 0.02));
    assert_true(near(es_cost_saving(ES_COST_SECONDS, &gelu, &sm_relu).value,
                     1.42, 0.03));
}

TEST(parts_add_up_and_absent_parts_cost_nothing)
{
    const es_cost_model model = model_of("SM+R");
    for (int kind = ES_COST_BYTES; kind <= ES_COST_SECONDS; kind++) {
        double parts[ES_N_COST_ITEMS], sum = 0;
        es_cost_parts(parts, (es_cost_kind)kind, &model);
        for (int i = 0; i < ES_N_COST_ITEMS; i++)
            sum += parts[i];
        assert_true(
            near(sum, es_cost_predict((es_cost_kind)kind, &model).value, 0));
        assert_true(parts[ES_COST_GELU] == 0 && parts[ES_COST_LAYER_NORM] == 0);
        assert_true(parts[ES_COST_RELU] > 0 && parts[ES_COST_SOFTMAX] > 0);
    }
}

static double width(const es_cost_model *model)
{
    const es_modelled cost = es_cost_predict(ES_COST_BYTES, model);
    return (cost.high - cost.low) / cost.value / 2;
}

TEST(numbers_of_one_item_cost_their_share_of_a_model)
{
    const es_cost_model model = model_of("SM+LN+G");
    double counts[ES_N_COST_ITEMS], parts[ES_N_COST_ITEMS];
    es_cost_count(counts, &model);
    for (es_cost_kind kind = 0; kind <= ES_COST_SECONDS; kind++) {
        es_cost_parts(parts, kind, &model);
        for (int i = 0; i < ES_N_COST_ITEMS; i++) {
            const es_modelled one =
                es_cost_of_numbers(kind, (es_cost_item)i, counts[i]);
            assert_true(fabs(one.value - parts[i]) <= 1e-12 * parts[i]);
            assert_true(one.value == 0 ? one.high == 0
                                       : one.low < 0.86 * one.value &&
                                             one.high > 1.14 * one.value);
        }
    }
    assert_true(
        isnan(es_cost_of_numbers(ES_COST_BYTES, ES_COST_GELU, NAN).low));
}

TEST(intervals_are_wider_outside_the_published_range)
{
    es_cost_model model = model_of("SM+LN+G");
    assert_true(width(&model) < 0.03);
    int64_t *const sizes[] = {&model.shape.n_layer, &model.shape.n_head,
                              &model.shape.d_model, &model.shape.mlp_mult,
                              &model.ctx};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t size = *sizes[i];
        *sizes[i] = 2 * size + (i == 4 ? 500 : 0);
        assert_false(es_cost_is_fitted(&model));
        assert_true(width(&model) >= 0.15 && width(&model) < 0.2);
        *sizes[i] = size;
    }
    assert_true(es_cost_is_fitted(&model));
}

TEST(common_parts_cancel_in_a_saving)
{
    const es_cost_model base = model_of("SM+LN+G"), same = model_of("SM+LN+GT");
    const es_cost_model less = model_of("SM+ScFuFFN");
    const es_modelled one = es_cost_saving(ES_COST_SECONDS, &base, &same);
    const es_modelled saving = es_cost_saving(ES_COST_BYTES, &base, &less);
    assert_true(one.value == 1 && one.low == 1 && one.high == 1);
    assert_true(near(saving.value,
                     es_cost_predict(ES_COST_BYTES, &base).value /
                         es_cost_predict(ES_COST_BYTES, &less).value,
                     1e-12));
    assert_true((saving.high - saving.low) / 2 / saving.value <
                width(&base) + width(&less));
}

TEST(an_unknown_cost_is_nan_and_has_a_reason)
{
    es_cost_model model = model_of("PSM(4)+LN");
    double counts[ES_N_COST_ITEMS];
    assert_string_equal(es_cost_unmodelled(&model),
                        "no published figures for PowerSoftmax");
    assert_true(isnan(es_cost_predict(ES_COST_BYTES, &model).value));
    assert_true(isnan(es_cost_predict(ES_COST_SECONDS, &model).low));
    es_cost_count(counts, &model);
    assert_true(counts[ES_COST_SOFTMAX] == 144 * 128 * 128);
    model = model_of("SM(gate)+LN");
    assert_string_equal(es_cost_unmodelled(&model),
                        "no published figures for a sigmoid gate");
    assert_true(isnan(es_cost_predict(ES_COST_SECONDS, &model).value));
    es_cost_line lines[ES_COST_LINES_MAX];
    char text[ES_COST_LINE_MAX];
    const size_t n = es_cost_inventory(lines, &model);
    bool is_listed = false;
    for (size_t i = 0; i < n; i++)
        is_listed = is_listed || !strcmp(es_cost_line_print(text, &lines[i]),
                                         "gate: 12 x R^128x768");
    assert_true(is_listed);
    model = model_of("SM(clip 100)");
    assert_null(es_cost_unmodelled(&model));
    model.vocab = INT64_MIN;
    assert_string_equal(es_cost_unmodelled(&model),
                        "the vocabulary is unknown");
    es_cost_count(counts, &model);
    assert_true(isnan(counts[ES_COST_OUTPUT]) && counts[ES_COST_FIXED] == 1);
    assert_true(isnan(es_cost_predict(ES_COST_BYTES, &model).value));
    const es_cost_model known = model_of("SM");
    assert_true(isnan(es_cost_saving(ES_COST_BYTES, &known, &model).value));
    model = (es_cost_model){.ctx = 1};
    assert_string_equal(es_cost_unmodelled(&model), "a size is unknown");
    es_cost_count(counts, &model);
    assert_true(isnan(counts[ES_COST_FIXED]));
}
