#include "hooks/trainer/trainer.h"

#include "analyzer/base/checked.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static es_status resolve_vocab(es_trainer *trainer)
{
    int *vocab = &trainer->settings.model.vocab;
    int have = es_tokens_vocab(trainer->tokens);
    if (*vocab != 0 && *vocab != have && trainer->settings.init[0])
        return es_fail(ES_EUSAGE,
                       "%s: its vocabulary is %d, that of the weights %s is "
                       "%d: ids of another tokenizer mean nothing to them",
                       trainer->settings.data, have, trainer->settings.init,
                       *vocab);
    if (*vocab != 0 && *vocab != have)
        return es_fail(ES_EUSAGE,
                       "%s: its vocabulary is %d, not the %d of --vocab",
                       trainer->settings.data, have, *vocab);
    *vocab = have;
    return ES_OK;
}

static es_status check_configs(const es_settings *settings)
{
    es_status status = es_model_config_check(&settings->model);
    if (status == ES_OK)
        status = es_train_config_check(&settings->train);
    return status;
}

static es_status open_data(es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    es_status status = es_tokens_open(&trainer->tokens, settings->data);
    if (status == ES_OK)
        status = resolve_vocab(trainer);
    if (status == ES_OK)
        status = check_configs(settings);
    if (status == ES_OK && settings->verb != ES_VERB_PROBE)
        status = es_tokens_check_ctx(trainer->tokens, ES_SPLIT_TRAIN,
                                     settings->model.ctx);
    if (status == ES_OK && settings->eval_every > 0)
        status = es_tokens_check_ctx(trainer->tokens, ES_SPLIT_HELD_OUT,
                                     settings->model.ctx);
    return status;
}

es_status es_trainer_check(es_settings *settings)
{
    es_trainer trainer = {.settings = *settings};
    es_status status;
    if (settings->data[0]) {
        status = open_data(&trainer);
        settings->model.vocab = trainer.settings.model.vocab;
    } else {
        if (trainer.settings.model.vocab == 0)
            trainer.settings.model.vocab = 1; /* the data will have one */
        status = check_configs(&trainer.settings);
    }
    es_tokens_close(trainer.tokens);
    return status;
}

static es_status build(es_trainer *trainer)
{
    const es_model_config *config = &trainer->settings.model;
    size_t n;
    if (!es_size_mul(&n, (size_t)config->batch, (size_t)config->ctx))
        return es_fail(ES_ENOMEM, "a micro-batch of %d x %d is too large",
                       config->batch, config->ctx);
    trainer->inputs = es_resize(NULL, n, sizeof *trainer->inputs);
    trainer->targets = es_resize(NULL, n, sizeof *trainer->targets);
    if (!trainer->inputs || !trainer->targets)
        return es_fail(ES_ENOMEM, "out of memory for a micro-batch of %d x %d",
                       config->batch, config->ctx);
    es_status status = es_measure_new(&trainer->measure, config);
    if (status == ES_OK)
        status =
            es_model_new(&trainer->model, config, trainer->settings.backend,
                         trainer->settings.threads);
    return status;
}

es_status es_trainer_new(es_trainer **out, const es_settings *settings)
{
    *out = NULL;
    es_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return es_fail(ES_ENOMEM, "out of memory for the trainer");
    trainer->settings = *settings;
    es_status status = open_data(trainer);
    if (status == ES_OK)
        status = es_uuid_make(trainer->uuid);
    if (status == ES_OK)
        status = build(trainer);
    if (status != ES_OK) {
        es_trainer_free(trainer);
        return status;
    }
    *out = trainer;
    return ES_OK;
}

es_status es_trainer_resume(es_trainer *trainer,
                            const es_checkpoint *checkpoint)
{
    const es_checkpoint_state *state = es_checkpoint_state_of(checkpoint);
    const es_settings *settings = &trainer->settings;
    char name[ES_RUN_NAME_SIZE];
    uint64_t have = es_tokens_checksum(trainer->tokens);
    if (have != state->tokens_checksum)
        return es_fail(ES_EUSAGE,
                       "%s: its checksum is %016" PRIx64 ", the checkpoint %s"
                       " was trained on %016" PRIx64,
                       settings->data, have, es_checkpoint_path(checkpoint),
                       state->tokens_checksum);
    if (state->step >= settings->train.steps)
        return es_fail(ES_EUSAGE,
                       "%s: has done %" PRId64 " steps of %" PRId64
                       ": give more --steps to go on",
                       es_checkpoint_path(checkpoint), state->step,
                       settings->train.steps);
    es_settings_run_name(name, settings);
    if (strcmp(name, state->name) == 0)
        snprintf(trainer->uuid, sizeof trainer->uuid, "%s", state->uuid);
    trainer->first_step = state->step;
    return es_checkpoint_load(trainer->model, checkpoint);
}

void es_trainer_free(es_trainer *trainer)
{
    if (!trainer)
        return;
    es_model_free(trainer->model);
    es_measure_free(trainer->measure);
    es_tokens_close(trainer->tokens);
    free(trainer->inputs);
    free(trainer->targets);
    free(trainer);
}

int64_t es_trainer_tokens(const es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    return (int64_t)settings->model.batch * settings->model.ctx *
           settings->train.accumulate;
}

/** One forward pass of training, measured if asked for. */
static es_status forward(es_trainer *trainer, es_losses *losses, bool *measure)
{
    es_status status = es_model_forward(trainer->model, losses, trainer->inputs,
                                        trainer->targets, true, *measure);
    if (status == ES_OK && !isfinite(losses->loss) && !trainer->saw_nan) {
        trainer->saw_nan = true;
        if (!*measure) /* once more, to see in which layer it began */
            status = es_model_forward(trainer->model, losses, trainer->inputs,
                                      trainer->targets, false, true);
        *measure = true;
    }
    if (status == ES_OK && *measure)
        es_measure_add(trainer->measure, trainer->model);
    return status;
}

void es_losses_add(es_losses *sum, const es_losses *more, double weight)
{
    sum->loss += weight * more->loss;
    sum->ce += weight * more->ce;
    sum->ereg += weight * more->ereg;
}

es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure)
{
    const es_settings *settings = &trainer->settings;
    const es_model_config *config = &settings->model;
    int n = settings->train.accumulate;
    *out = (es_step){.step = step,
                     .lr = es_schedule(&settings->train, step),
                     .measured = measure};
    es_measure_reset(trainer->measure);
    es_model_zero_gradients(trainer->model);
    for (int i = 0; i < n; i++) {
        es_losses losses;
        uint64_t index = (uint64_t)step * (uint64_t)n + (uint64_t)i;
        es_status status = es_tokens_random_batch(
            trainer->tokens, trainer->inputs, trainer->targets, ES_SPLIT_TRAIN,
            config->seed, index, config->batch, config->ctx);
        if (status == ES_OK)
            status = forward(trainer, &losses, &out->measured);
        if (status == ES_OK)
            status = es_model_backward(trainer->model, 1.0 / n);
        if (status != ES_OK)
            return status;
        es_losses_add(&out->losses, &losses, 1.0 / n);
    }
    return es_model_update(trainer->model, &settings->train, out->lr,
                           &out->grad_norm);
}

es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t index)
{
    const es_model_config *config = &trainer->settings.model;
    es_status status;
    if (trainer->settings.random)
        status = es_tokens_random_batch(trainer->tokens, trainer->inputs,
                                        trainer->targets, ES_SPLIT_HELD_OUT,
                                        config->seed, (uint64_t)index,
                                        config->batch, config->ctx);
    else
        status = es_tokens_fixed_batch(
            trainer->tokens, trainer->inputs, trainer->targets,
            ES_SPLIT_HELD_OUT, (uint64_t)index, config->batch, config->ctx);
    if (status == ES_OK)
        status = es_model_forward(trainer->model, out, trainer->inputs,
                                  trainer->targets, false, true);
    if (status == ES_OK)
        es_measure_add(trainer->measure, trainer->model);
    return status;
}

es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out)
{
    int64_t n = trainer->settings.eval_batches;
    *out = (es_losses){0};
    es_measure_reset(trainer->measure);
    for (int64_t i = 0; i < n; i++) {
        es_losses losses;
        es_status status = es_trainer_hold_out(trainer, &losses, i);
        if (status != ES_OK)
            return status;
        es_losses_add(out, &losses, 1.0 / (double)n);
    }
    return ES_OK;
}

/** True if any gradient of the parameter is not finite. */
static bool gradient_is_bad(es_model *model, size_t index, size_t n)
{
    float *gradient = es_resize(NULL, n, sizeof *gradient);
    if (!gradient)
        return false;
    bool bad = false;
    if (es_model_get_gradient(model, index, gradient, n) == ES_OK)
        for (size_t i = 0; i < n && !bad; i++)
            bad = !isfinite(gradient[i]);
    free(gradient);
    return bad;
}

int es_trainer_bad_gradient_layer(es_trainer *trainer)
{
    int last = -1;
    for (size_t i = 0; i < es_model_n_arrays(trainer->model); i++) {
        es_parameter parameter = es_model_parameter(trainer->model, i);
        int layer;
        if (parameter.trainable &&
            sscanf(parameter.name, "h.%d.", &layer) == 1 && layer > last &&
            gradient_is_bad(trainer->model, i, parameter.n))
            last = layer;
    }
    return last;
}
