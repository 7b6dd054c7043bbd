/*
 * A training that goes on with a checkpoint: its settings under those of the
 * command line, and what has changed, in words.
 */
#include "hooks/trainer/resume.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/settings/settings_internal.h"
#include <inttypes.h>
#include <string.h>

/** A setting's value in two sets of settings, as texts. */
typedef struct both {
    char then[ES_SETTING_TEXT_MAX], now[ES_SETTING_TEXT_MAX];
} both;

/** True if they differ. */
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
            print_both(&values, setting, es_checkpoint_settings(checkpoint),
                       settings))
            return es_fail(ES_EUSAGE, "--%s is %s, the checkpoint %s has %s",
                           setting->name, values.now,
                           es_checkpoint_path(checkpoint), values.then);
    }
    return ES_OK;
}

/** The folder that a file lies in. */
static void folder_of(char out[ES_PATH_SIZE], const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(out, ES_PATH_SIZE, ".");
    else
        snprintf(out, ES_PATH_SIZE, "%.*s",
                 (int)(slash > path ? slash - path : 1), path);
}

es_status es_resume_settings(es_settings *settings,
                             const es_checkpoint *checkpoint, int argc,
                             char **argv)
{
    *settings = *es_checkpoint_settings(checkpoint);
    es_status status = es_settings_parse(settings, argc, argv);
    if (status == ES_OK)
        status = check_model(settings, checkpoint);
    if (status == ES_OK && !settings->checkpoint[0])
        folder_of(settings->checkpoint, es_checkpoint_path(checkpoint));
    return status;
}

char *es_resume_describe(char *out, size_t size,
                         const es_checkpoint *checkpoint,
                         const es_settings *settings)
{
    both values;
    es_text text = es_text_begin(out, size);
    es_text_append(&text, "resumed at step %" PRId64 " from %.512s",
                   es_checkpoint_state_of(checkpoint)->step,
                   es_checkpoint_path(checkpoint));
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        if (setting->tags & ES_SETTING_KEPT &&
            print_both(&values, setting, es_checkpoint_settings(checkpoint),
                       settings))
            es_text_append(&text, "; --%s was %.80s, is %.80s", setting->name,
                           values.then, values.now);
    }
    return out;
}
