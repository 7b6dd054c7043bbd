#include "cli/scan/where.h"

#include "analyzer/base/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A field is a text, or a number that may be NaN. */
typedef struct field {
    const char *name;
    const char *(*text)(const es_run_summary *run);
    double (*number)(const es_run_summary *run);
    bool judged;
} field;

static const char *path_of(const es_run_summary *run)
{
    return run->path;
}
static const char *name_of(const es_run_summary *run)
{
    return run->name;
}
static const char *arch_of(const es_run_summary *run)
{
    return run->arch ? run->arch : "";
}
static const char *status_of(const es_run_summary *run)
{
    return run->status;
}
static const char *phase_of(const es_run_summary *run)
{
    return es_phase_name(run->phase);
}

static double whole(int64_t number)
{
    return number == ES_UNKNOWN ? NAN : (double)number;
}
static double step_of(const es_run_summary *run)
{
    return whole(run->step);
}
static double last_step_of(const es_run_summary *run)
{
    return whole(run->last_step);
}
static double layers_of(const es_run_summary *run)
{
    return whole(run->n_layer);
}
static double heads_of(const es_run_summary *run)
{
    return whole(run->n_head);
}
static double ctx_of(const es_run_summary *run)
{
    return whole(run->ctx);
}
static double loss_of(const es_run_summary *run)
{
    return (double)run->loss;
}
static double ppl_of(const es_run_summary *run)
{
    return (double)run->ppl;
}
static double eval_loss_of(const es_run_summary *run)
{
    return (double)run->eval_loss;
}
static double eval_ppl_of(const es_run_summary *run)
{
    return (double)run->eval_ppl;
}
static double peak_of(const es_run_summary *run)
{
    return run->peak;
}
static double balanced_of(const es_run_summary *run)
{
    return es_bands_balanced(&run->bands);
}
static double severity_of(const es_run_summary *run)
{
    return run->judged ? (double)es_summary_severity(run) : NAN;
}

static const field fields[] = {
    {"flag", NULL, NULL, true}, /* as many texts as stand */
    {"path", path_of, NULL, false},
    {"run", name_of, NULL, false},
    {"arch", arch_of, NULL, false},
    {"status", status_of, NULL, false},
    {"phase", phase_of, NULL, false},
    {"step", NULL, step_of, false},
    {"last_step", NULL, last_step_of, false},
    {"layers", NULL, layers_of, false},
    {"heads", NULL, heads_of, false},
    {"ctx", NULL, ctx_of, false},
    {"loss", NULL, loss_of, false},
    {"ppl", NULL, ppl_of, false},
    {"eval_loss", NULL, eval_loss_of, false},
    {"eval_ppl", NULL, eval_ppl_of, false},
    {"max", NULL, peak_of, false},
    {"balanced", NULL, balanced_of, false},
    {"severity", NULL, severity_of, true},
};
enum { FLAG = 0, N_FIELDS = sizeof fields / sizeof *fields };

static int find_field(const char *name, size_t n)
{
    for (int i = 0; i < N_FIELDS; i++)
        if (strlen(fields[i].name) == n && memcmp(fields[i].name, name, n) == 0)
            return i;
    return -1;
}

static es_status unknown_field(const char *option, const char *name, size_t n)
{
    char known[256];
    es_text list = es_text_begin(known, sizeof known);
    for (int i = 0; i < N_FIELDS; i++)
        es_text_append(&list, "%s%s", i ? ", " : "", fields[i].name);
    return es_fail(ES_EUSAGE, "%s '%.*s': there are %s", option,
                   (int)(n < 40 ? n : 40), name, known);
}

/* --- reading --------------------------------------------------------------*/

/* Longer ones first: "<=" begins with "<". */
static const struct {
    const char *sign;
    es_where_relation relation;
} relations[] = {{"!=", ES_WHERE_IS_NOT},   {"<=", ES_WHERE_AT_MOST},
                 {">=", ES_WHERE_AT_LEAST}, {"=", ES_WHERE_IS},
                 {"<", ES_WHERE_BELOW},     {">", ES_WHERE_ABOVE}};

static bool read_relation(es_where_relation *out, const char **at)
{
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        size_t n = strlen(relations[i].sign);
        if (strncmp(*at, relations[i].sign, n) == 0) {
            *out = relations[i].relation;
            *at += n;
            return true;
        }
    }
    return false;
}

/* A severity may be called by its name. */
static es_status read_number(es_condition *c)
{
    const bool severity = fields[c->field].number == severity_of;
    for (int i = 0; severity && i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(c->text, es_severity_name((es_severity)i)) == 0) {
            c->number = i;
            return ES_OK;
        }
    if (es_double_parse(&c->number, c->text) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--where %s: '%.40s' is no number%s",
                   fields[c->field].name, c->text,
                   severity ? ", nor none, info, warning, error or critical"
                            : "");
}

static es_status check_value(es_condition *c)
{
    bool ordered = c->relation != ES_WHERE_IS && c->relation != ES_WHERE_IS_NOT;
    bool numeric = fields[c->field].number != NULL;
    c->number = NAN;
    es_status status = numeric ? read_number(c) : ES_OK;
    if (status != ES_OK)
        return status;
    if (ordered && !numeric)
        return es_fail(ES_EUSAGE,
                       "--where %s: is a text: compare it by = or !=, with * "
                       "and ? for any characters",
                       fields[c->field].name);
    return ES_OK;
}

/* One condition of n bytes. */
static es_status parse_one(es_condition *out, const char *text, size_t n)
{
    size_t n_name = strcspn(text, "=!<>");
    const char *at = text + n_name;
    if (n_name >= n || !read_relation(&out->relation, &at))
        return es_fail(ES_EUSAGE,
                       "--where '%.*s': give conditions such as arch=SM* or "
                       "eval_ppl<20, with blanks between them",
                       (int)(n < 40 ? n : 40), text);
    out->field = find_field(text, n_name);
    if (out->field < 0)
        return unknown_field("--where", text, n_name);
    size_t n_value = n - (size_t)(at - text);
    if (n_value >= sizeof out->text)
        return es_fail(ES_EUSAGE,
                       "--where %s: a value of %zu bytes: at most "
                       "%zu",
                       fields[out->field].name, n_value, sizeof out->text - 1);
    memcpy(out->text, at, n_value);
    out->text[n_value] = '\0';
    return check_value(out);
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

/* --- asking ---------------------------------------------------------------*/

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
    return run->judged && !stands && fnmatch(pattern, "ok", 0) == 0;
}

static bool holds_text(const es_condition *c, const es_run_summary *run)
{
    bool is = c->field == FLAG
                  ? any_flag(run, c->text)
                  : fnmatch(c->text, fields[c->field].text(run), 0) == 0;
    return is == (c->relation == ES_WHERE_IS);
}

static bool holds_number(const es_condition *c, double x)
{
    switch (c->relation) {
    case ES_WHERE_IS:
        return x == c->number;
    case ES_WHERE_IS_NOT:
        return !(x == c->number);
    case ES_WHERE_BELOW:
        return x < c->number;
    case ES_WHERE_AT_MOST:
        return x <= c->number;
    case ES_WHERE_ABOVE:
        return x > c->number;
    case ES_WHERE_AT_LEAST:
        return x >= c->number;
    }
    return false;
}

bool es_where_holds(const es_where *where, const es_run_summary *run)
{
    for (size_t i = 0; i < where->n; i++) {
        const es_condition *c = &where->conditions[i];
        bool holds = fields[c->field].number
                         ? holds_number(c, fields[c->field].number(run))
                         : holds_text(c, run);
        if (!holds)
            return false;
    }
    return true;
}

bool es_where_judges(const es_where *where)
{
    for (size_t i = 0; i < where->n; i++)
        if (fields[where->conditions[i].field].judged)
            return true;
    return false;
}

/* --- order ----------------------------------------------------------------*/

es_status es_order_parse(es_order *out, const char *text)
{
    bool falling = text[0] == '-';
    const char *name = text + falling;
    int found = find_field(name, strlen(name));
    if (found < 0)
        return unknown_field("--sort", name, strlen(name));
    if (found == FLAG)
        found = find_field("severity", strlen("severity"));
    *out = (es_order){.given = true, .falling = falling, .field = found};
    return ES_OK;
}

static int compare_numbers(double a, double b, bool falling)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    int sign = (a > b) - (a < b);
    return falling ? -sign : sign;
}

int es_order_compare(const es_order *order, const es_run_summary *a,
                     const es_run_summary *b)
{
    const field *by = &fields[order->field];
    if (!order->given)
        return 0;
    if (by->number)
        return compare_numbers(by->number(a), by->number(b), order->falling);
    int sign = strcmp(by->text(a), by->text(b));
    return order->falling ? -sign : sign;
}
