/* Compares FLOPs and numbers of weights of models with closed forms and
   published numbers. */
#include "analyzer/cost/flops.h"
#include "hooks/trainer/model/params.h"
#include "tests/support/test.h"

static es_cost_shape shape_of(const char *arch, int64_t n_layer, int64_t d)
{
    es_cost_shape shape = {
        .n_layer = n_layer, .n_head = 12, .d_model = d, .mlp_mult = 4};
    assert_int_equal(es_arch_parse(&shape.arch, arch), ES_OK);
    return shape;
}

/* Asserts that FLOP counts, in billions, agree with the published numbers,
   which have one decimal. */
static void expect(const char *arch, int64_t n_layer, int64_t ctx, double ffn,
                   double attention)
{
    es_cost_shape shape = shape_of(arch, n_layer, 768);
    es_flops flops = es_flops_forward(&shape, ctx);
    if (!(fabs(flops.ffn / 1e9 - ffn) <= 0.05 + 1e-9))
        fail_msg("%s T=%d: FFN %g, not %g", arch, (int)ctx, flops.ffn, ffn);
    if (!(fabs(flops.attention / 1e9 - attention) <= 0.05 + 1e-9))
        fail_msg("%s T=%d: attention %g, not %g", arch, (int)ctx,
                 flops.attention, attention);
}

/* The expected counts are those that AERO publishes for GPT-2 with width
 * 768. */
TEST(published_counts_are_met)
{
    expect("SM+LN+G", 12, 128, 14.5, 7.7);
    expect("SM", 12, 128, 14.5, 7.7);
    expect("SM+ScFFN", 12, 128, 14.5, 7.7);
    expect("SM+LN+R", 12, 256, 29.0, 16.3);
    expect("SM+LN+G", 12, 512, 58.0, 36.2);
    expect("SM+LN+G", 18, 128, 21.7, 11.6);
    expect("SM+ScFuFFN", 12, 128, 1.8, 7.7);
    expect("EReg(SM(t)+ScFuFFN)", 12, 128, 1.8, 7.7);
    expect("SM+ScFuFFNi6", 12, 128, 0.9, 7.7);
}

/* Counts a model with 2 layers, width 3 and context length 5. The expected
   counts were computed by hand. */
TEST(operations_are_counted_exactly)
{
    es_cost_shape shape = shape_of("SM+R", 2, 3);
    es_flops flops = es_flops_forward(&shape, 5);
    assert_true(flops.ffn == 2 * 5 * 16 * 9);
    assert_true(flops.attention == 2 * 5 * (8 * 9 + 2 * 5 * 3 + 3 * 6));
    shape.mlp_mult = 3;
    assert_true(es_flops_forward(&shape, 5).ffn == 2 * 5 * 12 * 9);
    shape = shape_of("SM+ScFuFFNi1", 2, 3);
    assert_true(es_flops_forward(&shape, 5).ffn == 5 * 2 * 9);
}

/* The FFN costs more than attention if the context length is below 8/3 of the
 * model's width. */
TEST(an_ffn_costs_more_than_attention_below_a_length)
{
    es_cost_shape shape = shape_of("SM+LN+G", 5, 768);
    for (int64_t ctx = 1; ctx < 4096; ctx += 7) {
        es_flops flops = es_flops_forward(&shape, ctx);
        assert_int_equal(flops.ffn > flops.attention, 3 * ctx + 1 < 8 * 768);
    }
}

TEST(removed_ffns_cost_nothing_and_bad_sizes_are_nan)
{
    es_cost_shape shape = shape_of("SM+ScFuFFNi7", 7, 96);
    assert_true(es_flops_forward(&shape, 9).ffn == 0);
    shape.arch.n_removed = 99; /* a malformed file may contain such a value */
    assert_true(es_flops_forward(&shape, 9).ffn == 0);
    assert_true(es_cost_weights(&shape) == 7 * 4.0 * 96 * 96);
    assert_true(isnan(es_flops_forward(&shape, 0).attention));
    shape.d_model = INT64_MIN;
    assert_true(isnan(es_flops_forward(&shape, 9).ffn));
    assert_true(isnan(es_cost_weights(&shape)));
}

/* Returns the number of weights in the trainer's own list of parameter arrays.
 */
static double listed_weights(const char *arch)
{
    es_model_config config;
    es_params params;
    double n = 0;
    es_model_config_default(&config);
    config.n_layer = 5;
    config.n_head = 12;
    config.d_model = 48;
    assert_int_equal(es_arch_parse(&config.arch, arch), ES_OK);
    assert_int_equal(es_params_list(&params, &config), ES_OK);
    for (size_t i = 0; i < params.n; i++) {
        const es_param *param = &params.table[i];
        if (param->layer >= 0 && param->init == ES_INIT_NORMAL)
            n += (double)param->n;
    }
    es_params_free(&params);
    return n;
}

TEST(weights_are_counted)
{
    static const char *const archs[] = {"SM+LN+G",
                                        "SM(t)+ScFFN+WNorm(FFN)",
                                        "EReg(SM(t)+ScFuFFN)",
                                        "SM+ScFuFFNi2",
                                        "PSM(4)+LN+LR(layer)+SNorm(QKV)",
                                        "SM(t,clip 9,gate)+LN+G",
                                        "SM+LN[2]+G+ScFFN[1]+ScFuFFN[3]",
                                        "SM+LN+G+NoFFN[1-3]",
                                        "SM+LN+NoFFN"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        es_cost_shape shape = shape_of(archs[i], 5, 48);
        assert_true(es_cost_weights(&shape) == listed_weights(archs[i]));
    }
}

/* Counting takes no longer if the number of layers is huge. Such a number may
   come from a malformed file. */
TEST(the_parts_of_layers_are_counted)
{
    const es_cost_shape shape =
        shape_of("SM+LN[1-3]+G+ScFFN[2-3]+ScFuFFN[4-5]", INT64_MAX, 48);
    const es_layer_counts n = es_cost_count_layers(&shape);
    assert_true(n.norms == 6 && n.fused == 2 && n.relus == 0);
    assert_true(n.ffns == (double)INT64_MAX && n.gelus == (double)INT64_MAX);
    const es_cost_shape few = shape_of("SM+LN[0-1]+ScFuFFNi2", 3, 48);
    const es_layer_counts m = es_cost_count_layers(&few);
    assert_true(m.norms == 3 && m.ffns == 1 && m.fused == 1 && m.gelus == 0);
    const es_cost_shape cut = shape_of("SM+LN[0-9]+R[2-9]", 3, 48);
    const es_layer_counts k = es_cost_count_layers(&cut);
    assert_true(k.norms == 6 && k.ffns == 3 && k.relus == 1);
    assert_true(k.normed == 3 && m.normed == 2);
    const es_cost_shape mixed =
        shape_of("SM+RN+SwiGLU[0-1]+G[2-4]+NoFFN[1-2]", 5, 48);
    const es_layer_counts s = es_cost_count_layers(&mixed);
    assert_true(s.norms == 8 && s.ffns == 3 && s.swiglus == 1 && s.gelus == 2);
}

/* A gate adds one matrix per layer and nothing else. The model has 5 layers and
   the width 48; the context length is 7. */
TEST(a_gate_adds_one_matrix_product)
{
    const es_cost_shape plain = shape_of("SM+LN+G", 5, 48);
    const es_cost_shape gated = shape_of("SM(clip 9,gate)+LN+G", 5, 48);
    const es_flops a = es_flops_forward(&plain, 7);
    const es_flops b = es_flops_forward(&gated, 7);
    assert_true(b.attention - a.attention == 5.0 * 7 * 2 * 48 * 48);
    assert_true(a.ffn == b.ffn);
}

/* The attention of a simplified block has two weight matrices instead of four,
   and both products with the attention matrix skip its causal zeros. The model
   has 2 layers and the width 3; the context length is 5. */
TEST(simplified_attention_has_half_of_the_matrices)
{
    es_cost_shape shape = shape_of("SM", 2, 3);
    const double whole = es_cost_weights(&shape);
    shape.simplified = true;
    assert_true(es_flops_forward(&shape, 5).attention ==
                2 * 5 * (4 * 9 + 2 * 3 * 6));
    assert_true(es_cost_weights(&shape) == whole - 2 * 2 * 9);
}

/* Tests the shape of Mistral 7B, which has the width d = 4096, 32 heads of
   width 128, 8 key and value heads, and an FFN of width 14336. Of its
   7,241,732,096 parameters, 2 * 32000 * d are embeddings and 65 * d norms. */
TEST(grouped_heads_and_swiglu_have_the_weights_of_a_published_model)
{
    es_cost_shape shape = shape_of("SM+RN+SwiGLU", 32, 4096);
    shape.n_head = 32;
    shape.n_kv_head = 8;
    shape.d_ff = 14336;
    assert_true(es_cost_weights(&shape) ==
                7241732096.0 - 64000 * 4096.0 - 65 * 4096.0);
    shape.d_head = 128;
    assert_true(es_cost_weights(&shape) ==
                7241732096.0 - 64000 * 4096.0 - 65 * 4096.0);
}

/* Counts a model of 2 layers and width 6 with 3 heads of width 4, one key and
   value head, and an FFN of width 7. The context length is 5. */
TEST(separate_widths_are_counted_exactly)
{
    es_cost_shape shape = shape_of("SM+RN+SwiGLU", 2, 6);
    shape.n_head = 3;
    shape.n_kv_head = 1;
    shape.d_head = 4;
    shape.d_ff = 7;
    const es_flops flops = es_flops_forward(&shape, 5);
    assert_true(flops.ffn == 2 * 5 * (6 * 6 * 7));
    assert_true(flops.attention ==
                2 * 5 * (4 * 6 * (12 + 4) + 2 * 5 * 12 + 12 * 6));
    const es_layer_counts n = es_cost_count_layers(&shape);
    assert_true(n.swiglus == 2 && n.relus == 0 && n.gelus == 0);
}
