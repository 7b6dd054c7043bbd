/* usage: record RUN.db LAYERS HEADS HERTZ SECONDS
 *
 * Makes a recording for tests/soak/readers.py with the recorder's C interface:
 * pushes the entropy of all heads and a loss HERTZ times per second, and prints
 * how many frames were pushed and committed. Exits with 1 if the two numbers
 * differ. */
#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "hooks/recorder/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static es_recorder *begin(const char *path, int64_t n_layer, int64_t n_head,
                          int *entropy, int *loss)
{
    const es_run_info run = {.size = sizeof run,
                             .n_layer = n_layer,
                             .n_head = n_head,
                             .d_model = ES_UNKNOWN,
                             .ctx = ES_UNKNOWN,
                             .vocab = ES_UNKNOWN,
                             .batch = ES_UNKNOWN,
                             .seed = ES_UNKNOWN};
    const es_recorder_options options = {
        .size = sizeof options, .path = path, .run = &run};
    es_recorder *recorder = NULL;
    if (es_recorder_open(&recorder, &options) < 0 ||
        es_recorder_series(recorder, entropy, "entropy", ES_SHAPE_HEAD,
                           ES_PHASE_TRAIN, NULL) < 0 ||
        es_recorder_series(recorder, loss, "loss", ES_SHAPE_RUN, ES_PHASE_TRAIN,
                           NULL) < 0) {
        fprintf(stderr, "record: %s\n", es_message());
        exit(1);
    }
    return recorder;
}

static void sleep_until(int64_t ms)
{
    const int64_t left = ms - es_now_ms();
    const struct timespec nap = {.tv_sec = left / 1000,
                                 .tv_nsec = left % 1000 * 1000000};
    if (left > 0)
        nanosleep(&nap, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: record RUN.db LAYERS HEADS HERTZ SECONDS\n");
        return 2;
    }
    const int64_t n_layer = strtoll(argv[2], NULL, 10);
    const int64_t n_head = strtoll(argv[3], NULL, 10);
    const double hertz = strtod(argv[4], NULL), seconds = strtod(argv[5], NULL);
    const size_t n = (size_t)(n_layer * n_head);
    int entropy, loss;
    float *values = NULL;
    if (es_alloc(&values, n, sizeof *values, "values") < 0)
        return 1;
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(i + 1) / (float)n;
    es_recorder *recorder = begin(argv[1], n_layer, n_head, &entropy, &loss);
    const int64_t start = es_now_ms();
    for (int64_t step = 0; es_now_ms() - start < 1000 * seconds; step++) {
        if (es_recorder_push(recorder, entropy, step, values, n) < 0 ||
            es_recorder_push(recorder, loss, step, values, 1) < 0)
            fprintf(stderr, "record: step %lld: %s\n", (long long)step,
                    es_message());
        sleep_until(start + (int64_t)(1000 * (double)(step + 1) / hertz));
    }
    es_recorder_report report;
    if (es_recorder_close(recorder, ES_RUN_FINISHED, &report) < 0)
        fprintf(stderr, "record: %s\n", es_message());
    printf("%llu %llu\n", (unsigned long long)report.pushed,
           (unsigned long long)report.committed);
    free(values);
    return report.pushed != report.committed;
}
