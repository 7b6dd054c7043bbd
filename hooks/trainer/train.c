/* Implements the training loop: runs steps, records, evaluates, writes
 * checkpoints, finds the first value that is not finite, and ends the run.
 * Reports to the caller through es_train_watch, and to the run file through
 * train_record. */
#include "hooks/trainer/train.h"

#include "hooks/trainer/start.h"
#include "hooks/trainer/train_ranks.h"
#include "hooks/trainer/train_record.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

typedef struct loop {
    es_trainer *trainer;
    es_transport *transport;      /* NULL if there are no other ranks */
    es_train_record *record;      /* NULL if nothing is recorded */
    es_checkpoint_folder *folder; /* NULL if no checkpoints are written */
    int64_t tried_step; /* last step for which a checkpoint has been attempted,
                           or -1 */
    const es_train_watch *watch;
    es_train_result *result;
    double seconds, total_seconds; /* seconds spent in training steps since
                                    * samples were last recorded, and in
                                    * total */
    int64_t timed_steps;           /* number of steps since samples were last
                                      recorded */
    bool warned;
} loop;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

/* Returns true on the rank that records, evaluates and writes checkpoints. */
static bool is_first(const loop *l)
{
    return es_transport_rank(l->transport) == 0;
}

static void warn(const loop *l, const char *message)
{
    if (l->watch->on_warning)
        l->watch->on_warning(l->watch->user, message);
}

char *es_train_describe_nan(char *out, size_t size,
                            const es_train_result *result)
{
    char gradient[128] = "", layer[32] = "";
    char place[64] = ": every layer was finite, but the logits overflowed";
    if (result->bad_gradient_layer >= 0)
        snprintf(layer, sizeof layer, " in layer %d",
                 result->bad_gradient_layer);
    if (result->bad_gradient_step >= 0 &&
        result->bad_gradient_step < result->nan_step)
        snprintf(gradient, sizeof gradient,
                 "; the gradient was already not finite at step %" PRId64 "%s",
                 result->bad_gradient_step, layer);
    if (result->nan_layer >= 0)
        snprintf(place, sizeof place, ", first in the output of layer %d",
                 result->nan_layer);
    if (size > 0)
        out[0] = 0;
    if (result->nan_step >= 0)
        snprintf(out, size, "loss is not finite from step %" PRId64 " on%s%s",
                 result->nan_step, place, gradient);
    return out;
}

/** Records the first step with a non-finite loss, and the first step with a
 *  non-finite gradient. */
static void watch_for_nan(loop *l, const es_step *step)
{
    es_train_result *result = l->result;
    if (result->bad_gradient_step < 0 && !isfinite(step->grad_norm) &&
        !step->skipped) {
        result->bad_gradient_step = step->step;
        if (isfinite(step->losses.loss))
            result->bad_gradient_layer =
                es_trainer_bad_gradient_layer(l->trainer);
    }
    if (result->nan_step >= 0 || isfinite(step->losses.loss))
        return;
    result->nan_step = step->step;
    result->nan_layer = es_measure_first_nan_layer(l->trainer->measure);
    char text[256];
    es_train_record_event(l->record, step->step, "nan", ES_SEVERITY_CRITICAL,
                          es_train_describe_nan(text, sizeof text, result));
}

/** Writes a checkpoint after the completed steps, unless this checkpoint
 *  already exists or the parameters are no longer finite. A failure is stored
 *  and reported as a warning, and the training continues. */
static void save_checkpoint(loop *l)
{
    es_train_result *result = l->result;
    const es_trainer *trainer = l->trainer;
    bool lost = result->nan_step >= 0 || result->bad_gradient_step >= 0;
    if (!l->folder || lost || l->tried_step == result->n_steps ||
        es_model_status(trainer->model) != ES_OK)
        return;
    es_checkpoint_state state = {.step = result->n_steps,
                                 .tokens_checksum = trainer->tokens->checksum,
                                 .loss_scale = trainer->loss_scale,
                                 .last = result->last,
                                 .eval = result->eval};
    snprintf(state.uuid, sizeof state.uuid, "%s", trainer->uuid);
    es_settings_run_name(state.name, &trainer->settings);
    es_status status = es_checkpoint_folder_save(l->folder, trainer->model,
                                                 &trainer->settings, &state);
    l->tried_step = result->n_steps;
    if (status == ES_OK) {
        result->saved_step = result->n_steps;
        return;
    }
    /* A failed device cannot provide the values of a checkpoint. The next step
     * returns the device's message, which explains more than a warning about
     * the checkpoint. */
    const bool device_failed = es_model_status(trainer->model) != ES_OK;
    if (result->saved == ES_OK) {
        result->saved = status;
        snprintf(result->unsaved, sizeof result->unsaved, "%s", es_message());
    }
    if (device_failed)
        return;
    warn(l, es_message());
    es_train_record_event(l->record, result->n_steps, "checkpoint",
                          ES_SEVERITY_WARNING, es_message());
}

/** Returns true if the evaluation before `step` records attention maps. The
 *  map_count evaluations with maps are spread evenly over the run and include
 *  the last evaluation. */
static bool maps_are_due(const es_settings *settings, int64_t step)
{
    const int64_t every = settings->eval_every, steps = settings->train.steps;
    const int64_t last = (steps + every - 1) / every,
                  i = step == steps ? last : step / every;
    const int64_t n = settings->map_count;
    return i == last || (n > 1 && (i == 0 || i * (n - 1) / last !=
                                                 (i - 1) * (n - 1) / last));
}

/** Records the loss of exact inference in addition to the results of an
 *  evaluation with polynomials. */
static es_status record_exact(loop *l, int64_t step)
{
    es_losses exact;
    const es_settings *settings = &l->trainer->settings;
    if (settings->inference == ES_INFERENCE_EXACT || !l->record)
        return ES_OK;
    es_status status = es_trainer_hold_out_exact(l->trainer, &exact, 0,
                                                 settings->eval_batches);
    const float ce = (float)exact.ce;
    if (status == ES_OK)
        es_train_record_other(l->record, "ce_exact", ES_SHAPE_RUN, "nats", step,
                              &ce, 1);
    return status;
}

static es_status evaluate_model(loop *l, int64_t step)
{
    es_losses losses;
    es_trainer *trainer = l->trainer;
    if (!is_first(l))
        return ES_OK; /* other ranks do not evaluate */
    trainer->takes_maps =
        l->record && trainer->maps && maps_are_due(&trainer->settings, step);
    if (trainer->takes_maps)
        es_maps_reset(trainer->maps);
    es_status status = es_trainer_evaluate(trainer, &losses);
    if (status != ES_OK)
        return status;
    if ((status = record_exact(l, step)) != ES_OK)
        return status;
    l->result->eval = losses;
    es_train_record_eval(l->record, step, &losses, trainer->measure);
    if (trainer->takes_maps)
        es_train_record_maps(l->record, step, trainer->maps);
    if (l->watch->on_eval)
        l->watch->on_eval(l->watch->user, step, &losses);
    return ES_OK;
}

static double tokens_per_second(const loop *l, int64_t n_steps, double seconds)
{
    double tokens = (double)(n_steps * es_trainer_tokens(l->trainer));
    return seconds > 0 ? tokens / seconds : 0;
}

static bool is_recorded(const loop *l, int64_t step)
{
    const es_settings *settings = &l->trainer->settings;
    return is_due(step, settings->record_every) ||
           step == settings->train.steps - 1;
}

/** Returns true if the step after `step` follows directly, without an
 *  evaluation or a checkpoint in between. */
static bool goes_on(const loop *l, int64_t step)
{
    const es_settings *settings = &l->trainer->settings;
    return step + 1 < settings->train.steps && l->result->nan_step < 0 &&
           !is_due(step + 1, settings->eval_every) &&
           !is_due(l->result->n_steps + 1, settings->checkpoint_every);
}

static es_status train_step(loop *l, int64_t step, bool may_run_ahead)
{
    const es_settings *settings = &l->trainer->settings;
    const bool due = is_recorded(l, step);
    /* All ranks measure if the first rank records. */
    const bool records = l->record || (!is_first(l) && settings->out[0]);
    es_step done;
    l->trainer->may_run_ahead = may_run_ahead && goes_on(l, step);
    l->trainer->measures_next = records && is_recorded(l, step + 1);
    double start = seconds_now();
    es_status status = es_trainer_step(l->trainer, &done, step, due && records);
    double took = seconds_now() - start;
    if (status != ES_OK)
        return status;
    l->seconds += took;
    l->total_seconds += took;
    l->timed_steps++;
    l->result->n_steps++;
    l->result->last = done.losses;
    watch_for_nan(l, &done);
    double speed = tokens_per_second(l, l->timed_steps, l->seconds);
    if (due || l->result->nan_step == step) {
        es_train_record_step(l->record, &done, l->trainer->measure, speed);
        l->seconds = 0;
        l->timed_steps = 0;
    }
    const char *trouble = es_train_record_trouble(l->record);
    if (trouble && !l->warned)
        warn(l, trouble);
    l->warned = l->warned || trouble;
    if (l->watch->on_step)
        l->watch->on_step(l->watch->user, &done,
                          done.measured ? l->trainer->measure : NULL, speed);
    if (is_due(l->result->n_steps, settings->checkpoint_every))
        save_checkpoint(l);
    return ES_OK;
}

/* Sets *stop to true if any rank must stop, so that all ranks stop before the
 * same step. */
static es_status should_stop(const loop *l, bool *stop)
{
    const es_train_watch *watch = l->watch;
    *stop = (watch->should_stop && watch->should_stop(watch->user)) ||
            es_train_record_stop_requested(l->record);
    return es_transport_any(l->transport, stop, *stop);
}

static es_status run_steps(loop *l)
{
    const es_settings *settings = &l->trainer->settings;
    const int64_t *nan = &l->result->nan_step;
    es_status status;
    bool stops;
    for (int64_t step = l->trainer->first_step; step < settings->train.steps;
         step++) {
        /* A step that has already been launched must be completed before the
         * run stops. */
        const bool is_ahead = l->trainer->is_ahead;
        if (!is_ahead && *nan >= 0 && step > *nan + settings->after_nan)
            break;
        if ((status = should_stop(l, &stops)) != ES_OK)
            return status;
        if (!is_ahead && stops) {
            l->result->status = ES_RUN_STOPPED;
            return ES_OK;
        }
        if (!is_ahead && is_due(step, settings->eval_every) &&
            (status = evaluate_model(l, step)) != ES_OK)
            return status;
        if ((status = train_step(l, step, !stops)) != ES_OK)
            return status;
    }
    return settings->eval_every > 0 ? evaluate_model(l, l->result->n_steps)
                                    : ES_OK;
}

static void end_result(loop *l, es_status status)
{
    es_train_result *result = l->result;
    if (status != ES_OK || result->nan_step >= 0)
        result->status = ES_RUN_FAILED;
    if (l->total_seconds > 0)
        result->tokens_per_s = tokens_per_second(
            l, result->n_steps - l->trainer->first_step, l->total_seconds);
    result->recorded = es_train_record_close(l->record, result->status);
    if (result->recorded != ES_OK)
        snprintf(result->lost, sizeof result->lost, "%s", es_message());
}

/** Builds everything that the training needs. Cheap checks come first. */
static es_status begin_training(loop *l, const es_settings *settings,
                                const es_checkpoint *from)
{
    char name[ES_RUN_NAME_SIZE];
    char note[ES_MESSAGE_MAX] = "";
    es_start start = {.step = 0};
    es_status status = es_trainer_new(&l->trainer, settings);
    if (status == ES_OK)
        status = es_model_set_ranks(l->trainer->model, l->transport,
                                    settings->fixed_order, note, sizeof note);
    if (status != ES_OK)
        return status;
    if (from)
        status = es_trainer_resume(l->trainer, from);
    else if (settings->init[0])
        status = es_start_load(&start, l->trainer);
    if (status != ES_OK)
        return status;
    if (note[0])
        warn(l, note);
    if (start.note[0])
        warn(l, start.note);
    if (l->trainer->note[0])
        warn(l, l->trainer->note);
    if ((status = es_trainer_find_ceiling(
             l->trainer, es_model_config_n_skipped(
                             &l->trainer->settings.model) > 0)) != ES_OK ||
        (status = es_train_compare_ranks(l->transport, l->trainer)) != ES_OK ||
        !is_first(l))
        return status;
    es_settings_run_name(name, settings);
    if (settings->checkpoint[0] &&
        (status = es_checkpoint_folder_open(
             &l->folder, settings->checkpoint, name, l->trainer->uuid,
             l->trainer->first_step, settings->keep)) != ES_OK)
        return status;
    return settings->out[0]
               ? es_train_record_open(&l->record, l->trainer, settings->out)
               : ES_OK;
}

static void warn_of_threads(loop *l, const es_checkpoint_state *state)
{
    char text[ES_MESSAGE_MAX];
    int n_threads = es_model_n_threads(l->trainer->model);
    if (n_threads == state->threads)
        return;
    snprintf(text, sizeof text,
             "resuming with %d threads instead of %d: the bits differ from an "
             "uninterrupted run",
             n_threads, state->threads);
    warn(l, text);
}

static void warn_of_products(loop *l, const es_settings *then)
{
    const es_settings *now = &l->trainer->settings;
    const es_option *setting = es_setting_find("products");
    char text[ES_MESSAGE_MAX], was[ES_SETTING_TEXT_MAX],
        is[ES_SETTING_TEXT_MAX];
    if (now->products == then->products || strcmp(now->backend, "cpu") != 0 ||
        strcmp(then->backend, "cpu") != 0)
        return;
    es_option_print(was, sizeof was, then, setting);
    es_option_print(is, sizeof is, now, setting);
    snprintf(text, sizeof text,
             "resuming with --products %.32s instead of %.32s: the bits differ "
             "from an uninterrupted run",
             is, was);
    warn(l, text);
}

/** Restores the run's state from the checkpoint. If no steps remain, the run
 *  was killed after its last checkpoint but before its end, so only the last
 *  evaluation and the final status may be missing. */
static void take_up(loop *l, const es_checkpoint *from)
{
    char text[ES_MESSAGE_MAX];
    const es_checkpoint_state *state = &from->state;
    l->result->n_steps = state->step;
    l->result->last = state->last;
    l->result->eval = state->eval;
    if (state->step == l->trainer->settings.train.steps)
        l->tried_step = state->step; /* this step already has a checkpoint */
    es_train_record_event(
        l->record, state->step, "resumed", ES_SEVERITY_INFO,
        es_resume_describe(text, sizeof text, from, &l->trainer->settings));
    warn_of_threads(l, state);
    warn_of_products(l, &from->settings);
}

es_status es_train(es_train_result *result, const es_settings *settings,
                   const es_checkpoint *from, es_transport *transport,
                   const es_train_watch *watch)
{
    static const es_train_watch unwatched = {0};
    char message[ES_MESSAGE_MAX];
    loop l = {.transport = transport,
              .watch = watch ? watch : &unwatched,
              .result = result,
              .tried_step = -1};
    *result = (es_train_result){.status = ES_RUN_FINISHED,
                                .last = {NAN, NAN, NAN, NAN, NAN},
                                .eval = {NAN, NAN, NAN, NAN, NAN},
                                .saved_step = -1,
                                .nan_step = -1,
                                .nan_layer = -1,
                                .bad_gradient_step = -1,
                                .bad_gradient_layer = -1};
    es_status status = begin_training(&l, settings, from);
    if (status != ES_OK) {
        status = es_transport_abort(transport, status);
        goto done;
    }
    if (from)
        take_up(&l, from);
    status = run_steps(&l);
    if (status == ES_OK)
        status = es_transport_wait(transport);
    else
        status = es_transport_abort(transport, status);
    snprintf(message, sizeof message, "%s", es_message());
    save_checkpoint(&l);
    end_result(&l, status);
    if (status != ES_OK)
        status = es_fail(status, "%s", message);
done:
    es_checkpoint_folder_close(l.folder);
    es_trainer_free(l.trainer);
    return status;
}
