/* Writes attention maps as comments of a long CSV, which import reads back, and
   as JSON lines. */
#include "cli/exchange/export_internal.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

#include <string.h>

bool es_export_wants_maps(const es_export_options *options)
{
    for (size_t i = 0; i < options->n_names; i++)
        if (strcmp(options->names[i], ES_EXPORT_MAPS) == 0)
            return true;
    return options->n_names == 0;
}

bool es_export_wants_map(const es_export_options *options, const es_map *map)
{
    return es_export_wants_maps(options) &&
           (options->phase == ES_PHASE_ANY ||
            (options->phase == ES_PHASE_ONLY_EVAL) ==
                (map->phase == ES_PHASE_EVAL));
}

/** User data of the callbacks for es_reader_maps. */
typedef struct walk {
    FILE *out;
    const es_run_info *info;
    const es_export_options *options;
} walk;

static float value_of(const float *values, int64_t i)
{
    return values ? values[i] : es_missing();
}

/* --- long CSV -------------------------------------------------------------*/

/* Prints a map as a comment "# attention_map: eval 300 2 - 32 128: 0.5 NA ...":
   the phase, step, layer, head ("-" for the mean over heads), number of cells
   per side and number of tokens per side, followed by the weights, query by
   query. */
static es_status print_map(void *user, const es_map *map, const float *values)
{
    const walk *w = user;
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
        const float value = value_of(values, i);
        fprintf(w->out, " %s",
                es_is_missing(value) ? "NA" : es_float_print(text, value));
    }
    fputc('\n', w->out);
    return ES_OK;
}

es_status es_export_maps_csv(const es_export *e, es_reader *reader, size_t run,
                             const es_export_options *options)
{
    walk w = {e->out, &e->info, options};
    return es_reader_maps(reader, run, print_map, &w);
}

/* --- JSON lines -----------------------------------------------------------*/

static es_status put_map(void *user, const es_map *map, const float *values)
{
    const walk *w = user;
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
            es_export_put_value(&json, NULL,
                                value_of(values, q * map->size + k));
        es_json_write_end(&json, "]");
    }
    es_json_write_end(&json, "]}\n");
    return ES_OK;
}

es_status es_export_maps_jsonl(const es_export *e, es_reader *reader,
                               size_t run, const es_export_options *options)
{
    walk w = {e->out, &e->info, options};
    return es_reader_maps(reader, run, put_map, &w);
}
