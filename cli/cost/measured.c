/* Reads the measured costs of one layer, and prints them next to the modelled
 * bytes for the same number of values. The measurements are the series
 * cost.OPERATION.bytes, .rounds and .seconds of a run that
 * samples/private-inference/measure.py has recorded. */
#include "cli/cost/cost.h"

#include "analyzer/base/checked.h"
#include "cli/output/grid.h"
#include "cli/output/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "cost."

/* --- reading --------------------------------------------------------------*/

/* Finds the operation with the name `name` (n bytes) among the measured
 * operations of an entry. Adds the operation if the entry does not have it. */
static es_status find_operation(es_cost_measured **out, es_cost_entry *entry,
                                const char *name, size_t n)
{
    es_cost_measured *list = entry->measured;
    for (size_t i = 0; i < entry->n_measured; i++)
        if (strlen(list[i].operation) == n &&
            memcmp(list[i].operation, name, n) == 0) {
            *out = &list[i];
            return ES_OK;
        }
    es_status status = es_grow(&entry->measured, entry->n_measured + 1,
                               sizeof *entry->measured, "measurements");
    if (status < 0)
        return status;
    *out = &entry->measured[entry->n_measured];
    **out = (es_cost_measured){.bytes = NAN, .rounds = NAN, .seconds = NAN};
    if (!((*out)->operation = strndup(name, n)))
        return es_fail(ES_ENOMEM, "out of memory for measurements");
    entry->n_measured++;
    return ES_OK;
}

/* Returns the member that stores values in the unit `unit`, such as "bytes";
 * NULL if the unit is unknown. */
static double *unit_of(es_cost_measured *of, const char *unit)
{
    return strcmp(unit, "bytes") == 0     ? &of->bytes
           : strcmp(unit, "rounds") == 0  ? &of->rounds
           : strcmp(unit, "seconds") == 0 ? &of->seconds
                                          : NULL;
}

static es_status read_series(es_cost_entry *entry, es_reader *reader,
                             const es_series *series)
{
    const char *name = series->name + strlen(PREFIX);
    const char *dot = strrchr(name, '.');
    es_cost_measured *operation, none;
    int64_t step;
    float value;
    if (!dot || dot == name || !unit_of(&none, dot + 1) ||
        series->n_values != 1 || series->last_step == ES_UNKNOWN)
        return ES_OK;
    es_status status =
        find_operation(&operation, entry, name, (size_t)(dot - name));
    if (status < 0)
        return status;
    status =
        es_reader_sample(reader, series, series->last_step, &value, 1, &step);
    if (status == ES_OK)
        *unit_of(operation, dot + 1) = isfinite(value) ? (double)value : NAN;
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const es_cost_measured *)a)->operation,
                  ((const es_cost_measured *)b)->operation);
}

es_status es_cost_measured_read(es_cost_entry *entry, es_reader *reader,
                                size_t run)
{
    for (size_t i = 0; i < es_reader_n_series(reader, run); i++) {
        es_series series;
        es_status status = es_reader_series(reader, run, i, &series);
        if (status == ES_OK &&
            strncmp(series.name, PREFIX, strlen(PREFIX)) == 0)
            status = read_series(entry, reader, &series);
        if (status < 0)
            return status;
    }
    if (entry->n_measured > 0)
        qsort(entry->measured, entry->n_measured, sizeof *entry->measured,
              by_name);
    return ES_OK;
}

/* --- comparison with the model -------------------------------------------- */

/* Finds the item of the cost model that corresponds to an operation of one
 * layer. Returns false if the operation has no modelled cost, because no cost
 * has been published for products of two secret-shared matrices. */
static bool item_of(es_cost_item *out, const char *operation)
{
    static const struct {
        const char *operation;
        es_cost_item item;
    } items[] = {
        {"softmax", ES_COST_SOFTMAX},    {"LayerNorm", ES_COST_LAYER_NORM},
        {"GELU", ES_COST_GELU},          {"ReLU", ES_COST_RELU},
        {"projections", ES_COST_LINEAR}, {"FFN", ES_COST_LINEAR}};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (strcmp(items[i].operation, operation) == 0) {
            *out = items[i].item;
            return true;
        }
    return false;
}

/* Returns the number of values that the operation processes in one layer. */
static double numbers_of(const es_cost_model *model, const char *operation)
{
    const es_cost_shape *shape = &model->shape;
    const double t = (double)model->ctx, d = (double)shape->d_model;
    const double m = (double)shape->mlp_mult;
    if (strcmp(operation, "softmax") == 0)
        return (double)shape->n_head * t * t;
    if (strcmp(operation, "LayerNorm") == 0)
        return t * d;
    if (strcmp(operation, "projections") == 0)
        return 2 * es_cost_n_projections(shape) * t * d;
    return strcmp(operation, "FFN") == 0 ? 2 * (m + 1) * t * d : t * m * d;
}

es_cost_beside es_cost_measured_beside(const es_cost_model *model,
                                       const es_cost_measured *measured)
{
    es_cost_beside out = {NAN, {NAN, NAN, NAN}};
    es_cost_item item;
    if (!item_of(&item, measured->operation))
        return out;
    out.numbers = numbers_of(model, measured->operation);
    out.modelled = es_cost_of_numbers(ES_COST_BYTES, item, out.numbers);
    return out;
}

/* --- table ---------------------------------------------------------------- */

/* Appends a cell with a value; "-" if the value is NaN, because it was not
 * recorded or is not modelled. */
static void put_value(es_sheet *sheet, const char *title, int digits,
                      double value)
{
    if (isnan(value))
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%.*f", digits, value);
}

es_status es_cost_print_measured(FILE *stream, const es_cost_entry *entry)
{
    es_sheet sheet = {0};
    es_table_options form;
    es_table_options_for(&form, stream);
    for (size_t i = 0; i < entry->n_measured; i++) {
        const es_cost_measured *one = &entry->measured[i];
        const es_cost_beside beside =
            es_cost_measured_beside(&entry->model, one);
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put_name(&sheet, "operation", one->operation);
        put_value(&sheet, "numbers", 0, beside.numbers);
        put_value(&sheet, "MB", 2, one->bytes / 1e6);
        put_value(&sheet, "bytes a number", 0, one->bytes / beside.numbers);
        put_value(&sheet, "rounds", 0, one->rounds);
        put_value(&sheet, "seconds", 3, one->seconds);
        put_value(&sheet, "modelled MB", 2, beside.modelled.value / 1e6);
        if (isnan(beside.modelled.low))
            es_sheet_put(&sheet, "95%", "-");
        else
            es_sheet_put(&sheet, "95%", "%.2f-%.2f", beside.modelled.low / 1e6,
                         beside.modelled.high / 1e6);
    }
    fputc('\n', stream);
    es_print_escaped(stream, entry->path, ES_ESCAPE_TERMINAL);
    fputs(": ", stream);
    es_print_escaped(stream, entry->name, ES_ESCAPE_TERMINAL);
    fputs(": measured costs of one layer, and costs modelled from AERO's "
          "tables for "
          "the same number of values\n",
          stream);
    es_status status = es_sheet_print(&sheet, stream, &form);
    es_sheet_free(&sheet);
    return status;
}
