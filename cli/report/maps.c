/* Writes the attention maps of a run's layers into the report page, compressed.
   If there is not enough space for the maps of all steps, only the last steps
   are written. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "store/map.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static bool is_of(const es_report_maps *g, const es_map *map)
{
    return map->head == ES_MAP_MEAN && map->phase == g->first.phase &&
           map->size == g->first.size && map->n_ctx == g->first.n_ctx;
}

/* Finds the phase and size of the last map in the file, and counts the steps
 * that have maps of this phase and size. */
static es_status survey(void *user, const es_map *map, const float *values)
{
    es_report_maps *g = user;
    (void)values;
    if (map->head != ES_MAP_MEAN)
        return ES_OK;
    if (!g->n_steps || !is_of(g, map)) {
        g->first = *map;
        g->n_steps = 0;
    } else if (map->step == g->first.step) {
        return ES_OK;
    }
    g->first.step = map->step;
    g->n_steps++;
    return ES_OK;
}

/* Rounds to three significant digits, which suffice for a colour and a printed
   number and halve the compressed size. NaN and infinity keep their bits. */
static void round_values(float *out, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7f800000u) != 0x7f800000u)
            bits = (bits + 0x1000u) & ~0x1fffu;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static es_status take(void *user, const es_map *map, const float *values)
{
    es_report_maps *g = user;
    const size_t cells = (size_t)(map->size * map->size);
    if (!is_of(g, map))
        return ES_OK;
    if (!g->n_seen || map->step != g->first.step)
        g->n_seen++;
    g->first.step = map->step;
    if (g->n_seen <= g->from || g->n_seen - g->from > g->n_steps)
        return ES_OK;
    const size_t at = g->n_seen - g->from - 1;
    g->steps[at] = map->step;
    float *to = g->values + (at * g->n_layer + (size_t)map->layer) * cells;
    if (values)
        round_values(to, values, cells);
    return ES_OK;
}

static es_status pack(es_json_writer *json, const es_report_maps *g,
                      size_t n_values)
{
    unsigned long n_packed = compressBound(n_values * sizeof *g->values);
    unsigned char *packed = NULL;
    es_status status = es_alloc(&packed, n_packed, 1, "attention maps");
    if (status < 0)
        return status;
    if (compress2(packed, &n_packed, (const unsigned char *)g->values,
                  n_values * sizeof *g->values, Z_BEST_COMPRESSION) != Z_OK) {
        free(packed);
        return es_fail(ES_ENOMEM, "out of memory for attention maps");
    }
    es_json_write_name(json, "packed");
    fputc('"', json->stream);
    es_report_base64(json->stream, packed, n_packed);
    fputc('"', json->stream);
    json->comma = true;
    free(packed);
    return ES_OK;
}

static es_status put(FILE *out, const es_report_maps *g, size_t run,
                     size_t n_values)
{
    es_json_writer json = {.stream = out, .in_html = true};
    fputs("\n<script type=\"application/json\" class=\"maps\">", out);
    es_json_write_object(&json, NULL);
    es_json_write_size(&json, "run", run);
    es_json_write_text(&json, "phase", es_phase_name(g->first.phase));
    es_json_write_size(&json, "layers", g->n_layer);
    es_json_write_integer(&json, "size", g->first.size);
    es_json_write_integer(&json, "ctx", g->first.n_ctx);
    es_json_write_size(&json, "recorded", g->n_recorded);
    es_json_write_array(&json, "steps");
    for (size_t i = 0; i < g->n_steps; i++)
        es_json_write_integer(&json, NULL, g->steps[i]);
    es_json_write_end(&json, "]");
    es_status status = pack(&json, g, n_values);
    es_json_write_end(&json, "}");
    fputs("</script>", out);
    return status;
}

es_status es_report_maps_read(es_report_maps *out, es_reader *reader,
                              size_t run, size_t n_layer, size_t most)
{
    out->n_layer = n_layer;
    es_status status = es_reader_maps(reader, run, survey, out);
    if (status < 0 || !out->n_steps)
        return status;
    const size_t n_step = n_layer * (size_t)(out->first.size * out->first.size);
    const size_t n_fit = most / n_step;
    out->n_recorded = out->n_steps;
    if (out->n_steps > n_fit)
        out->n_steps = n_fit;
    if (!out->n_steps)
        return ES_OK;
    out->from = out->n_recorded - out->n_steps;
    if ((status = es_alloc(&out->steps, out->n_steps, sizeof *out->steps,
                           "attention maps")) < 0 ||
        (status = es_alloc(&out->values, out->n_steps * n_step,
                           sizeof *out->values, "attention maps")) < 0)
        return status;
    for (size_t i = 0; i < out->n_steps * n_step; i++)
        out->values[i] = es_missing();
    return es_reader_maps(reader, run, take, out);
}

void es_report_maps_free(es_report_maps *maps)
{
    free(maps->steps);
    free(maps->values);
}

es_status es_report_write_maps(FILE *out, es_reader *reader, size_t run,
                               const es_run_summary *summary, size_t n_runs)
{
    es_report_maps g = {0};
    es_status status = es_report_maps_read(&g, reader, summary->number - 1,
                                           (size_t)summary->n_layer,
                                           ES_REPORT_MAP_VALUES / n_runs);
    if (status == ES_OK && g.n_steps)
        status =
            put(out, &g, run,
                g.n_steps * g.n_layer * (size_t)(g.first.size * g.first.size));
    es_report_maps_free(&g);
    return status;
}
