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
    "checkpoint", "checkpoint_every", "host",
    "keep",       "log_every",        "name",
    "out",        "output",           "output_dir",
    "program",    "record_every",     "run_name",
    "slurm_job",  "threads",
};

/* Where the data lay says nothing if its checksum is known. */
#define DATA "data"
#define CHECKSUM "tokens_checksum"

/* --- reading --------------------------------------------------------------*/

typedef struct gathering {
    es_compared *run;
    size_t capacity;
} gathering;

static es_status append(gathering *to, const es_config_member *member)
{
    es_compared *run = to->run;
    if (run->n_settings == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 64;
        es_status status = es_grow(&run->settings, capacity,
                                   sizeof *run->settings, "settings");
        if (status < 0)
            return status;
        to->capacity = capacity;
    }
    es_run_setting *setting = &run->settings[run->n_settings++];
    *setting = (es_run_setting){.kind = member->kind,
                                .number = member->number,
                                .order = run->n_settings - 1};
    es_status status = es_copy_text(&setting->key, member->key);
    return status < 0 ? status : es_copy_text(&setting->text, member->text);
}

static es_status append_field(gathering *to, const es_field *field)
{
    const es_run_summary *run = to->run->summary;
    es_config_member member = {
        .key = field->name, .kind = ES_CONFIG_TEXT, .number = NAN};
    char text[32];
    if (field->type == ES_FIELD_TEXT) {
        member.text = es_field_text(field, run);
    } else if (es_field_integer(field, run) != ES_UNKNOWN) {
        member.kind = ES_CONFIG_NUMBER;
        member.number = es_field_number(field, run);
        member.text = text;
        snprintf(text, sizeof text, "%" PRId64, es_field_integer(field, run));
    }
    return member.text ? append(to, &member) : ES_OK;
}

/* What the run says of itself wins over its configuration. */
static es_status append_member(void *user, const es_config_member *member)
{
    gathering *to = user;
    if (to->run->n_settings >= ES_SETTINGS_MOST) {
        to->run->settings_cut = true;
        return ES_OK;
    }
    return append(to, member);
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

/* Of the settings of one key, in the order they came: the run's own column, or
   else the last member, as JSON is mostly read. */
static void drop_doubles(es_compared *run, size_t n_columns)
{
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
}

es_status es_run_settings_read(es_compared *run, es_reader *reader,
                               size_t index)
{
    gathering to = {.run = run};
    es_status status;
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_SETTINGS));)
        if ((status = append_field(&to, field)) < 0)
            return status;
    size_t n_columns = run->n_settings;
    if ((status = es_reader_config_each(reader, index, append_member, &to)) < 0)
        return status;
    qsort(run->settings, run->n_settings, sizeof *run->settings, by_key);
    drop_doubles(run, n_columns);
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

const es_run_setting *es_run_settings_find(const es_compared *run,
                                           const char *key)
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

static bool all_have(const es_comparison *comparison, const char *key)
{
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (!es_run_settings_find(&comparison->runs[i], key))
            return false;
    return true;
}

static bool is_incidental(const es_comparison *comparison, const char *key)
{
    for (size_t i = 0; i < sizeof incidental_keys / sizeof *incidental_keys;
         i++)
        if (strcmp(key, incidental_keys[i]) == 0)
            return true;
    return strcmp(key, DATA) == 0 && all_have(comparison, CHECKSUM);
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
    const es_run_setting *first =
        es_run_settings_find(&comparison->runs[0], key->key);
    bool found = false;
    key->number = true;
    for (size_t i = 0; i < comparison->n_runs; i++) {
        const es_run_setting *value =
            es_run_settings_find(&comparison->runs[i], key->key);
        found = found || !es_run_settings_same(value, first);
        key->number =
            key->number && (!value || value->kind == ES_CONFIG_NUMBER);
    }
    return found;
}

static es_status list_values(es_comparison *comparison)
{
    const size_t n = comparison->n_differences;
    es_status status = es_alloc(&comparison->values, comparison->n_runs,
                                n * sizeof *comparison->values, "settings");
    if (status < 0)
        return status;
    for (size_t i = 0; i < comparison->n_runs; i++)
        for (size_t j = 0; j < n; j++)
            comparison->values[i * n + j] = es_run_settings_find(
                &comparison->runs[i], comparison->differences[j].key);
    return ES_OK;
}

es_status es_comparison_find_differences(es_comparison *comparison)
{
    size_t n, n_keys = 0;
    es_difference *list = NULL;
    es_status status = list_keys(&list, &n_keys, comparison);
    if (status < 0)
        return status;
    n = 0;
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
    comparison->differences = list;
    comparison->n_differences = n;
    return list_values(comparison);
}
