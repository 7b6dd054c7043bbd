/* The JSON of settings that a run or a checkpoint keeps, read back. */
#include "hooks/trainer/settings/settings_internal.h"

#include "analyzer/base/text.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECKSUM "tokens_checksum"

/** The kept setting that JSON calls `name`, with '_' for '-'. */
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

/** A value as the text that es_setting_set takes; NULL for other types. */
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
        return es_fail(ES_EVERSION,
                       "%s: setting %s is unknown: a newer entropy-train"
                       " wrote it",
                       where, name);
    snprintf(member, sizeof member, "%s: %s", where, setting->name);
    const char *text = value_text(number, value, setting->type);
    if (!text)
        return es_fail(ES_EFORMAT, "%s: not a number or a text", member);
    if (setting->type == ES_OPTION_COPY && !*text)
        return ES_OK; /* one that was not given */
    if (es_setting_set(settings, setting, text, member) != ES_OK)
        return es_fail(ES_EFORMAT, "%s", es_message());
    return ES_OK;
}

/** 16 hexadecimal digits. */
static es_status take_checksum(uint64_t *out, const json_t *value,
                               const char *where)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return es_fail(ES_EFORMAT, "%s: no checksum of the tokens", where);
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
    json_t *object = json_loads(
        json, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    es_status status =
        json_is_object(object)
            ? take_checksum(tokens_checksum, json_object_get(object, CHECKSUM),
                            where)
            : es_fail(ES_EFORMAT, "%s: no configuration: %s", where,
                      object ? "not an object" : error.text);
    json_object_foreach(object, name, value)
    {
        if (status == ES_OK && strcmp(name, CHECKSUM) != 0)
            status = es_setting_read_member(settings, name, value, where);
    }
    json_decref(object);
    return status;
}
