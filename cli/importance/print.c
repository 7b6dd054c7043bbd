/* Prints the results of entropy-scan importance as a table with notes, or as
   JSON. */
#include "cli/importance/importance.h"

#include "analyzer/base/json_write.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"

#include <math.h>

/* --- table ----------------------------------------------------------------*/

static void put_association(es_sheet *sheet, const char *title,
                            const es_important *setting, int outcome)
{
    const es_association *by = &setting->by[outcome];
    const double p = setting->p_holm[outcome];
    if (isnan(by->strength))
        es_sheet_put(sheet, title, "-");
    else if (setting->number && fabs(by->strength) >= 0.005)
        es_sheet_put(sheet, title, "%+.2f", by->strength);
    else
        es_sheet_put(sheet, title, "%.2f", fabs(by->strength));
    if (isnan(p))
        es_sheet_put(sheet, "p", "-");
    else
        es_sheet_put(sheet, "p", "%.2g", p);
}

/* Prints a note for each reason for a "-" in the table, for example that an
 * outcome is the same in all runs or that too few runs have it. */
static void note_unknown(const es_importance *importance, FILE *stream)
{
    for (int k = 0; k < ES_N_OUTCOMES; k++) {
        size_t n_reasons[ES_N_REASONS] = {0};
        for (size_t i = 0; i < importance->n; i++)
            n_reasons[importance->settings[i].by[k].reason]++;
        const char *title = es_outcome_title(importance, (es_run_outcome)k);
        if (n_reasons[ES_REASON_FEW])
            fprintf(stream, "%s -: fewer than three runs have this outcome\n",
                    title);
        if (n_reasons[ES_REASON_CONSTANT] && k == ES_OUTCOME_NAN &&
            isinf(importance->outcomes[k][0]))
            fprintf(stream, "%s -: no run has a NaN\n", title);
        else if (n_reasons[ES_REASON_CONSTANT])
            fprintf(stream,
                    "%s -: the outcome or the setting is the same in all runs "
                    "that have it\n",
                    title);
    }
}

static void print_notes(const es_importance *importance, FILE *stream)
{
    size_t n_finite = 0;
    for (size_t i = 0; i < importance->n_runs; i++)
        n_finite += isnan(importance->outcomes[ES_OUTCOME_QUALITY][i]) ? 0 : 1;
    fprintf(stream,
            "\n"
            "%zu runs; %s: final value of the %zu runs whose last loss is "
            "finite\n",
            importance->n_runs,
            es_outcome_title(importance, ES_OUTCOME_QUALITY), n_finite);
    fputs("overloaded, collapsed: shares of heads near their ceiling, near 0; "
          "NaN at: step of the first NaN; runs without a NaN rank last\n"
          "with a sign: Spearman's rank correlation; without: eta squared of "
          "ranks, for categories\n"
          "p: by permuting the runs, adjusted for all settings and outcomes by "
          "Holm\n",
          stream);
    note_unknown(importance, stream);
}

es_status es_importance_print(const es_importance *importance, FILE *stream)
{
    es_sheet sheet = {0};
    es_table_options options;
    es_table_options_for(&options, stream);
    for (size_t i = 0; i < importance->n; i++) {
        const es_important *setting = &importance->settings[i];
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put_name(&sheet, "setting", setting->key);
        es_sheet_put(&sheet, "values", "%zu", setting->n_values);
        for (int k = 0; k < ES_N_OUTCOMES; k++)
            put_association(&sheet,
                            es_outcome_title(importance, (es_run_outcome)k),
                            setting, k);
    }
    es_status status = es_sheet_print(&sheet, stream, &options);
    es_sheet_free(&sheet);
    if (status == ES_OK)
        print_notes(importance, stream);
    return status;
}

/* --- JSON -----------------------------------------------------------------*/

static void put_setting(es_json_writer *json, const es_important *setting)
{
    static const char *const names[] = {"quality", "overloaded", "collapsed",
                                        "nan_step"};
    es_json_write_line(json);
    es_json_write_object(json, NULL);
    es_json_write_text(json, "name", setting->key);
    es_json_write_text(json, "kind", setting->number ? "number" : "category");
    es_json_write_size(json, "values", setting->n_values);
    es_json_write_object(json, "outcomes");
    for (int k = 0; k < ES_N_OUTCOMES; k++) {
        const es_association *by = &setting->by[k];
        es_json_write_object(json, names[k]);
        es_json_write_size(json, "n", by->n);
        es_json_write_stated(json, "strength", by->strength, "missing");
        es_json_write_stated(json, "p", by->p, "missing");
        es_json_write_stated(json, "p_holm", setting->p_holm[k], "missing");
        es_json_write_text(json, "reason", es_reason_text(by->reason));
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "}}");
}

void es_importance_print_json(const es_importance *importance, FILE *stream)
{
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, "schema", 1);
    es_json_write_size(&json, "runs", importance->n_runs);
    es_json_write_text(&json, "quality",
                       importance->evaluated ? "eval_ppl" : "loss");
    es_json_write_array(&json, "settings");
    for (size_t i = 0; i < importance->n; i++)
        put_setting(&json, &importance->settings[i]);
    es_json_write_end(&json, "]}");
    fputc('\n', stream);
}
