/** Rows of the table behind settings.h, for those who go through them. */
#ifndef ES_SETTINGS_INTERNAL_H
#define ES_SETTINGS_INTERNAL_H

#include "hooks/trainer/settings/settings.h"

#define ES_SETTING_TEXT_MAX (ES_PATH_SIZE + 1)

/** The row of that name; NULL if there is none. */
const es_option *es_setting_find(const char *name);

/** Part of the configuration that every run keeps, or a run of this verb. */
bool es_setting_is_kept(const es_option *setting, const es_settings *settings);

/** Part of what the model is. */
bool es_setting_is_of_model(const es_option *setting);

/** es_option_set, noted in settings->given. */
es_status es_setting_set(es_settings *settings, const es_option *setting,
                         const char *value, const char *where) ES_MUST_USE;

/**
 * Sets the kept setting that JSON calls `name`, with '_' for '-'.
 *
 *   value  read with JSON_DECODE_INT_AS_REAL; NULL: it is missing
 *   where  what a message begins with: the file's path
 *
 * ES_OK; ES_EFORMAT; ES_EVERSION: there is no such setting.
 */
struct json_t;
es_status es_setting_read_member(es_settings *settings, const char *name,
                                 const struct json_t *value,
                                 const char *where) ES_MUST_USE;

#endif
