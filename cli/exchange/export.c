/* Writes a run as long CSV, which import reads back bit for bit, or as JSON
   lines. Attention maps follow the samples, as comments of the CSV or as lines
   of JSON. Only one step or one map is in memory at a time. */
#include "cli/exchange/export_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/about.h"

#include <string.h>

/* --- selection ------------------------------------------------------------ */

static bool is_wanted(const es_export_options *options, const es_series *series)
{
    if (options->phase != ES_PHASE_ANY &&
        (options->phase == ES_PHASE_ONLY_EVAL) !=
            (series->phase == ES_PHASE_EVAL))
        return false;
    for (size_t i = 0; i < options->n_names; i++)
        if (strcmp(options->names[i], series->name) == 0)
            return true;
    return options->n_names == 0;
}

/* Returns true if the options select attention maps. */
static bool selects_maps(const es_export_options *options)
{
    for (size_t i = 0; i < options->n_names; i++)
        if (strcmp(options->names[i], ES_EXPORT_MAPS) == 0)
            return true;
    return options->n_names == 0;
}

bool es_export_wants_map(const es_export_options *options, const es_map *map)
{
    return selects_maps(options) && (options->phase == ES_PHASE_ANY ||
                                     (options->phase == ES_PHASE_ONLY_EVAL) ==
                                         (map->phase == ES_PHASE_EVAL));
}

/* Checks that the run has a series for each selected name; otherwise returns
   the error of es_reader_find. */
static es_status check_names(es_reader *reader, size_t run,
                             const es_export_options *options)
{
    es_series found;
    for (size_t i = 0; i < options->n_names; i++) {
        const char *name = options->names[i];
        bool eval = options->phase == ES_PHASE_ONLY_EVAL;
        if (strcmp(name, ES_EXPORT_MAPS) == 0)
            continue;
        es_status status = es_reader_find(
            reader, run, name, eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN, &found);
        if (status == ES_ENOTFOUND && options->phase == ES_PHASE_ANY)
            status = es_reader_find(reader, run, name, ES_PHASE_EVAL, &found);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

void es_export_end(es_export *e)
{
    for (size_t i = 0; i < e->n_columns; i++)
        free(e->columns[i].values);
    free(e->columns);
}

es_status es_export_begin(es_export *e, FILE *out, es_reader *reader,
                          size_t run, const es_export_options *options)
{
    *e = (es_export){.out = out};
    es_status status;
    if ((status = check_names(reader, run, options)) < 0 ||
        (status = es_reader_run(reader, run, &e->info)) < 0)
        return status;
    size_t n = es_reader_n_series(reader, run);
    status = es_alloc(&e->columns, n, sizeof *e->columns, "the series");
    for (size_t i = 0; status == ES_OK && i < n; i++) {
        es_series series;
        status = es_reader_series(reader, run, i, &series);
        if (status == ES_OK && is_wanted(options, &series))
            e->columns[e->n_columns++] = (es_export_column){.series = series};
    }
    return status;
}

es_export_column *es_export_find(const es_export *e, const es_series *series)
{
    for (size_t i = 0; i < e->n_columns; i++)
        if (e->columns[i].series.id == series->id)
            return &e->columns[i];
    return NULL;
}

/* --- long CSV -------------------------------------------------------------*/

static void print_head(const es_export *e)
{
    fputs("# entropy-scan " ES_VERSION " export. An empty cell "
          "means no sample; NA means a missing value.\n",
          e->out);
    es_about_print(e->out, &e->info);
    for (size_t i = 0; i < e->n_columns; i++)
        es_about_print_series(e->out, &e->columns[i].series);
    fputs("step,layer,head", e->out);
    for (size_t i = 0; i < e->n_columns; i++) {
        fputc(',', e->out);
        es_column_print(e->out, e->columns[i].series.name,
                        e->columns[i].series.phase);
    }
    fputc('\n', e->out);
}

static void print_cell(FILE *out, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    fputs(es_is_missing(value) ? "NA" : es_float_print(text, value), out);
}

/* Prints one row: for each series of the given shape, its value at `index` of
   the current step. */
static void print_row(const es_export *e, int64_t step, es_shape shape,
                      size_t index)
{
    size_t n_head = (size_t)e->info.n_head;
    fprintf(e->out, "%lld,", (long long)step);
    if (shape == ES_SHAPE_LAYER)
        fprintf(e->out, "%zu", index);
    else if (shape == ES_SHAPE_HEAD)
        fprintf(e->out, "%zu", index / n_head);
    fputc(',', e->out);
    if (shape == ES_SHAPE_HEAD)
        fprintf(e->out, "%zu", index % n_head);
    for (size_t i = 0; i < e->n_columns; i++) {
        const es_export_column *c = &e->columns[i];
        fputc(',', e->out);
        if (c->present && c->series.shape == shape)
            print_cell(e->out, c->values[index]);
    }
    fputc('\n', e->out);
}

static void print_step(es_export *e, int64_t step)
{
    for (int shape = ES_SHAPE_RUN; shape <= ES_SHAPE_HEAD; shape++) {
        size_t n = 0;
        for (size_t i = 0; i < e->n_columns; i++)
            if (e->columns[i].present &&
                (int)e->columns[i].series.shape == shape)
                n = e->columns[i].series.n_values;
        for (size_t i = 0; i < n; i++)
            print_row(e, step, (es_shape)shape, i);
    }
    for (size_t i = 0; i < e->n_columns; i++)
        e->columns[i].present = false;
}

static es_status keep_values(es_export_column *target, const float *values)
{
    size_t n = target->series.n_values;
    es_status status = ES_OK;
    if (!target->values)
        status = es_alloc(&target->values, n, sizeof *values, "a step");
    if (status < 0)
        return status;
    memcpy(target->values, values, n * sizeof *values);
    target->present = true;
    return ES_OK;
}

static es_status print_samples(es_export *e, es_cursor *cursor)
{
    es_status status;
    int64_t step, open_step = 0;
    const float *values;
    es_series series;
    bool open = false;
    while ((status = es_cursor_next_of_run(cursor, &step, &values, &series)) ==
           ES_OK) {
        es_export_column *target = es_export_find(e, &series);
        if (!target)
            continue;
        if (open && step != open_step)
            print_step(e, open_step);
        open = true;
        open_step = step;
        status = keep_values(target, values);
        if (status != ES_OK || ferror(e->out))
            return status;
    }
    if (open)
        print_step(e, open_step);
    return status < 0 ? status : ES_OK;
}

/* User data of the callbacks for es_reader_maps. */
typedef struct map_walk {
    FILE *out;
    const es_run_info *info;
    const es_export_options *options;
} map_walk;

static float map_value(const float *values, int64_t i)
{
    return values ? values[i] : es_missing();
}

/* Prints a map as a comment "# attention_map: eval 300 2 - 32 128: 0.5 NA ...":
   the phase, step, layer, head ("-" for the mean over heads), number of cells
   per side and number of tokens per side, followed by the weights, query by
   query. */
static es_status print_map(void *user, const es_map *map, const float *values)
{
    const map_walk *w = user;
    char text[ES_FLOAT_TEXT_MAX];
    if (!es_export_wants_map(w->options, map))
        return ES_OK;
    fprintf(w->out, "# " ES_EXPORT_MAPS ": %s %lld %lld ",
            es_phase_name(map->phase), (long long)map->step,
            (long long)map->layer);
    if (map->head == ES_MAP_MEAN)
        fputc('-', w->out);
    else
        fprintf(w->out, "%lld", (long long)map->head);
    fprintf(w->out, " %lld %lld:", (long long)map->size, (long long)map->n_ctx);
    for (int64_t i = 0; i < map->size * map->size; i++) {
        const float value = map_value(values, i);
        fprintf(w->out, " %s",
                es_is_missing(value) ? "NA" : es_float_print(text, value));
    }
    fputc('\n', w->out);
    return ES_OK;
}

es_status es_export_csv(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options)
{
    es_export e;
    es_cursor *cursor = NULL;
    es_status status = es_export_begin(&e, out, reader, run, options);
    if (status == ES_OK)
        status = es_cursor_open_run(&cursor, reader, run);
    if (status == ES_OK) {
        print_head(&e);
        status = print_samples(&e, cursor);
    }
    if (status == ES_OK)
        status = es_reader_maps(reader, run, print_map,
                                &(map_walk){out, &e.info, options});
    es_cursor_close(cursor);
    es_export_end(&e);
    return status;
}

/* --- JSON lines -----------------------------------------------------------*/

/* Writes a value as JSON: null if the value is missing, a string if it is not
   finite. */
static void put_value(es_json_writer *json, const char *name, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (es_is_missing(value))
        es_json_write_null(json, name);
    else if (isfinite(value))
        es_json_write_number(json, name, value);
    else
        es_json_write_text(json, name, es_float_print(text, value));
}

/* Writes the values of a sample: a number, an array, or an array of rows,
   depending on the shape of the series. */
static void put_values(es_json_writer *json, const float *values,
                       const es_series *series, size_t n_head)
{
    const bool by_head = series->shape == ES_SHAPE_HEAD;
    const char *name = "value";
    if (series->shape != ES_SHAPE_RUN) {
        es_json_write_array(json, name);
        name = NULL;
    }
    for (size_t i = 0; i < series->n_values; i++) {
        if (by_head && i % n_head == 0)
            es_json_write_array(json, NULL);
        put_value(json, name, values[i]);
        if (by_head && (i + 1) % n_head == 0)
            es_json_write_end(json, "]");
    }
    if (series->shape != ES_SHAPE_RUN)
        es_json_write_end(json, "]");
}

static void put_about(const es_export *e)
{
    es_json_writer json = {.stream = e->out};
    es_json_write_object(&json, NULL);
    es_json_write_object(&json, "run");
    es_about_put(&json, &e->info);
    es_json_write_end(&json, "}");
    es_json_write_array(&json, "series");
    for (size_t i = 0; i < e->n_columns; i++) {
        const es_series *series = &e->columns[i].series;
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "name", series->name);
        es_json_write_text(&json, "phase", es_phase_name(series->phase));
        es_json_write_text(&json, "shape", es_shape_name(series->shape));
        es_json_write_text(&json, "unit", series->unit);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]}\n");
}

static void put_sample(const es_export *e, int64_t step, const float *values,
                       const es_series *series)
{
    es_json_writer json = {.stream = e->out};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "uuid", e->info.uuid);
    es_json_write_integer(&json, "step", step);
    es_json_write_text(&json, "series", series->name);
    es_json_write_text(&json, "phase", es_phase_name(series->phase));
    put_values(&json, values, series, (size_t)e->info.n_head);
    es_json_write_end(&json, "}\n");
}

static es_status put_map(void *user, const es_map *map, const float *values)
{
    const map_walk *w = user;
    es_json_writer json = {.stream = w->out};
    if (!es_export_wants_map(w->options, map))
        return ES_OK;
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "uuid", w->info->uuid);
    es_json_write_integer(&json, "step", map->step);
    es_json_write_text(&json, "series", ES_EXPORT_MAPS);
    es_json_write_text(&json, "phase", es_phase_name(map->phase));
    es_json_write_integer(&json, "layer", map->layer);
    if (map->head == ES_MAP_MEAN)
        es_json_write_null(&json, "head");
    else
        es_json_write_integer(&json, "head", map->head);
    es_json_write_integer(&json, "ctx", map->n_ctx);
    es_json_write_array(&json, "value");
    for (int64_t q = 0; q < map->size; q++) {
        es_json_write_array(&json, NULL);
        for (int64_t k = 0; k < map->size; k++)
            put_value(&json, NULL, map_value(values, q * map->size + k));
        es_json_write_end(&json, "]");
    }
    es_json_write_end(&json, "]}\n");
    return ES_OK;
}

es_status es_export_jsonl(FILE *out, es_reader *reader, size_t run,
                          const es_export_options *options)
{
    es_export e;
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    es_series series;
    es_status status = es_export_begin(&e, out, reader, run, options);
    if (status == ES_OK)
        status = es_cursor_open_run(&cursor, reader, run);
    if (status == ES_OK)
        put_about(&e);
    while (status == ES_OK && !ferror(out)) {
        status = es_cursor_next_of_run(cursor, &step, &values, &series);
        if (status == ES_OK && es_export_find(&e, &series))
            put_sample(&e, step, values, &series);
    }
    if (status == ES_DONE)
        status = es_reader_maps(reader, run, put_map,
                                &(map_walk){out, &e.info, options});
    es_cursor_close(cursor);
    es_export_end(&e);
    return status < 0 ? status : ES_OK;
}
