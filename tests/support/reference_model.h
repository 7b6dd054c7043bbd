/**
 * The whole model (analyzer/README.md) once more: its forward pass in
 * double, one plain loop after the other. Written from the specification
 * alone, so that gradients can be measured by differences and a mistake of the
 * trainer does not stand here as well. Small models only.
 */
#ifndef ES_TESTS_REFERENCE_MODEL_H
#define ES_TESTS_REFERENCE_MODEL_H

#include "hooks/trainer/model/model.h"

/** Section 7's arrays of one configuration, by number. */
typedef struct es_ref_model {
    es_model_config config;
    size_t n_arrays;
    char (*names)[64];
    int (*dims)[2]; /* the second is 0 for a vector */
    size_t *sizes;
    double **values;
} es_ref_model;

/** Every array of the configuration, full of zeros. */
es_ref_model *es_ref_model_new(const es_model_config *config);
/** The parameters of a model, in double, under the model's own numbers.
 *  Fails the test if the model has other names or sizes than section 7. */
es_ref_model *es_ref_model_copy(es_model *model);
void es_ref_model_free(es_ref_model *ref);

/** An array by name; NULL if the architecture has none. */
double *es_ref_model_array(const es_ref_model *ref, const char *name);

/** True for u and v of SNorm, which belong to the model but do not train. */
bool es_ref_is_state(const char *name);
/** Rounds every value to float32, which is what a trainer is given. */
void es_ref_model_round(es_ref_model *ref);

/** One power iteration on every u and v, as a training step begins with. The
 *  passes below take them as they are. */
void es_ref_model_iterate(es_ref_model *ref);

/** What one pass found. */
typedef struct es_ref_result {
    double loss, ce, ereg;
    double range;   /* range losses, weighted */
    double *logits; /* (B,T,V) */
    /* (L,B,H,T) by their definitions; ENTROPY is -sum a ln(a + 1e-9), and of
       LSE there is none. */
    double *rows[ES_N_ROW_STATISTICS];
    double *qkv;      /* (L,N,3d), rotated; N = B T */
    double *x;        /* (L,N,d) the blocks' outputs */
    double *residual; /* (L,N,d) what the FFN's output was added to, scaled; of
                         a layer without FFN its output */
    double *c;        /* (L,B,H,T) of PowerSoftmax */
    bool c_is_given;  /* c is read instead of written: the backward pass takes
                         it as a constant, so differences have to as well */
    double clearance; /* how far the nearest kink is: of a ReLU's input from 0,
                         of a deviation from its tolerance; and of what float32
                         cannot resolve: a LayerNorm of equal numbers, ... */
} es_ref_result;

es_ref_result *es_ref_result_new(const es_model_config *config);
void es_ref_result_free(es_ref_result *result);

/** The forward pass over one micro-batch. */
void es_ref_model_run(const es_ref_model *ref, es_ref_result *result,
                      const int32_t *tokens, const int32_t *targets);

/**
 * dLoss along a direction by a central difference with steps of 1e-6.
 *
 *   result     of a run with these parameters; its logits and rows are lost,
 *              c, clearance and the losses are not
 *   at         entries of the model's arrays: (n) pointers
 *   direction  (n)
 */
double es_ref_model_difference(const es_ref_model *ref, es_ref_result *result,
                               const int32_t *tokens, const int32_t *targets,
                               double *const *at, const double *direction,
                               size_t n);

/** dLoss/dentry of one array by es_ref_model_difference; 0 for what does not
 *  train: u, v, and the biases of v under `--bias qk`. */
double es_ref_model_gradient(const es_ref_model *ref, es_ref_result *result,
                             const int32_t *tokens, const int32_t *targets,
                             size_t index, size_t entry);

/** True if section 2 or 5 keeps an entry from training. */
bool es_ref_model_is_frozen(const es_ref_model *ref, size_t index,
                            size_t entry);

#endif
