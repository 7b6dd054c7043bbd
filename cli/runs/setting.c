/* Finds the settings of a run by key, compares settings, and frees them. */
#include "cli/runs/setting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void es_run_setting_clear(es_run_setting *setting)
{
    free(setting->key);
    free(setting->text);
}

void es_run_settings_free(es_run_settings *settings)
{
    for (size_t i = 0; i < settings->n; i++)
        es_run_setting_clear(&settings->list[i]);
    free(settings->list);
}

static int key_of(const void *key, const void *setting)
{
    return strcmp(key, ((const es_run_setting *)setting)->key);
}

const es_run_setting *es_run_settings_find(const es_run_settings *settings,
                                           const char *key)
{
    return settings->n ? bsearch(key, settings->list, settings->n,
                                 sizeof *settings->list, key_of)
                       : NULL;
}

/* Returns true if `key` is a nested key whose last part is `name`, as in
   "a.b.NAME". */
static bool ends_in(const char *key, const char *name)
{
    const size_t n_key = strlen(key), n = strlen(name);
    return n_key > n && key[n_key - n - 1] == '.' &&
           strcmp(key + n_key - n, name) == 0;
}

const es_run_setting *es_run_settings_inner(const es_run_settings *settings,
                                            const char *name,
                                            const es_run_setting *after)
{
    for (size_t i = after ? (size_t)(after - settings->list) + 1 : 0;
         i < settings->n; i++)
        if (ends_in(settings->list[i].key, name))
            return &settings->list[i];
    return NULL;
}

/* Returns true if the setting is a number that a double represents exactly. */
static bool is_exact(const es_run_setting *setting)
{
    static const double exact = 9007199254740992.0; /* 2^53 */
    return setting->kind == ES_CONFIG_NUMBER && fabs(setting->number) < exact;
}

int es_run_settings_order(const es_run_setting *a, const es_run_setting *b)
{
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    if (a->kind != b->kind)
        return (a->kind > b->kind) - (a->kind < b->kind);
    if (is_exact(a) != is_exact(b))
        return is_exact(b) - is_exact(a);
    if (is_exact(a))
        return (a->number > b->number) - (a->number < b->number);
    return strcmp(a->text, b->text);
}

bool es_run_settings_same(const es_run_setting *a, const es_run_setting *b)
{
    return es_run_settings_order(a, b) == 0;
}
