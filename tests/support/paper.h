/** Reads the published heatmaps in samples/published. */
#ifndef ES_TESTS_PAPER_H
#define ES_TESTS_PAPER_H

#define ES_PAPER_LAYERS 12
#define ES_PAPER_HEADS 12
#define ES_PAPER_VALUES (ES_PAPER_LAYERS * ES_PAPER_HEADS)
#define ES_PAPER_CTX 128

/**
 * Writes the 12x12 entropies of a published model, in nats, to `out`. `arch` is
 * "SM+LN+G", "SM+LN+R", "SM+G", "SM+R" or "SM".
 */
void es_paper_heatmap(float *out, const char *arch);

#endif
