/* What is said of a run in words: the flags that stand, the line about m. */
#include "cli/runs/summary.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output/print.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *es_flag_title(const es_flag *flag)
{
    return flag->rule ? flag->rule->name : es_flag_name(flag->kind);
}

/* What stands of a kind with this severity as its highest, in the layers (L <=
   ES_MAX_LAYERS) of all its episodes: "overload L0-2,9-11 (error)". */
static void append_kind(es_text *to, const es_run_summary *summary,
                        es_severity severity, es_flag_kind kind,
                        const es_rule *rule)
{
    bool layers[ES_MAX_LAYERS + 1]; /* the last one ends a range */
    const size_t n_layers = (size_t)summary->n_layer;
    es_severity highest = ES_SEVERITY_NONE;
    const char *before = " L";
    memset(layers, 0, (n_layers + 1) * sizeof *layers);
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_flag *flag = &summary->flags[i];
        if (flag->kind != kind || flag->rule != rule || !flag->stands)
            continue;
        if (flag->severity > highest)
            highest = flag->severity;
        for (size_t l = 0; l < flag->n_layers; l++)
            layers[flag->layers[l]] = true;
    }
    if (highest != severity)
        return;
    es_text_append(to, "%s%s", to->length ? "; " : "",
                   rule ? rule->name : es_flag_name(kind));
    for (size_t l = 0; l < n_layers; l++) {
        const size_t first = l;
        if (!layers[l])
            continue;
        while (layers[l + 1])
            l++;
        es_text_append(to, "%s%zu", before, first);
        if (l > first)
            es_text_append(to, "-%zu", l);
        before = ",";
    }
    es_text_append(to, " (%s", es_flag_verdict(kind, severity));
    int64_t lead = kind == ES_FLAG_NAN ? es_summary_collapse_before_nan(summary)
                                       : ES_UNKNOWN;
    if (lead > 0)
        es_text_append(to, ", %" PRId64 " step%s after collapse", lead,
                       lead == 1 ? "" : "s");
    es_text_append(to, ")");
}

size_t es_summary_print_flags(char *out, size_t size,
                              const es_run_summary *summary)
{
    es_text to = es_text_begin(out, size);
    for (int severity = ES_SEVERITY_CRITICAL; severity > ES_SEVERITY_NONE;
         severity--) {
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
            append_kind(&to, summary, (es_severity)severity, (es_flag_kind)kind,
                        NULL);
        for (size_t i = 0; summary->rules && i < summary->rules->n; i++)
            append_kind(&to, summary, (es_severity)severity, ES_N_FLAG_KINDS,
                        &summary->rules->rules[i]);
    }
    if (!summary->judged)
        es_text_append(&to, "-");
    else if (to.length == 0 && summary->end_damaged)
        es_text_append(&to, "unknown (damaged)");
    else if (to.length == 0)
        es_text_append(&to, summary->ctx == ES_UNKNOWN ? "ok (no ctx)" : "ok");
    return to.length;
}

es_status es_summary_copy_flags(char **out, const es_run_summary *summary)
{
    const size_t size = es_summary_print_flags(NULL, 0, summary) + 1;
    es_status status = es_alloc(out, size, 1, "flags");
    if (status == ES_OK)
        es_summary_print_flags(*out, size, summary);
    return status;
}

void es_summary_print_max(FILE *stream, es_max_policy policy, double m,
                          const char *unit, const char *series)
{
    static const char *const meanings[] = {
        [ES_MAX_OBSERVED] = "observed: the largest of all runs shown",
        [ES_MAX_RUN] = "run: the largest of each run",
        [ES_MAX_CEILING] = "ceiling of each run: ln(T!)/T if causal",
        [ES_MAX_LOGT] = "logT: ln T of each run",
        [ES_MAX_NUMBER] = "as given",
    };
    const bool is_each = policy != ES_MAX_OBSERVED && policy != ES_MAX_NUMBER;
    const bool has_number = !is_each && !isnan(m);
    char number[ES_FLOAT_TEXT_MAX];
    if (has_number)
        fprintf(stream, "m = %s", es_number_print(number, m, 4));
    else
        fputs(is_each ? "m" : "m unknown", stream);
    if (*unit && strcmp(unit, "-") != 0) {
        fputs(has_number ? " " : is_each ? " in " : ", in ", stream);
        es_print_escaped(stream, unit, ES_ESCAPE_TERMINAL);
    }
    if (strcmp(series, "entropy") != 0) {
        fputs(" of ", stream);
        es_print_escaped(stream, series, ES_ESCAPE_TERMINAL);
    }
    fprintf(stream, " (%s)\n", meanings[policy]);
}

int64_t es_summary_collapse_before_nan(const es_run_summary *summary)
{
    for (size_t i = 0; i < summary->n_flags; i++) { /* by onset */
        const es_flag *flag = &summary->flags[i];
        if (flag->kind == ES_FLAG_NAN)
            return flag->collapse_reported < 0
                       ? ES_UNKNOWN
                       : flag->onset - flag->collapse_reported;
    }
    return ES_UNKNOWN;
}

es_severity es_summary_severity(const es_run_summary *summary)
{
    es_severity highest = ES_SEVERITY_NONE;
    for (size_t i = 0; i < summary->n_flags; i++)
        if (summary->flags[i].stands && summary->flags[i].severity > highest)
            highest = summary->flags[i].severity;
    return highest;
}

bool es_summary_is_ok(const es_run_summary *summary)
{
    return summary->judged && !summary->end_damaged &&
           es_summary_severity(summary) == ES_SEVERITY_NONE;
}

bool es_summary_alarms(const es_run_summary *summary)
{
    return es_summary_severity(summary) >= ES_SEVERITY_ERROR;
}
