/* Reads the settings of runs: their fields and the members of their
   configuration. Finds the settings in which runs differ, and groups runs by
   configuration. */
#include "cli/runs/settings.h"

#include "analyzer/arch/arch.h"
#include "analyzer/base/checked.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Settings that describe where or how a run was executed, not the training
   itself. */
static const char *const incidental_keys[] = {
    "checkpoint",   "checkpoint_every", "host",      "keep",
    "kernels",      "log_every",        "name",      "out",
    "output",       "output_dir",       "products",  "program",
    "record_every", "run_name",         "slurm_job", "threads",
};

/* The setting "data" is a path. It is ignored, like incidental_keys, if all
   runs also have the checksum of their tokens. */
#define DATA "data"
#define CHECKSUM "tokens_checksum"

/* --- reading --------------------------------------------------------------*/

#define COLUMNS_MOST 12 /* maximum number of settings in table columns */

static es_status append_setting(es_run_settings *to,
                                const es_config_member *member)
{
    /* The array grows whenever the number of elements is a power of two, so its
       capacity need not be stored. */
    const size_t n = to->n;
    es_status status = ES_OK;
    if ((n & (n - 1)) == 0)
        status =
            es_grow(&to->list, n ? 2 * n : 1, sizeof *to->list, "settings");
    if (status < 0)
        return status;
    es_run_setting *setting = &to->list[to->n++];
    *setting = (es_run_setting){
        .kind = member->kind, .number = member->number, .order = n};
    status = es_copy_text(&setting->key, member->key);
    return status < 0 ? status : es_copy_text(&setting->text, member->text);
}

static es_status append_field(es_run_summary *run, const es_field *field)
{
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
    return member.text ? append_setting(&run->settings, &member) : ES_OK;
}

/* Appends a member of the configuration. A field of the run with the same key
   takes precedence. */
static es_status append_member(void *user, const es_config_member *member)
{
    es_run_settings *to = user;
    to->cut = to->cut || to->n >= ES_SETTINGS_MOST;
    return to->cut ? ES_OK : append_setting(to, member);
}

static int by_key(const void *a, const void *b)
{
    const es_run_setting *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

es_status es_run_settings_read(es_run_summary *run, es_reader *reader,
                               size_t index)
{
    es_run_settings *to = &run->settings;
    es_status status;
    if (to->n)
        return ES_OK;
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_SETTINGS));)
        if ((status = append_field(run, field)) < 0)
            return status;
    size_t n_columns = to->n;
    if ((status = es_reader_config_each(reader, index, append_member, to)) < 0)
        return status;
    qsort(to->list, to->n, sizeof *to->list, by_key);
    /* Keep one setting per key. Settings with equal keys are in their original
       order. If a field of the run has the key, the field is kept; otherwise,
       the last member is kept, as in most JSON parsers. */
    size_t kept = 0;
    for (size_t i = 0; i < to->n; i++) {
        es_run_setting *next = &to->list[i];
        es_run_setting *last = kept ? &to->list[kept - 1] : NULL;
        if (!last || strcmp(last->key, next->key) != 0) {
            to->list[kept++] = *next;
        } else if (last->order < n_columns) {
            es_run_setting_clear(next);
        } else {
            next->order = last->order;
            es_run_setting_clear(last);
            *last = *next;
        }
    }
    to->n = kept;
    return ES_OK;
}

/* --- differences ----------------------------------------------------------*/

static const es_run_setting *find_setting(const es_run_summary *run,
                                          const char *key)
{
    return es_run_settings_find(&run->settings, key);
}

static bool is_incidental(const char *key, const es_run_summary *const *runs,
                          size_t n_runs)
{
    for (size_t i = 0; i < sizeof incidental_keys / sizeof *incidental_keys;
         i++)
        if (strcmp(key, incidental_keys[i]) == 0)
            return true;
    if (strcmp(key, DATA) != 0)
        return false;
    for (size_t i = 0; i < n_runs; i++)
        if (!find_setting(runs[i], CHECKSUM))
            return false;
    return true;
}

static int by_order(const void *a, const void *b)
{
    const es_difference *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_key_and_order(const void *a, const void *b)
{
    const es_difference *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : by_order(a, b);
}

/* Lists the distinct keys of all runs, in the order of their first
   occurrence. */
static es_status list_keys(es_difference **out, size_t *n,
                           const es_run_summary *const *runs, size_t n_runs)
{
    size_t most = 0, n_listed = 0;
    es_difference *list;
    for (size_t i = 0; i < n_runs; i++)
        most += runs[i]->settings.n;
    es_status status = es_alloc(&list, most, sizeof *list, "settings");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n_runs; i++) {
        const es_run_settings *settings = &runs[i]->settings;
        for (size_t j = 0; j < settings->n; j++)
            list[n_listed++] = (es_difference){
                .key = settings->list[j].key,
                .order = i * (ES_SETTINGS_MOST + 1) + settings->list[j].order};
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

/* Returns true if the runs differ in the setting `key`. Also sets key->number
   to true if all values are numbers. */
static bool differs(es_difference *key, const es_run_summary *const *runs,
                    size_t n_runs)
{
    const es_run_setting *first = find_setting(runs[0], key->key);
    bool found = false;
    key->number = true;
    for (size_t i = 0; i < n_runs; i++) {
        const es_run_setting *value = find_setting(runs[i], key->key);
        found = found || !es_run_settings_same(value, first);
        key->number =
            key->number && (!value || value->kind == ES_CONFIG_NUMBER);
    }
    return found;
}

es_status es_run_differences(es_difference **out, size_t *n_found,
                             const es_run_setting ***values,
                             const es_run_summary *const *runs, size_t n_runs)
{
    size_t n = 0, n_keys = 0, n_columns = 0;
    es_difference *list = NULL;
    *values = NULL;
    es_status status = list_keys(&list, &n_keys, runs, n_runs);
    if (status < 0)
        return status;
    for (size_t i = 0; i < n_keys; i++)
        if (differs(&list[i], runs, n_runs))
            list[n++] = list[i];
    for (size_t i = 0; i < n; i++) {
        list[i].incidental = is_incidental(list[i].key, runs, n_runs);
        list[i].seed = strcmp(list[i].key, "seed") == 0;
        if (list[i].seed) /* the seed is listed last */
            list[i].order = SIZE_MAX;
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_order);
    for (size_t i = 0; i < n; i++)
        list[i].column = !list[i].incidental && n_columns++ < COLUMNS_MOST;
    if ((status = es_alloc(values, n_runs, n * sizeof **values, "settings")) <
        0) {
        free(list);
        return status;
    }
    for (size_t i = 0; i < n_runs; i++)
        for (size_t k = 0; k < n; k++)
            (*values)[i * n + k] = find_setting(runs[i], list[k].key);
    *out = list;
    *n_found = n;
    return ES_OK;
}

/* --- parts ----------------------------------------------------------------*/

int es_run_has_part(const es_run_summary *run, const char *key)
{
    static const char *const ereg[] = {"gamma", "lambda", "ereg_reduce",
                                       "theta_init"};
    const bool temperature = strcmp(key, "t_init") == 0;
    bool known = temperature;
    es_arch arch;
    for (size_t i = 0; i < sizeof ereg / sizeof *ereg && !known; i++)
        known = strcmp(key, ereg[i]) == 0;
    if (!known || !run->arch || es_arch_parse(&arch, run->arch) < 0)
        return -1;
    return temperature ? arch.temperature : arch.entropy_reg;
}

/* --- configurations -------------------------------------------------------*/

/* The values of all compared settings of one run. */
typedef struct row {
    const es_run_setting *const *values; /* (n) */
    const es_difference *differences;    /* (n) */
    size_t n, run;
} row;

static int by_configuration(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int order = 0;
    for (size_t i = 0; i < x->n && order == 0; i++)
        if (!x->differences[i].seed && !x->differences[i].incidental)
            order = es_run_settings_order(x->values[i], y->values[i]);
    return order;
}

static int by_configuration_and_run(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int order = by_configuration(a, b);
    return order ? order : (x->run > y->run) - (x->run < y->run);
}

es_status es_run_configurations(size_t *group, size_t *n_groups,
                                const es_run_setting *const *values,
                                const es_difference *differences,
                                size_t n_differences, size_t n_runs)
{
    row *rows;
    es_status status = es_alloc(&rows, n_runs, sizeof *rows, "settings");
    *n_groups = 0;
    if (status < 0)
        return status;
    for (size_t i = 0; i < n_runs; i++)
        rows[i] =
            (row){values + i * n_differences, differences, n_differences, i};
    if (n_runs > 0)
        qsort(rows, n_runs, sizeof *rows, by_configuration_and_run);
    size_t first = 0; /* index of the first row of the current configuration */
    for (size_t i = 0; i < n_runs; i++) {
        if (i > 0 && by_configuration(&rows[i - 1], &rows[i]) != 0)
            first = i;
        group[rows[i].run] = rows[first].run;
    }
    for (size_t i = 0; i < n_runs; i++)
        group[i] = group[i] == i ? (*n_groups)++ : group[group[i]];
    free(rows);
    return ES_OK;
}
