/* Makes a model of a few heads on the CPU, and tokens to train it on. */
#include "tests/support/small_model.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

es_model_config es_small_config(const char *arch)
{
    es_model_config config;
    es_model_config_default(&config);
    es_assert_ok(es_arch_parse(&config.arch, arch));
    config.n_layer = 2;
    config.n_head = 3;
    config.d_model = 12;
    config.ctx = 5;
    config.vocab = 11;
    config.batch = 2;
    config.mlp_mult = 2;
    config.bias = ES_BIAS_ALL;
    return config;
}

static es_status set_random(es_model *model, size_t index, uint64_t *seed)
{
    const es_parameter parameter = es_model_parameter(model, index);
    float *values = malloc(parameter.n * sizeof *values);
    es_test_fill(values, parameter.n, 0.7, seed);
    /* LayerNorm weights, and the parameters alpha and beta, get values near
     * 1 */
    bool near_one = strstr(parameter.name, "ln_") ||
                    strstr(parameter.name, "alpha") ||
                    strstr(parameter.name, "beta");
    if (near_one && !strstr(parameter.name, "bias"))
        for (size_t i = 0; i < parameter.n; i++)
            values[i] = 1 + 0.5f * values[i];
    es_status status = es_model_set(model, index, values, parameter.n);
    free(values);
    return status;
}

es_small_model es_small_open(const es_model_config *config)
{
    es_small_model s = {.n = config->batch * config->ctx};
    uint64_t seed = 3;
    assert_true(s.n <= ES_SMALL_TOKENS);
    es_assert_ok(es_model_new(&s.model, config, &es_cpu_ops, 2));
    s.config = es_model_config_of(s.model);
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++)
        es_assert_ok(set_random(s.model, i, &seed));
    for (int i = 0; i < s.n; i++) {
        s.tokens[i] = (i * 7 + 3) % config->vocab;
        s.targets[i] = (i * 5 + 1) % config->vocab;
    }
    return s;
}

es_small_model es_small_open_arch(const char *arch)
{
    const es_model_config config = es_small_config(arch);
    return es_small_open(&config);
}

void es_small_close(es_small_model *s)
{
    es_model_free(s->model);
}

void es_small_forward(es_small_model *s)
{
    es_assert_ok(es_model_forward(s->model, &s->losses, s->tokens, s->targets,
                                  true, true));
}

void es_small_gradients(es_small_model *s)
{
    es_small_forward(s);
    es_model_zero_gradients(s->model);
    es_assert_ok(es_model_backward(s->model, 1));
}

double es_small_update(es_small_model *s, const es_train_config *train,
                       double lr)
{
    es_train_config defaults;
    double norm = 0;
    es_train_config_default(&defaults);
    es_assert_ok(
        es_model_update(s->model, train ? train : &defaults, lr, &norm));
    return norm;
}

size_t es_small_find(const es_small_model *s, const char *name)
{
    for (size_t i = 0; i < es_model_n_arrays(s->model); i++)
        if (strcmp(es_model_parameter(s->model, i).name, name) == 0)
            return i;
    fail_msg("no array %s", name);
    return 0;
}
