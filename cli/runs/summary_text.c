/* Creates texts about a run: the list of active flags, the description of the
   layers, and the line about m, the upper end of the highest entropy band. */
#include "cli/runs/summary.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/layers.h"
#include "cli/output/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *es_flag_title(const es_flag *flag)
{
    return flag->rule ? flag->rule->name : es_flag_name(flag->kind);
}

const es_flag_info *es_flag_advice(const es_flag *flag)
{
    return flag->rule ? NULL : es_flag_info_at(flag->kind);
}

/* Appends one entry for the active flags of a kind or rule, with the layers of
   all their episodes, as in "overload L0-2,9-11 (error)". Appends nothing
   unless `severity` is the highest severity of these flags. */
static void append_kind(es_text *to, const es_run_summary *summary,
                        es_severity severity, es_flag_kind kind,
                        const es_rule *rule)
{
    bool layers[ES_MAX_LAYERS + 1]; /* the last element is always false */
    const size_t n_layers = (size_t)summary->n_layer;
    es_severity highest = ES_SEVERITY_NONE;
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
    es_layers_append(to, summary->described, layers, n_layers);
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
        es_text_append(&to, es_summary_lacks_ceiling(summary) ? "ok (no ctx)"
                                                              : "ok");
    return to.length;
}

bool es_summary_lacks_ceiling(const es_run_summary *summary)
{
    return summary->ctx == ES_UNKNOWN && !(summary->ceiling > 0);
}

/* Returns true if two layers have the same kind, and the same ceiling to four
   digits. */
static bool is_alike(const es_run_summary *summary, size_t a, size_t b)
{
    char of_a[ES_FLOAT_TEXT_MAX], of_b[ES_FLOAT_TEXT_MAX];
    const es_layer *list = summary->described->list;
    es_number_print(of_a, es_summary_layer_ceiling(summary, a), 4);
    es_number_print(of_b, es_summary_layer_ceiling(summary, b), 4);
    return list[a].kind == list[b].kind && strcmp(of_a, of_b) == 0;
}

es_status es_summary_copy_layers(char **out, const es_run_summary *summary)
{
    const es_layers *known = summary->described;
    const char *before = "";
    char number[ES_FLOAT_TEXT_MAX];
    size_t size;
    *out = NULL;
    if (!known || (!known->has_kinds && !known->ceilings))
        return ES_OK;
    FILE *stream = es_text_stream(out, &size);
    for (size_t l = 0; stream && l < known->n_layers; l++) {
        bool seen = false;
        for (size_t i = 0; i < l && !seen; i++)
            seen = is_alike(summary, i, l);
        if (seen)
            continue;
        fputs(before, stream);
        for (size_t i = l, first = l; i < known->n_layers; i++) {
            if (!is_alike(summary, i, l))
                continue;
            for (first = i;
                 i + 1 < known->n_layers && is_alike(summary, i + 1, l);)
                i++;
            fprintf(stream, "%s%zu", first == l ? "L" : ",", first);
            if (i > first)
                fprintf(stream, "-%zu", i);
        }
        if (known->list[l].kind != ES_LAYER_UNKNOWN)
            fprintf(stream, " %s", es_layer_kind_name(known->list[l].kind));
        const double ceiling = es_summary_layer_ceiling(summary, l);
        if (!isnan(ceiling))
            fprintf(stream, ", ceiling %s",
                    es_number_print(number, ceiling, 4));
        before = "; ";
    }
    if (stream && fclose(stream) == 0)
        return ES_OK;
    free(stream ? *out : NULL);
    *out = NULL;
    return es_fail(ES_ENOMEM, "out of memory for the list of layers");
}

void es_summary_note_config(const es_run_summary *summary)
{
    if (summary->config_unread)
        es_print_note("%s: run %zu: config is not a JSON object: its settings, "
                      "layers and planned steps are unknown",
                      summary->path, summary->number);
    if (summary->described && summary->described->n_malformed)
        es_print_note(
            "%s: run %zu: in the array \"layers\" of config, %zu value%s "
            "invalid: the run's ceiling is used instead",
            summary->path, summary->number, summary->described->n_malformed,
            summary->described->n_malformed == 1 ? " is" : "s are");
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
    for (size_t i = 0; i < summary->n_flags; i++) { /* the flags are sorted by
                                                       onset */
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
