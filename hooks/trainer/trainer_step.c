/* Implements one training step, for the verbs train and bench of entropy-train:
 * draws the step's micro-batches, may launch the following step before the
 * current step's results are known, and handles steps that the back-end has
 * skipped. */
#include "hooks/trainer/batches.h"
#include "hooks/trainer/trainer.h"

#include <math.h>
#include <string.h>

/** The argument of draw_batch and draw_ahead: the step for which micro-batches
 *  are drawn. */
typedef struct draw {
    es_trainer *trainer;
    int64_t step;
} draw;

static es_status read_batch(const es_trainer *trainer, int32_t *tokens,
                            int32_t *targets, int64_t step, int i)
{
    const es_data data = {&trainer->settings, trainer->tokens};
    return es_batch_train(&data, tokens, targets, step, i);
}

/** Returns the tokens of micro-batch i in the memory for micro-batches that are
 *  drawn in advance; the targets follow the tokens. */
static int32_t *ahead_of(const es_trainer *trainer, int i)
{
    return trainer->ahead + (size_t)i * 2 * trainer->n_inputs;
}

/** Draws micro-batch i of the step. This is a callback in es_step_plan. */
static es_status draw_batch(void *user, int32_t *tokens, int32_t *targets,
                            int i)
{
    const draw *d = user;
    const es_trainer *trainer = d->trainer;
    if (d->step != trainer->ahead_step || i >= trainer->n_ahead)
        return read_batch(trainer, tokens, targets, d->step, i);
    const int32_t *batch = ahead_of(trainer, i);
    memcpy(tokens, batch, trainer->n_inputs * sizeof *tokens);
    memcpy(targets, batch + trainer->n_inputs,
           trainer->n_inputs * sizeof *targets);
    return ES_OK;
}

/** Draws the micro-batches of the next step while a device computes the current
 *  step. A read error is reported later, by the step that needs the
 *  micro-batch. */
static void draw_ahead(void *user)
{
    const draw *d = user;
    es_trainer *trainer = d->trainer;
    trainer->n_ahead = 0;
    trainer->ahead_step = d->step + 1;
    while (trainer->ahead &&
           trainer->n_ahead < trainer->settings.train.accumulate) {
        int32_t *batch = ahead_of(trainer, trainer->n_ahead);
        if (read_batch(trainer, batch, batch + trainer->n_inputs,
                       trainer->ahead_step, trainer->n_ahead) != ES_OK)
            return;
        trainer->n_ahead++;
    }
}

/** Repeats the forward and backward passes of a skipped step, this time with
 *  statistics, which show the layer in which the first NaN arose. The
 *  parameters are still those before the step. */
static es_status measure_again(es_trainer *trainer, int64_t step)
{
    es_outcome outcome;
    es_status status;
    draw d = {trainer, step};
    es_model_begin(trainer->model, true, NULL, 0);
    es_model_share(trainer->model);
    for (int i = 0; i < trainer->settings.train.accumulate; i++)
        if ((status = draw_batch(&d, trainer->inputs, trainer->targets, i)) !=
                ES_OK ||
            (status = es_model_pass(trainer->model, trainer->inputs,
                                    trainer->targets, false)) != ES_OK)
            return status;
    return es_model_end(trainer->model, &outcome);
}

/** Handles a step whose loss or gradient is not finite. For the first step
 *  whose loss is not finite, statistics are computed. The update is applied
 *  unless a smaller loss scale may help. */
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
    return status != ES_OK || step->skipped
               ? status
               : es_model_update(trainer->model, &trainer->settings.train,
                                 step->lr, &step->grad_norm);
}

/** Every tenth recorded step includes the statistics that are expensive to
 *  compute (model/details.h). */
#define RECORDS_TO_ALL 10

/** Returns true if the expensive statistics are recorded at this step. The
 *  result depends only on the step, so a resumed run records them at the same
 *  steps. */
static bool is_due_for_all(const es_trainer *trainer, int64_t step)
{
    const int64_t every = trainer->settings.record_every;
    return step % (RECORDS_TO_ALL * every) == 0 ||
           step == trainer->settings.train.steps - 1;
}

static es_step_plan plan_of(draw *d, double lr, bool measure)
{
    const es_trainer *trainer = d->trainer;
    const int n_batches = trainer->settings.train.accumulate;
    return (es_step_plan){.n_batches = n_batches,
                          .draw = draw_batch,
                          .user = d,
                          .lr = lr,
                          .pass = (uint64_t)d->step * (uint64_t)n_batches *
                                  (uint64_t)trainer->settings.world,
                          .measure = measure,
                          .may_skip = !trainer->saw_nan ||
                                      es_model_scales_loss(trainer->model)};
}

static es_status launch_step(es_trainer *trainer, es_step *out, int64_t step,
                             bool measure, double loss_scale)
{
    const es_train_config *train = &trainer->settings.train;
    draw d = {trainer, step};
    *out = (es_step){.step = step,
                     .lr = es_schedule(train, step),
                     .measured = measure,
                     .loss_scale = loss_scale};
    const es_step_plan plan = plan_of(&d, out->lr, measure);
    es_model_set_loss_scale(trainer->model, loss_scale);
    es_model_measure_all(trainer->model, is_due_for_all(trainer, step));
    return es_model_launch_step(trainer->model, &plan, train);
}

/** Launches the following step early, as if the current step were finite. An
 *  error is returned when the following step is called. */
static bool launch_next(es_trainer *trainer, int64_t step)
{
    draw d = {trainer, step + 1};
    const es_step_plan plan = plan_of(&d, 0, trainer->measures_next);
    const es_loss_scale scale =
        es_model_scales_loss(trainer->model)
            ? es_loss_scale_next(trainer->loss_scale, true)
            : trainer->loss_scale;
    return trainer->may_run_ahead &&
           es_model_runs_ahead(trainer->model, &plan,
                               &trainer->settings.train) &&
           launch_step(trainer, &trainer->next, step + 1,
                       trainer->measures_next, scale.scale) == ES_OK;
}

/** Repeats the current step and discards the following step, which has already
 *  been launched but has changed nothing except gradients. */
static es_status step_alone(es_trainer *trainer, es_outcome *out,
                            const es_step *step)
{
    es_step same;
    es_status status = es_model_finish_step(trainer->model, out);
    if (status == ES_OK)
        status = launch_step(trainer, &same, step->step, step->measured,
                             step->loss_scale);
    return status == ES_OK ? es_model_finish_step(trainer->model, out) : status;
}

es_status es_trainer_step(es_trainer *trainer, es_step *out, int64_t step,
                          bool measure)
{
    es_outcome outcome;
    draw d = {trainer, step};
    es_status status = ES_OK;
    if (trainer->is_ahead)
        *out = trainer->next;
    else
        status =
            launch_step(trainer, out, step, measure, trainer->loss_scale.scale);
    trainer->is_ahead = status == ES_OK && launch_next(trainer, step);
    trainer->may_run_ahead = false;
    if (status != ES_OK)
        return status;
    if (!trainer->is_ahead)
        draw_ahead(&d);
    status = es_model_finish_step(trainer->model, &outcome);
    if (status == ES_OK && outcome.skipped && trainer->is_ahead) {
        trainer->is_ahead = false;
        status = step_alone(trainer, &outcome, out);
    }
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
