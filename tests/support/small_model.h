/** A small model with random parameters and one micro-batch, for tests. */
#ifndef ES_TESTS_SMALL_MODEL_H
#define ES_TESTS_SMALL_MODEL_H

#include "hooks/trainer/model/model.h"

#define ES_SMALL_TOKENS 64

typedef struct es_small_model {
    es_model *model;
    const es_model_config *config;
    int n; /* number of tokens, B * T, at most ES_SMALL_TOKENS */
    int32_t tokens[ES_SMALL_TOKENS], targets[ES_SMALL_TOKENS];
    es_losses losses;
} es_small_model;

/** Returns the configuration L=2 H=3 d=12 T=5 V=11 B=2 m=2 with all biases.
 *  Fails the test if arch is invalid. */
es_model_config es_small_config(const char *arch);

/** Builds the model with random parameters, which are so large that each has a
 *  visible effect. */
es_small_model es_small_open(const es_model_config *config);
/** Builds the model of es_small_config(arch). */
es_small_model es_small_open_arch(const char *arch);
void es_small_close(es_small_model *s);

/** Runs a measured forward pass over the micro-batch; fills in the losses. */
void es_small_forward(es_small_model *s);

/** Runs es_small_forward and computes the gradients of this pass only. */
void es_small_gradients(es_small_model *s);

/** Takes a step with the given settings, or with the defaults if `train` is
 *  NULL. Returns the norm of the gradients. */
double es_small_update(es_small_model *s, const es_train_config *train,
                       double lr);

/** Returns the index of the array with this name; fails the test if there is no
 *  such array. */
size_t es_small_find(const es_small_model *s, const char *name);

#endif
