/*
 * Shows how to record attention entropies from your own training loop in C.
 *
 *     cc record.c -o record $(pkg-config --cflags --libs entropyrecord)
 *     ./record run.db && entropy-scan run.db --heatmap
 *
 * The "model" of this example does not learn: each head attends to a window
 * that narrows with depth and time, so that the head's entropy is known in
 * closed form. In your program the L x H entropies come from your attention.
 */
#include <entropyscan.h>

#include <math.h>
#include <stdio.h>

enum { LAYERS = 6, HEADS = 8, CONTEXT = 128, STEPS = 200 };

/* Returns the mean entropy of causal rows that attend uniformly to their last
   `window` keys. */
static float window_entropy(int window)
{
    double sum = 0;
    for (int row = 1; row <= CONTEXT; row++)
        sum += log(row < window ? row : window);
    return (float)(sum / CONTEXT);
}

static void measure(float entropy[LAYERS * HEADS], int step)
{
    for (int layer = 0; layer < LAYERS; layer++)
        for (int head = 0; head < HEADS; head++) {
            int narrow = step * layer * (head + 1) / 64;
            int window = CONTEXT - narrow;
            entropy[layer * HEADS + head] =
                window_entropy(window > 1 ? window : 1);
        }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s RUN.db\n", argv[0]);
        return 2;
    }
    es_run_info run = {.size = sizeof run,
                       .name = "embedded",
                       .arch = "windows",
                       .n_layer = LAYERS,
                       .n_head = HEADS,
                       .ctx = CONTEXT,
                       .d_model = ES_UNKNOWN,
                       .vocab = ES_UNKNOWN,
                       .batch = ES_UNKNOWN,
                       .seed = ES_UNKNOWN,
                       .program = "record.c",
                       .config = "{\"steps\":200}"};
    es_recorder_options options = {
        .size = sizeof options, .path = argv[1], .run = &run};
    es_recorder *recorder = NULL;
    int series = 0;
    /* After a failure the training continues: all calls accept NULL. */
    if (es_recorder_open(&recorder, &options) < 0 ||
        es_recorder_series(recorder, &series, "entropy", ES_SHAPE_HEAD,
                           ES_PHASE_TRAIN, "nats") < 0)
        fprintf(stderr, "%s: not recording: %s\n", argv[0], es_message());

    for (int step = 0; step < STEPS; step++) {
        float entropy[LAYERS * HEADS];
        measure(entropy, step);
        es_recorder_push(recorder, series, step, entropy, LAYERS * HEADS);
        if (es_recorder_stop_requested(recorder))
            break;
    }

    es_recorder_report report;
    if (es_recorder_close(recorder, ES_RUN_FINISHED, &report) < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], es_message());
        return 3;
    }
    printf("%llu frames recorded\n", (unsigned long long)report.committed);
    return 0;
}
