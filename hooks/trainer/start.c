/* Starts a training run from a file of weights: finds the settings that the
 * file determines, and loads the weights into a trainer. Also computes the
 * settings of a run that resumes from a checkpoint (the checkpoint's
 * settings, overridden by the command line), and describes which settings
 * have changed. */
#include "hooks/trainer/start.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/files/weights.h"
#include "hooks/trainer/settings/settings.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/** Names of the settings that a file of weights determines. If the file does
 *  not contain one of these settings, the program's default is used. */
static const char *const determined[] = {
    "arch",         "family",      "n-layer",   "n-head",     "d-model",
    "ctx",          "vocab",       "bias",      "final-norm", "gamma",
    "lambda",       "ereg-reduce", "mlp-mult",  "batch",      "emulate",
    "ln-eps",       "d-ff",        "n-kv-head", "d-head",     "rope-base",
    "rope-scaling", "qk-norm",     "tied",      "padding",    "mask-token",
    "image-size",   "patch-size",  "channels",  "classes"};

static bool is_given(const es_settings *settings, const char *name)
{
    const es_option *setting = es_setting_find(name);
    return setting && settings->given[setting - es_settings_table];
}

static es_status set_determined(es_settings *settings,
                                const es_weights *weights)
{
    const es_model_config *model = &weights->config;
    es_settings from = *settings;
    from.model = *model;
    for (size_t i = 0; i < sizeof determined / sizeof *determined; i++) {
        const char *name = determined[i];
        bool is_unknown = strcmp(name, "ctx") == 0 && model->ctx == 0;
        bool is_open = strcmp(name, "vocab") == 0 && settings->model.vocab == 0;
        if (is_unknown || (!is_open && is_given(settings, name)))
            continue;
        /* Copying the value as a string works for every kind of setting. */
        char value[ES_SETTING_TEXT_MAX];
        const es_option *setting = es_setting_find(name);
        es_option_print(value, sizeof value, &from, setting);
        es_status status = es_option_set(settings, setting, value, from.init);
        if (status != ES_OK)
            return status;
    }
    return es_weights_check(weights, &settings->model);
}

/** Returns true if the model must predict tokens: in every training run, and in
 *  a probe with --mask-token. */
static bool must_predict(const es_settings *settings)
{
    return settings->verb != ES_VERB_PROBE || settings->model.mask >= 0;
}

es_status es_start_settings(es_settings *settings)
{
    es_weights *weights = NULL;
    int n_head = is_given(settings, "n-head") ? settings->model.n_head : 0;
    es_status status = es_weights_open(&weights, settings->init, n_head,
                                       must_predict(settings));
    if (status == ES_OK)
        status = set_determined(settings, weights);
    es_weights_close(weights);
    return status;
}

es_status es_start_load(es_start *out, es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    es_weights *weights = NULL;
    *out = (es_start){.step = 0};
    es_status status =
        es_weights_open(&weights, settings->init, settings->model.n_head,
                        must_predict(settings));
    if (status == ES_OK)
        status = es_weights_load(trainer->model, weights, out->note,
                                 sizeof out->note);
    if (status == ES_OK) {
        out->step = weights->step;
        snprintf(out->maker, sizeof out->maker, "%s", weights->maker);
    }
    es_weights_close(weights);
    return status;
}

/* --- from a checkpoint --------------------------------------------------- */

/** The values of one setting in two sets of settings, as strings. */
typedef struct both {
    char then[ES_SETTING_TEXT_MAX], now[ES_SETTING_TEXT_MAX];
} both;

/** Prints both values of the setting. Returns true if they differ. */
static bool print_both(both *out, const es_option *setting,
                       const es_settings *then, const es_settings *now)
{
    es_option_print(out->then, sizeof out->then, then, setting);
    es_option_print(out->now, sizeof out->now, now, setting);
    return strcmp(out->then, out->now) != 0;
}

static es_status check_model(const es_settings *settings,
                             const es_checkpoint *checkpoint)
{
    both values;
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        if (setting->tags & ES_SETTING_KEPT &&
            es_setting_is_of_model(setting) &&
            print_both(&values, setting, &checkpoint->settings, settings))
            return es_fail(ES_EUSAGE, "--%s is %s, the checkpoint %s has %s",
                           setting->name, values.now, checkpoint->file->path,
                           values.then);
    }
    return ES_OK;
}

es_status es_resume_settings(es_settings *settings,
                             const es_checkpoint *checkpoint, int argc,
                             char **argv)
{
    *settings = checkpoint->settings;
    es_status status = es_settings_parse(settings, argc, argv);
    if (status == ES_OK)
        status = check_model(settings, checkpoint);
    const char *path = checkpoint->file->path, *slash = strrchr(path, '/');
    /* By default, write new checkpoints to the folder of the checkpoint from
     * which the run resumes. */
    if (status == ES_OK && !settings->checkpoint[0])
        snprintf(settings->checkpoint, sizeof settings->checkpoint, "%.*s",
                 slash ? (int)(slash > path ? slash - path : 1) : 1,
                 slash ? path : ".");
    return status;
}

char *es_resume_describe(char *out, size_t size,
                         const es_checkpoint *checkpoint,
                         const es_settings *settings)
{
    both values;
    es_text text = es_text_begin(out, size);
    es_text_append(&text, "resumed at step %" PRId64 " from %.512s",
                   checkpoint->state.step, checkpoint->file->path);
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        if (setting->tags & ES_SETTING_KEPT &&
            print_both(&values, setting, &checkpoint->settings, settings))
            es_text_append(&text, "; --%s was %.80s, is now %.80s",
                           setting->name, values.then, values.now);
    }
    return out;
}
