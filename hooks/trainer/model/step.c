/* Runs the update of the parameters, and a whole training step. */
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/parameter_series.h"
#include "hooks/trainer/model/pass.h"
#include "hooks/trainer/model/ranks.h"
#include "hooks/trainer/model/report.h"

#include "analyzer/base/checked.h"

#include <string.h>

/* --- update --------------------------------------------------------------- */

/* Applies QK-Clip: scales the q and k columns of each head. With WNorm, scales
 * the gains g of these columns instead, which determine the columns' norms. */
static void clip_heads(const es_model *model, const es_mem *control)
{
    const es_model_config *config = &model->config;
    const es_report *report = &model->report;
    model->ops->qk_factors(
        model->backend, es_model_reported(model, report->factors),
        es_model_reported(model, report->largest), (float)config->arch.clip,
        config->n_layer * config->n_head, control);
    for (int layer = 0; layer < config->n_layer; layer++) {
        const bool has_g = es_model_value(model, layer, ES_ROLE_ATTN_G);
        const struct {
            es_role role;
            int n_in;
        } arrays[] = {{has_g ? ES_ROLE_ATTN_G : ES_ROLE_ATTN_WEIGHT,
                       has_g ? 1 : config->d_model},
                      {ES_ROLE_ATTN_BIAS, 1}};
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
            es_mem *x = es_model_value(model, layer, arrays[i].role);
            if (!x)
                continue;
            model->ops->scale_heads(
                model->backend, x,
                es_model_reported(model,
                                  report->factors + layer * config->n_head),
                arrays[i].n_in, config->n_head, config->d_model);
            if (model->ops->refresh)
                model->ops->refresh(model->backend, x,
                                    (size_t)arrays[i].n_in * 3 *
                                        (size_t)config->d_model);
        }
    }
}

static void update_parameters(const es_model *model,
                              const es_train_config *train, bool may_skip)
{
    const es_tally *tally = model->report.tally;
    es_mem *squares = es_model_reported(model, &tally->squares);
    es_mem *control = es_model_reported(model, &tally->control);
    model->ops->sum_squares(model->backend, squares, model->gradients,
                            model->params.group[ES_GROUP_STATE]);
    model->ops->clip(model->backend, control, squares,
                     es_model_reported(model, &tally->ce), (float)train->clip,
                     may_skip);
    for (int group = 0; group < ES_GROUP_STATE; group++) {
        const size_t at = model->params.group[group] * sizeof(float);
        const size_t n =
            model->params.group[group + 1] - model->params.group[group];
        const es_adamw how = es_model_adamw(train, (es_param_group)group);
        if (n > 0)
            model->ops->adamw(
                model->backend, es_mem_at(model->values, at),
                es_mem_at(model->moment1, at), es_mem_at(model->moment2, at),
                es_mem_at(model->gradients, at), n, &how, control);
    }
    if (model->config.arch.clip > 0)
        clip_heads(model, control);
}

/* Returns true if captured operations (a CUDA graph) can be used with the
 * optimiser settings in `train`. Operations are captured with the settings of
 * the first call and cannot be used with other settings. */
static bool captures_config(es_model *model, const es_train_config *train)
{
    const es_train_config *first = &model->captured_config;
    if (!model->has_captured_config)
        model->captured_config = *train;
    model->has_captured_config = true;
    const double x[] = {first->beta1, first->beta2, first->eps,
                        first->weight_decay, first->clip};
    const double y[] = {train->beta1, train->beta2, train->eps,
                        train->weight_decay, train->clip};
    return memcmp(x, y, sizeof x) == 0 &&
           first->slope_decay == train->slope_decay;
}

static es_status check_trains(const es_model *model)
{
    return model->config.forward_only
               ? es_fail(ES_EARGUMENT, "the model can only run forward passes: "
                                       "it has no gradients and moments")
               : ES_OK;
}

static void run_update(es_model *model, const es_train_config *train,
                       bool may_skip)
{
    es_model_detail_weights(model);
    if (!captures_config(model, train))
        update_parameters(model, train, may_skip);
    else if (!es_model_replays(model, ES_SEQUENCE_UPDATE + may_skip)) {
        update_parameters(model, train, may_skip);
        es_model_launch(model);
    }
    es_model_detail_step(model, train);
    model->weights_are_stale = true;
    model->iteration_is_due = true;
    model->is_updating = true;
}

es_status es_model_take_step(es_model *model, const es_train_config *train,
                             bool may_skip)
{
    es_status status = check_trains(model);
    if (status == ES_OK)
        run_update(model, train, may_skip);
    return status;
}

es_status es_model_update(es_model *model, const es_train_config *train,
                          double lr, double *grad_norm)
{
    es_outcome outcome;
    es_status status = check_trains(model);
    if (status != ES_OK)
        return status;
    es_model_begin_step(model, train, lr);
    run_update(model, train, false);
    status = es_model_end_step(model, &outcome);
    if (status == ES_OK)
        *grad_norm = outcome.grad_norm;
    return status;
}

/* --- micro-batches -------------------------------------------------------- */

/* Reserves host memory for n micro-batches. */
static es_status reserve_host_inputs(es_model *model, int n)
{
    const size_t each = 2 * (size_t)es_model_n_inputs(model);
    if (n <= model->n_host_inputs)
        return ES_OK;
    es_status status = es_grow(&model->host_inputs, (size_t)n * each,
                               sizeof *model->host_inputs, "micro-batches");
    if (status == ES_OK)
        model->n_host_inputs = n;
    return status;
}

/* Draws the micro-batches of a step and copies all of them to the back-end at
 * once. */
static es_status draw_all(es_model *model, const es_step_plan *plan)
{
    const size_t n = (size_t)es_model_n_inputs(model);
    const size_t bytes = (size_t)plan->n_batches * 2 * n * sizeof(int32_t);
    es_status status = reserve_host_inputs(model, plan->n_batches);
    if (status < 0)
        return status;
    /* Allocate step_inputs only once, because captured operations read from its
     * address. */
    if (model->n_unrolled != plan->n_batches) {
        if ((status = model->ops->reserve(model->backend, &model->step_inputs,
                                          bytes)) < 0)
            return status;
        model->n_unrolled = plan->n_batches;
    }
    for (int i = 0; i < plan->n_batches; i++) {
        int32_t *tokens = model->host_inputs + (size_t)i * 2 * n;
        if ((status = plan->draw(plan->user, tokens, tokens + n, i)) != ES_OK ||
            (status = es_model_config_check_tokens(&model->config, tokens,
                                                   tokens + n)) < 0)
            return status;
        model->host_targets[i] = es_model_count_targets(model, tokens + n);
    }
    model->ops->store(model->backend, model->step_inputs, model->host_inputs,
                      bytes);
    return ES_OK;
}

/* --- a step as one sequence ----------------------------------------------- */

static void zero_gradients(const es_model *model, size_t first, size_t end)
{
    if (end > first)
        model->ops->zero(model->backend,
                         es_mem_at(model->gradients, first * sizeof(float)),
                         (end - first) * sizeof(float));
}

/* Zeroes the gradients to which the first backward pass adds, but not the
 * gradients that it overwrites. The padding between arrays is always 0. */
static void start_gradients(es_model *model)
{
    const es_params *params = &model->params;
    size_t first = 0, end = 0;
    for (int group = 0; group < ES_GROUP_STATE; group++)
        for (size_t i = 0; i < params->n; i++) {
            const es_param *param = &params->table[i];
            if ((int)param->group != group)
                continue;
            if (es_model_is_overwritten(model, param)) {
                zero_gradients(model, first, end);
                first = end;
                continue;
            }
            first = first == end ? param->offset : first;
            end = param->offset + param->n;
        }
    zero_gradients(model, first, end);
    model->overwrites = true;
}

static es_status run_operations(es_model *model, const es_step_plan *plan,
                                const es_train_config *train)
{
    const size_t bytes = (size_t)es_model_n_inputs(model) * sizeof(int32_t);
    model->is_in_step = true;
    start_gradients(model);
    if (plan->measure)
        es_model_report_parameters(model);
    for (int i = 0; i < plan->n_batches; i++) {
        model->tokens = es_mem_at(model->step_inputs, 2 * (size_t)i * bytes);
        model->targets = es_mem_at(model->tokens, bytes);
        model->n_targets = model->host_targets[i];
        model->offset =
            (uint32_t)(es_model_pass_number(model, plan, i) - plan->pass);
        es_model_run_pass(model, true, true);
        model->reduces =
            es_model_reduces_by_device(model) && i == plan->n_batches - 1;
        es_model_run_backward(model,
                              1.0 / es_model_n_shared(model, plan->n_batches));
        model->reduces = false;
    }
    es_status status = es_model_reduce(model);
    run_update(model, train, plan->may_skip);
    model->is_in_step = false;
    return status;
}

static es_status run_one_sequence(es_model *model, const es_step_plan *plan,
                                  const es_train_config *train)
{
    const int sequence = ES_SEQUENCE_STEP + plan->may_skip + 2 * plan->measure;
    es_status status = draw_all(model, plan);
    if (status != ES_OK)
        return status;
    model->pass = plan->pass;
    es_model_begin_report(model, plan->measure, train, plan->lr);
    es_model_share(model);
    /* An evaluation may already have computed the normalised weights. They are
     * computed again, which changes no value, so that every step consists of
     * the same operations. */
    model->weights_are_stale = true;
    es_model_refresh_copies(model);
    if (!es_model_replays(model, sequence)) {
        status = run_operations(model, plan, train);
        es_model_launch(model);
    }
    /* The operations above may have been replayed without their host code, so
     * update here the host's record of their effects. */
    model->report.n_passes = plan->n_batches;
    model->can_go_back = model->overwrites = false;
    model->weights_are_stale = true;
    model->iteration_is_due = true;
    model->is_updating = true;
    return ES_OK;
}

/* --- a step of separate passes ------------------------------------------- */

static es_status run_passes(es_model *model, const es_step_plan *plan,
                            const es_train_config *train)
{
    const size_t n = (size_t)es_model_n_inputs(model);
    es_status status = reserve_host_inputs(model, 1);
    if (status != ES_OK)
        return status;
    int32_t *tokens = model->host_inputs;
    start_gradients(model);
    es_model_begin(model, plan->measure, train, plan->lr);
    es_model_share(model);
    es_model_begin_sums(model);
    for (int i = 0; i < plan->n_batches; i++) {
        model->pass = es_model_pass_number(model, plan, i);
        if ((status = plan->draw(plan->user, tokens, tokens + n, i)) != ES_OK ||
            (status = es_model_pass(model, tokens, tokens + n, true)) < 0)
            return status;
        es_model_run_backward(model,
                              1.0 / es_model_n_shared(model, plan->n_batches));
        if ((status = es_model_add_batch(model)) != ES_OK)
            return status;
    }
    if ((status = es_model_reduce(model)) != ES_OK)
        return status;
    run_update(model, train, plan->may_skip);
    return ES_OK;
}

/* Returns true if the step can run as one captured sequence. The numbers that
 * captured operations have as arguments must not change: the optimiser's
 * settings, and the scale of gradients, which depends on the number of
 * micro-batches. SNorm's power iteration must also be due; it is not due after
 * training passes without an update. */
static bool is_one_sequence(es_model *model, const es_step_plan *plan,
                            const es_train_config *train)
{
    return (!model->ranks || es_model_reduces_by_device(model)) &&
           plan->n_batches <= ES_MAX_UNROLLED && model->iteration_is_due &&
           es_model_captures_scale(model, 1.0 / plan->n_batches) &&
           captures_config(model, train);
}

bool es_model_runs_ahead(es_model *model, const es_step_plan *plan,
                         const es_train_config *train)
{
    const es_model_config *config = &model->config;
    /* Range losses are excluded, because a range loss may be infinite although
     * the device has no reason to skip the step. SNorm is excluded, because its
     * vectors change even in a skipped step. */
    for (int i = 0; i < ES_N_RANGES; i++)
        if (config->range_weight[i] > 0)
            return false;
    return es_model_fetches(model) && plan->may_skip &&
           config->arch.spectral_norm == 0 &&
           is_one_sequence(model, plan, train);
}

es_status es_model_launch_step(es_model *model, const es_step_plan *plan,
                               const es_train_config *train)
{
    es_status status = check_trains(model);
    if (status == ES_OK && model->n_pending > 0 &&
        (model->n_pending > 1 || !es_model_runs_ahead(model, plan, train)))
        status = es_fail(ES_EARGUMENT,
                         "a step is in progress: wait for it to finish");
    if (status != ES_OK)
        return status;
    const bool whole = is_one_sequence(model, plan, train);
    model->defers_loss = true;
    status = whole ? run_one_sequence(model, plan, train)
                   : run_passes(model, plan, train);
    model->defers_loss = false;
    if (status == ES_OK && whole && es_model_fetches(model))
        es_model_fetch_report(model);
    return status;
}

es_status es_model_finish_step(es_model *model, es_outcome *out)
{
    return model->n_pending > 0 ? es_model_end_fetched(model, out)
                                : es_model_end(model, out);
}

es_status es_model_run_step(es_model *model, es_outcome *out,
                            const es_step_plan *plan,
                            const es_train_config *train)
{
    es_status status = es_model_launch_step(model, plan, train);
    if (status != ES_OK)
        return status;
    if (plan->meanwhile)
        plan->meanwhile(plan->user);
    return es_model_finish_step(model, out);
}
