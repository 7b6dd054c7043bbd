/*
 * The resolved settings as text: the JSON that a run and a checkpoint keep, and
 * the lines of a configuration file.
 */
#include "hooks/trainer/settings/settings_internal.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- JSON ---------------------------------------------------------------- */

static bool is_text(es_option_type type)
{
    return type == ES_OPTION_COPY || type == ES_OPTION_CHOICE ||
           type == ES_OPTION_CALL;
}

static void put_member(es_json_writer *json, const es_settings *settings,
                       const es_option *setting)
{
    char name[64], value[ES_SETTING_TEXT_MAX];
    es_option_print(value, sizeof value, settings, setting);
    if (!*value)
        return; /* a text that was not given */
    snprintf(name, sizeof name, "%s", setting->name);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    if (is_text(setting->type))
        es_json_write_text(json, name, value);
    else
        es_json_write_json(json, name, value);
}

static char *print_json(const es_settings *settings, uint64_t tokens_checksum,
                        const char *slurm_job)
{
    char *text = NULL;
    size_t size = 0;
    es_json_writer json = {.stream = open_memstream(&text, &size)};
    if (!json.stream)
        return NULL;
    es_json_write_object(&json, NULL);
    if (settings->verb == ES_VERB_PROBE)
        es_json_write_text(&json, "verb", "probe");
    for (size_t i = 0; i < ES_N_SETTINGS; i++)
        if (es_setting_is_kept(&es_settings_table[i], settings))
            put_member(&json, settings, &es_settings_table[i]);
    if (*slurm_job)
        es_json_write_text(&json, "slurm_job", slurm_job);
    es_json_write_format(&json, "tokens_checksum", "%016" PRIx64,
                         tokens_checksum);
    es_json_write_end(&json, "}");
    if (fclose(json.stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *es_settings_json(const es_settings *settings, uint64_t tokens_checksum)
{
    return print_json(settings, tokens_checksum, "");
}

/** A variable that holds digits and nothing else; NULL otherwise. */
static const char *number_in(const char *variable)
{
    const char *text = getenv(variable);
    bool is_number = text && *text && !text[strspn(text, "0123456789")];
    return is_number ? text : NULL;
}

char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum)
{
    char slurm_job[64] = "";
    const char *job = number_in("SLURM_JOB_ID");
    const char *array = number_in("SLURM_ARRAY_JOB_ID");
    const char *task = number_in("SLURM_ARRAY_TASK_ID");
    if (array && task)
        snprintf(slurm_job, sizeof slurm_job, "%.30s_%.30s", array, task);
    else if (job)
        snprintf(slurm_job, sizeof slurm_job, "%.30s", job);
    return print_json(settings, tokens_checksum, slurm_job);
}

/* --- a configuration file ------------------------------------------------ */

void es_settings_write(FILE *out, const es_settings *settings)
{
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        char value[ES_SETTING_TEXT_MAX];
        es_option_print(value, sizeof value, settings, setting);
        if (es_setting_is_kept(setting, settings) && *value)
            fprintf(out, "%s = %s\n", setting->name, value);
    }
}
