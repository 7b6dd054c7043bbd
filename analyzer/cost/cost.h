/**
 * What one private forward pass costs: the nonlinear operations by kind, the
 * matrix products by size, and the communication and latency that a model
 * fitted to published tables gives for them.
 *
 * The protocols are those of AERO (Jha and Reagen, arXiv 2410.13060, tables 4
 * to 7): two parties, encrypted weights or activations. What comes from them is
 * modelled, not measured, and every number has the interval that says how far
 * it is to be believed. README.md has the formulas.
 */
#ifndef ES_PRIVATE_COST_H
#define ES_PRIVATE_COST_H

#include "analyzer/cost/flops.h"

/** A model, and what it is run on. */
typedef struct es_cost_model {
    es_cost_shape shape;
    int64_t ctx;     /* T tokens of the one sequence */
    int64_t vocab;   /* V; below 1: unknown */
    bool final_norm; /* without LN: a LayerNorm after the last layer. With LN
                        there is one that AERO's tables do not count, and
                        neither do we */
} es_cost_model;

/** What costs. */
typedef enum es_cost_item {
    ES_COST_SOFTMAX,    /* L H T T scores */
    ES_COST_LAYER_NORM, /* T d of each LayerNorm */
    ES_COST_GELU,       /* T m d of each FFN that has one (G, GT) */
    ES_COST_RELU,       /* the same (R, LR) */
    ES_COST_LINEAR,     /* numbers into and out of products with the layers'
                           weights: T (2 d) a matrix d x d, T 2 (m + 1) d an FFN
                           of two matrices */
    ES_COST_OUTPUT,     /* T V logits */
    ES_COST_FIXED,      /* 1: what every pass has */
    ES_N_COST_ITEMS
} es_cost_item;

/** "softmax", "LayerNorm", "GELU", "ReLU", "linear", "output", "fixed". */
const char *es_cost_item_name(es_cost_item item);

/**
 * Counts the items of one forward pass over one sequence.
 *
 *   out  (ES_N_COST_ITEMS)  NaN, all of them, if a size is below 1; OUTPUT
 *        alone is NaN if the vocabulary is unknown
 *
 * Temperatures, thresholds, normalised weights and learnable scalars cost
 * nothing: they are folded into the weights.
 */
void es_cost_count(double out[ES_N_COST_ITEMS], const es_cost_model *model);

/* --- the inventory --------------------------------------------------------*/

/** A line of the inventory: n functions of R^(rows x columns), or n products
 *  of R^(rows x inner) with R^(inner x columns). */
typedef struct es_cost_line {
    const char
        *kind; /* "SM", "PSM", "LN", "G", "R", "gate"; "projections", "scores",
                  "values", "FFN in", "FFN out", "FFN fused", "output" */
    bool product;
    double n;
    double rows, inner, columns; /* inner: 0 of a function */
} es_cost_line;

enum { ES_COST_LINES_MAX = 16 };

/**
 * Lists what one forward pass has, functions first, as AERO writes it:
 * "SM: 144 x R^128x128; LN: 24 x R^128x768; G: 12 x R^128x3072". Nothing is
 * listed of which there is none; the output's product only where V is known.
 *
 *   out  (ES_COST_LINES_MAX)
 *
 * Returns the lines; 0 if a size is below 1.
 */
size_t es_cost_inventory(es_cost_line out[ES_COST_LINES_MAX],
                         const es_cost_model *model);

enum { ES_COST_LINE_MAX = 128 };

/** "SM: 144 x R^128x128"; "scores: 144 x R^128x64 R^64x128". Returns out. */
char *es_cost_line_print(char out[ES_COST_LINE_MAX], const es_cost_line *line);

/* --- what is modelled -----------------------------------------------------*/

/** A modelled number and its interval of about 95 %. All NaN: there is no
 *  model for it (es_cost_unmodelled says why). */
typedef struct es_modelled {
    double value, low, high;
} es_modelled;

typedef enum es_cost_kind {
    ES_COST_BYTES,  /* that the parties exchange */
    ES_COST_SECONDS /* from input to output, communication included */
} es_cost_kind;

/** NULL if both are modelled, or why not: a size or the vocabulary is unknown,
 *  or the published figures have no such attention. */
const char *es_cost_unmodelled(const es_cost_model *model);

/** The model is within the range of the published figures: L 12 to 18,
 *  T 128 to 512, d = 768, H = 12, m = 4, V 16,384 to 50,257. */
bool es_cost_is_fitted(const es_cost_model *model);

/**
 * The modelled cost of one forward pass.
 *
 * Its interval is two standard deviations, of the coefficients' uncertainty
 * and of the fit's residuals together; outside of the fitted range 15 % more
 * in quadrature. Errors of coefficients are taken as independent, which makes
 * it too wide rather than too narrow.
 */
es_modelled es_cost_predict(es_cost_kind kind, const es_cost_model *model);

/** What n numbers of an item are modelled to cost by themselves, such as those
 *  of one layer; the interval is that of shapes outside of the fitted range.
 *  NaN if n is. */
es_modelled es_cost_of_numbers(es_cost_kind kind, es_cost_item item, double n);

/** The value of es_cost_predict item by item: it is their sum.
 *
 *   out  (ES_N_COST_ITEMS)  NaN, all of them, if there is no model */
void es_cost_parts(double out[ES_N_COST_ITEMS], es_cost_kind kind,
                   const es_cost_model *model);

/**
 * How many times less the model costs than the base: base / model. What both
 * have in common cancels, so that the interval is narrower than theirs; it is
 * exactly 1 where they count the same. NaN if either has no model.
 */
es_modelled es_cost_saving(es_cost_kind kind, const es_cost_model *base,
                           const es_cost_model *model);

#endif
