/**
 * Computes the cost of one private forward pass: counts the nonlinear
 * operations by kind and the matrix products by size, and predicts
 * communication and latency with a model fitted to published tables.
 *
 * The costs are those of AERO's protocols (Jha and Reagen, arXiv 2410.13060,
 * tables 4 to 7), in which two parties compute with encrypted weights or
 * activations. Communication and latency are modelled, not measured, and each
 * value comes with an interval of its uncertainty. README.md has the formulas.
 */
#ifndef ES_PRIVATE_COST_H
#define ES_PRIVATE_COST_H

#include "analyzer/cost/flops.h"

/** Specifies whether the costs include the norm after the last layer. */
typedef enum es_cost_final_norm {
    ES_COST_FINAL_AUTO, /* the norm after the last layer exists if any layer has
                           LN or RN */
    ES_COST_FINAL_ON,
    ES_COST_FINAL_OFF
} es_cost_final_norm;

/** A model and the input it runs on. */
typedef struct es_cost_model {
    es_cost_shape shape;
    int64_t ctx;   /* T, number of tokens; the batch is one sequence */
    int64_t vocab; /* V, size of the vocabulary; unknown if below 1 */
    es_cost_final_norm final_norm; /* whether the norm after the last layer is
                                      counted */
    bool first_norm; /* true if the norms are counted as in the simplified
                        block: one in each layer with LN, and one in the first
                        layer even if it has no LN. AERO's tables do not count a
                        first norm without LN */
} es_cost_model;

/** Returns true if the counts include the norm after the last layer. Without
 *  LN or with LN in some layers it is counted if it exists; with LN in all
 *  layers it is not counted, as in AERO's tables. */
bool es_cost_counts_final_norm(const es_cost_model *model);

/** Kinds of operations that are counted to determine the cost. */
typedef enum es_cost_item {
    ES_COST_SOFTMAX,    /* L H T T scores */
    ES_COST_LAYER_NORM, /* T d per LayerNorm */
    ES_COST_GELU,       /* GELUs: tokens times FFN width, for each FFN with G,
                           GT or GS */
    ES_COST_RELU,       /* ReLUs: tokens times FFN width, for each FFN with R or
                           LR */
    ES_COST_LINEAR,     /* values that enter or leave products with the layers'
                           weights: per token 2 * d for each d x d matrix,
                           and 2 * (d + FFN width) for each FFN of two
                           matrices */
    ES_COST_OUTPUT,     /* T V logits */
    ES_COST_FIXED,      /* always 1, for the constant part of a pass */
    ES_N_COST_ITEMS
} es_cost_item;

/**
 * Returns the name of an item: "softmax", "LayerNorm", "GELU", "ReLU",
 * "linear", "output", "fixed".
 */
const char *es_cost_item_name(es_cost_item item);

/**
 * Counts the operations of one forward pass over one sequence, by kind.
 *
 *   out  (ES_N_COST_ITEMS)  counts by item; all NaN if a size is below 1; only
 *                           ES_COST_OUTPUT is NaN if the vocabulary is unknown
 *
 * Temperatures, thresholds, normalised weights and learnable scalars cost
 * nothing, because they are folded into the weights.
 */
void es_cost_count(double out[ES_N_COST_ITEMS], const es_cost_model *model);

/* --- the inventory --------------------------------------------------------*/

/**
 * One line of the inventory of a model's operations: n functions applied to
 * matrices in R^(rows x columns), or n products of matrices in R^(rows x inner)
 * and R^(inner x columns).
 */
typedef struct es_cost_line {
    const char *kind; /* kind of function: "SM", "PSM", "LN", "G", "R", "gate";
                         or of product: "projections", "scores", "values", "FFN
                         in", "FFN out", "FFN fused", "output" */
    bool product;
    double n;
    double rows, inner, columns; /* sizes of the matrices; inner is 0 for a
                                    function */
} es_cost_line;

enum { ES_COST_LINES_MAX = 16 };

/**
 * Lists the operations of one forward pass, functions first, in AERO's
 * notation: "SM: 144 x R^128x128; LN: 24 x R^128x768; G: 12 x R^128x3072".
 * Leaves out lines with n = 0, and the product of the output layer if V is
 * unknown.
 *
 *   out  (ES_COST_LINES_MAX)
 *
 * Returns the number of lines; 0 if a size is below 1.
 */
size_t es_cost_inventory(es_cost_line out[ES_COST_LINES_MAX],
                         const es_cost_model *model);

enum { ES_COST_LINE_MAX = 128 };

/**
 * Prints a line of the inventory as "SM: 144 x R^128x128" or "scores: 144 x
 * R^128x64 R^64x128". Returns `out`.
 */
char *es_cost_line_print(char out[ES_COST_LINE_MAX], const es_cost_line *line);

/* --- modelled costs ------------------------------------------------------- */

/**
 * A predicted value with its interval of about 95 %. All three fields are NaN
 * if the cost cannot be modelled; es_cost_unmodelled returns the reason.
 */
typedef struct es_modelled {
    double value, low, high;
} es_modelled;

typedef enum es_cost_kind {
    ES_COST_BYTES,  /* bytes that the parties exchange */
    ES_COST_SECONDS /* seconds from input to output, including communication */
} es_cost_kind;

/**
 * Returns NULL if communication and latency can be modelled, otherwise the
 * reason: a size or the vocabulary is unknown, or no figures are published for
 * a part of the architecture.
 */
const char *es_cost_unmodelled(const es_cost_model *model);

/**
 * Returns true if the model is within the range of the published figures: L
 * from 12 to 18, T from 128 to 512, d = 768, H = 12, mlp_mult = 4, V from
 * 16,384 to 50,257.
 */
bool es_cost_is_fitted(const es_cost_model *model);

/**
 * Predicts the cost of one forward pass.
 *
 * The interval is the prediction plus or minus two standard deviations. The
 * standard deviation combines the uncertainty of the coefficients with the
 * residuals of the fit. Outside the fitted range 15 % of the prediction is
 * added in quadrature. Errors of coefficients of different groups are treated
 * as independent, which makes the interval too wide rather than too narrow.
 */
es_modelled es_cost_predict(es_cost_kind kind, const es_cost_model *model);

/**
 * Predicts the cost of n operations of one kind, for example of n GELUs. The
 * relative width of the interval is that of a model outside the fitted range.
 * All fields are NaN if n is NaN.
 */
es_modelled es_cost_of_numbers(es_cost_kind kind, es_cost_item item, double n);

/**
 * Splits the value of es_cost_predict by item, such as softmax or GELU. The
 * parts add up to the value.
 *
 *   out  (ES_N_COST_ITEMS)  costs by item; all NaN if the cost cannot be
 *        modelled
 */
void es_cost_parts(double out[ES_N_COST_ITEMS], es_cost_kind kind,
                   const es_cost_model *model);

/**
 * Returns the ratio base / model of the two predicted costs: how many times
 * cheaper the model is than the base. The errors of items that both models
 * share cancel, so the relative interval is narrower than those of the two
 * costs. If both models have the same counts, the ratio is exactly 1. NaN if
 * one of the costs cannot be modelled.
 */
es_modelled es_cost_saving(es_cost_kind kind, const es_cost_model *base,
                           const es_cost_model *model);

#endif
