/** Settings of a run, found by key. A setting is a field of the run or a member
 *  of its configuration. The functions of cli/runs/settings.h read the
 *  settings. */
#ifndef ES_RUN_SETTING_H
#define ES_RUN_SETTING_H

#include "store/reader.h"

/** Maximum number of settings that are kept for a run; if there are more,
 *  es_run_settings.cut is true. */
#define ES_SETTINGS_MOST 4096

/** One setting of a run; owns its strings. */
typedef struct es_run_setting {
    char *key, *text; /* key and value, formatted like those of an
                         es_config_member */
    es_config_kind kind;
    double number;
    size_t order; /* position among the settings of the run */
} es_run_setting;

/** The settings of a run. A zero-initialised list is empty. */
typedef struct es_run_settings {
    es_run_setting *list; /* n settings, sorted by key */
    size_t n;
    bool cut; /* true if there were more than ES_SETTINGS_MOST members */
} es_run_settings;

void es_run_setting_clear(es_run_setting *setting);
void es_run_settings_free(es_run_settings *settings);

/** Returns the setting with the given key, borrowed; NULL if the run has no
 *  setting with this key. */
const es_run_setting *es_run_settings_find(const es_run_settings *settings,
                                           const char *key);

/** Returns the first setting after `after` (or the first of all if `after` is
 *  NULL) that is nested and named `name`, such as "optimizer.lr" for "lr". The
 *  result is borrowed; NULL if no further setting matches. */
const es_run_setting *es_run_settings_inner(const es_run_settings *settings,
                                            const char *name,
                                            const es_run_setting *after);

/** Compares two settings with the same key, for sorting; either may be NULL.
 *  Returns 0 if they are equal. */
int es_run_settings_order(const es_run_setting *a, const es_run_setting *b);

/** Returns true if the settings are equal; either may be NULL. Numbers are
 *  compared by value: 1e-2 equals 0.01. */
bool es_run_settings_same(const es_run_setting *a, const es_run_setting *b);

#endif
