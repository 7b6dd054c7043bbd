/* Writes runs value by value through the writer, and loads runs as entropy-scan
 * does, for tests. Fails the test if a run cannot be loaded. */
#include "tests/support/recorded.h"
#include "cli/runs/settings.h"
#include "tests/support/test.h"

es_recorded es_record(const char *path, const es_run_info *info)
{
    es_recorded to = {.writer = NULL};
    es_assert_ok(es_writer_open(&to.writer, path, ES_FAST));
    es_record_run(&to, info);
    return to;
}

void es_record_run(es_recorded *to, const es_run_info *info)
{
    es_assert_ok(es_writer_run(to->writer, &to->run, info, 0));
    to->n_layers = (size_t)info->n_layer;
    to->n_heads = (size_t)info->n_head;
}

void es_record_sample(es_recorded *to, const char *name, es_phase phase,
                      int64_t step, const float *values, size_t n)
{
    int64_t series;
    es_shape shape = n == to->n_layers * to->n_heads ? ES_SHAPE_HEAD
                     : n == to->n_layers             ? ES_SHAPE_LAYER
                                                     : ES_SHAPE_RUN;
    if (strcmp(name, "loss") == 0 || strcmp(name, "ce") == 0)
        shape = ES_SHAPE_RUN;
    es_assert_ok(es_writer_series(to->writer, &series, to->run, name, shape,
                                  phase, "nats"));
    es_assert_ok(es_writer_sample(to->writer, series, step, values, n));
}

void es_record_all(es_recorded *to, const char *name, int64_t step, float value)
{
    float values[1024];
    size_t n = to->n_layers * to->n_heads;
    assert_true(n <= 1024);
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    es_record_sample(to, name, ES_PHASE_TRAIN, step, values, n);
}

void es_record_value(es_recorded *to, const char *name, int64_t step,
                     float value)
{
    es_record_sample(to, name, ES_PHASE_TRAIN, step, &value, 1);
}

void es_record_end(es_recorded *to, es_run_status status)
{
    es_assert_ok(es_writer_end_run(to->writer, to->run, status));
}

void es_record_close(es_recorded *to)
{
    es_assert_ok(es_writer_close(to->writer));
    to->writer = NULL;
}

es_run_summary *es_loaded(const char *path, size_t run,
                          const es_summary_options *options)
{
    es_reader *reader = es_open_reader(path);
    es_run_summary *out = NULL;
    es_assert_ok(es_summary_load(&out, reader, run, options));
    es_assert_ok(es_run_settings_read(out, reader, run));
    es_reader_close(reader);
    return out;
}

es_run_summary *es_loaded_run(const char *path, size_t run)
{
    es_summary_options options;
    es_summary_options_default(&options);
    return es_loaded(path, run, &options);
}

es_run_summary *es_loaded_series(const char *path, const char *series)
{
    es_summary_options options;
    es_summary_options_default(&options);
    options.series = series;
    return es_loaded(path, 0, &options);
}
