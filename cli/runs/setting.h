/** Settings of a run, by key: members of its configuration and its own fields.
 * cli/runs/settings.h reads them. */
#ifndef ES_RUN_SETTING_H
#define ES_RUN_SETTING_H

#include "store/reader.h"

/** Members of one configuration that are kept; `cut` says if there were more.
 */
#define ES_SETTINGS_MOST 4096

/** One setting of a run; owns its strings. */
typedef struct es_run_setting {
    char *key, *text; /* as of es_config_member */
    es_config_kind kind;
    double number;
    size_t order; /* where it came in the run */
} es_run_setting;

/** Those of a run. Zero: none. */
typedef struct es_run_settings {
    es_run_setting *list; /* (n) by key */
    size_t n;
    bool cut; /* at ES_SETTINGS_MOST */
} es_run_settings;

void es_run_setting_clear(es_run_setting *setting);
void es_run_settings_free(es_run_settings *settings);

/** Borrowed; NULL: the run has none of that key. */
const es_run_setting *es_run_settings_find(const es_run_settings *settings,
                                           const char *key);

/** The first setting, or the one after `after`, that is inside another one and
 *  called `name` there: "optimizer.lr" of "lr". Borrowed; NULL: none. */
const es_run_setting *es_run_settings_inner(const es_run_settings *settings,
                                            const char *name,
                                            const es_run_setting *after);

/** An order of settings of one key, either of which may be NULL: 0 for those
 *  that are the same. */
int es_run_settings_order(const es_run_setting *a, const es_run_setting *b);

/** Either may be NULL. Numbers are compared as such: 1e-2 is 0.01. */
bool es_run_settings_same(const es_run_setting *a, const es_run_setting *b);

#endif
