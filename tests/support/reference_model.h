/**
 * A second implementation of the complete model, which computes the forward
 * pass in double with plain loops. It was written only from the specification
 * (analyzer/README.md), so that it does not repeat mistakes of the trainer.
 * Finite differences of its loss are compared with the trainer's gradients. It
 * is fast enough only for small models.
 */
#ifndef ES_TESTS_REFERENCE_MODEL_H
#define ES_TESTS_REFERENCE_MODEL_H

#include "hooks/trainer/model/model.h"

/**
 * A model: its configuration and its parameter arrays, in the order of section
 * 7 of analyzer/README.md.
 */
typedef struct es_ref_model {
    es_model_config config;
    size_t n_arrays;
    char (*names)[64];
    int (*dims)[2]; /* dimensions of each array; the second is 0 for a vector */
    size_t *sizes;
    double **values;
} es_ref_model;

/** Returns a model with every array of the configuration, filled with zeros. */
es_ref_model *es_ref_model_new(const es_model_config *config);
/**
 * Returns a copy of a model's parameters in double, with the same array
 * indices. Fails the test if the model's names or sizes differ from section 7
 * of analyzer/README.md.
 */
es_ref_model *es_ref_model_copy(es_model *model);
void es_ref_model_free(es_ref_model *ref);

/** Returns the array called `name`; NULL if the architecture has none. */
double *es_ref_model_array(const es_ref_model *ref, const char *name);

/**
 * Returns true for the vectors u and v of SNorm, which belong to the model but
 * are not trained.
 */
bool es_ref_is_state(const char *name);
/** Rounds every value to float32, the precision of the trainer's parameters. */
void es_ref_model_round(es_ref_model *ref);

/**
 * Runs one power iteration on every u and v, as at the start of a training
 * step. The forward passes do not change u and v.
 */
void es_ref_model_iterate(es_ref_model *ref);

/** The results of one forward pass. */
typedef struct es_ref_result {
    double loss, ce, ereg;
    double range;   /* sum of the weighted range losses */
    double *logits; /* (B,T,V) */
    /* (L,B,H,T) row statistics by their definitions, except that ENTROPY is
     * -sum(a * ln(a + 1e-9)) over the weights a, and LSE is not computed. */
    double *rows[ES_N_ROW_STATISTICS];
    double *qkv;      /* (L,N,3d), rotated; N = B T */
    double *x;        /* (L,N,d) outputs of the layers */
    double *residual; /* (L,N,d) scaled input to which the FFN's output is
                         added; without FFN, the output of the layer */
    double *c;        /* (L,B,H,T) of PowerSoftmax */
    /* true if the row constant c of PowerSoftmax is an input instead of an
     * output. Finite differences need fixed values of c, because the backward
     * pass treats c as a constant. */
    bool c_is_given;
    /* smallest distance of any value of this pass from the point at which its
     * function has a kink: 0 for the input of a ReLU, and the tolerance for a
     * deviation in the regulariser. For other values, such as the variance of a
     * LayerNorm, the distance from the resolution of float32 is used */
    double clearance;
} es_ref_result;

es_ref_result *es_ref_result_new(const es_model_config *config);
void es_ref_result_free(es_ref_result *result);

/** Runs the forward pass on one micro-batch. */
void es_ref_model_run(const es_ref_model *ref, es_ref_result *result,
                      const int32_t *tokens, const int32_t *targets);

/**
 * Returns the derivative of the loss along a direction, by a central difference
 * with steps of 1e-6.
 *
 *   result     result of a forward pass with these parameters; its logits and
 *              rows are overwritten, but c, clearance and the losses are kept
 *   at         n pointers to entries of the model's arrays
 *   direction  (n) change of each entry per unit of the step
 */
double es_ref_model_difference(const es_ref_model *ref, es_ref_result *result,
                               const int32_t *tokens, const int32_t *targets,
                               double *const *at, const double *direction,
                               size_t n);

/**
 * Returns the derivative of the loss with respect to one entry of an array,
 * computed with es_ref_model_difference. Returns 0 for entries that are not
 * trained: SNorm's vectors u and v, and the value biases with `--bias qk`.
 */
double es_ref_model_gradient(const es_ref_model *ref, es_ref_result *result,
                             const int32_t *tokens, const int32_t *targets,
                             size_t index, size_t entry);

/**
 * Returns true if section 2 or 5 of analyzer/README.md excludes an entry from
 * training.
 */
bool es_ref_model_is_frozen(const es_ref_model *ref, size_t index,
                            size_t entry);

#endif
