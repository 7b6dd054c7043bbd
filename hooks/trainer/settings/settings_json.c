/* Writes and reads the resolved settings, both as the JSON that is stored in a
 * run file or checkpoint and as lines of a configuration file. */
#include "hooks/trainer/settings/settings.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECKSUM "tokens_checksum"

/** Returns the setting whose name, with '_' instead of '-', is `name`. Returns
 *  NULL if there is no such setting or it is not stored. */
static const es_option *find_kept(const char *name)
{
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        const char *a = setting->name, *b = name;
        while (a && *a && (*a == *b || (*a == '-' && *b == '_')))
            a++, b++;
        if (setting->tags & ES_SETTING_KEPT && !*a && !*b)
            return setting;
    }
    return NULL;
}

/** Returns a value as text for es_setting_set, or NULL if its type is wrong. */
static const char *value_text(char number[ES_FLOAT_TEXT_MAX],
                              const json_t *value, es_option_type type)
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (!json_is_real(value))
        return NULL;
    double real = json_real_value(value);
    if (type == ES_OPTION_REAL || real != floor(real))
        return es_double_print(number, real);
    snprintf(number, ES_FLOAT_TEXT_MAX, "%.0f", real);
    return number;
}

es_status es_setting_read_member(es_settings *settings, const char *name,
                                 const json_t *value, const char *where)
{
    char number[ES_FLOAT_TEXT_MAX], member[256];
    const es_option *setting = find_kept(name);
    if (!setting)
        return es_fail(
            ES_EVERSION,
            "%s: unknown setting %s: it was written by a newer entropy-train",
            where, name);
    snprintf(member, sizeof member, "%s: %s", where, setting->name);
    const char *text = value_text(number, value, setting->type);
    if (!text)
        return es_fail(ES_EFORMAT, "%s: neither a number nor a string", member);
    if (setting->type == ES_OPTION_COPY && !*text)
        return ES_OK; /* "" means that the option was not given */
    if (es_setting_set(settings, setting, text, member) != ES_OK)
        return es_fail(ES_EFORMAT, "%s", es_message());
    return ES_OK;
}

/** Reads the checksum from 16 hexadecimal digits. */
static es_status take_checksum(uint64_t *out, const json_t *value,
                               const char *where)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return es_fail(ES_EFORMAT, "%s: the checksum of the tokens is missing",
                       where);
    *out = strtoull(text, NULL, 16);
    return ES_OK;
}

es_status es_settings_read_json(es_settings *settings,
                                uint64_t *tokens_checksum, const char *json,
                                const char *where)
{
    const char *name;
    json_t *value;
    json_error_t error = {0};
    settings->products = ES_PRODUCTS_OPENBLAS; /* older files, which lack this
                                                  option, come from versions
                                                  with OpenBLAS only */
    json_t *object = json_loads(
        json, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    es_status status =
        json_is_object(object)
            ? take_checksum(tokens_checksum, json_object_get(object, CHECKSUM),
                            where)
            : es_fail(ES_EFORMAT, "%s: not a configuration: %s", where,
                      object ? "not an object" : error.text);
    json_object_foreach(object, name, value)
    {
        if (status == ES_OK && strcmp(name, CHECKSUM) != 0)
            status = es_setting_read_member(settings, name, value, where);
    }
    json_decref(object);
    return status;
}

/* --- writing ------------------------------------------------------------- */

static void put_member(es_json_writer *json, const es_settings *settings,
                       const es_option *setting)
{
    char name[64], value[ES_SETTING_TEXT_MAX];
    es_option_print(value, sizeof value, settings, setting);
    if (!*value)
        return; /* "" means that the option was not given */
    snprintf(name, sizeof name, "%s", setting->name);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    if (setting->type == ES_OPTION_COPY || setting->type == ES_OPTION_CHOICE ||
        setting->type == ES_OPTION_CALL)
        es_json_write_text(json, name, value);
    else
        es_json_write_json(json, name, value);
}

/** Returns true if the setting is to be written. A run stores the names of the
 *  libraries in use instead of the option that chose them; a checkpoint stores
 *  the option. */
static bool is_written(const es_option *setting, const es_settings *settings,
                       bool is_run)
{
    return es_setting_is_kept(setting, settings) &&
           !(is_run && setting == es_setting_find("products"));
}

static char *print_json(const es_settings *settings, uint64_t tokens_checksum,
                        const char *slurm_job, const es_cpu_engine *engine)
{
    char *text = NULL;
    size_t size = 0;
    es_json_writer json = {.stream = es_text_stream(&text, &size)};
    if (!json.stream)
        return NULL;
    es_json_write_object(&json, NULL);
    if (settings->verb == ES_VERB_PROBE)
        es_json_write_text(&json, "verb", "probe");
    for (size_t i = 0; i < ES_N_SETTINGS; i++)
        if (is_written(&es_settings_table[i], settings, slurm_job != NULL))
            put_member(&json, settings, &es_settings_table[i]);
    /* The ceiling is computed from the data, so a checkpoint does not store it
     * as a setting. */
    if (slurm_job && settings->ceiling > 0)
        es_json_write_number(&json, "ceiling", settings->ceiling);
    if (slurm_job && *slurm_job)
        es_json_write_text(&json, "slurm_job", slurm_job);
    if (engine) {
        es_json_write_text(&json, "products", engine->products);
        es_json_write_text(&json, "kernels", engine->kernels);
    }
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
    return print_json(settings, tokens_checksum, NULL, NULL);
}

/** Returns the value of an environment variable if it consists of digits only,
 *  else NULL. */
static const char *number_in(const char *variable)
{
    const char *text = getenv(variable);
    bool is_number = text && *text && !text[strspn(text, "0123456789")];
    return is_number ? text : NULL;
}

char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum,
                              const es_cpu_engine *engine)
{
    char slurm_job[64] = "";
    const char *job = number_in("SLURM_JOB_ID");
    const char *array = number_in("SLURM_ARRAY_JOB_ID");
    const char *task = number_in("SLURM_ARRAY_TASK_ID");
    if (array && task)
        snprintf(slurm_job, sizeof slurm_job, "%.30s_%.30s", array, task);
    else if (job)
        snprintf(slurm_job, sizeof slurm_job, "%.30s", job);
    return print_json(settings, tokens_checksum, slurm_job, engine);
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
