/**
 * A second implementation of the whole model (analyzer/README.md): its forward
 * pass in double, as plain loops. It is written from the specification alone,
 * so that differences can check the gradients and it does not repeat a mistake
 * of the trainer. It is for small models only.
 */
#ifndef ES_TESTS_REFERENCE_MODEL_H
#define ES_TESTS_REFERENCE_MODEL_H

#include "hooks/trainer/model/model.h"

/** The arrays of section 7 of one configuration, by number. */
typedef struct es_ref_model {
    es_model_config config;
    size_t n_arrays;
    char (*names)[64];
    int (*dims)[2]; /* the second is 0 for a vector */
    size_t *sizes;
    double **values;
} es_ref_model;

/** Returns a model with every array of the configuration, filled with zeros. */
es_ref_model *es_ref_model_new(const es_model_config *config);
/**
 * Returns the parameters of a model in double, numbered as in the model. Fails
 * the test if the model's names or sizes differ from section 7.
 */
es_ref_model *es_ref_model_copy(es_model *model);
void es_ref_model_free(es_ref_model *ref);

/** Returns an array by name; NULL if the architecture has none. */
double *es_ref_model_array(const es_ref_model *ref, const char *name);

/**
 * Returns true for u and v of SNorm, which belong to the model but are not
 * trained.
 */
bool es_ref_is_state(const char *name);
/** Rounds every value to float32, because a trainer gets float32. */
void es_ref_model_round(es_ref_model *ref);

/**
 * Runs one power iteration on every u and v, as at the start of a training
 * step. The passes below do not change u and v.
 */
void es_ref_model_iterate(es_ref_model *ref);

/** The results of one pass. */
typedef struct es_ref_result {
    double loss, ce, ereg;
    double range;   /* range losses, weighted */
    double *logits; /* (B,T,V) */
    /* (L,B,H,T) by their definitions. ENTROPY is -sum a ln(a + 1e-9), and
       there is no LSE. */
    double *rows[ES_N_ROW_STATISTICS];
    double *qkv;      /* (L,N,3d), rotated; N = B T */
    double *x;        /* (L,N,d) outputs of the blocks */
    double *residual; /* (L,N,d) what the FFN's output is added to, scaled; the
                         block's output if a layer has no FFN */
    double *c;        /* (L,B,H,T) of PowerSoftmax */
    bool c_is_given;  /* c is read instead of written: the backward pass takes
                         it as a constant, so differences must do so too */
    double clearance; /* distance to the nearest kink: of a ReLU's input from
                         0, of a deviation from its tolerance, and of a number
                         from what float32 cannot resolve, such as a LayerNorm
                         of equal numbers */
} es_ref_result;

es_ref_result *es_ref_result_new(const es_model_config *config);
void es_ref_result_free(es_ref_result *result);

/** Runs the forward pass over one micro-batch. */
void es_ref_model_run(const es_ref_model *ref, es_ref_result *result,
                      const int32_t *tokens, const int32_t *targets);

/**
 * Returns dLoss along a direction, by a central difference with steps of 1e-6.
 *
 *   result     of a run with these parameters; its logits and rows are lost,
 *              but not c, clearance and the losses
 *   at         entries of the model's arrays: n pointers
 *   direction  n numbers
 */
double es_ref_model_difference(const es_ref_model *ref, es_ref_result *result,
                               const int32_t *tokens, const int32_t *targets,
                               double *const *at, const double *direction,
                               size_t n);

/**
 * Returns dLoss/dentry of one array by es_ref_model_difference; 0 for what is
 * not trained: u, v, and the biases of v with `--bias qk`.
 */
double es_ref_model_gradient(const es_ref_model *ref, es_ref_result *result,
                             const int32_t *tokens, const int32_t *targets,
                             size_t index, size_t entry);

/** Returns true if section 2 or 5 excludes an entry from training. */
bool es_ref_model_is_frozen(const es_ref_model *ref, size_t index,
                            size_t entry);

#endif
