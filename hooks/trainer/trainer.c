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

/** For n numbers; NULL where there is no memory: it can be done without. */
static int32_t *make_ahead(const es_trainer *trainer, size_t n)
{
    const size_t each = 2 * sizeof *trainer->ahead;
    return es_resize(NULL, n,
                     each * (size_t)trainer->settings.train.accumulate);
}

static es_status build(es_trainer *trainer, const es_ops *ops)
{
    const es_model_config *config = &trainer->settings.model;
    size_t n;
    if (!es_size_mul(&n, (size_t)config->batch, (size_t)config->ctx))
        return es_fail(ES_ENOMEM, "a micro-batch of %d x %d is too large",
                       config->batch, config->ctx);
    trainer->inputs = es_resize(NULL, n, sizeof *trainer->inputs);
    trainer->targets = es_resize(NULL, n, sizeof *trainer->targets);
    if (trainer->settings.train.accumulate <= ES_MAX_UNROLLED)
        trainer->ahead = make_ahead(trainer, n);
    if (!trainer->inputs || !trainer->targets)
        return es_fail(ES_ENOMEM, "out of memory for a micro-batch of %d x %d",
                       config->batch, config->ctx);
    es_status status = es_measure_new(&trainer->measure, config);
    if (status == ES_OK)
        status = es_model_new(&trainer->model, config, ops,
                              trainer->settings.threads);
    return status;
}

es_status es_trainer_new_on(es_trainer **out, const es_settings *settings,
                            const es_ops *ops)
{
    *out = NULL;
    es_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return es_fail(ES_ENOMEM, "out of memory for the trainer");
    trainer->settings = *settings;
    trainer->loss_scale.scale = ops->scales_loss ? ES_LOSS_SCALE_START : 1;
    snprintf(trainer->settings.backend, sizeof trainer->settings.backend, "%s",
             ops->name);
    es_status status = open_data(trainer);
    if (status == ES_OK)
        status = es_uuid_make(trainer->uuid);
    if (status == ES_OK)
        status = build(trainer, ops);
    if (status != ES_OK) {
        es_trainer_free(trainer);
        return status;
    }
    *out = trainer;
    return ES_OK;
}

es_status es_trainer_new(es_trainer **out, const es_settings *settings)
{
    const es_ops *ops;
    char note[ES_MESSAGE_MAX];
    *out = NULL;
    es_status status = es_ops_choose(&ops, settings->backend,
                                     settings->precision, note, sizeof note);
    if (status == ES_OK)
        status = es_trainer_new_on(out, settings, ops);
    if (status == ES_OK)
        snprintf((*out)->note, sizeof(*out)->note, "%s", note);
    return status;
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
    if (state->step > settings->train.steps)
        return es_fail(ES_EUSAGE,
                       "%s: has done %" PRId64 " steps of %" PRId64
                       ": give more --steps to go on",
                       es_checkpoint_path(checkpoint), state->step,
                       settings->train.steps);
    es_settings_run_name(name, settings);
    if (strcmp(name, state->name) == 0)
        snprintf(trainer->uuid, sizeof trainer->uuid, "%s", state->uuid);
    trainer->first_step = state->step;
    if (es_model_scales_loss(trainer->model) && state->loss_scale.scale > 0)
        trainer->loss_scale = state->loss_scale;
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
    free(trainer->ahead);
    free(trainer);
}

int64_t es_trainer_tokens(const es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    return (int64_t)settings->model.batch * settings->model.ctx *
           settings->train.accumulate;
}

void es_losses_add(es_losses *sum, const es_losses *more, double weight)
{
    sum->loss += weight * more->loss;
    sum->ce += weight * more->ce;
    sum->ereg += weight * more->ereg;
}

/* --- a step --------------------------------------------------------------- */

/** A step whose micro-batches are drawn. */
typedef struct numbered {
    es_trainer *trainer;
    int64_t step;
} numbered;

static es_status read_batch(const es_trainer *trainer, int32_t *tokens,
                            int32_t *targets, int64_t step, int i)
{
    const es_settings *settings = &trainer->settings;
    const es_model_config *config = &settings->model;
    const uint64_t n = (uint64_t)settings->train.accumulate;
    return es_tokens_random_batch(
        trainer->tokens, tokens, targets, ES_SPLIT_TRAIN, config->seed,
        (uint64_t)step * n + (uint64_t)i, config->batch, config->ctx);
}

/** Numbers of a micro-batch's tokens, or of its targets. */
static size_t batch_size(const es_trainer *trainer)
{
    const es_model_config *config = &trainer->settings.model;
    return (size_t)config->batch * (size_t)config->ctx;
}

/** Micro-batch i of the step: as es_step_plan wants it. */
static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    const numbered *of = user;
    const es_trainer *trainer = of->trainer;
    const size_t n = batch_size(trainer);
    if (of->step != trainer->ahead_step || i >= trainer->n_ahead)
        return read_batch(trainer, tokens, targets, of->step, i);
    const int32_t *from = trainer->ahead + (size_t)i * 2 * n;
    memcpy(tokens, from, n * sizeof *tokens);
    memcpy(targets, from + n, n * sizeof *targets);
    return ES_OK;
}

/** The next step's, while a device is at work on this one. What cannot be read
 *  is told when it is needed. */
static void draw_ahead(void *user)
{
    const numbered *of = user;
    es_trainer *trainer = of->trainer;
    const size_t n = batch_size(trainer);
    es_status status = ES_OK;
    trainer->n_ahead = 0;
    trainer->ahead_step = of->step + 1;
    while (status == ES_OK && trainer->ahead &&
           trainer->n_ahead < trainer->settings.train.accumulate) {
        int32_t *to = trainer->ahead + (size_t)trainer->n_ahead * 2 * n;
        status = read_batch(trainer, to, to + n, trainer->ahead_step,
                            trainer->n_ahead);
        trainer->n_ahead += status == ES_OK;
    }
}

/** All of a step, waited for once. */
static es_status run_step(es_trainer *trainer, es_outcome *out, int64_t step,
                          double lr, bool measure)
{
    const es_train_config *train = &trainer->settings.train;
    numbered of = {trainer, step};
    const es_step_plan plan = {
        .n_batches = train->accumulate,
        .draw = draw,
        .meanwhile = draw_ahead,
        .user = &of,
        .lr = lr,
        .measure = measure,
        .may_skip = !trainer->saw_nan || es_model_scales_loss(trainer->model)};
    es_model_set_loss_scale(trainer->model, trainer->loss_scale.scale);
    return es_model_run_step(trainer->model, out, &plan, train);
}

/** The passes of a step that was skipped once more, to see in which layer the
 *  first NaN began: the parameters are as they were. */
static es_status measure_again(es_trainer *trainer, int64_t step)
{
    es_outcome outcome;
    es_status status = ES_OK;
    numbered of = {trainer, step};
    es_model_begin(trainer->model, true, NULL, 0);
    for (int i = 0; status == ES_OK && i < trainer->settings.train.accumulate;
         i++) {
        status = draw(&of, trainer->inputs, trainer->targets, i);
        if (status == ES_OK)
            status = es_model_pass(trainer->model, trainer->inputs,
                                   trainer->targets, false);
    }
    return status == ES_OK ? es_model_end(trainer->model, &outcome) : status;
}

/** What a step without a finite loss or gradient comes to: it is looked at,
 *  and taken all the same, unless another scale of the loss may mend it. */
static es_status take_skipped_step(es_trainer *trainer, es_step *step)
{
    es_status status = ES_OK;
    if (!isfinite(step->losses.loss) && !trainer->saw_nan) {
        trainer->saw_nan = true;
        if (!step->measured)
            status = measure_again(trainer, step->step);
        step->measured = true;
    }
    step->skipped = step->loss_scale > ES_LOSS_SCALE_LEAST;
    if (status == ES_OK && !step->skipped)
        status = es_model_update(trainer->model, &trainer->settings.train,
                                 step->lr, &step->grad_norm);
    return status;
}

es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure)
{
    es_outcome outcome;
    *out = (es_step){.step = step,
                     .lr = es_schedule(&trainer->settings.train, step),
                     .measured = measure,
                     .loss_scale = trainer->loss_scale.scale};
    es_status status = run_step(trainer, &outcome, step, out->lr, measure);
    if (status != ES_OK)
        return status;
    out->losses = outcome.losses;
    out->grad_norm = outcome.grad_norm;
    if (outcome.skipped)
        status = take_skipped_step(trainer, out);
    if (es_model_scales_loss(trainer->model))
        trainer->loss_scale =
            es_loss_scale_next(trainer->loss_scale, !outcome.skipped);
    es_measure_reset(trainer->measure);
    if (status == ES_OK && out->measured)
        es_measure_add(trainer->measure, trainer->model);
    return status;
}

/* --- held-out data -------------------------------------------------------- */

/** Micro-batch `index` of the held-out data forward. */
static es_status pass_held_out(es_trainer *trainer, int64_t index)
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
    return status == ES_OK ? es_model_pass(trainer->model, trainer->inputs,
                                           trainer->targets, false)
                           : status;
}

es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t first, int64_t n)
{
    es_outcome outcome = {.skipped = false};
    es_status status = ES_OK;
    es_model_begin(trainer->model, true, NULL, 0);
    for (int64_t i = first; status == ES_OK && i < first + n; i++)
        status = pass_held_out(trainer, i);
    if (status == ES_OK)
        status = es_model_end(trainer->model, &outcome);
    if (status == ES_OK)
        es_measure_add(trainer->measure, trainer->model);
    *out = outcome.losses;
    return status;
}

es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out)
{
    es_measure_reset(trainer->measure);
    return es_trainer_hold_out(trainer, out, 0, trainer->settings.eval_batches);
}

/* --- gradients ------------------------------------------------------------ */

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
