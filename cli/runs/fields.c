/* Defines the table of fields, which has one row per value of a run that the
   outputs contain. A field is a member of es_run_summary, whose type determines
   the field's type, or a function of the summary. To add a field, add a row. A
   field has two rows if two outputs contain the field at different places or
   under different names. */
#include "cli/runs/fields.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* --- computed fields ------------------------------------------------------*/

static const char *phase_name(const es_run_summary *run)
{
    return es_phase_name(run->phase);
}

static const char *max_policy(const es_run_summary *run)
{
    return es_max_name(run->max.policy);
}

static double balanced(const es_run_summary *run)
{
    return es_bands_balanced(&run->bands);
}

static int64_t severity(const es_run_summary *run)
{
    return run->judged ? (int64_t)es_summary_severity(run) : ES_UNKNOWN;
}

/* Returns the modelled cost and its interval, converted from bytes to GB or
   from seconds to minutes. */
static es_modelled shown_cost(es_cost_kind kind, const es_run_summary *run)
{
    const es_modelled cost = es_cost_predict(kind, &run->model);
    return (es_modelled){es_cost_shown(kind, cost.value),
                         es_cost_shown(kind, cost.low),
                         es_cost_shown(kind, cost.high)};
}

static es_modelled gigabytes(const es_run_summary *run)
{
    return shown_cost(ES_COST_BYTES, run);
}

static es_modelled minutes(const es_run_summary *run)
{
    return shown_cost(ES_COST_SECONDS, run);
}

/* --- columns that the table shows only if needed ------------------------ */

static bool is_unfinished(const es_run_summary *run)
{
    return strcmp(run->status, "finished") != 0;
}

static bool is_evaluation(const es_run_summary *run)
{
    return run->phase == ES_PHASE_EVAL;
}

static bool has_evaluation_beside(const es_run_summary *run)
{
    return run->phase != ES_PHASE_EVAL && !es_is_missing(run->eval_ppl);
}

static bool has_own_max(const es_run_summary *run)
{
    return run->max.policy != ES_MAX_OBSERVED &&
           run->max.policy != ES_MAX_NUMBER;
}

/* --- rows -----------------------------------------------------------------*/

#define MEMBER(name)                                                           \
    .member = offsetof(es_run_summary, name),                                  \
    .type = _Generic(((es_run_summary *)0)->name,                              \
                     char *: ES_FIELD_TEXT,                                    \
                     const char *: ES_FIELD_TEXT,                              \
                     int64_t: ES_FIELD_INTEGER,                                \
                     size_t: ES_FIELD_INTEGER,                                 \
                     float: ES_FIELD_MEASURED,                                 \
                     double: ES_FIELD_COMPUTED)
#define TEXT(function) .type = ES_FIELD_TEXT, .text = function
#define INTEGER(function) .type = ES_FIELD_INTEGER, .integer = function
#define COMPUTED(function) .type = ES_FIELD_COMPUTED, .computed = function
#define MODELLED(function, part)                                               \
    .type = ES_FIELD_COMPUTED, .modelled = function,                           \
    .member = offsetof(es_modelled, part)

enum {
    TABLE = ES_FIELD_IN_TABLE,
    CSV = ES_FIELD_IN_CSV,
    JSON = ES_FIELD_IN_JSON,
    BANDS = ES_FIELD_IN_BANDS,
    JSON_END = ES_FIELD_IN_JSON_END,
    WHERE = ES_FIELD_IN_WHERE,
    SETTINGS = ES_FIELD_IN_SETTINGS,
    PANEL = ES_FIELD_IN_PANEL,
    COMPARED = ES_FIELD_IN_COMPARED,
};

/* clang-format off: keep one row per field */
static const es_field fields[] = {
    {"flag", WHERE, .kind = ES_FIELD_FLAGS, .judged = true},
    {"path", TABLE | CSV | JSON | WHERE, MEMBER(path), .kind = ES_FIELD_FILE,
     .title = "file"},
    {"run", CSV | JSON, MEMBER(number)},
    {"run", WHERE, MEMBER(name)},
    {"number", WHERE, MEMBER(number)}, /* number of the run within its file,
                                          counted from 1 */
    {"uuid", WHERE, MEMBER(uuid)},
    {"name", TABLE | CSV | JSON, MEMBER(name), .title = "run"},
    {"arch", TABLE | CSV | JSON | WHERE | SETTINGS, MEMBER(arch)},
    {"family", WHERE | SETTINGS, MEMBER(family)},
    {"status", TABLE | CSV | JSON | WHERE, MEMBER(status),
     .shown = is_unfinished},
    {"n_layer", CSV | JSON | SETTINGS, MEMBER(n_layer)},
    {"n_head", CSV | JSON | SETTINGS, MEMBER(n_head)},
    {"layers", WHERE, MEMBER(n_layer)},
    {"heads", WHERE, MEMBER(n_head)},
    {"d_model", WHERE | SETTINGS, MEMBER(d_model)},
    {"ctx", CSV | JSON | WHERE | SETTINGS, MEMBER(ctx)},
    {"vocab", WHERE | SETTINGS, MEMBER(vocab)},
    {"batch", WHERE | SETTINGS, MEMBER(batch)},
    {"seed", WHERE | SETTINGS, MEMBER(seed)},
    {"series", CSV, MEMBER(series)},
    {"phase", CSV | WHERE, TEXT(phase_name)},
    {"step", TABLE | CSV | JSON | WHERE, MEMBER(step)},
    {"phase", TABLE | JSON, TEXT(phase_name), .shown = is_evaluation},
    {"series", JSON, MEMBER(series)},
    {"last_step", WHERE, MEMBER(last_step)},
    {"planned_steps", WHERE, MEMBER(planned_steps)},
    {"loss", TABLE | CSV | JSON | WHERE | PANEL, MEMBER(loss)},
    {"ppl", TABLE | CSV | JSON | WHERE | PANEL, MEMBER(ppl)},
    {"eval_loss", CSV | JSON | WHERE, MEMBER(eval_loss)},
    {"eval_ppl", TABLE | CSV | JSON | WHERE | PANEL, MEMBER(eval_ppl),
     .title = "eval ppl", .shown = has_evaluation_beside},
    {"ceiling", CSV | JSON, MEMBER(ceiling)},
    {"max_policy", CSV, TEXT(max_policy)},
    {"max", CSV, MEMBER(m)},
    {"max", WHERE, MEMBER(peak)},
    {"band_1", TABLE | CSV, MEMBER(bands.counts[0]), .kind = ES_FIELD_SHARE,
     .title = "<m/4"},
    {"band_2", TABLE | CSV, MEMBER(bands.counts[1]), .kind = ES_FIELD_SHARE,
     .title = "<m/2"},
    {"band_3", TABLE | CSV, MEMBER(bands.counts[2]), .kind = ES_FIELD_SHARE,
     .title = "<3m/4"},
    {"band_4", TABLE | CSV, MEMBER(bands.counts[3]), .kind = ES_FIELD_SHARE,
     .title = "<=m"},
    {"nonfinite", TABLE | CSV | BANDS, MEMBER(bands.nonfinite),
     .kind = ES_FIELD_HEADS, .title = "nan"},
    {"heads", CSV | BANDS, MEMBER(bands.n_heads)},
    {"balanced", CSV | BANDS | WHERE, COMPUTED(balanced)},
    {"max", TABLE | BANDS, MEMBER(m), .title = "m", .shown = has_own_max},
    {"severity", WHERE, INTEGER(severity), .kind = ES_FIELD_SEVERITY,
     .judged = true},
    {"modelled_gb", JSON_END | WHERE | COMPARED, MODELLED(gigabytes, value),
     .title = "GB"},
    {"modelled_gb_low", JSON_END, MODELLED(gigabytes, low)},
    {"modelled_gb_high", JSON_END, MODELLED(gigabytes, high)},
    {"modelled_minutes", JSON_END | WHERE | COMPARED, MODELLED(minutes, value),
     .title = "minutes"},
    {"modelled_minutes_low", JSON_END, MODELLED(minutes, low)},
    {"modelled_minutes_high", JSON_END, MODELLED(minutes, high)},
    {"collapse_before_nan", JSON_END, INTEGER(es_summary_collapse_before_nan)},
    {"flags", TABLE | CSV, .kind = ES_FIELD_FLAGS},
};
/* clang-format on */

const es_field *es_field_next(const es_field *field, unsigned output)
{
    const es_field *end = fields + sizeof fields / sizeof *fields;
    for (field = field ? field + 1 : fields; field < end; field++)
        if (field->outputs & output)
            return field;
    return NULL;
}

const es_field *es_field_find(const char *name, size_t n, unsigned output)
{
    const es_field *field = NULL;
    while ((field = es_field_next(field, output)))
        if (strlen(field->name) == n && memcmp(field->name, name, n) == 0)
            break;
    return field;
}

const char *es_field_title(const es_field *field)
{
    return field->title ? field->title : field->name;
}

/* --- values ---------------------------------------------------------------*/

/* Returns the address of the field in `values`, which is a summary or an
 * es_modelled. */
static const void *member_of(const es_field *field, const void *values)
{
    return (const char *)values + field->member;
}

const char *es_field_text(const es_field *field, const es_run_summary *run)
{
    return field->text ? field->text(run)
                       : *(const char *const *)member_of(field, run);
}

int64_t es_field_integer(const es_field *field, const es_run_summary *run)
{
    return field->integer ? field->integer(run)
                          : *(const int64_t *)member_of(field, run);
}

float es_field_measured(const es_field *field, const es_run_summary *run)
{
    return *(const float *)member_of(field, run);
}

double es_field_number(const es_field *field, const es_run_summary *run)
{
    int64_t integer;
    es_modelled modelled;
    switch (field->type) {
    case ES_FIELD_INTEGER:
        integer = es_field_integer(field, run);
        return integer == ES_UNKNOWN ? NAN : (double)integer;
    case ES_FIELD_MEASURED:
        return (double)es_field_measured(field, run);
    case ES_FIELD_COMPUTED:
        if (field->computed)
            return field->computed(run);
        if (!field->modelled)
            return *(const double *)member_of(field, run);
        modelled = field->modelled(run);
        return *(const double *)member_of(field, &modelled);
    case ES_FIELD_TEXT:
        break;
    }
    return NAN;
}
