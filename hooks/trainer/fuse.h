/** Implements entropy-train fuse: simplifies a trained model for private
 *  inference (model/simplify.h) and compares it with the original on held-out
 *  data. */
#ifndef ES_FUSE_H
#define ES_FUSE_H

#include "hooks/trainer/start.h"
#include "hooks/trainer/train.h"

/** Largest difference of the loss, relative to max(1, loss), and of a head's
 *  entropy in nats, that counts as rounding. Trained models of 12 layers differ
 *  by 2e-7; fp32 rounds logits of 1000 to 1e-4. */
#define ES_FUSE_TOLERANCE 1e-4

/** Results for one layer of both models, or for all layers. Entropies are in
 *  nats: means over the heads with a finite entropy, NaN if no entropy is
 *  finite. */
typedef struct es_fuse_layer {
    double before, after;
    /* largest difference between the models in the entropy of a head. Heads
     * that are NaN in both models do not count; NaN if a head is NaN in only
     * one of them. */
    double difference;
} es_fuse_layer;

typedef struct es_fuse_result {
    es_start start;                    /* description of the loaded weights */
    es_settings before, after;         /* settings of the original and of the
                                          simplified model */
    es_losses loss_before, loss_after; /* losses of both models on the same
                                          held-out data */
    es_fuse_layer *layers; /* (n_layers + 1) one for each layer, then one for
                              all layers; NULL if the evaluation was stopped */
    int n_layers;
    int n_fused;    /* number of layers in which the two FFN matrices were
                       multiplied into one */
    int n_dropped;  /* number of layers whose FFN was removed; if 0, both
                       models compute the same function */
    bool is_folded; /* true if WNorm or SNorm was folded into the matrices */
    bool is_equal;  /* true if the results of both models agree within
                       ES_FUSE_TOLERANCE; false if a loss is NaN */
    bool is_written;
} es_fuse_result;

/**
 * Simplifies the model in settings->init and writes the result to
 * settings->fused, as a checkpoint at step 0 of a new run. settings->init is a
 * checkpoint, a folder of checkpoints, or weights that --init accepts. Both
 * models are then evaluated on settings->eval_batches micro-batches of held-out
 * data, in fp32 on the CPU, without emulated half precision. The file is
 * written only if both models give equal results or an FFN was dropped; it
 * appears complete or not at all.
 *
 *   watch  callbacks, of which on_warning and should_stop are called
 *
 * Returns ES_OK (see the result); ES_EUSAGE; ES_EIO, also if settings->fused
 * exists; ES_EFORMAT; or a status of es_start_settings, es_trainer_new,
 * es_start_load, es_simplify_model or es_checkpoint_write. The result must be
 * freed in every case.
 */
es_status es_fuse(es_fuse_result *result, const es_settings *settings,
                  const es_train_watch *watch) ES_MUST_USE;
void es_fuse_free(es_fuse_result *result);

/** Prints the result as a table. */
void es_fuse_print(FILE *out, const es_fuse_result *result);

#endif
