/* --where and --sort: reads conditions and an order, and applies them to a run.
   What a run can be chosen by is in cli/runs/fields.c. */
#include "cli/scan/where.h"

#include "analyzer/base/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static es_status find_field(const es_field **out, const char *option,
                            const char *name, size_t n)
{
    char known[512];
    if ((*out = es_field_find(name, n, ES_FIELD_IN_WHERE)))
        return ES_OK;
    es_text list = es_text_begin(known, sizeof known);
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_WHERE));)
        es_text_append(&list, "%s%s", list.length ? ", " : "", field->name);
    return es_fail(ES_EUSAGE, "%s '%.*s': there are %s", option,
                   (int)(n < 40 ? n : 40), name, known);
}

/* --- reading --------------------------------------------------------------*/

/* How a value is to this one; NaN is neither, and a text EQUAL or not. */
enum { BELOW = 1, EQUAL = 2, ABOVE = 4, NEITHER = 8 };

/* Longer ones first: "<=" begins with "<". */
static const struct {
    const char *sign;
    unsigned relation;
} relations[] = {{"!=", BELOW | ABOVE | NEITHER},
                 {"<=", BELOW | EQUAL},
                 {">=", ABOVE | EQUAL},
                 {"=", EQUAL},
                 {"<", BELOW},
                 {">", ABOVE}};
enum { N_RELATIONS = sizeof relations / sizeof *relations };

/* A severity may be called by its name. */
static es_status read_number(es_condition *c)
{
    const bool severity = c->field->kind == ES_FIELD_SEVERITY;
    for (int i = 0; severity && i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(c->text, es_severity_name((es_severity)i)) == 0) {
            c->number = i;
            return ES_OK;
        }
    if (es_double_parse(&c->number, c->text) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--where %s: '%.40s' is no number%s",
                   c->field->name, c->text,
                   severity ? ", nor none, info, warning, error or critical"
                            : "");
}

/* One condition of n bytes. */
static es_status parse_one(es_condition *out, const char *text, size_t n)
{
    const size_t n_name = strcspn(text, "=!<>");
    int i = 0;
    while (i < N_RELATIONS && strncmp(text + n_name, relations[i].sign,
                                      strlen(relations[i].sign)) != 0)
        i++;
    if (n_name >= n || i == N_RELATIONS)
        return es_fail(ES_EUSAGE,
                       "--where '%.*s': give conditions such as arch=SM* or "
                       "eval_ppl<20, with blanks between them",
                       (int)(n < 40 ? n : 40), text);
    es_status status = find_field(&out->field, "--where", text, n_name);
    if (status < 0)
        return status;
    out->relation = relations[i].relation;
    const size_t n_before = n_name + strlen(relations[i].sign);
    const size_t n_value = n - n_before;
    if (n_value >= sizeof out->text)
        return es_fail(ES_EUSAGE,
                       "--where %s: a value of %zu bytes: at most "
                       "%zu",
                       out->field->name, n_value, sizeof out->text - 1);
    memcpy(out->text, text + n_before, n_value);
    out->text[n_value] = '\0';
    out->number = NAN;
    if (out->field->type != ES_FIELD_TEXT)
        return read_number(out);
    if (out->relation != EQUAL && !(out->relation & NEITHER))
        return es_fail(ES_EUSAGE,
                       "--where %s: is a text: compare it by = or !=, with * "
                       "and ? for any characters",
                       out->field->name);
    return ES_OK;
}

es_status es_where_parse(es_where *to, const char *text)
{
    static const char blanks[] = " \t\n";
    for (;;) {
        text += strspn(text, blanks);
        size_t n = strcspn(text, blanks);
        if (n == 0)
            return ES_OK;
        if (to->n == ES_WHERE_MOST)
            return es_fail(ES_EUSAGE, "--where: more than %d conditions",
                           ES_WHERE_MOST);
        es_status status = parse_one(&to->conditions[to->n], text, n);
        if (status != ES_OK)
            return status;
        to->n++;
        text += n;
    }
}

/* --- applying -------------------------------------------------------------*/

static bool any_flag(const es_run_summary *run, const char *pattern)
{
    bool stands = false;
    for (size_t i = 0; i < run->n_flags; i++) {
        if (!run->flags[i].stands)
            continue;
        stands = true;
        if (fnmatch(pattern, es_flag_title(&run->flags[i]), 0) == 0)
            return true;
    }
    return run->judged && !stands &&
           fnmatch(pattern, es_summary_is_ok(run) ? "ok" : "unknown", 0) == 0;
}

static const char *text_of(const es_field *field, const es_run_summary *run)
{
    const char *text = es_field_text(field, run);
    return text ? text : "";
}

bool es_where_holds(const es_where *where, const es_run_summary *run)
{
    for (size_t i = 0; i < where->n; i++) {
        const es_condition *c = &where->conditions[i];
        bool is = false;
        unsigned relation;
        if (c->field->kind == ES_FIELD_FLAGS)
            is = any_flag(run, c->text);
        else if (c->field->type == ES_FIELD_TEXT)
            is = fnmatch(c->text, text_of(c->field, run), 0) == 0;
        const double x = es_field_number(c->field, run);
        if (c->field->type == ES_FIELD_TEXT)
            relation = is ? EQUAL : NEITHER;
        else
            relation = x < c->number    ? BELOW
                       : x > c->number  ? ABOVE
                       : x == c->number ? EQUAL
                                        : NEITHER;
        if (!(c->relation & relation))
            return false;
    }
    return true;
}

bool es_where_judges(const es_where *where)
{
    for (size_t i = 0; i < where->n; i++)
        if (where->conditions[i].field->judged)
            return true;
    return false;
}

/* --- order ----------------------------------------------------------------*/

#define CONFIG "config."

/* Numbers before texts before none. */
static int rank_of(const es_run_setting *setting)
{
    if (setting && setting->kind == ES_CONFIG_NUMBER)
        return 0;
    return !setting || setting->kind == ES_CONFIG_NULL ||
                   strcasecmp(setting->text, "nan") == 0
               ? 2
               : 1;
}

static int compare_settings(const es_order *order, const es_run_summary *a,
                            const es_run_summary *b)
{
    const es_run_setting *x = es_run_settings_find(&a->settings, order->key);
    const es_run_setting *y = es_run_settings_find(&b->settings, order->key);
    int rank = rank_of(x), other = rank_of(y), sign;
    if (rank != other)
        return rank - other;
    if (rank == 2)
        return 0;
    sign = rank == 0 ? (x->number > y->number) - (x->number < y->number)
                     : strcmp(x->text, y->text);
    return order->falling ? -sign : sign;
}

es_status es_order_parse(es_order *out, const char *text)
{
    bool falling = text[0] == '-';
    const char *name = text + falling;
    const es_field *field;
    if (strncmp(name, CONFIG, strlen(CONFIG)) == 0) {
        name += strlen(CONFIG);
        if (!*name)
            return es_fail(ES_EUSAGE,
                           "--sort '%.40s': name a member of the "
                           "configuration, such as config.gamma",
                           text);
        *out = (es_order){.given = true, .falling = falling, .key = name};
        return ES_OK;
    }
    es_status status = find_field(&field, "--sort", name, strlen(name));
    if (status == ES_OK && field->kind == ES_FIELD_FLAGS)
        status = find_field(&field, "--sort", "severity", strlen("severity"));
    if (status == ES_OK)
        *out = (es_order){.given = true, .falling = falling, .field = field};
    return status;
}

int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b)
{
    const es_field *by = order->field;
    int sign;
    if (!order->given)
        return 0;
    if (!by)
        return compare_settings(order, a, b);
    if (by->type == ES_FIELD_TEXT) {
        sign = strcmp(text_of(by, a), text_of(by, b));
    } else {
        const double x = es_field_number(by, a), y = es_field_number(by, b);
        if (isnan(x) || isnan(y))
            return isnan(x) - isnan(y);
        sign = (x > y) - (x < y);
    }
    return order->falling ? -sign : sign;
}
