/* Creates the labels of runs. Chooses few settings that distinguish the runs:
   repeatedly adds the setting that separates the most runs until no setting
   separates more, then drops the settings that became redundant. Labels that
   are still equal are extended by the run's name, file name and number. */
#include "cli/runs/labels.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/display.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "render/figures/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- choosing settings ----------------------------------------------------*/

/* Value of a setting in one run. */
typedef struct holding {
    const es_run_setting *value;
    size_t run;
} holding;

typedef struct maker {
    const es_run_summary *const *runs; /* (n) */
    size_t n;
    es_difference *differences; /* (n_keys) */
    size_t n_keys;
    const es_run_setting **values; /* (n,n_keys) */
    bool *unused;                  /* (n,n_keys) true if the setting belongs to
                                      a part, such as EReg, that the run
                                      lacks */
    uint32_t *classes;             /* (n_keys,n) index that identifies each
                                      run's value; equal values have equal
                                      indices */
    bool *chosen;                  /* (n_keys) */
    holding *holdings;             /* (n) */
    uint64_t *joint;               /* (n) index that identifies each run's
                                      combination of values of the chosen
                                      settings */
    uint64_t *space, *sorted;      /* (n) each */
} maker;

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Replaces each of n numbers by its rank among the distinct numbers. Returns
   the number of distinct numbers. */
static size_t rank_numbers(uint64_t *numbers, uint64_t *sorted, size_t n)
{
    size_t n_distinct = 0;
    memcpy(sorted, numbers, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sorted[i] != sorted[n_distinct - 1])
            sorted[n_distinct++] = sorted[i];
    for (size_t i = 0; i < n; i++) {
        const uint64_t *at =
            bsearch(&numbers[i], sorted, n_distinct, sizeof *sorted, by_number);
        numbers[i] = (uint64_t)(at - sorted);
    }
    return n_distinct;
}

static int by_value(const void *a, const void *b)
{
    return es_run_settings_order(((const holding *)a)->value,
                                 ((const holding *)b)->value);
}

/* Assigns a number to each run's value of setting k; equal values get equal
   numbers. */
static void classify_values(maker *m, size_t k)
{
    uint32_t *classes = m->classes + k * m->n, class = 0;
    for (size_t i = 0; i < m->n; i++)
        m->holdings[i] = (holding){m->values[i * m->n_keys + k], i};
    qsort(m->holdings, m->n, sizeof *m->holdings, by_value);
    for (size_t i = 0; i < m->n; i++) {
        class += i > 0 && by_value(&m->holdings[i - 1], &m->holdings[i]) != 0;
        classes[m->holdings[i].run] = class;
    }
}

/* Assigns a number to each distinct pair of a run's number in `base` (n) and
 * its value of setting k. Writes the number of each run's pair to m->space.
 * Returns how many distinct pairs there are. */
static size_t combine_setting(const maker *m, const uint64_t *base, size_t k)
{
    for (size_t i = 0; i < m->n; i++)
        m->space[i] = base[i] << 32 | m->classes[k * m->n + i];
    return rank_numbers(m->space, m->sorted, m->n);
}

/* Assigns a number to each distinct combination of the values of all chosen
 * settings, and writes the number of each run's combination to m->joint.
 * Returns how many distinct combinations there are. */
static size_t join_chosen(maker *m)
{
    size_t n_distinct = 1;
    memset(m->joint, 0, m->n * sizeof *m->joint);
    for (size_t k = 0; k < m->n_keys; k++) {
        if (!m->chosen[k])
            continue;
        n_distinct = combine_setting(m, m->joint, k);
        memcpy(m->joint, m->space, m->n * sizeof *m->joint);
    }
    return n_distinct;
}

/* Chooses settings until no further setting separates more runs. If `seed` is
   true, considers only the seed; otherwise considers all settings except the
   seed. */
static void separate_runs(maker *m, bool seed)
{
    for (;;) {
        size_t most = join_chosen(m), best = m->n_keys;
        for (size_t k = 0; k < m->n_keys && most < m->n; k++) {
            const es_difference *key = &m->differences[k];
            if (m->chosen[k] || key->incidental || key->seed != seed)
                continue;
            size_t n = combine_setting(m, m->joint, k);
            if (n > most) {
                most = n;
                best = k;
            }
        }
        if (best == m->n_keys)
            return;
        m->chosen[best] = true;
    }
}

static bool is_arch(const es_difference *key)
{
    return strcmp(key->key, "arch") == 0;
}

/* Chooses both settings of a pair if one of them was chosen, because one of
   them alone would be ambiguous. For example, the strength of EReg refers to a
   sum or to a mean over tokens. */
static void choose_pairs(maker *m)
{
    static const char *const pairs[][2] = {{"lambda", "ereg_reduce"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bool any = false;
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < m->n_keys; k++)
                if (strcmp(m->differences[k].key, pairs[i][0]) == 0 ||
                    strcmp(m->differences[k].key, pairs[i][1]) == 0)
                    any = m->chosen[k] = m->chosen[k] || any;
    }
}

static void choose_settings(maker *m)
{
    for (size_t k = 0; k < m->n_keys; k++) {
        classify_values(m, k);
        m->chosen[k] = is_arch(&m->differences[k]);
    }
    separate_runs(m, false);
    separate_runs(m, true);
    size_t n = join_chosen(m);
    for (size_t k = m->n_keys; k-- > 0;) {
        if (!m->chosen[k] || is_arch(&m->differences[k]))
            continue;
        m->chosen[k] = false;
        m->chosen[k] = join_chosen(m) < n;
    }
    choose_pairs(m);
}

/* --- settings of parts ----------------------------------------------------*/

/* Returns true if setting k belongs to a part of the architecture, such as
   EReg, that some run has, and if k has the same value in all runs without this
   part. Labels of these runs then omit the setting. */
static bool is_idle(const maker *m, size_t k)
{
    const char *key = m->differences[k].key;
    const es_run_setting *const *values = m->values + k, *first = NULL;
    bool used = false, found = false;
    for (size_t i = 0; i < m->n; i++) {
        const int has = es_run_has_part(m->runs[i], key);
        const es_run_setting *value = values[i * m->n_keys];
        if (has == 0 && found && !es_run_settings_same(first, value))
            return false;
        if (has == 0) {
            first = value;
            found = true;
        }
        used = used || has == 1;
    }
    return used;
}

static void drop_unused(maker *m)
{
    for (size_t k = 0; k < m->n_keys; k++) {
        const char *key = m->differences[k].key;
        const bool idle = is_idle(m, k);
        for (size_t i = 0; i < m->n && idle; i++)
            if (es_run_has_part(m->runs[i], key) == 0) {
                m->values[i * m->n_keys + k] = NULL;
                m->unused[i * m->n_keys + k] = true;
            }
    }
}

/* --- writing --------------------------------------------------------------*/

/* State while a label is written; the caller owns the text. */
typedef struct writing {
    FILE *stream;
    char *text;
    size_t size;
    bool plain, any;
} writing;

static const char *number_text(char out[ES_FLOAT_TEXT_MAX],
                               const es_run_setting *value)
{
    static const double exact = 9007199254740992.0; /* 2^53 */
    return isfinite(value->number) && fabs(value->number) < exact
               ? es_double_print(out, value->number)
               : value->text;
}

const char *es_run_setting_typeset(char *out, const es_run_setting *setting)
{
    char number[ES_FLOAT_TEXT_MAX];
    if (setting->kind != ES_CONFIG_NUMBER)
        return setting->text;
    const char *text = number_text(number, setting);
    if (strlen(text) >= ES_SETTING_TEXT_MAX / 2)
        return setting->text;
    strcpy(out, text);
    es_label_typeset(out, ES_SETTING_TEXT_MAX);
    return out;
}

static void put_number(writing *to, const es_run_setting *value)
{
    char number[ES_FLOAT_TEXT_MAX], typeset[ES_SETTING_TEXT_MAX];
    fputs(to->plain ? number_text(number, value)
                    : es_run_setting_typeset(typeset, value),
          to->stream);
}

static void put_key(writing *to, const char *key)
{
    const char *symbol = to->plain ? NULL : es_symbol_of(key);
    if (symbol)
        fputs(symbol, to->stream);
    for (; !symbol && *key; key++)
        fputc(*key == '_' && !to->plain ? ' ' : *key, to->stream);
}

static void put_setting(writing *to, const char *key,
                        const es_run_setting *value)
{
    bool bare = strcmp(key, "arch") == 0 || strcmp(key, "family") == 0;
    if (bare && (!value || !*value->text))
        return;
    if (to->any)
        fputs(to->plain ? " " : ", ", to->stream);
    to->any = true;
    if (!value && !to->plain)
        fputs("no ", to->stream);
    if (!bare)
        put_key(to, key);
    if (value && !bare)
        fputs(to->plain                  ? "="
              : strcmp(key, "seed") == 0 ? " "
                                         : " = ",
              to->stream);
    else if (!value && to->plain)
        fputs("=-", to->stream);
    if (value && value->kind == ES_CONFIG_NUMBER)
        put_number(to, value);
    else if (value)
        fputs(*value->text ? value->text : "\"\"", to->stream);
}

static bool is_known(const char *text)
{
    return text && *text;
}

/* Prints the file name of `path` without folder and extension. */
static void put_file(FILE *stream, const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *base = slash ? slash + 1 : path ? path : "run";
    const char *dot = strrchr(base, '.');
    fprintf(stream, "%.*s", (int)(dot && dot != base ? dot - base : 200), base);
}

/* Parts that are added to labels one after another until each label is
   unique. */
typedef enum level { SETTINGS, NAME, FILE_NAME, PLACE, N_LEVELS } level;

/* Returns true if labels show no setting other than the architecture. */
static bool is_arch_alone(const maker *m)
{
    for (size_t k = 0; k < m->n_keys; k++)
        if (m->chosen[k] && !is_arch(&m->differences[k]))
            return false;
    return true;
}

/* Prints the values of the chosen settings in run i. If `named` is true, prints
   the run's name after them, or instead of them if only the architecture was
   chosen. If the result would be empty, prints the architecture, the name or
   the file. */
static void put_label(writing *to, const maker *m, size_t i, bool named)
{
    const es_run_summary *run = m->runs[i];
    const bool alone = is_arch_alone(m);
    const bool by_name = named && alone && is_known(run->name);
    for (size_t k = 0; k < m->n_keys && !by_name; k++)
        if (m->chosen[k] && !m->unused[i * m->n_keys + k])
            put_setting(to, m->differences[k].key,
                        m->values[i * m->n_keys + k]);
    const bool no_choice = alone && !by_name && !to->any;
    if (no_choice && is_known(run->arch))
        fputs(run->arch, to->stream);
    else if ((no_choice || named) && is_known(run->name))
        fprintf(to->stream, "%s%s", to->any ? to->plain ? " " : ", " : "",
                run->name);
    else if (no_choice)
        put_file(to->stream, run->path);
}

static es_status write_label(char **out, const maker *m, size_t i, bool plain,
                             bool named, level last)
{
    writing to = {.plain = plain};
    if (!(to.stream = es_text_stream(&to.text, &to.size)))
        return es_fail(ES_ENOMEM, "out of memory for the runs' labels");
    put_label(&to, m, i, named);
    if (last >= FILE_NAME) {
        fputs(plain ? " " : ", ", to.stream);
        put_file(to.stream, m->runs[i]->path);
    }
    if (last >= PLACE)
        fprintf(to.stream, " #%zu", i + 1);
    if (fclose(to.stream) != 0) {
        free(to.text);
        return es_fail(ES_ENOMEM, "out of memory for the runs' labels");
    }
    *out = to.text;
    return ES_OK;
}

/* --- equal labels --------------------------------------------------------- */

typedef struct entry {
    const char *text;
    size_t run;
} entry;

static int by_text(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->run > y->run) - (x->run < y->run);
}

/* Sets alike[i] to true if another label equals label i. Returns true if any
   labels are equal. `entries` (n) is workspace, and is sorted by label on
   return. */
static bool find_alike(bool *alike, entry *entries, char *const *labels,
                       size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        entries[i] = (entry){labels[i], i};
    qsort(entries, n, sizeof *entries, by_text);
    memset(alike, 0, n * sizeof *alike);
    for (size_t i = 1; i < n; i++)
        if (strcmp(entries[i].text, entries[i - 1].text) == 0)
            any = alike[entries[i].run] = alike[entries[i - 1].run] = true;
    return any;
}

/* Sets named[i] to true if the runs with the same label as run i have different
   names. */
static void find_named(bool *named, const bool *alike, const entry *entries,
                       const maker *m)
{
    for (size_t from = 0, to; from < m->n; from = to) {
        bool differ = false;
        for (to = from + 1;
             to < m->n && strcmp(entries[to].text, entries[from].text) == 0;
             to++)
            differ = differ || strcmp(m->runs[entries[to].run]->name,
                                      m->runs[entries[from].run]->name) != 0;
        for (size_t i = from; i < to; i++)
            if (alike[entries[i].run])
                named[entries[i].run] = differ;
    }
}

static es_status rewrite_label(char **label, const maker *m, size_t i,
                               bool plain, bool named, level last)
{
    free(*label);
    *label = NULL;
    return write_label(label, m, i, plain, named, last);
}

/* Replaces a label by `prefix` followed by `text`, shortened to
   ES_LABEL_COLUMNS. */
static es_status replace_label(char **label, const char *prefix,
                               const char *text)
{
    size_t size = strlen(prefix) + strlen(text) + 1;
    char *made;
    es_status status = es_alloc(&made, size, 1, "labels");
    if (status < 0)
        return status;
    snprintf(made, size, "%s%s", prefix, text);
    es_display_shorten(made, ES_LABEL_COLUMNS);
    free(*label);
    *label = made;
    return ES_OK;
}

/* Returns the length in bytes of the longest common prefix of the labels of
   entries [from, to), without cutting a UTF-8 character. */
static size_t common_length(char *const *labels, const entry *entries,
                            size_t from, size_t to)
{
    const char *first = labels[entries[from].run];
    size_t same = strlen(first);
    for (size_t i = from + 1; i < to; i++) {
        const char *other = labels[entries[i].run];
        size_t k = 0;
        while (k < same && other[k] == first[k])
            k++;
        same = k;
    }
    while (same > 0 && ((unsigned char)first[same] & 0xc0) == 0x80)
        same--;
    return same;
}

/* If shortened labels are equal, replaces each by the part of its full label in
   `whole` that begins at the first difference. `entries` is sorted by the
   shortened labels. */
static es_status shorten_start(char **labels, char *const *whole,
                               const bool *alike, const entry *entries,
                               size_t n)
{
    es_status status = ES_OK;
    for (size_t from = 0, to; from < n && status == ES_OK; from = to) {
        for (to = from + 1;
             to < n && strcmp(entries[to].text, entries[from].text) == 0;)
            to++;
        const size_t same = common_length(whole, entries, from, to);
        for (size_t i = from; i < to && status == ES_OK; i++) {
            const size_t run = entries[i].run;
            if (alike[run])
                status = replace_label(&labels[run], "...", whole[run] + same);
        }
    }
    return status;
}

static es_status add_places(char **labels, char *const *whole,
                            const bool *alike, size_t n)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        char place[32];
        snprintf(place, sizeof place, "#%zu ", i + 1);
        if (alike[i])
            status = replace_label(&labels[i], place, whole[i]);
    }
    return status;
}

/* If the names of the runs are all different and short, replaces all labels by
 * these names and sets *done to true. */
static es_status take_names(bool *done, char **labels, const maker *m,
                            bool *alike, entry *entries)
{
    char **names = NULL;
    es_status status = es_alloc(&names, m->n, sizeof *names, "labels");
    *done = true;
    for (size_t i = 0; i < m->n && status == ES_OK; i++) {
        const char *name = m->runs[i]->name;
        *done = *done && es_display_width(name) <= ES_LABEL_COLUMNS;
        status = es_copy_text(&names[i], name);
    }
    if (status == ES_OK)
        *done = *done && !find_alike(alike, entries, names, m->n);
    for (size_t i = 0; i < m->n && status == ES_OK && *done; i++)
        status = replace_label(&labels[i], "", names[i]);
    for (size_t i = 0; names && i < m->n; i++)
        free(names[i]);
    free(names);
    return status;
}

/* Shortens long labels in the middle. If labels become equal, replaces all
   labels by the names of the runs, provided that these are short and all
   different. Otherwise, replaces each equal label by the part of its full text
   that begins at the first difference. Labels that are still equal get the
   number of the run as a prefix. */
static es_status shorten_labels(char **labels, const maker *m, bool *alike,
                                entry *entries)
{
    const size_t n = m->n;
    bool done = false;
    char **whole = NULL;
    es_status status = es_alloc(&whole, n, sizeof *whole, "labels");
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        status = es_copy_text(&whole[i], labels[i]);
        es_display_shorten(labels[i], ES_LABEL_COLUMNS);
    }
    if (status == ES_OK && find_alike(alike, entries, labels, n))
        status = take_names(&done, labels, m, alike, entries);
    if (status == ES_OK && !done && find_alike(alike, entries, labels, n))
        status = shorten_start(labels, whole, alike, entries, n);
    if (status == ES_OK && !done && find_alike(alike, entries, labels, n))
        status = add_places(labels, whole, alike, n);
    for (size_t i = 0; whole && i < n; i++)
        free(whole[i]);
    free(whole);
    return status;
}

static es_status write_all(es_run_labels *out, const maker *m, bool *alike,
                           bool *named, entry *entries)
{
    es_status status;
    for (size_t i = 0; i < m->n; i++)
        if ((status = write_label(&out->text[i], m, i, false, false,
                                  SETTINGS)) < 0 ||
            (status =
                 write_label(&out->plain[i], m, i, true, false, SETTINGS)) < 0)
            return status;
    for (level last = NAME; last < N_LEVELS; last++) {
        if (!find_alike(alike, entries, out->text, m->n))
            break;
        if (last == NAME)
            find_named(named, alike, entries, m);
        for (size_t i = 0; i < m->n; i++)
            if (alike[i] && ((status = rewrite_label(&out->text[i], m, i, false,
                                                     named[i], last)) < 0 ||
                             (status = rewrite_label(&out->plain[i], m, i, true,
                                                     named[i], last)) < 0))
                return status;
    }
    if ((status = shorten_labels(out->text, m, alike, entries)) < 0)
        return status;
    return shorten_labels(out->plain, m, alike, entries);
}

/* Allocates the arrays of `m`; m->differences must already be set. */
static es_status prepare_maker(maker *m)
{
    const size_t n = m->n, n_keys = m->n_keys;
    es_status status;
    if ((status = es_alloc(&m->unused, n_keys * n, sizeof *m->unused,
                           "labels")) < 0 ||
        (status = es_alloc(&m->classes, n_keys * n, sizeof *m->classes,
                           "labels")) < 0 ||
        (status = es_alloc(&m->chosen, n_keys, sizeof *m->chosen, "labels")) <
            0 ||
        (status = es_alloc(&m->holdings, n, sizeof *m->holdings, "labels")) <
            0 ||
        (status = es_alloc(&m->joint, n, sizeof *m->joint, "labels")) < 0 ||
        (status = es_alloc(&m->space, n, sizeof *m->space, "labels")) < 0)
        return status;
    return es_alloc(&m->sorted, n, sizeof *m->sorted, "labels");
}

static void clear_maker(maker *m)
{
    free(m->differences);
    free(m->values);
    free(m->unused);
    free(m->classes);
    free(m->chosen);
    free(m->holdings);
    free(m->joint);
    free(m->space);
    free(m->sorted);
}

es_status es_run_labels_make(es_run_labels *out,
                             const es_run_summary *const *runs, size_t n)
{
    maker m = {.runs = runs, .n = n};
    bool *alike = NULL, *named = NULL;
    entry *entries = NULL;
    es_status status;
    *out = (es_run_labels){.n = n};
    if (n == 0)
        return ES_OK;
    if ((status = es_alloc(&out->text, n, sizeof *out->text, "labels")) < 0 ||
        (status = es_alloc(&out->plain, n, sizeof *out->plain, "labels")) < 0 ||
        (status = es_run_differences(&m.differences, &m.n_keys, &m.values, runs,
                                     n)) < 0 ||
        (status = prepare_maker(&m)) < 0 ||
        (status = es_alloc(&alike, n, sizeof *alike, "labels")) < 0 ||
        (status = es_alloc(&named, n, sizeof *named, "labels")) < 0 ||
        (status = es_alloc(&entries, n, sizeof *entries, "labels")) < 0)
        goto done;
    drop_unused(&m);
    choose_settings(&m);
    status = write_all(out, &m, alike, named, entries);
done:
    clear_maker(&m);
    free(alike);
    free(named);
    free(entries);
    return status;
}

void es_run_labels_free(es_run_labels *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        if (labels->text)
            free(labels->text[i]);
        if (labels->plain)
            free(labels->plain[i]);
    }
    free(labels->text);
    free(labels->plain);
    *labels = (es_run_labels){.n = 0};
}
