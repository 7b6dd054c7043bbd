/* Settings of runs: the run's own fields and the members of its configuration;
   and those in which the runs of a comparison differ. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Where and how a run was made, not what was done. */
static const char *const incidental_keys[] = {
    "checkpoint",   "checkpoint_every", "host",      "keep",
    "kernels",      "log_every",        "name",      "out",
    "output",       "output_dir",       "products",  "program",
    "record_every", "run_name",         "slurm_job", "threads",
};

/* Where the data lay says nothing if its checksum is known. */
#define DATA "data"
#define CHECKSUM "tokens_checksum"

/* --- reading --------------------------------------------------------------*/

#define COLUMNS_MOST 12 /* of the tables */

static es_status append(es_compared *run, const es_config_member *member)
{
    /* Doubled at powers of two: the capacity needs no member of its own. */
    const size_t n = run->n_settings;
    es_status status = ES_OK;
    if ((n & (n - 1)) == 0)
        status = es_grow(&run->settings, n ? 2 * n : 1, sizeof *run->settings,
                         "settings");
    if (status < 0)
        return status;
    es_run_setting *setting = &run->settings[run->n_settings++];
    *setting = (es_run_setting){
        .kind = member->kind, .number = member->number, .order = n};
    status = es_copy_text(&setting->key, member->key);
    return status < 0 ? status : es_copy_text(&setting->text, member->text);
}

static es_status append_field(es_compared *run, const es_field *field)
{
    es_config_member member = {
        .key = field->name, .kind = ES_CONFIG_TEXT, .number = NAN};
    char text[32];
    if (field->type == ES_FIELD_TEXT) {
        member.text = es_field_text(field, run->summary);
    } else if (es_field_integer(field, run->summary) != ES_UNKNOWN) {
        member.kind = ES_CONFIG_NUMBER;
        member.number = es_field_number(field, run->summary);
        member.text = text;
        snprintf(text, sizeof text, "%" PRId64,
                 es_field_integer(field, run->summary));
    }
    return member.text ? append(run, &member) : ES_OK;
}

/* What the run says of itself wins over its configuration. */
static es_status append_member(void *user, const es_config_member *member)
{
    es_compared *run = user;
    run->settings_cut =
        run->settings_cut || run->n_settings >= ES_SETTINGS_MOST;
    return run->settings_cut ? ES_OK : append(run, member);
}

static int by_key(const void *a, const void *b)
{
    const es_run_setting *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static void free_setting(es_run_setting *setting)
{
    free(setting->key);
    free(setting->text);
}

es_status es_run_settings_read(es_compared *run, es_reader *reader,
                               size_t index)
{
    es_status status;
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_SETTINGS));)
        if ((status = append_field(run, field)) < 0)
            return status;
    size_t n_columns = run->n_settings;
    if ((status = es_reader_config_each(reader, index, append_member, run)) < 0)
        return status;
    qsort(run->settings, run->n_settings, sizeof *run->settings, by_key);
    /* Of the settings of one key, in the order they came: the run's own column,
     * or else the last member, as JSON is mostly read. */
    size_t kept = 0;
    for (size_t i = 0; i < run->n_settings; i++) {
        es_run_setting *next = &run->settings[i];
        es_run_setting *last = kept ? &run->settings[kept - 1] : NULL;
        if (!last || strcmp(last->key, next->key) != 0) {
            run->settings[kept++] = *next;
        } else if (last->order < n_columns) {
            free_setting(next);
        } else {
            next->order = last->order;
            free_setting(last);
            *last = *next;
        }
    }
    run->n_settings = kept;
    return ES_OK;
}

void es_run_settings_free(es_compared *run)
{
    for (size_t i = 0; i < run->n_settings; i++)
        free_setting(&run->settings[i]);
    free(run->settings);
}

static int key_of(const void *key, const void *setting)
{
    return strcmp(key, ((const es_run_setting *)setting)->key);
}

/* NULL: the run has none of that key. */
static const es_run_setting *find(const es_compared *run, const char *key)
{
    return bsearch(key, run->settings, run->n_settings, sizeof *run->settings,
                   key_of);
}

bool es_run_settings_same(const es_run_setting *a, const es_run_setting *b)
{
    static const double exact = 9007199254740992.0; /* 2^53 */
    if (!a || !b || a->kind != b->kind)
        return a == b;
    if (a->kind == ES_CONFIG_NUMBER && fabs(a->number) < exact)
        return a->number == b->number;
    return strcmp(a->text, b->text) == 0;
}

/* --- differences ----------------------------------------------------------*/

static bool is_incidental(const es_comparison *comparison, const char *key)
{
    for (size_t i = 0; i < sizeof incidental_keys / sizeof *incidental_keys;
         i++)
        if (strcmp(key, incidental_keys[i]) == 0)
            return true;
    if (strcmp(key, DATA) != 0)
        return false;
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (!find(&comparison->runs[i], CHECKSUM))
            return false;
    return true;
}

static int by_key_and_order(const void *a, const void *b)
{
    const es_difference *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static int by_order(const void *a, const void *b)
{
    const es_difference *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* All keys of all runs, each once, where it first came. */
static es_status list_keys(es_difference **out, size_t *n,
                           const es_comparison *comparison)
{
    size_t most = 0, n_listed = 0;
    es_difference *list;
    for (size_t i = 0; i < comparison->n_runs; i++)
        most += comparison->runs[i].n_settings;
    es_status status = es_alloc(&list, most, sizeof *list, "settings");
    if (status < 0)
        return status;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_compared *run = &comparison->runs[i];
        for (size_t j = 0; j < run->n_settings; j++)
            list[n_listed++] = (es_difference){
                .key = run->settings[j].key,
                .order = i * (ES_SETTINGS_MOST + 1) + run->settings[j].order};
    }
    if (most > 0)
        qsort(list, most, sizeof *list, by_key_and_order);
    *n = 0;
    for (size_t i = 0; i < most; i++)
        if (*n == 0 || strcmp(list[i].key, list[*n - 1].key) != 0)
            list[(*n)++] = list[i];
    *out = list;
    return ES_OK;
}

/* True if not all runs have the same; says what kind of values they are. */
static bool differs(es_difference *key, const es_comparison *comparison)
{
    const es_run_setting *first = find(&comparison->runs[0], key->key);
    bool found = false;
    key->number = true;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_run_setting *value = find(&comparison->runs[i], key->key);
        found = found || !es_run_settings_same(value, first);
        key->number =
            key->number && (!value || value->kind == ES_CONFIG_NUMBER);
    }
    return found;
}

es_status es_comparison_find_differences(es_comparison *comparison)
{
    size_t n = 0, n_keys = 0, n_columns = 0;
    es_difference *list = NULL;
    es_status status = list_keys(&list, &n_keys, comparison);
    if (status < 0)
        return status;
    for (size_t i = 0; i < n_keys; i++)
        if (differs(&list[i], comparison))
            list[n++] = list[i];
    for (size_t i = 0; i < n; i++) {
        list[i].incidental = is_incidental(comparison, list[i].key);
        list[i].seed = strcmp(list[i].key, "seed") == 0;
        if (list[i].seed) /* distinguishes last */
            list[i].order = SIZE_MAX;
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_order);
    for (size_t i = 0; i < n; i++)
        list[i].column = !list[i].incidental && n_columns++ < COLUMNS_MOST;
    comparison->differences = list;
    comparison->n_differences = n;
    if ((status = es_alloc(&comparison->values, comparison->n_runs,
                           n * sizeof *comparison->values, "settings")) < 0)
        return status;
    for (size_t i = 0; i < comparison->n_runs; i++)
        for (size_t k = 0; k < n; k++)
            comparison->values[i * n + k] =
                find(&comparison->runs[i], list[k].key);
    return ES_OK;
}
