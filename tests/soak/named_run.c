/* Records a run in which every name is TEXT, for hostile_names.py: the names of
 * the run, its program, its host, a series, a layer and an event, and a key and
 * a value of the configuration.
 *
 * usage: named_run RUN.db TEXT
 *
 * Refused items are left out, with a message; exit 3 if the run itself is
 * refused. */
#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"
#include "store/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 2, STEPS = 12 };

static char *config_of(const char *text)
{
    char *config;
    size_t n;
    es_json_writer json = {.stream = es_text_stream(&config, &n)};
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, "steps", STEPS);
    es_json_write_text(&json, text, "a value");
    es_json_write_text(&json, "a key", text);
    es_json_write_array(&json, "layers");
    for (int i = 0; i < LAYERS; i++) {
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "name", text);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]}");
    return fclose(json.stream) == 0 ? config : NULL;
}

static void forgive(es_status status)
{
    if (status < 0)
        fprintf(stderr, "named_run: %s\n", es_message());
}

/* The entropies of the first heads collapse, so there are flags and alerts. */
static es_status write_samples(es_writer *writer, int64_t run, const char *text)
{
    static const char *const names[] = {"entropy", "loss"};
    int64_t series[3];
    int n_series = 0;
    es_status status = ES_OK;
    for (int i = 0; i < 2 && status == ES_OK; i++)
        status = es_writer_series(writer, &series[n_series++], run, names[i],
                                  i ? ES_SHAPE_RUN : ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL);
    const es_status named = es_writer_series(
        writer, &series[2], run, text, ES_SHAPE_HEAD, ES_PHASE_TRAIN, text);
    forgive(named);
    for (int64_t step = 0; step < STEPS && status == ES_OK; step++) {
        const float value = step < 4 ? 2.5f : 0.001f;
        const float values[] = {value, 2, value, 2};
        if ((status = es_writer_sample(writer, series[0], step, values, 4)) ==
            ES_OK)
            status = es_writer_sample(writer, series[1], step, values, 1);
        if (named == ES_OK)
            forgive(es_writer_sample(writer, series[2], step, values, 4));
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *text = argv[2];
    char *config = config_of(text);
    es_writer *writer = NULL;
    int64_t run;
    const es_run_info info = {.name = text,
                              .arch = "SM+LN+G",
                              .program = text,
                              .host = text,
                              .config = config,
                              .n_layer = LAYERS,
                              .n_head = HEADS,
                              .ctx = 16,
                              .d_model = ES_UNKNOWN,
                              .vocab = ES_UNKNOWN,
                              .batch = ES_UNKNOWN,
                              .seed = ES_UNKNOWN};
    const es_event event = {.step = 5,
                            .kind = "note",
                            .severity = ES_SEVERITY_WARNING,
                            .layer = ES_UNKNOWN,
                            .head = ES_UNKNOWN,
                            .message = text};
    es_status status = es_writer_open(&writer, argv[1], ES_FAST);
    if (status == ES_OK)
        status = es_writer_run(writer, &run, &info, 0);
    if (status == ES_OK)
        status = write_samples(writer, run, text);
    if (status == ES_OK)
        forgive(es_writer_event(writer, run, &event));
    if (status == ES_OK)
        status = es_writer_end_run(writer, run, ES_RUN_FINISHED);
    forgive(status);
    if (status == ES_OK)
        status = es_writer_close(writer);
    else
        es_writer_abandon(writer);
    free(config);
    return status == ES_OK ? 0 : 3;
}
