/*
 * Starting from a file of weights: which settings it determines, and loading it
 * into a trainer.
 */
#include "hooks/trainer/start.h"

#include "hooks/trainer/files/weights.h"
#include "hooks/trainer/settings/settings_internal.h"
#include <stdlib.h>
#include <string.h>

/** Settings that a file of weights says. Those which it does not know have
 *  the program's defaults there. */
static const char *const determined[] = {
    "arch",   "family",      "n-layer",  "n-head",     "d-model",
    "ctx",    "vocab",       "bias",     "final-norm", "gamma",
    "lambda", "ereg-reduce", "mlp-mult", "batch",      "emulate"};

static bool is_given(const es_settings *settings, const char *name)
{
    const es_option *setting = es_setting_find(name);
    return setting && settings->given[setting - es_settings_table];
}

/** Copies a setting, as text: that serves every kind of it. */
static es_status copy_setting(es_settings *settings, const es_settings *from,
                              const char *name)
{
    char value[ES_SETTING_TEXT_MAX];
    const es_option *setting = es_setting_find(name);
    if (!setting)
        return es_fail(ES_EINTERNAL, "--%s: not in the table of settings",
                       name);
    es_option_print(value, sizeof value, from, setting);
    return es_option_set(settings, setting, value, from->init);
}

static es_status settle(es_settings *settings, const es_weights *weights)
{
    const es_model_config *model = es_weights_config(weights);
    es_settings from = *settings;
    from.model = *model;
    for (size_t i = 0; i < sizeof determined / sizeof *determined; i++) {
        const char *name = determined[i];
        bool is_unknown = strcmp(name, "ctx") == 0 && model->ctx == 0;
        bool is_open = strcmp(name, "vocab") == 0 && settings->model.vocab == 0;
        if (is_unknown || (!is_open && is_given(settings, name)))
            continue;
        es_status status = copy_setting(settings, &from, name);
        if (status != ES_OK)
            return status;
    }
    return es_weights_check(weights, &settings->model);
}

es_status es_start_settings(es_settings *settings)
{
    es_weights *weights = NULL;
    int n_head = is_given(settings, "n-head") ? settings->model.n_head : 0;
    es_status status = es_weights_open(&weights, settings->init, n_head);
    if (status == ES_OK)
        status = settle(settings, weights);
    es_weights_close(weights);
    return status;
}

es_status es_start_load(es_start *out, es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    es_weights *weights = NULL;
    *out = (es_start){.step = 0};
    es_status status =
        es_weights_open(&weights, settings->init, settings->model.n_head);
    if (status == ES_OK)
        status = es_weights_load(trainer->model, weights, out->note,
                                 sizeof out->note);
    if (status == ES_OK) {
        out->step = es_weights_step(weights);
        snprintf(out->maker, sizeof out->maker, "%s",
                 es_weights_maker(weights));
    }
    es_weights_close(weights);
    return status;
}
