/* Implements --where and --sort: parses conditions and an order, and applies
   them to runs. cli/runs/fields.c defines the fields; other names refer to
   members of the runs' configurations. */
#include "cli/scan/where.h"

#include "analyzer/base/relation.h"
#include "analyzer/base/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONFIG "config."

static es_status fail_unknown(const char *option, const char *name, size_t n,
                              const char *what)
{
    char known[512];
    es_text list = es_text_begin(known, sizeof known);
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_WHERE));)
        es_text_append(&list, "%s%s", list.length ? ", " : "", field->name);
    return es_fail(ES_EUSAGE, "%s '%.*s': %sfields are %s", option,
                   (int)(n < 40 ? n : 40), name, what, known);
}

static es_status find_criterion(es_criterion *out, const char *option,
                                const char *name, size_t n)
{
    const size_t n_prefix = strlen(CONFIG);
    *out = (es_criterion){.field = es_field_find(name, n, ES_FIELD_IN_WHERE)};
    if (out->field)
        return ES_OK;
    if (n >= n_prefix && strncmp(name, CONFIG, n_prefix) == 0) {
        out->prefixed = true;
        name += n_prefix;
        n -= n_prefix;
        if (n == 0)
            return es_fail(ES_EUSAGE,
                           "%s '" CONFIG "': expected a member of the "
                           "configuration, such as config.gamma",
                           option);
    }
    if (n == 0 || n >= sizeof out->key)
        return fail_unknown(option, name, n, "expected a name: ");
    memcpy(out->key, name, n);
    return ES_OK;
}

/* --- reading --------------------------------------------------------------*/

/* Pairs of a relation as written in other languages and the equivalent relation
   of --where. */
static const char *const others[][2] = {
    {"==", "="}, {"=<", "<="}, {"=>", ">="}, {"<>", "!="}, {"!==", "!="}};

/* Parses the relation that begins at text[n_name], and sets *n_sign to the
   length of the relation. */
static es_status read_relation(unsigned *out, size_t *n_sign, const char *text,
                               size_t n_name)
{
    const char *sign = text + n_name;
    const size_t n = *n_sign = strspn(sign, ES_RELATION_SIGNS);
    if (es_relation_read(out, sign, n))
        return ES_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i][0]) == n && strncmp(sign, others[i][0], n) == 0)
            return es_fail(ES_EUSAGE,
                           "--where '%.40s': unknown relation %s: did you mean "
                           "%.*s%s%.40s?",
                           text, others[i][0], (int)(n_name < 40 ? n_name : 40),
                           text, others[i][1], sign + n);
    return es_fail(
        ES_EUSAGE,
        "--where '%.40s': expected conditions such as arch=SM* or eval_ppl<20, "
        "separated by blanks; relations are =, !=, <, <=, > and >=",
        text);
}

/* Parses the value of a condition as a number; a severity may be given by
   name. */
static es_status read_number(es_condition *c)
{
    const es_field *field = c->by.field;
    const bool severity = field && field->kind == ES_FIELD_SEVERITY;
    for (int i = 0; severity && i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(c->text, es_severity_name((es_severity)i)) == 0) {
            c->number = i;
            return ES_OK;
        }
    if (es_double_parse(&c->number, c->text) == ES_OK)
        return ES_OK;
    c->number = NAN;
    if (!field && (c->relation == ES_EQUAL || c->relation & ES_NEITHER))
        return ES_OK;
    return es_fail(
        ES_EUSAGE, "--where %s: '%.40s' is not a number%s",
        field ? field->name : c->by.key, c->text,
        severity ? " or severity (none, info, warning, error, critical)" : "");
}

/* Parses one condition, such as "arch=SM*"; `text` contains nothing else. */
static es_status parse_one(es_condition *out, const char *text)
{
    const size_t n_name = strcspn(text, ES_RELATION_SIGNS);
    size_t n_sign;
    es_status status = read_relation(&out->relation, &n_sign, text, n_name);
    if (status != ES_OK ||
        (status = find_criterion(&out->by, "--where", text, n_name)) != ES_OK)
        return status;
    const es_field *field = out->by.field;
    const char *value = text + n_name + n_sign;
    if (strlen(value) >= sizeof out->text)
        return es_fail(
            ES_EUSAGE,
            "--where %s: the value has %zu bytes: at most %zu are allowed",
            field ? field->name : out->by.key, strlen(value),
            sizeof out->text - 1);
    strcpy(out->text, value);
    out->number = NAN;
    if (!field || field->type != ES_FIELD_TEXT)
        return read_number(out);
    if (out->relation != ES_EQUAL && !(out->relation & ES_NEITHER))
        return es_fail(ES_EUSAGE,
                       "--where %s: the field is a text: compare it by = or "
                       "!=; * and ? match any characters",
                       field->name);
    return ES_OK;
}

es_status es_where_parse(es_where *to, const char *text)
{
    static const char blanks[] = " \t\n";
    char one[4 * ES_WHERE_TEXT];
    for (size_t n;; text += n) {
        text += strspn(text, blanks);
        n = strcspn(text, blanks);
        if (n == 0)
            return ES_OK;
        if (to->n == ES_WHERE_MOST)
            return es_fail(ES_EUSAGE, "--where: more than %d conditions",
                           ES_WHERE_MOST);
        if (n >= sizeof one)
            return es_fail(ES_EUSAGE,
                           "--where: a condition of %zu bytes is too long", n);
        memcpy(one, text, n);
        one[n] = '\0';
        es_status status = parse_one(&to->conditions[to->n], one);
        if (status != ES_OK)
            return status;
        to->n++;
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

static const es_run_setting *member_of(const es_criterion *by,
                                       const es_run_summary *run)
{
    const es_run_setting *exact = es_run_settings_find(&run->settings, by->key);
    return exact ? exact : es_run_settings_inner(&run->settings, by->key, NULL);
}

static unsigned relation_to(const es_condition *c, const es_run_summary *run)
{
    const es_field *field = c->by.field;
    bool is = false;
    if (!field) {
        const es_run_setting *member = member_of(&c->by, run);
        if (member && member->kind == ES_CONFIG_NUMBER && !isnan(c->number))
            return es_relation_of(member->number, c->number);
        is = member && fnmatch(c->text, member->text, 0) == 0;
    } else if (field->type != ES_FIELD_TEXT) {
        return es_relation_of(es_field_number(field, run), c->number);
    } else if (field->kind == ES_FIELD_FLAGS) {
        is = any_flag(run, c->text);
    } else {
        is = fnmatch(c->text, text_of(field, run), 0) == 0;
    }
    return is ? ES_EQUAL : ES_NEITHER;
}

bool es_where_holds(const es_where *where, const es_run_summary *run)
{
    for (size_t i = 0; i < where->n; i++) {
        const es_condition *c = &where->conditions[i];
        if (!(c->relation & relation_to(c, run)))
            return false;
    }
    return true;
}

bool es_where_judges(const es_where *where)
{
    for (size_t i = 0; i < where->n; i++)
        if (where->conditions[i].by.field &&
            where->conditions[i].by.field->judged)
            return true;
    return false;
}

bool es_where_reads(const es_where *where)
{
    for (size_t i = 0; i < where->n; i++)
        if (!where->conditions[i].by.field)
            return true;
    return false;
}

/* --- order ----------------------------------------------------------------*/

/* Returns the rank of a setting for sorting: 0 for a number, 1 for text, and 2
   for a missing value or NaN. */
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
    const es_run_setting *x = member_of(&order->by, a);
    const es_run_setting *y = member_of(&order->by, b);
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
    const bool falling = text[0] == '-';
    const char *name = text + falling;
    *out = (es_order){.given = true, .falling = falling};
    es_status status = find_criterion(&out->by, "--sort", name, strlen(name));
    if (status == ES_OK && out->by.field &&
        out->by.field->kind == ES_FIELD_FLAGS)
        status =
            find_criterion(&out->by, "--sort", "severity", strlen("severity"));
    return status;
}

int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b)
{
    const es_field *by = order->by.field;
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

/* --- members that no run has, or that are ambiguous ---------------------- */

static void add_name(es_member_seen *seen, const char *name)
{
    if (seen->n < 2 && (seen->n == 0 || strcmp(seen->names[0], name) != 0))
        snprintf(seen->names[seen->n++], sizeof *seen->names, "%s", name);
}

static void see_members(es_member_seen *seen, const es_criterion *by,
                        const es_run_summary *run)
{
    const es_run_setting *at = NULL;
    if (by->field)
        return;
    if (es_run_settings_find(&run->settings, by->key))
        seen->exact = true;
    else
        while ((at = es_run_settings_inner(&run->settings, by->key, at)))
            add_name(seen, at->key);
}

void es_members_see(es_members_seen *seen, const es_where *where,
                    const es_order *order, const es_run_summary *run)
{
    seen->n++;
    for (size_t i = 0; i < where->n; i++)
        see_members(&seen->where[i], &where->conditions[i].by, run);
    if (order->given)
        see_members(&seen->order, &order->by, run);
}

static es_status check_member(const es_member_seen *seen, const char *option,
                              const es_criterion *by)
{
    if (seen->n > 1)
        return es_fail(ES_EUSAGE,
                       "%s '%.40s': ambiguous: did you mean %.80s or %.80s?",
                       option, by->key, seen->names[0], seen->names[1]);
    if (seen->exact || seen->n || by->field)
        return ES_OK;
    return by->prefixed
               ? es_fail(ES_ENOTFOUND,
                         "%s config.%.40s: no run has this member", option,
                         by->key)
               : fail_unknown(option, by->key, strlen(by->key),
                              "neither a field nor a member of any run's "
                              "configuration: ");
}

es_status es_members_check(const es_members_seen *seen, const es_where *where,
                           const es_order *order)
{
    es_status status = ES_OK;
    if (seen->n == 0)
        return ES_OK;
    for (size_t i = 0; status == ES_OK && i < where->n; i++)
        status =
            check_member(&seen->where[i], "--where", &where->conditions[i].by);
    if (status == ES_OK && order->given)
        status = check_member(&seen->order, "--sort", &order->by);
    return status;
}
