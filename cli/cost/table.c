/* Prints the table of entropy-scan cost: one row for each model, with its
 * modelled costs and their intervals. Below the table, prints the
 * costs that run files contain as measured and, with --inventory, lists of the
 * models' operations. */
#include "cli/cost/cost.h"

#include "cli/output/grid.h"
#include "cli/output/print.h"
#include "cli/runs/model.h"

#include <math.h>
#include <string.h>

/* Appends two cells, which contain a value and its interval. */
static void put_modelled(es_sheet *sheet, const char *title, const char *range,
                         es_modelled modelled, double unit)
{
    const double value = modelled.value / unit;
    const int digits = value < 0.0995 ? 4 : value < 9.995 ? 2 : 1;
    if (isnan(value)) {
        es_sheet_put(sheet, title, "-");
        es_sheet_put(sheet, range, "-");
        return;
    }
    es_sheet_put(sheet, title, "%.*f", digits, value);
    es_sheet_put(sheet, range, "%.*f-%.*f", digits, modelled.low / unit, digits,
                 modelled.high / unit);
}

static void put_saving(es_sheet *sheet, const char *title, const char *range,
                       es_modelled saving)
{
    if (isnan(saving.value)) {
        es_sheet_put(sheet, title, "-");
        es_sheet_put(sheet, range, "-");
        return;
    }
    es_sheet_put(sheet, title, "%.2fx", saving.value);
    es_sheet_put(sheet, range, "%.2f-%.2f", saving.low, saving.high);
}

static void put_flops(es_sheet *sheet, const char *title, double flops)
{
    const double billions = flops / 1e9;
    es_sheet_put(sheet, title, billions < 0.0995 ? "%.2g" : "%.1f", billions);
}

static void fill_sheet(es_sheet *sheet, const es_cost_entry *entries, size_t n,
                       bool runs)
{
    const double gb = 1 / es_cost_shown(ES_COST_BYTES, 1);
    const double minute = 1 / es_cost_shown(ES_COST_SECONDS, 1);
    for (size_t i = 0; i < n; i++) {
        const es_cost_model *model = &entries[i].model;
        const es_flops flops = es_flops_forward(&model->shape, model->ctx);
        es_sheet_begin_row(sheet, NULL);
        if (runs)
            es_sheet_put_name(sheet, "file", entries[i].path);
        es_sheet_put_name(sheet, "model", entries[i].title);
        es_sheet_put_integer(sheet, "L", model->shape.n_layer);
        es_sheet_put_integer(sheet, "d", model->shape.d_model);
        es_sheet_put_integer(sheet, "T", model->ctx);
        if (runs)
            es_sheet_put_measured(sheet, "eval ppl", entries[i].eval_ppl);
        put_flops(sheet, "FFN", flops.ffn);
        put_flops(sheet, "attention", flops.attention);
        put_modelled(sheet, "GB", "95%", es_cost_predict(ES_COST_BYTES, model),
                     gb);
        put_modelled(sheet, "minutes", "95%",
                     es_cost_predict(ES_COST_SECONDS, model), minute);
        put_saving(sheet, "GB saved", "95%",
                   es_cost_saving(ES_COST_BYTES, &entries[0].model, model));
        put_saving(sheet, "time saved", "95%",
                   es_cost_saving(ES_COST_SECONDS, &entries[0].model, model));
    }
}

/* Prints notes on models without a modelled cost and on models outside of the
 * fitted range. */
static void print_notes(FILE *stream, const es_cost_entry *entries, size_t n)
{
    size_t n_outside = 0;
    fputs("\n"
          "FFN, attention: FLOPs in billions. GB, minutes: modelled from "
          "AERO's tables 4 to 7;\n"
          "saved: compared with the first model; 95%: interval of the value "
          "to its left.\n",
          stream);
    for (size_t i = 0; i < n; i++) {
        const char *why = es_cost_unmodelled(&entries[i].model);
        n_outside += !why && !es_cost_is_fitted(&entries[i].model);
        if (!why)
            continue;
        es_print_escaped(stream, entries[i].title, ES_ESCAPE_TERMINAL);
        fprintf(stream, ": not modelled: %s\n", why);
    }
    if (n_outside)
        fprintf(stream,
                "%zu of %zu models are outside of the published range (L 12 to "
                "18, H 12, d 768,\n"
                "T 128 to 512): 15%% is added to their intervals.\n",
                n_outside, n);
}

/* Prints the cost of a model with simplified blocks as AERO's tables count it:
   with only one of the model's two LayerNorms. */
static void print_as_counted(FILE *stream, const es_cost_entry *entry)
{
    const es_arch *arch = &entry->model.shape.arch;
    es_cost_model counted = entry->model;
    counted.first_norm = false;
    if (!entry->model.first_norm || !es_cost_counts_final_norm(&entry->model) ||
        arch->layer_norm || arch->rms_norm || es_cost_unmodelled(&counted))
        return;
    es_print_escaped(stream, entry->title, ES_ESCAPE_TERMINAL);
    fprintf(stream,
            ": AERO counts one of its two LayerNorms: %.2f GB, %.2f minutes\n",
            es_cost_shown(ES_COST_BYTES,
                          es_cost_predict(ES_COST_BYTES, &counted).value),
            es_cost_shown(ES_COST_SECONDS,
                          es_cost_predict(ES_COST_SECONDS, &counted).value));
}

static void print_inventory(FILE *stream, const es_cost_entry *entry)
{
    es_cost_line lines[ES_COST_LINES_MAX];
    char text[ES_COST_LINE_MAX];
    const size_t n = es_cost_inventory(lines, &entry->model);
    fputc('\n', stream);
    es_print_escaped(stream, entry->title, ES_ESCAPE_TERMINAL);
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "%s%s",
                i == 0                                      ? "\n  "
                : lines[i].product && !lines[i - 1].product ? "\n  "
                                                            : "; ",
                es_cost_line_print(text, &lines[i]));
    fputc('\n', stream);
}

es_status es_cost_print_table(FILE *stream, const es_cost_entry *entries,
                              size_t n, bool inventory)
{
    es_sheet sheet = {0};
    es_table_options form;
    bool runs = false;
    es_table_options_for(&form, stream);
    for (size_t i = 0; i < n; i++)
        runs = runs || entries[i].path;
    fill_sheet(&sheet, entries, n, runs);
    es_status status = es_sheet_print(&sheet, stream, &form);
    es_sheet_free(&sheet);
    if (status < 0)
        return status;
    print_notes(stream, entries, n);
    for (size_t i = 0; i < n; i++)
        print_as_counted(stream, &entries[i]);
    for (size_t i = 0; i < n; i++)
        if (entries[i].n_measured &&
            (status = es_cost_print_measured(stream, &entries[i])) < 0)
            return status;
    for (size_t i = 0; inventory && i < n; i++)
        print_inventory(stream, &entries[i]);
    return ES_OK;
}
