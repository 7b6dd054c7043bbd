/* Implements entropy-train fuse: builds the trained and the simplified model,
 * evaluates both on the same held-out data, and writes the simplified one as a
 * checkpoint. model/simplify.c computes the weights. */
#include "hooks/trainer/fuse.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/model/simplify.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- both models ---------------------------------------------------------- */

static es_status check_unused(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0)
        return es_fail(ES_EIO, "%s: exists already: choose another name", path);
    return ES_OK;
}

/* Replaces a folder in settings->init by the newest intact checkpoint in it. */
static es_status find_weights(es_settings *settings,
                              const es_train_watch *watch)
{
    struct stat info;
    es_checkpoint *checkpoint;
    if (stat(settings->init, &info) != 0 || !S_ISDIR(info.st_mode))
        return ES_OK;
    es_status status = es_checkpoint_find(&checkpoint, settings->init,
                                          watch->on_warning, watch->user);
    if (status == ES_OK)
        snprintf(settings->init, sizeof settings->init, "%s",
                 checkpoint->file->path);
    es_checkpoint_close(checkpoint);
    return status;
}

/* Determines the settings of both models from `settings`, which the command
 * line has given. */
static es_status settle(es_fuse_result *result, const es_settings *settings,
                        const es_train_watch *watch)
{
    es_settings *before = &result->before;
    es_status status;
    *before = *settings;
    before->verb = ES_VERB_PROBE; /* evaluate, do not train */
    before->model.forward_only = true;
    if ((status = find_weights(before, watch)) < 0 ||
        (status = es_start_settings(before)) < 0)
        return status;
    result->after = *before;
    es_model_config *after = &result->after.model;
    if ((status = es_simplify_config(after, &before->model, &settings->drop)) <
        0)
        return status;
    after->forward_only = false; /* allocates AdamW's moments, which a
                                  * checkpoint contains */
    const es_arch *old = &before->model.arch;
    const int n = before->model.n_layer;
    result->n_layers = n;
    result->is_folded = old->weight_norm != 0 || old->spectral_norm != 0;
    for (int layer = 0; layer < n; layer++) {
        const bool has = es_arch_has_ffn(&after->arch, layer, n);
        result->n_dropped += es_arch_has_ffn(old, layer, n) && !has;
        result->n_fused +=
            has && es_arch_parts(&after->arch, layer).ffn == ES_FFN_FUSED &&
            es_arch_parts(old, layer).ffn != ES_FFN_FUSED;
    }
    return ES_OK;
}

/* Builds a trainer that evaluates in plain fp32. */
static es_status build_trainer(es_trainer **out, const es_settings *settings)
{
    es_settings plain = *settings;
    plain.model.emulate = ES_EMULATE_NONE;
    return es_trainer_new(out, &plain);
}

/* Evaluates the model, one micro-batch after another, until all are done or
 * `watch` requests a stop. */
static es_status evaluate_model(es_losses *out, es_trainer *trainer,
                                const es_train_watch *watch)
{
    const int64_t n = trainer->settings.eval_batches;
    *out = (es_losses){0};
    es_measure_reset(trainer->measure);
    for (int64_t i = 0; i < n && !watch->should_stop(watch->user); i++) {
        es_losses losses;
        es_status status = es_trainer_hold_out(trainer, &losses, i, 1);
        if (status < 0)
            return status;
        es_losses_add(out, &losses, 1.0 / (double)n);
    }
    return ES_OK;
}

/* --- comparison ----------------------------------------------------------- */

static double mean_finite(const float *values, int n)
{
    double sum = 0;
    int n_finite = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(values[i])) {
            sum += (double)values[i];
            n_finite++;
        }
    return n_finite > 0 ? sum / n_finite : (double)NAN;
}

/* Compares the entropies of n heads. */
static es_fuse_layer compare_heads(const float *before, const float *after,
                                   int n)
{
    es_fuse_layer layer = {mean_finite(before, n), mean_finite(after, n), 0};
    for (int h = 0; h < n; h++) {
        const double difference = fabs((double)after[h] - (double)before[h]);
        const bool both_nan = isnan(before[h]) && isnan(after[h]);
        if (isnan(difference) && !both_nan)
            layer.difference = (double)NAN;
        else if (!both_nan && difference > layer.difference)
            layer.difference = difference;
    }
    return layer;
}

static es_status compare_models(es_fuse_result *result, es_trainer *before,
                                es_trainer *after)
{
    const int n_head = result->before.model.n_head, n = result->n_layers;
    const float *old = es_measure_heads(before->measure, ES_HEAD_ENTROPY);
    const float *new = es_measure_heads(after->measure, ES_HEAD_ENTROPY);
    es_status status = es_alloc(&result->layers, (size_t)n + 1,
                                sizeof *result->layers, "the layers");
    if (status < 0)
        return status;
    for (int l = 0; l < n; l++)
        result->layers[l] =
            compare_heads(old + l * n_head, new + l *n_head, n_head);
    result->layers[n] = compare_heads(old, new, n * n_head);
    const double ce = result->loss_before.ce;
    result->is_equal =
        fabs(result->loss_after.ce - ce) <= ES_FUSE_TOLERANCE * fmax(1, ce) &&
        result->layers[n].difference <= ES_FUSE_TOLERANCE;
    return ES_OK;
}

/* --- the file ------------------------------------------------------------- */

static es_status write_model(es_fuse_result *result, es_trainer *trainer,
                             const char *path)
{
    const char *slash = strrchr(path, '/');
    const double none = (double)NAN;
    es_checkpoint_state state = {.tokens_checksum = trainer->tokens->checksum,
                                 .loss_scale = trainer->loss_scale,
                                 .last = {none, none, none, none, 0},
                                 .eval = result->loss_after};
    es_settings settings = trainer->settings;
    settings.verb = ES_VERB_TRAIN;
    settings.model.emulate = result->after.model.emulate;
    snprintf(state.uuid, sizeof state.uuid, "%s", trainer->uuid);
    snprintf(state.name, sizeof state.name, "%s", slash ? slash + 1 : path);
    es_status status = check_unused(path);
    if (status == ES_OK)
        status = es_checkpoint_write(path, trainer->model, &settings, &state);
    result->is_written = status == ES_OK;
    return status;
}

es_status es_fuse(es_fuse_result *result, const es_settings *settings,
                  const es_train_watch *watch)
{
    es_trainer *before = NULL, *after = NULL;
    es_status status;
    *result = (es_fuse_result){.n_layers = 0};
    if ((status = check_unused(settings->fused)) < 0 ||
        (status = settle(result, settings, watch)) < 0 ||
        (status = build_trainer(&before, &result->before)) < 0 ||
        (status = es_start_load(&result->start, before)) < 0 ||
        (status = build_trainer(&after, &result->after)) < 0 ||
        (status = es_simplify_model(after->model, before->model,
                                    result->before.init)) < 0 ||
        (status = evaluate_model(&result->loss_before, before, watch)) < 0 ||
        (status = evaluate_model(&result->loss_after, after, watch)) < 0 ||
        watch->should_stop(watch->user) ||
        (status = compare_models(result, before, after)) < 0)
        goto done;
    if (result->is_equal || result->n_dropped > 0)
        status = write_model(result, after, settings->fused);
done:
    es_trainer_free(before);
    es_trainer_free(after);
    return status;
}

void es_fuse_free(es_fuse_result *result)
{
    free(result->layers);
    *result = (es_fuse_result){.n_layers = 0};
}

/* --- the table ------------------------------------------------------------ */

static void print_row(FILE *out, const char *name, double before, double after,
                      double difference)
{
    char number[ES_FLOAT_TEXT_MAX];
    fprintf(out, "%-12s%12.6f%12.6f%13s\n", name, es_unsigned_nan(before),
            es_unsigned_nan(after), es_number_print(number, difference, 2));
}

static void print_steps(FILE *out, const es_fuse_result *result)
{
    char old[ES_ARCH_TEXT_MAX], new[ES_ARCH_TEXT_MAX];
    es_arch_print(old, sizeof old, &result->before.model.arch);
    es_arch_print(new, sizeof new, &result->after.model.arch);
    fprintf(out, "%s becomes %s:", old, new);
    if (result->is_folded)
        fprintf(out, " norms of weights folded;");
    if (result->n_fused > 0)
        fprintf(out, " FFNs fused: %d;", result->n_fused);
    if (result->n_dropped > 0)
        fprintf(out, " FFNs dropped: %d;", result->n_dropped);
    fprintf(out, " %s\n",
            result->n_dropped > 0 ? "another function"
                                  : "the same function, except for rounding");
}

void es_fuse_print(FILE *out, const es_fuse_result *result)
{
    const es_model_config *config = &result->before.model;
    const double before = result->loss_before.ce, after = result->loss_after.ce;
    char path[ES_PATH_SIZE], name[16];
    es_text_escape(path, sizeof path, result->before.init, ES_ESCAPE_TERMINAL);
    fprintf(out, "%s: weights of %s, L=%d H=%d d=%d V=%d", path,
            result->start.maker, config->n_layer, config->n_head,
            config->d_model, config->vocab);
    if (result->start.step > 0)
        fprintf(out, ", after %" PRId64 " steps", result->start.step);
    fprintf(out, "\n");
    print_steps(out, result);
    fprintf(out, "held-out data: %" PRId64 " micro-batches of %d x %d\n\n",
            result->before.eval_batches, config->batch, config->ctx);
    fprintf(out, "%-12s%12s%12s%13s\n", "", "before", "after", "difference");
    print_row(out, "loss", before, after, after - before);
    print_row(out, "perplexity", exp(before), exp(after),
              exp(after) - exp(before));
    for (int l = 0; l <= result->n_layers; l++) {
        const es_fuse_layer *layer = &result->layers[l];
        snprintf(name, sizeof name, l < result->n_layers ? "entropy %d" : "all",
                 l);
        print_row(out, name, layer->before, layer->after, layer->difference);
    }
    fprintf(out, "\nin nats; entropies are means over the heads, differences "
                 "are the largest of any head\n");
    if (result->n_dropped == 0)
        fprintf(out, "%s (tolerance %g)\n",
                result->is_equal ? "equal except for rounding"
                                 : "different by more than rounding error",
                ES_FUSE_TOLERANCE);
}
