/* Implements es_trainer, which combines a model and its data for train, bench
 * and probe. Builds both, trains steps and evaluates. The model runs on a
 * back-end (es_ops). */
#include "hooks/trainer/trainer.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/batches.h"
#include "hooks/trainer/cpu/engine.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the vocabulary size of a model for data with n_tokens different
 * tokens. For families that hide tokens, this includes the mask token. */
static int find_vocabulary(es_model_config *config, int n_tokens)
{
    if (!es_families[config->family].masks)
        return n_tokens;
    if (config->mask < 0)
        config->mask = n_tokens;
    return config->mask < n_tokens ? n_tokens : config->mask + 1;
}

/** Sets the settings of the model that are not part of its configuration. */
static void set_model_settings(es_trainer *trainer)
{
    es_settings *settings = &trainer->settings;
    settings->model.record = settings->record;
    settings->model.inference = settings->inference;
    settings->model.polynomial = settings->polynomial;
}

static es_status check_inference(const es_settings *settings)
{
    if (settings->inference == ES_INFERENCE_EXACT)
        return ES_OK;
    if (settings->maps > 0)
        return es_fail(ES_EUSAGE, "--maps needs --inference exact");
    if (settings->eval_every == 0 && settings->verb != ES_VERB_PROBE)
        return es_fail(
            ES_EUSAGE,
            "--inference polynomial applies to evaluations: give --eval-every");
    return ES_OK;
}

static es_status check_maps(const es_settings *settings)
{
    if (settings->maps == 0)
        return ES_OK;
    if (settings->eval_every == 0 && settings->verb != ES_VERB_PROBE)
        return es_fail(ES_EUSAGE, "--maps needs evaluations, which compute "
                                  "the maps: give --eval-every");
    if (es_families[settings->model.family].sees_all)
        return es_fail(ES_EUSAGE,
                       "--maps needs causal attention, not an encoder");
    return ES_OK;
}

/** Checks the settings once the vocabulary is known. ops is NULL if the
 *  back-end could not be found on this machine. */
static es_status check_settings(const es_settings *settings, const es_ops *ops)
{
    const es_model_config *model = &settings->model;
    es_status status;
    if ((status = check_maps(settings)) < 0 ||
        (status = ops ? es_model_check(model, ops)
                      : es_model_config_check(model)) < 0 ||
        (status = check_inference(settings)) < 0)
        return status;
    return es_train_config_check(&settings->train);
}

/** Opens the data, which determine the vocabulary size. */
static es_status open_data(es_trainer *trainer)
{
    es_settings *settings = &trainer->settings;
    const int want = settings->model.vocab;
    const bool is_mask_unknown = settings->model.mask < 0;
    es_status status;
    if ((status = es_tokens_open(&trainer->tokens, settings->data)) < 0)
        return status;
    const int have =
        find_vocabulary(&settings->model, (int)trainer->tokens->vocab);
    if (want != have && settings->init[0] && is_mask_unknown &&
        want == (int)trainer->tokens->vocab)
        return es_fail(ES_EUSAGE,
                       "%s: the weights %s do not name the mask token among "
                       "their %d tokens: give --mask-token (the last token, "
                       "%d, in published weights)",
                       settings->data, settings->init, want, want - 1);
    if (want != 0 && want != have && settings->init[0])
        return es_fail(
            ES_EUSAGE,
            "%s: the vocabulary has %d tokens, but the vocabulary of the "
            "weights %s has %d: use a token file made with the weights' "
            "tokenizer",
            settings->data, have, settings->init, want);
    if (want != 0 && want != have)
        return es_fail(ES_EUSAGE,
                       "%s: the vocabulary has %d tokens, but --vocab is %d",
                       settings->data, have, want);
    settings->model.vocab = have;
    return ES_OK;
}

static es_status check_lengths(const es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    const int length = es_model_config_n_inputs(&settings->model);
    es_status status = ES_OK;
    if (settings->verb != ES_VERB_PROBE)
        status = es_tokens_check_ctx(trainer->tokens, ES_SPLIT_TRAIN, length);
    if (status == ES_OK && settings->eval_every > 0)
        status =
            es_tokens_check_ctx(trainer->tokens, ES_SPLIT_HELD_OUT, length);
    return status;
}

/** Opens the data, and makes all checks that precede the construction of the
 *  model, for a training run and for a dry run. */
static es_status open_and_check(es_trainer *trainer, const es_ops *ops)
{
    es_status status;
    if ((status = open_data(trainer)) < 0 ||
        (status = check_settings(&trainer->settings, ops)) < 0)
        return status;
    return check_lengths(trainer);
}

/** Makes the checks of `open_and_check` that need no data. Assumes the smallest
 * possible vocabulary. */
static es_status check_without_data(const es_settings *settings,
                                    const es_ops *ops)
{
    es_settings assumed = *settings;
    es_model_config *model = &assumed.model;
    const int largest =
        model->mask > model->padding ? model->mask : model->padding;
    if (model->vocab == 0)
        model->vocab = largest > 0 && largest < INT_MAX ? largest + 1 : 1;
    return check_settings(&assumed, ops);
}

static es_status reserve_batch(es_trainer *trainer)
{
    const es_model_config *config = &trainer->settings.model;
    const int n_inputs = es_model_config_n_inputs(config);
    const int length = n_inputs > config->ctx ? n_inputs : config->ctx;
    size_t n;
    if (!es_size_mul(&n, (size_t)config->batch, (size_t)length))
        return es_fail(ES_ENOMEM,
                       "a micro-batch of %d x %d tokens is too large",
                       config->batch, config->ctx);
    trainer->n_inputs = n;
    trainer->inputs = es_resize(NULL, n, sizeof *trainer->inputs);
    trainer->targets = es_resize(NULL, n, sizeof *trainer->targets);
    if (!trainer->inputs || !trainer->targets)
        return es_fail(ES_ENOMEM,
                       "out of memory for a micro-batch of %d x %d tokens",
                       config->batch, config->ctx);
    return ES_OK;
}

static es_status build_trainer(es_trainer *trainer, const es_ops *ops)
{
    const es_settings *settings = &trainer->settings;
    const es_model_config *config = &settings->model;
    const size_t n_batches = (size_t)settings->train.accumulate;
    es_status status = reserve_batch(trainer);
    if (status != ES_OK)
        return status;
    /* This memory is optional, so the pointer may remain NULL. */
    if (n_batches <= ES_MAX_UNROLLED)
        trainer->ahead = es_resize(NULL, trainer->n_inputs,
                                   2 * n_batches * sizeof *trainer->ahead);
    if ((status = es_measure_new(&trainer->measure, config)) != ES_OK ||
        (settings->maps > 0 && settings->out[0] &&
         (status = es_maps_new(&trainer->maps, config, settings->maps,
                               settings->map_heads)) != ES_OK))
        return status;
    return es_model_new(&trainer->model, config, ops,
                        trainer->settings.threads);
}

es_status es_trainer_new_on(es_trainer **out, const es_settings *settings,
                            const es_ops *ops)
{
    es_trainer *trainer = NULL;
    es_status status = es_alloc(&trainer, 1, sizeof *trainer, "the trainer");
    *out = NULL;
    if (status != ES_OK)
        return status;
    trainer->settings = *settings;
    set_model_settings(trainer);
    trainer->loss_scale.scale = ops->scales_loss ? ES_LOSS_SCALE_START : 1;
    snprintf(trainer->settings.backend, sizeof trainer->settings.backend, "%s",
             ops->name);
    if ((status = open_and_check(trainer, ops)) == ES_OK &&
        (status = es_uuid_make(trainer->uuid)) == ES_OK &&
        (status = build_trainer(trainer, ops)) == ES_OK)
        *out = trainer;
    else
        es_trainer_free(trainer);
    return status;
}

/** Finds the back-end that the settings name and the library for its matrix
 *  products, and writes the name of the chosen library to the settings. */
static es_status find_back_end(const es_ops **out, es_settings *settings,
                               char note[ES_MESSAGE_MAX])
{
    es_status status = es_ops_choose(out, settings->backend,
                                     settings->precision, note, ES_MESSAGE_MAX);
    if (status == ES_OK && strcmp((*out)->name, es_cpu_ops.name) == 0)
        status = es_products_use(&settings->products);
    return status;
}

es_status es_trainer_new(es_trainer **out, const es_settings *settings)
{
    const es_ops *ops;
    char note[ES_MESSAGE_MAX];
    es_status status;
    *out = NULL;
    es_settings resolved = *settings;
    if ((status = find_back_end(&ops, &resolved, note)) != ES_OK ||
        (status = es_trainer_new_on(out, &resolved, ops)) != ES_OK)
        return status;
    es_cpu_engine engine = {.note = ""};
    if (strcmp(ops->name, es_cpu_ops.name) == 0)
        es_cpu_engine_find(&engine);
    es_text text = es_text_begin((*out)->note, sizeof(*out)->note);
    es_text_append(&text, "%s%s%s", note, note[0] && engine.note[0] ? "; " : "",
                   engine.note);
    const char *of_model = es_model_note((*out)->model);
    if (of_model[0])
        es_text_append(&text, "%s%s", text.length > 0 ? "; " : "", of_model);
    if (resolved.record > ES_SERIES_CORE && !ops->details)
        es_text_append(&text,
                       "%s--record: back-end %s records core, lse, sink_rate, "
                       "ranges and single parameter values only",
                       text.length > 0 ? "; " : "", ops->name);
    return ES_OK;
}

/** Takes the position in the data, the step and the run's identity from the
 *  checkpoint to resume from. */
static es_status follow_checkpoint(es_trainer *trainer,
                                   const es_checkpoint *checkpoint)
{
    const es_checkpoint_state *state = &checkpoint->state;
    const es_settings *settings = &trainer->settings;
    char name[ES_RUN_NAME_SIZE];
    if (trainer->tokens && trainer->tokens->checksum != state->tokens_checksum)
        return es_fail(ES_EUSAGE,
                       "%s: the checksum is %016" PRIx64
                       ", but the checkpoint %s was trained on data with "
                       "%016" PRIx64,
                       settings->data, trainer->tokens->checksum,
                       checkpoint->file->path, state->tokens_checksum);
    if (state->step > settings->train.steps)
        return es_fail(ES_EUSAGE,
                       "%s: this checkpoint has already trained %" PRId64
                       " steps of %" PRId64 ": give more --steps to continue",
                       checkpoint->file->path, state->step,
                       settings->train.steps);
    es_settings_run_name(name, settings);
    if (strcmp(name, state->name) == 0)
        snprintf(trainer->uuid, sizeof trainer->uuid, "%s", state->uuid);
    trainer->first_step = state->step;
    return ES_OK;
}

es_status es_trainer_resume(es_trainer *trainer,
                            const es_checkpoint *checkpoint)
{
    const es_checkpoint_state *state = &checkpoint->state;
    es_status status = follow_checkpoint(trainer, checkpoint);
    if (status != ES_OK)
        return status;
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
    es_maps_free(trainer->maps);
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
           settings->train.accumulate * settings->world;
}

void es_losses_add(es_losses *sum, const es_losses *more, double weight)
{
    sum->loss += weight * more->loss;
    sum->ce += weight * more->ce;
    sum->ereg += weight * more->ereg;
    sum->range += weight * more->range;
    sum->accuracy += weight * more->accuracy;
}

/* --- held-out data -------------------------------------------------------- */

/* Returns the trainer's source of micro-batches. */
static es_data data_of(const es_trainer *trainer)
{
    return (es_data){&trainer->settings, trainer->tokens};
}

static es_status read_batch(const es_trainer *trainer, int32_t *tokens,
                            int32_t *targets, int64_t step, int i)
{
    const es_data data = data_of(trainer);
    return es_batch_train(&data, tokens, targets, step, i);
}

static es_status draw_held_out(es_trainer *trainer, int64_t index)
{
    const es_data data = data_of(trainer);
    return es_batch_held_out(&data, trainer->inputs, trainer->targets, index);
}

static es_status pass_held_out(es_trainer *trainer, int64_t index)
{
    const bool has_loss = es_model_config_has_loss(&trainer->settings.model);
    es_status status = draw_held_out(trainer, index);
    return status != ES_OK
               ? status
               : es_model_pass(trainer->model, trainer->inputs,
                               has_loss ? trainer->targets : NULL, false);
}

es_status es_trainer_find_ceiling(es_trainer *trainer, bool ends)
{
    const es_model_config *config = &trainer->settings.model;
    const es_settings *settings = &trainer->settings;
    const bool holds_out =
        settings->eval_every > 0 || settings->verb == ES_VERB_PROBE;
    const int n_ctx = config->ctx;
    double sum = 0, n_rows = 0;
    if (!es_families[config->family].sees_all)
        return ES_OK;
    if (config->padding < 0) {
        trainer->settings.ceiling = log(config->ctx);
        return ES_OK;
    }
    for (int64_t i = 0; i < settings->eval_batches; i++) {
        es_status status = holds_out ? draw_held_out(trainer, i)
                                     : read_batch(trainer, trainer->inputs,
                                                  trainer->targets, 0, (int)i);
        if (status != ES_OK)
            return status;
        for (int b = 0; b < config->batch; b++) {
            const int32_t *tokens = trainer->inputs + (size_t)b * (size_t)n_ctx;
            double n = 0; /* number of visible keys so far */
            for (int k = 0; k < n_ctx; k++) {
                if (ends && tokens[k] != config->padding && n < k)
                    return es_fail(
                        ES_EFORMAT,
                        "%s: token %d of a sequence follows padding: these "
                        "weights need all padding at the end",
                        trainer->settings.data, k);
                n += tokens[k] != config->padding;
            }
            sum += n > 0 ? n * log(n) : 0;
            n_rows += n;
        }
    }
    trainer->settings.ceiling = n_rows > 0 ? sum / n_rows : 0;
    return ES_OK;
}

/* Adds the number of targets of the last pass to *n_targets, and the number of
 * targets that have the largest logit of their row to *n_right. A row with a
 * NaN among its logits counts as wrong. Returns ES_OK or ES_ENOMEM. */
static es_status count_right(const es_trainer *trainer, double *n_right,
                             double *n_targets)
{
    const es_model_config *config = &trainer->settings.model;
    const size_t n_out = (size_t)es_model_config_n_outputs(config);
    const size_t n_rows = (size_t)config->batch * (size_t)config->ctx;
    const float *row = es_model_logits(trainer->model);
    if (!row)
        return es_fail(ES_ENOMEM, "out of memory for the logits");
    for (size_t i = 0; i < n_rows; i++, row += n_out) {
        if (trainer->targets[i] == ES_NO_TARGET)
            continue;
        const size_t target = (size_t)trainer->targets[i];
        size_t n_less = 0;
        for (size_t k = 0; k < n_out; k++)
            n_less += k < target ? row[k] < row[target] : row[k] <= row[target];
        *n_right += n_less == n_out;
        *n_targets += 1;
    }
    return ES_OK;
}

/** Runs forward passes over n micro-batches. `measure` is passed to
 *  es_model_begin. */
static es_status pass_all(es_trainer *trainer, es_outcome *out, int64_t first,
                          int64_t n, bool measure)
{
    const es_settings *settings = &trainer->settings;
    /* The logits of tokens are a large array, so only a probe reads them. */
    const bool counts = es_model_config_has_loss(&settings->model) &&
                        (es_families[settings->model.family].has_images ||
                         settings->verb == ES_VERB_PROBE);
    double n_right = 0, n_targets = 0;
    es_status status;
    es_model_begin(trainer->model, measure, NULL, 0);
    for (int64_t i = first; i < first + n; i++)
        if ((status = pass_held_out(trainer, i)) != ES_OK ||
            (counts &&
             (status = count_right(trainer, &n_right, &n_targets)) != ES_OK) ||
            (measure && trainer->takes_maps &&
             (status = es_maps_add(trainer->maps, trainer->model)) != ES_OK))
            return status;
    status = es_model_end(trainer->model, out);
    out->losses.accuracy = counts ? n_right / n_targets : 0;
    return status;
}

es_status es_trainer_hold_out(es_trainer *trainer, es_losses *out,
                              int64_t first, int64_t n)
{
    es_outcome outcome = {.skipped = false};
    es_model_set_polynomials(trainer->model, ES_POLYNOMIAL_ON);
    es_status status = pass_all(trainer, &outcome, first, n, true);
    es_model_set_polynomials(trainer->model, ES_POLYNOMIAL_OFF);
    *out = outcome.losses;
    if (status == ES_OK)
        es_measure_add(trainer->measure, trainer->model);
    return status;
}

es_status es_trainer_hold_out_exact(es_trainer *trainer, es_losses *out,
                                    int64_t first, int64_t n)
{
    es_outcome outcome = {.skipped = false};
    es_status status = pass_all(trainer, &outcome, first, n, false);
    *out = outcome.losses;
    return status;
}

es_status es_trainer_calibrate(es_trainer *trainer, bool *complete)
{
    const es_settings *settings = &trainer->settings;
    es_outcome outcome;
    *complete = true;
    if (settings->inference == ES_INFERENCE_EXACT)
        return ES_OK;
    es_model_set_polynomials(trainer->model, ES_POLYNOMIAL_OBSERVE);
    es_status status = pass_all(trainer, &outcome, settings->eval_batches,
                                settings->poly_batches, false);
    es_model_set_polynomials(trainer->model, ES_POLYNOMIAL_OFF);
    if (status == ES_OK)
        *complete = es_model_choose_polynomials(trainer->model);
    return status;
}

es_status es_trainer_evaluate(es_trainer *trainer, es_losses *out)
{
    bool complete;
    es_measure_reset(trainer->measure);
    es_model_measure_all(trainer->model, true);
    es_status status = es_trainer_calibrate(trainer, &complete);
    return status != ES_OK
               ? status
               : es_trainer_hold_out(trainer, out, 0,
                                     trainer->settings.eval_batches);
}

/* --- gradients ------------------------------------------------------------ */

int es_trainer_bad_gradient_layer(es_trainer *trainer)
{
    int last = -1;
    for (size_t i = 0; i < es_model_n_arrays(trainer->model); i++) {
        es_parameter parameter = es_model_parameter(trainer->model, i);
        const int layer = parameter.layer;
        if (!parameter.trainable || layer <= last)
            continue;
        float *gradient = es_resize(NULL, parameter.n, sizeof *gradient);
        if (gradient && es_model_get_gradient(trainer->model, i, gradient,
                                              parameter.n) == ES_OK)
            for (size_t k = 0; k < parameter.n; k++)
                last = isfinite(gradient[k]) ? last : layer;
        free(gradient);
    }
    return last;
}

/* --- a dry run ------------------------------------------------------------ */

/** Returns true if the back-end can be opened on this machine; otherwise
 *  returns false and sets the message. */
static bool has_device(const es_ops *ops)
{
    es_backend *backend = NULL;
    if (strcmp(ops->name, es_cpu_ops.name) == 0)
        return true;
    const es_status status = ops->open(&backend, 0);
    ops->close(backend);
    return status == ES_OK;
}

/** Checks that the first micro-batch of training and the first micro-batch of
 *  an evaluation can be drawn. */
static es_status try_batches(es_trainer *trainer)
{
    const es_model_config *config = &trainer->settings.model;
    es_status status =
        es_trainer_find_ceiling(trainer, es_model_config_n_skipped(config) > 0);
    if (status == ES_OK &&
        (status = read_batch(trainer, trainer->inputs, trainer->targets,
                             trainer->first_step, 0)) == ES_OK)
        status = es_model_config_check_tokens(config, trainer->inputs,
                                              trainer->targets);
    if (status == ES_OK && trainer->settings.eval_every > 0 &&
        (status = draw_held_out(trainer, 0)) == ES_OK)
        status = es_model_config_check_tokens(config, trainer->inputs,
                                              trainer->targets);
    return status;
}

es_status es_trainer_try(es_trainer **out, const es_settings *settings,
                         const es_checkpoint *from, char *unchecked,
                         size_t size)
{
    const es_ops *ops = NULL;
    char note[ES_MESSAGE_MAX];
    es_trainer *trainer = NULL;
    es_settings resolved = *settings;
    *out = NULL;
    snprintf(unchecked, size, "%s", "");
    es_status status = find_back_end(&ops, &resolved, note);
    /* true if the back-end's library is missing on this machine or cannot be
     * opened here */
    const bool is_elsewhere =
        status == ES_EIO && strcmp(settings->backend, "cuda") == 0;
    if (is_elsewhere || (status == ES_OK && !has_device(ops))) {
        snprintf(unchecked, size, "%s", es_message());
        status = ES_OK;
    }
    if (status == ES_OK)
        status = es_alloc(&trainer, 1, sizeof *trainer, "the trainer");
    if (status != ES_OK)
        return status;
    trainer->settings = *settings;
    set_model_settings(trainer);
    if ((status = es_uuid_make(trainer->uuid)) == ES_OK)
        status = settings->data[0]
                     ? open_and_check(trainer, ops)
                     : check_without_data(&trainer->settings, ops);
    if (status == ES_OK && from)
        status = follow_checkpoint(trainer, from);
    if (status == ES_OK && trainer->tokens &&
        (status = reserve_batch(trainer)) == ES_OK)
        status = try_batches(trainer);
    if (status == ES_OK)
        *out = trainer;
    else
        es_trainer_free(trainer);
    return status;
}
