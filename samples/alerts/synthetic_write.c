/* Writes a synthetic history as a run file. */
#include "samples/alerts/synthetic.h"

#include <stdio.h>

static es_status write_series(es_writer *writer, int64_t run,
                              const es_synthetic *of, const char *name,
                              es_shape shape, const float *values, size_t n)
{
    int64_t id;
    bool any = false;
    for (size_t i = 0; i < of->n_samples * n && !any; i++)
        any = values[i] != 0;
    if (!any) /* counts of nothing: not every recorder writes them */
        return ES_OK;
    es_status status =
        es_writer_series(writer, &id, run, name, shape, ES_PHASE_TRAIN, NULL);
    for (size_t i = 0; i < of->n_samples && status == ES_OK; i++)
        status = es_writer_sample(writer, id, of->steps[i], values + i * n, n);
    return status;
}

static es_status write_all(es_writer *writer, int64_t run,
                           const es_synthetic *of)
{
    size_t n_layers = (size_t)of->run.n_layers;
    size_t n = n_layers * (size_t)of->run.n_heads;
    const struct {
        const char *name;
        es_shape shape;
        const float *values;
        size_t n;
    } series[] = {
        {"entropy", of->n_entropy == n ? ES_SHAPE_HEAD : ES_SHAPE_LAYER,
         of->entropy, of->n_entropy},
        {"max_logit", ES_SHAPE_HEAD, of->max_logit, n},
        {"nonfinite_rows", ES_SHAPE_HEAD, of->nonfinite_rows, n},
        {"nan_activations", ES_SHAPE_LAYER, of->nan_activations, n_layers},
        {"loss", ES_SHAPE_RUN, of->loss, 1},
    };
    es_status status = ES_OK;
    for (size_t i = 0; i < sizeof series / sizeof *series && !status; i++)
        status = write_series(writer, run, of, series[i].name, series[i].shape,
                              series[i].values, series[i].n);
    return status;
}

es_status es_synthetic_write(es_writer *writer, const es_synthetic *history,
                             const char *name)
{
    char config[64] = "{}";
    int64_t run;
    int64_t planned = history->run.planned_steps, ctx = history->run.ctx;
    if (planned > 0)
        snprintf(config, sizeof config, "{\"steps\":%lld}", (long long)planned);
    const es_run_info info = {
        .name = name,
        .config = config,
        .n_layer = history->run.n_layers,
        .n_head = history->run.n_heads,
        .ctx = ctx > 0 ? ctx : ES_UNKNOWN,
        .d_model = ES_UNKNOWN,
        .vocab = ES_UNKNOWN,
        .batch = ES_UNKNOWN,
        .seed = ES_UNKNOWN,
    };
    es_status status = es_writer_begin(writer);
    if (status == ES_OK)
        status = es_writer_run(writer, &run, &info, 0);
    if (status == ES_OK)
        status = write_all(writer, run, history);
    if (status == ES_OK)
        status = es_writer_end_run(writer, run, ES_RUN_FINISHED);
    if (status == ES_OK)
        return es_writer_commit(writer);
    es_writer_rollback(writer);
    return status;
}
