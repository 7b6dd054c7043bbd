/* Writes and joins fragments of a distributed training run, for tests. */
#include "tests/support/cmocka_all.h"

#include "tests/support/fragments.h"

#include "tests/support/run_files.h"

#include <stdio.h>
#include <string.h>

#define L ES_RANKS_L
#define H ES_RANKS_H

int64_t es_rank_open_config(es_writer **w, void **state, const es_rank_file *f,
                            const char *config)
{
    int64_t run;
    es_run_info info =
        es_run_of(f->n_layer ? f->n_layer : L, f->n_head ? f->n_head : H);
    info.uuid = f->uuid ? f->uuid : ES_RANKS_UUID;
    info.batch = 4;
    info.config = config;
    *w = es_open_writer(es_folder_file(state, f->name));
    es_assert_ok(es_writer_run(*w, &run, &info, 0));
    return run;
}

int64_t es_rank_open(es_writer **w, void **state, const es_rank_file *f)
{
    char config[256];
    snprintf(config, sizeof config,
             "{\"lr\": 0.5, \"fragment\": {\"world\": %d, \"ranks\": [%s], "
             "\"layer\": %d, \"head\": %d}}",
             f->world ? f->world : 2, f->ranks, f->first_layer, f->first_head);
    return es_rank_open_config(w, state, f, config);
}

void es_rank_close(es_writer *w, int64_t run)
{
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
    es_assert_ok(es_writer_close(w));
}

void es_rank_put(es_writer *w, int64_t run, const char *name, es_phase phase,
                 int64_t step, const float *values, size_t n)
{
    const es_shape shape = n == 1   ? ES_SHAPE_RUN
                           : n == L ? ES_SHAPE_LAYER
                                    : ES_SHAPE_HEAD;
    int64_t series;
    es_assert_ok(es_writer_series(w, &series, run, name, shape, phase, NULL));
    es_assert_ok(es_writer_sample(w, series, step, values, n));
}

char es_rank_said[4096]; /* lines that es_join has reported */

static void hear(void *user, const char *line)
{
    (void)user;
    strcat(strcat(es_rank_said, line), "\n");
}

/** Joins the files (n) into all.db; returns the status of es_join. */
es_status es_rank_join(void **state, const char *const *names, size_t n)
{
    es_reader *readers[4];
    es_fragment fragments[4];
    es_rank_said[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        readers[i] = es_open_reader(es_folder_file(state, names[i]));
        es_assert_ok(es_fragment_read(&fragments[i], readers[i], 0));
    }
    es_writer *w = es_open_writer(es_folder_file(state, "all.db"));
    es_status status = es_join(w, fragments, n, hear, NULL);
    char message[ES_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", es_message());
    es_assert_ok(es_writer_close(w));
    for (size_t i = 0; i < n; i++) {
        es_fragment_free(&fragments[i]);
        es_reader_close(readers[i]);
    }
    if (status < 0)
        es_fail(status, "%s", message);
    return status;
}
