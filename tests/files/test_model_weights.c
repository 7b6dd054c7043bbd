/* Tests the normalised weights of a model: when they are computed, and from
   which parameters. */
#include "tests/support/small_model.h"
#include "tests/support/test.h"

#define CAPACITY 1024

/* Copies the parameter array `name` of the model to `values` and returns its
 * number of floats. */
static size_t get(const es_small_model *s, const char *name, float *values)
{
    const size_t index = es_small_find(s, name);
    const size_t n = es_model_parameter(s->model, index).n;
    assert_true(n <= CAPACITY);
    es_assert_ok(es_model_get(s->model, index, values, n));
    return n;
}

static void multiply(const es_small_model *s, const char *name, float factor)
{
    float values[CAPACITY];
    const size_t n = get(s, name, values);
    for (size_t i = 0; i < n; i++)
        values[i] *= factor;
    es_assert_ok(es_model_set(s->model, es_small_find(s, name), values, n));
}

/* Returns the loss of a forward pass, in training mode if `training` is true.
 */
static double loss_of(es_small_model *s, bool training)
{
    es_assert_ok(es_model_forward(s->model, &s->losses, s->tokens, s->targets,
                                  training, false));
    assert_true(isfinite(s->losses.loss));
    return s->losses.loss;
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 2e-6 * fabs(b);
}

/* --- the start ------------------------------------------------------------ */

/* Returns the loss of a model with the initial parameters of es_model_new, not
   those of small_model.c. */
static double drawn_loss(const char *arch, es_family family)
{
    es_model_config config = es_small_config(arch);
    es_losses losses;
    es_model *model;
    int32_t tokens[10], targets[10];
    config.family = family;
    for (int i = 0; i < 10; i++) {
        tokens[i] = i * 7 % 11;
        targets[i] = i * 3 % 11;
    }
    es_assert_ok(es_model_new(&model, &config, &es_cpu_ops, 2));
    es_assert_ok(
        es_model_forward(model, &losses, tokens, targets, false, false));
    es_model_free(model);
    return losses.loss;
}

/* The gain g is initialised so that the normalised weight equals the original
   weight. */
TEST(normalisation_does_not_change_the_first_loss)
{
    static const char *const archs[][2] = {
        {"SM+G", "SM+G+WNorm(QKVO,FFN)"},
        {"SM+LN+R", "SM+LN+R+WNorm(QK)"},
        {"SM", "SM+WNorm(QKV,FFN)"},
        {"SM+ScFuFFNi1", "SM+ScFuFFNi1+WNorm(QKVO,FFN)"}};
    for (size_t i = 0; i < 2 * sizeof archs / sizeof *archs; i++) {
        const es_family family = i % 2 ? ES_FAMILY_PYTHIA : ES_FAMILY_GPT2;
        const double loss = drawn_loss(archs[i / 2][0], family);
        assert_true(same(drawn_loss(archs[i / 2][1], family), loss));
    }
}

/* After 20 iterations sigma is close to the largest singular value of W. Then W
   / sigma has no singular value noticeably above 1, so it makes no vector
   longer. */
TEST(power_iteration_starts_close_to_the_largest_singular_value)
{
    es_model_config config = es_small_config("SM+SNorm(FFN)");
    es_small_model s = {.n = 10, .config = &config};
    float u[CAPACITY], v[CAPACITY], m[CAPACITY];
    es_assert_ok(es_model_new(&s.model, &config, &es_cpu_ops, 1));
    const size_t n = get(&s, "h.1.mlp.c_fc.u", u);
    const size_t n_in = get(&s, "h.1.mlp.c_fc.v", v);
    assert_int_equal(get(&s, "h.1.mlp.c_fc.weight", m), n * n_in);
    double squares = 0, sigma = 0;
    for (size_t i = 0; i < n_in; i++) {
        double along = 0;
        for (size_t j = 0; j < n; j++)
            along += (double)m[i * n + j] * (double)u[j];
        squares += along * along;
        sigma += along * (double)v[i];
    }
    /* If the power iteration has converged, the product of W and its vector u
     * is sigma times its vector v. */
    assert_true(sigma > 0 && fabs(sqrt(squares) - sigma) <= 1e-2 * sigma);
    es_model_free(s.model);
}

/* --- times of computation
   ---------------------------------------------------- */

/* Scaling the parameter of a normalised weight does not change the weight. */
TEST(the_length_of_a_normalised_weight_does_not_matter)
{
    static const char *const archs[] = {"SM+G+WNorm(QKVO,FFN)",
                                        "SM+G+SNorm(QKVO,FFN)",
                                        "SM+G+WNorm(QKVO)+SNorm(FFN)"};
    static const char *const names[] = {
        "h.0.attn.c_attn.weight", "h.1.attn.c_proj.weight",
        "h.1.mlp.c_fc.weight", "h.0.mlp.c_proj.weight"};
    for (int i = 0; i < 6; i++) {
        AUTO_BY(es_small_close)
        es_small_model s = es_small_open_arch(archs[i / 2]);
        loss_of(&s, true);
        const double before = loss_of(&s, i % 2);
        for (size_t k = 0; k < 4; k++) {
            multiply(&s, names[k], 3);
            assert_true(same(loss_of(&s, i % 2), before));
        }
        multiply(&s, "h.1.attn.c_proj.bias", 3);
        assert_false(same(loss_of(&s, i % 2), before));
    }
}

/* Normalisation applies only to the weights that the architecture names; the
   other weights, including other columns of c_attn, are used unchanged. */
TEST(only_the_named_parts_are_normalised)
{
    static const char *const archs[] = {"SM+WNorm(QK)", "SM+SNorm(QK)"};
    for (size_t i = 0; i < 2; i++) {
        AUTO_BY(es_small_close) es_small_model s = es_small_open_arch(archs[i]);
        float m[CAPACITY];
        const size_t n = get(&s, "h.1.attn.c_attn.weight", m);
        const size_t index = es_small_find(&s, "h.1.attn.c_attn.weight");
        loss_of(&s, true);
        const double before = loss_of(&s, false);
        for (size_t j = 0; j < n; j++)
            m[j] *= j % 36 < 24 ? 2.0f : 1.0f;
        es_assert_ok(es_model_set(s.model, index, m, n));
        assert_true(same(loss_of(&s, false), before));
        for (size_t j = 0; j < n; j++)
            m[j] *= j % 36 < 24 ? 1.0f : 2.0f;
        es_assert_ok(es_model_set(s.model, index, m, n));
        assert_false(same(loss_of(&s, false), before));
    }
}

static bool moved(const es_small_model *s, float kept[CAPACITY])
{
    float now[CAPACITY];
    const size_t n = get(s, "h.0.mlp.c_fc.u", now);
    const bool differs = memcmp(now, kept, n * sizeof *now) != 0;
    memcpy(kept, now, n * sizeof *now);
    return differs;
}

/* Each training step makes one power iteration, in its first forward pass. */
TEST(one_iteration_is_made_per_step)
{
    AUTO_BY(es_small_close)
    es_small_model s = es_small_open_arch("SM+G+SNorm(FFN)");
    float u[CAPACITY];
    get(&s, "h.0.mlp.c_fc.u", u);
    for (int step = 0; step < 3; step++) {
        loss_of(&s, false);
        assert_false(moved(&s, u));
        es_model_zero_gradients(s.model);
        for (int i = 0; i < 3; i++) {
            loss_of(&s, true);
            assert_int_equal(moved(&s, u), i == 0);
            es_assert_ok(es_model_backward(s.model, 1.0 / 3));
            loss_of(&s, false);
            assert_false(moved(&s, u));
        }
        es_small_update(&s, NULL, 1e-2);
        assert_false(moved(&s, u));
    }
}

/* The vectors of the power iteration are changed neither by the optimizer nor
   by weight decay. */
TEST(the_iteration_vectors_are_not_trained)
{
    es_model_config config = es_small_config("SM+G");
    AUTO_BY(es_small_close) es_small_model plain = es_small_open(&config);
    const size_t n = es_model_n_parameters(plain.model);
    config = es_small_config("SM+G+SNorm(QKVO,FFN)");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    assert_int_equal(es_model_n_parameters(s.model), n);
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++) {
        const es_parameter p = es_model_parameter(s.model, i);
        const char *end = p.name + strlen(p.name) - 2;
        const bool is_state = !strcmp(end, ".u") || !strcmp(end, ".v");
        assert_int_equal(p.trainable, !is_state);
    }
}

/* --- micro-batches -------------------------------------------------------- */

/* The gradients after two micro-batches equal the sum of the gradients of each
 * micro-batch alone. */
TEST(gradients_of_micro_batches_add_up)
{
    static const char *const archs[] = {
        "SM+G+WNorm(QK,FFN)", "SM+G+SNorm(QKVO,FFN)",
        "SM+ScFuFFN+WNorm(FFN)+SNorm(QK)", "SM+LN+G"};
    for (size_t i = 0; i < 4; i++) {
        AUTO_BY(es_small_close) es_small_model s = es_small_open_arch(archs[i]);
        float sum[CAPACITY], part[CAPACITY];
        const size_t index = es_small_find(&s, "h.0.attn.c_attn.weight");
        const size_t n = es_model_parameter(s.model, index).n;
        loss_of(&s, true);
        memset(sum, 0, sizeof sum);
        for (int pass = 0; pass < 3; pass++) {
            s.tokens[3] = pass % 2 ? 9 : 4;
            if (pass < 2)
                es_model_zero_gradients(s.model);
            loss_of(&s, true);
            es_assert_ok(es_model_backward(s.model, 0.5));
            es_assert_ok(es_model_get_gradient(s.model, index, part, n));
            for (size_t j = 0; pass < 2 && j < n; j++)
                sum[j] += part[j];
        }
        for (size_t j = 0; j < n; j++)
            assert_true(fabsf(part[j] - sum[j]) <=
                        1e-6f + 1e-5f * fabsf(sum[j]));
    }
}

/* --- weights without norms
   ---------------------------------------------------- */

TEST(starting_norms_restores_the_function)
{
    es_model_config plain_config = es_small_config("SM+R+SNorm(FFN)");
    AUTO_BY(es_small_close)
    es_small_model s = es_small_open_arch("SM+R+WNorm(QKVO)+SNorm(FFN)");
    AUTO_BY(es_small_close) es_small_model plain = es_small_open(&plain_config);
    float values[CAPACITY];
    for (size_t i = 0; i < es_model_n_arrays(plain.model); i++) {
        const char *name = es_model_parameter(plain.model, i).name;
        const size_t n = get(&plain, name, values);
        es_assert_ok(es_model_set(s.model, es_small_find(&s, name), values, n));
    }
    assert_false(same(loss_of(&s, false), loss_of(&plain, false)));
    es_assert_ok(es_model_start_norms(s.model));
    es_assert_ok(es_model_start_norms(plain.model));
    assert_true(same(loss_of(&s, false), loss_of(&plain, false)));
}

/* --- many layers, and training -------------------------------------------- */

TEST(a_deep_normalised_model_has_a_finite_loss)
{
    es_model_config config = es_small_config("SM+LN+ScFFN+WNorm(QKVO,FFN)");
    config.n_layer = 60;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    loss_of(&s, true);
}

/* Trains until the loss has fallen. Returns a checksum of the parameters, which
   must be the same for any number of threads. */
static uint32_t train(const char *arch, int n_threads)
{
    es_model_config config = es_small_config(arch);
    es_small_model s = {.n = 10, .config = &config};
    uint32_t hash = 2166136261u;
    float values[CAPACITY];
    es_assert_ok(es_model_new(&s.model, &config, &es_cpu_ops, n_threads));
    for (int i = 0; i < s.n; i++) {
        s.tokens[i] = i % 5;
        s.targets[i] = (i + 1) % 5;
    }
    const double first = loss_of(&s, false);
    for (int step = 0; step < 40; step++) {
        es_model_zero_gradients(s.model);
        loss_of(&s, true);
        es_assert_ok(es_model_backward(s.model, 1));
        es_small_update(&s, NULL, 1e-2);
    }
    assert_true(loss_of(&s, false) < first / 2);
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++) {
        const size_t n = get(&s, es_model_parameter(s.model, i).name, values);
        for (size_t j = 0; j < n * sizeof *values; j++)
            hash = (hash ^ ((unsigned char *)values)[j]) * 16777619u;
    }
    es_model_free(s.model);
    return hash;
}

TEST(training_is_reproducible)
{
    static const char *const archs[] = {"SM+LN+G+WNorm(QKVO,FFN)",
                                        "SM+LN+G+SNorm(QKV,FFN)"};
    for (int i = 0; i < 6; i++) {
        const char *arch = archs[i / 3];
        assert_int_equal(train(arch, 1 + i % 3), train(arch, 1 + i % 3));
    }
}
