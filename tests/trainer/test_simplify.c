/* Compares models with their simplified form: logits and entropies are equal if
 * norms are folded and FFNs fused, and a dropped FFN equals an FFN of zeros. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/model/simplify.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* Tolerance of logits and entropies in float32, relative to max(1, |x|): the
 * models have few layers, but weights that are large enough for logits above
 * 10. Biases that simplification moves are solutions of linear systems and have
 * twice the error. */
#define TOLERANCE 1e-4

static const es_layer_set none = {.n = 0};

typedef struct step {
    es_family family;
    es_bias bias;
    const char *arch, *becomes;
    int n_layer;
} step;

/* Opens a model with n_head heads that the simplification step can be applied
 * to. */
static es_small_model open_model(const step *of, int n_head)
{
    es_model_config config = es_small_config(of->arch);
    config.family = of->family;
    config.bias = of->bias;
    config.n_layer = of->n_layer;
    config.n_head = n_head;
    es_small_model s = es_small_open(&config);
    if (strstr(of->arch, "SNorm"))
        es_assert_ok(es_model_start_norms(s.model));
    return s;
}

static es_model *simplified(es_model *from, const es_layer_set *drop,
                            const char *becomes)
{
    char arch[ES_ARCH_TEXT_MAX];
    es_model_config config;
    es_model *to;
    es_assert_ok(es_simplify_config(&config, es_model_config_of(from), drop));
    es_arch_print(arch, sizeof arch, &config.arch);
    assert_string_equal(arch, becomes);
    es_assert_ok(es_model_new(&to, &config, &es_cpu_ops, 1));
    es_assert_ok(es_simplify_model(to, from, "test"));
    return to;
}

/* Runs an evaluation; `rows` (L,B,H,T) receives the entropies. The caller frees
 * the logits (B,T,V). */
static float *evaluate(es_model *model, const es_small_model *s, float *rows)
{
    const es_model_config *c = es_model_config_of(model);
    const size_t n_rows = (size_t)(c->n_layer * c->batch * c->n_head * c->ctx);
    const size_t n = (size_t)(c->batch * c->ctx * c->vocab);
    es_losses losses;
    es_assert_ok(
        es_model_forward(model, &losses, s->tokens, s->targets, false, true));
    memcpy(rows, es_model_rows(model, ES_ROW_ENTROPY), n_rows * sizeof *rows);
    float *logits = malloc(n * sizeof *logits);
    memcpy(logits, es_model_logits(model), n * sizeof *logits);
    return logits;
}

static void assert_close(const char *what, const float *a, const float *b,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!near((double)a[i], (double)b[i],
                  TOLERANCE * fmax(1, fabs((double)a[i]))))
            fail_msg("%s %zu: %.7g is not %.7g", what, i, (double)b[i],
                     (double)a[i]);
}

static void assert_same_function(es_small_model *s, es_model *to)
{
    const es_model_config *c = s->config;
    const size_t n_rows = (size_t)(c->n_layer * c->batch * c->n_head * c->ctx);
    float rows[1024], rows_to[1024];
    assert_true(n_rows <= 1024);
    float *logits = evaluate(s->model, s, rows);
    float *logits_to = evaluate(to, s, rows_to);
    assert_close("logit", logits, logits_to, (size_t)(s->n * c->vocab));
    assert_close("entropy", rows, rows_to, n_rows);
    free(logits);
    free(logits_to);
}

/* --- exact steps ---------------------------------------------------------- */

#define GPT2 ES_FAMILY_GPT2
#define PYTHIA ES_FAMILY_PYTHIA
#define SAS ES_FAMILY_SAS
#define ALL ES_BIAS_ALL
#define QK ES_BIAS_QK

static const step exact[] = {
    {GPT2, QK, "SM", "SM+ScFuFFN", 3},
    {GPT2, ES_BIAS_NONE, "SM+ScFFN", "SM+ScFuFFN", 1},
    {GPT2, ALL, "SM+ScFFN", "SM+ScFuFFN", 3},
    {GPT2, ALL, "SM+LN", "SM+LN+ScFuFFN", 3},
    {PYTHIA, QK, "SM", "SM+ScFuFFN", 3},
    {PYTHIA, ALL, "SM+ScFFN", "SM+ScFuFFN", 3},
    {PYTHIA, ALL, "SM+LN+ScFFN", "SM+LN+ScFuFFN", 2},
    {SAS, QK, "SM+ScFFN", "SM+ScFuFFN", 3},
    {SAS, QK, "SM", "SM+ScFuFFN", 3},
    {SAS, ES_BIAS_NONE, "SM+LN", "SM+LN+ScFuFFN", 2},
    {GPT2, QK, "EReg(SM(t)+ScFFN)", "EReg(SM(t)+ScFuFFN)", 3},
    {PYTHIA, ALL, "SM(t,direct)+ScFFN", "SM(t,direct)+ScFuFFN", 2},
    {GPT2, ALL, "SM+WNorm(QKVO,FFN)", "SM+ScFuFFN", 3},
    {PYTHIA, ALL, "SM+SNorm(QKV,FFN)", "SM+ScFuFFN", 3},
    {GPT2, QK, "SM(gate)+LN+WNorm(QK)+SNorm(FFN)", "SM(gate)+LN+ScFuFFN", 3},
    {GPT2, QK, "SM+ScFuFFN+WNorm(FFN)", "SM+ScFuFFN", 3},
    {GPT2, QK, "SM+ScFuFFNi1+SNorm(QK,FFN)", "SM+ScFuFFNi1", 3},
    /* The FFN is not linear, so only the norms are simplified. */
    {PYTHIA, ALL, "SM+LN+G+WNorm(QK,FFN)", "SM+LN+G", 3},
    {GPT2, ALL, "SM+LR(layer)+SNorm(FFN)", "SM+LR(layer)", 3},
    {GPT2, ALL, "SM+LN[0]+ScFFN[1]+WNorm(QK)[0-1]", "SM+LN[0]+ScFuFFN", 3},
    {PYTHIA, ALL, "SM+G+ScFFN[1]+SNorm(FFN)[0-1]", "SM+G+ScFuFFN[1]", 3}};

TEST(a_simplified_model_is_the_same_function)
{
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        for (int n_head = 1; n_head <= 2; n_head++) {
            es_small_model s = open_model(&exact[i], n_head);
            es_model *to = simplified(s.model, &none, exact[i].becomes);
            assert_same_function(&s, to);
            es_model_free(to);
            es_small_close(&s);
        }
}

/* SNorm's vectors change in a training pass. The folded weight must equal the
 * weight that the following evaluation uses. */
TEST(the_folded_weight_is_that_of_an_evaluation)
{
    es_small_model s = es_small_open_arch("SM+R+SNorm(QKVO,FFN)");
    es_assert_ok(es_model_start_norms(s.model));
    es_small_gradients(&s);
    es_small_update(&s, NULL, 0.1);
    es_model *to = simplified(s.model, &none, "SM+R");
    assert_same_function(&s, to);
    es_model_free(to);
    es_small_close(&s);
}

/* --- dropped FFNs --------------------------------------------------------- */

static const struct {
    step of;
    es_layer_set drop;
} dropped[] = {
    {{GPT2, ALL, "SM+ScFFN", "SM+ScFuFFNi2", 5}, {{{3, 4}}, 1}},
    {{GPT2, QK, "SM+LN", "SM+LN+ScFuFFNe1", 3}, {{{0, 0}}, 1}},
    {{PYTHIA, ALL, "SM+ScFFN", "SM+ScFuFFNi3", 3}, {{{0, 2}}, 1}},
    {{PYTHIA, QK, "SM+ScFuFFNe1", "SM+ScFuFFNe2", 3}, {{{0, 1}}, 1}},
    {{SAS, QK, "SM+ScFFN", "SM+ScFuFFNi1", 3}, {{{2, 2}}, 1}},
    {{GPT2, QK, "SM+ScFuFFNi1+WNorm(FFN)", "SM+ScFuFFNi3", 4}, {{{1, 3}}, 1}},
    /* the layers that lose their FFN are in the middle of the model, or at both
     * of its ends */
    {{GPT2, ALL, "SM+LN+ScFFN", "SM+LN+ScFuFFN+NoFFN[1]", 3}, {{{1, 1}}, 1}},
    {{PYTHIA, QK, "EReg(SM(t)+ScFFN)",
      "EReg(SM(t)+ScFuFFN+NoFFN[0]+NoFFN[2-3])", 5},
     {{{2, 3}, {0, 0}}, 2}},
    {{SAS, QK, "SM+LN+ScFFN", "SM+LN+ScFuFFN+NoFFN[1]", 3},
     {{{1, 1}, {1, 1}}, 2}},
    {{GPT2, QK, "SM+ScFuFFNi1", "SM+ScFuFFN+NoFFN[0]+NoFFN[3]", 4},
     {{{0, 0}}, 1}},
    {{GPT2, QK, "SM+ScFuFFNe1", "SM+ScFuFFN+NoFFN[0]+NoFFN[2]", 3},
     {{{2, 2}}, 1}},
    {{GPT2, QK, "SM+ScFFN+NoFFN[1]", "SM+ScFuFFNi2", 3}, {{{2, 2}}, 1}},
    {{GPT2, QK, "SM+ScFFN+NoFFN[1]", "SM+ScFuFFNe2", 3}, {{{0, 1}}, 1}},
    {{GPT2, QK, "SM+LN+ScFFN+NoFFN[1]", "SM+LN+ScFuFFNi3", 3},
     {{{0, 0}, {2, 2}}, 2}},
    /* FFNs that are not linear */
    {{GPT2, ALL, "SM+LN+G", "SM+LN+G+NoFFN[2]", 3}, {{{2, 2}}, 1}},
    {{PYTHIA, ALL, "SM+LN+R+SNorm(QK)", "SM+LN+R+NoFFN[0-2]", 3},
     {{{0, 2}}, 1}},
    {{SAS, QK, "SM+R+NoFFN[0]", "SM+R+NoFFN[0-1]", 3}, {{{0, 1}}, 1}},
    {{GPT2, QK, "SM+G[0]+ScFFN[1-2]", "SM+G[0]+ScFuFFN[1-2]+NoFFN[1]", 3},
     {{{1, 1}}, 1}},
    {{GPT2, QK, "SM+G[0]+ScFFN[1-2]", "SM+G[0]+ScFuFFN[1-2]+NoFFN[0]", 3},
     {{{0, 0}}, 1}},
};

/* Sets all numbers of an array, if the model has it. */
static void fill(es_small_model *s, const char *name, float value)
{
    for (size_t i = 0; i < es_model_n_arrays(s->model); i++) {
        const es_parameter parameter = es_model_parameter(s->model, i);
        if (strcmp(parameter.name, name) != 0)
            continue;
        float *values = malloc(parameter.n * sizeof *values);
        for (size_t k = 0; k < parameter.n; k++)
            values[k] = value;
        es_assert_ok(es_model_set(s->model, i, values, parameter.n));
        free(values);
    }
}

/* Makes the FFN of a layer output 0 and sets the layer's beta to 1, if the
 * layer has an FFN. With WNorm the norms of the columns become 0. */
static void silence(es_small_model *s, int layer)
{
    const bool is_normed = s->config->arch.weight_norm != 0;
    const char *parts[] = {"c_proj.weight", "c_proj.bias", "down.weight",
                           is_normed ? "w.g" : "w.weight", "beta"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%d.mlp.%s", layer, parts[i]);
        fill(s, name, strcmp(parts[i], "beta") == 0 ? 1 : 0);
    }
}

TEST(a_dropped_ffn_is_an_ffn_of_zeros)
{
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        es_small_model s = open_model(&dropped[i].of, 2);
        es_model *to =
            simplified(s.model, &dropped[i].drop, dropped[i].of.becomes);
        const es_model_config *config = es_model_config_of(to);
        for (int layer = 0; layer < config->n_layer; layer++)
            if (!es_arch_has_ffn(&config->arch, layer, config->n_layer))
                silence(&s, layer);
        assert_same_function(&s, to);
        es_model_free(to);
        es_small_close(&s);
    }
}

/* --- refusals ------------------------------------------------------------- */

TEST(models_that_cannot_be_simplified_are_refused)
{
    const struct {
        es_family family;
        const char *arch, *message;
        es_layer_set drop;
    } cases[] = {
        {ES_FAMILY_GPT2, "SM+LN+G", "FFN of SM+LN+G is not linear", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+R[1-2]", "is not linear", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+R+NoFFN[1]", "is not linear", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+ScFuFFN", "SM+ScFuFFN is fused already", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+ScFuFFN+NoFFN[1]", "is fused already", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+LN+NoFFN", "SM+LN+NoFFN has no FFN", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+ScFuFFNi4", "SM+ScFuFFNi4 has no FFN", {.n = 0}},
        {ES_FAMILY_GPT2, "SM+LN+NoFFN", "--drop 0-3: these", {{{0, 3}}, 1}},
        {ES_FAMILY_GPT2, "SM+ScFFN", "--drop 2-4: the model", {{{2, 4}}, 1}},
        {ES_FAMILY_GPT2, "SM+G", "--drop 4-4: the", {{{1, 2}, {4, 4}}, 2}},
        {ES_FAMILY_GPT2,
         "SM+ScFuFFNi1",
         "--drop 3-3: these layers have no FFN",
         {{{0, 3}, {3, 3}}, 2}},
        {ES_FAMILY_LLAMA, "SM+RN", "--family llama has no ScFuFFN", {.n = 0}},
        {ES_FAMILY_ROBERTA, "SM+LN", "--family roberta has no", {.n = 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_model_config config = es_small_config(cases[i].arch), out;
        config.family = cases[i].family;
        config.n_layer = 4;
        es_assert_status(ES_EUSAGE, cases[i].message,
                         es_simplify_config(&out, &config, &cases[i].drop));
    }
}

TEST(an_architecture_with_too_many_ranges_is_refused)
{
    es_model_config config = es_small_config("EReg(SM(t)+LN+G)"), out;
    es_layer_set drop = {.n = ES_ARCH_SPANS_MAX};
    config.n_layer = 1100;
    for (int i = 0; i < drop.n; i++)
        drop.ranges[i].first = drop.ranges[i].last = 2 * i;
    es_assert_ok(es_simplify_config(&out, &config, &drop));
    assert_int_equal(out.arch.n_spans, ES_ARCH_SPANS_MAX);
    config.arch = out.arch;
    drop = (es_layer_set){{{99, 99}}, 1};
    es_assert_status(ES_EUSAGE, "more than 16 ranges",
                     es_simplify_config(&out, &config, &drop));
    es_assert_ok(es_arch_parse(&config.arch, "EReg(SM(t)+LN+G)"));
    drop.n = ES_ARCH_SPANS_MAX;
    for (int i = 0; i < drop.n; i++)
        drop.ranges[i] = (es_layer_range){1000 + 3 * i, 1001 + 3 * i};
    es_assert_status(ES_EUSAGE, "longer than 255 characters",
                     es_simplify_config(&out, &config, &drop));
}

/* Layers without FFN keep neither the activation nor its learnable slope. */
TEST(an_activation_of_layers_without_ffn_does_not_hinder_fusing)
{
    es_small_model s =
        es_small_open_arch("SM+LN+LR(layer,0.2)[0]+ScFFN[1]+NoFFN[0]");
    es_model *to = simplified(s.model, &none, "SM+LN+ScFuFFN+NoFFN[0]");
    assert_same_function(&s, to);
    es_model_free(to);
    es_small_close(&s);
}

static es_status try_to_simplify(es_small_model *s)
{
    es_model_config config;
    es_model *to;
    es_assert_ok(es_simplify_config(&config, s->config, &none));
    es_assert_ok(es_model_new(&to, &config, &es_cpu_ops, 1));
    es_status status = es_simplify_model(to, s->model, "x.safetensors");
    es_model_free(to);
    return status;
}

TEST(weights_that_are_not_finite_are_refused_by_name)
{
    static const char *const names[] = {"h.1.mlp.c_fc.weight", "wte",
                                        "h.0.mlp.c_proj.bias", "h.1.mlp.alpha"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        es_small_model s = es_small_open_arch("SM+ScFFN");
        char message[96];
        snprintf(message, sizeof message,
                 "x.safetensors: number 0 of %s is not finite", names[i]);
        fill(&s, names[i], i % 2 ? INFINITY : NAN);
        es_assert_status(ES_EFORMAT, message, try_to_simplify(&s));
        es_small_close(&s);
    }
}

TEST(a_column_of_zeros_has_no_norm)
{
    es_small_model s = es_small_open_arch("SM+WNorm(FFN)");
    fill(&s, "h.1.mlp.c_fc.weight", 0);
    es_assert_status(ES_EFORMAT,
                     "number 0 of h.1.mlp.c_fc.weight is not finite",
                     try_to_simplify(&s));
    es_small_close(&s);
}

TEST(biases_that_cannot_be_moved_are_refused)
{
    es_small_model s = es_small_open_arch("SM+LN+ScFFN");
    fill(&s, "h.1.mlp.c_fc.weight", 0.5f); /* all columns are equal */
    es_assert_status(
        ES_EFORMAT,
        "x.safetensors: the biases of the FFN in layer 1 cannot be moved",
        try_to_simplify(&s));
    /* biases that are 0 need not be moved */
    fill(&s, "h.1.mlp.c_fc.bias", 0);
    fill(&s, "h.1.mlp.c_proj.bias", 0);
    es_assert_ok(try_to_simplify(&s));
    es_small_close(&s);
}
