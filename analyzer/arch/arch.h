/**
 * Defines the notation of architectures. README.md in this folder contains the
 * grammar.
 */
#ifndef ES_ARCH_H
#define ES_ARCH_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_attention_kind {
    ES_SOFTMAX,
    ES_POWER_SOFTMAX,
    ES_SCALED_RELU /* RA: relu(s) / L */
} es_attention_kind;

/** Choices of the row length L, for attentions whose weights depend on L. */
typedef enum es_row_length {
    ES_LENGTH_NONE,
    ES_LENGTH_VISIBLE, /* the number of keys visible to the row */
    ES_LENGTH_CONTEXT  /* T, the length of the context */
} es_row_length;

typedef enum es_activation {
    ES_ACT_LINEAR,
    ES_ACT_GELU,         /* G: exact */
    ES_ACT_GELU_TANH,    /* GT */
    ES_ACT_RELU,         /* R */
    ES_ACT_LEAKY,        /* LR(...) */
    ES_ACT_GELU_SIGMOID, /* GS: x sigmoid(1.702 x) */
    ES_ACT_SWIGLU        /* SwiGLU: x * sigmoid(x), where x is the output of one
                            matrix, times the output of another matrix */
} es_activation;

typedef enum es_slope_kind {
    ES_SLOPE_FIXED,
    ES_SLOPE_LAYER,
    ES_SLOPE_GLOBAL
} es_slope_kind;

typedef enum es_ffn_kind {
    ES_FFN_TWO, /* two matrices, d -> m * d -> d, with or without activation */
    ES_FFN_SCALED, /* ScFFN */
    ES_FFN_FUSED   /* fused FFN: ScFuFFN; ScFuFFNe x and ScFuFFNi x also remove
                      the FFN of the first or last x layers */
} es_ffn_kind;

/** Bits that name the matrices to which WNorm or SNorm applies. */
enum { ES_NORM_QK = 1, ES_NORM_V = 2, ES_NORM_O = 4, ES_NORM_FFN = 8 };

/**
 * The largest power of PowerSoftmax. Up to this power, weights computed in
 * float32 have four correct digits.
 */
#define ES_POWER_MAX 64

/**
 * Kinds of parts that can be restricted to a range of layers, in the order of
 * the canonical form.
 */
typedef enum es_part_kind {
    ES_PART_NORM,         /* LN, RN */
    ES_PART_ACTIVATION,   /* activation: G, GT, GS, R, LR, SwiGLU */
    ES_PART_FFN,          /* ScFFN, ScFuFFN */
    ES_PART_NO_FFN,       /* NoFFN */
    ES_PART_WEIGHT_NORM,  /* WNorm */
    ES_PART_SPECTRAL_NORM /* SNorm */
} es_part_kind;

/** The parts of one layer. */
typedef struct es_layer_parts {
    bool norm;                /* LN or RN in both sub-blocks */
    es_activation activation; /* ES_ACT_LINEAR in a Sc... FFN, and with NoFFN */
    es_slope_kind slope_kind; /* used if activation is ES_ACT_LEAKY */
    double slope;
    es_ffn_kind ffn;
    bool no_ffn; /* true with NoFFN; FFNs can also be removed by ScFuFFNi and
                    ScFuFFNe, see es_arch_has_ffn */
    unsigned weight_norm, spectral_norm; /* bit sets of ES_NORM_... */
} es_layer_parts;

/** A part with a range of layers, first to last, as G[0-5] or LN[3]. Only the
 *  members of its kind are set in `parts`. */
typedef struct es_arch_span {
    es_part_kind kind;
    es_layer_parts parts;
    int first, last;
} es_arch_span;

enum { ES_ARCH_SPANS_MAX = 16 };

typedef struct es_arch {
    es_attention_kind attention;
    bool temperature; /* SM(t) */
    bool direct;      /* SM(t,direct): the temperatures themselves are learnt,
                         instead of their logarithms */
    double clip;      /* SM(clip tau): the largest logit that QK-Clip allows; 0
                         without QK-Clip */
    bool gate;        /* SM(gate), PSM(p,gate): gates the heads' outputs */
    int power;        /* PSM(p): even, 2 .. ES_POWER_MAX */
    double power_epsilon;
    bool power_plain; /* PSM(p,plain): scores are not divided by the
                         largest score of the row */
    /* Choice of the row length L. PSM(p,length) multiplies its epsilon by L. RA
     * (scaled ReLU) divides its weights by L and never has ES_LENGTH_NONE. */
    es_row_length length;
    /* The members below describe all layers, unless parts of their kind have
     * ranges. With ranges, the norms and matrices are those that occur in at
     * least one layer, and the activation and the FFN are those of the first
     * range. es_arch_parts returns the parts of a single layer. */
    bool layer_norm;          /* LN */
    bool rms_norm;            /* RN; never true together with layer_norm */
    es_activation activation; /* activation of all FFNs except Sc... FFNs */
    es_slope_kind slope_kind; /* the kind of the learnable slopes, if any */
    double slope;             /* slope of a leaky ReLU: fixed, or the initial
                                 value of a learnable one; if activations have
                                 ranges, the initial value of LR(global) */
    es_ffn_kind ffn;
    int n_removed; /* x of ScFuFFNi x: the last x layers have no FFN; else 0 */
    int n_removed_first;                 /* x of ScFuFFNe x: the first x
                                            layers have no FFN; else 0 */
    bool no_ffn;                         /* NoFFN without a range: no layer has
                                            an FFN */
    unsigned weight_norm, spectral_norm; /* bit sets of ES_NORM_... */
    bool entropy_reg;                    /* EReg(...) */
    int n_spans;                         /* number of parts that have ranges */
    /* Sorted by kind, then by layer; n_spans elements are used. A layer outside
     * all ranges of a kind has no part of this kind. */
    es_arch_span spans[ES_ARCH_SPANS_MAX];
} es_arch;

/**
 * Parses an architecture, ignoring blanks and tabs. Members for which the text
 * has no part or value are 0. Exceptions are `slope` and `power_epsilon`, which
 * have the notation's defaults if their part gives no value (the default
 * epsilon of PSM(p,plain) is 0). n_removed and n_removed_first are 0 for a
 * plain ScFuFFN.
 *
 * Returns ES_OK, or ES_EUSAGE with the offending part in the message; *out is
 * then unchanged. es_model_config_check checks the layer counts and ranges
 * against the number of layers.
 */
es_status es_arch_parse(es_arch *out, const char *text) ES_MUST_USE;

/** Returns the parts of a layer, even if the layer's FFN is removed. */
es_layer_parts es_arch_parts(const es_arch *arch, int64_t layer);

/**
 * Returns the first layer after `layer` whose parts may differ from those of
 * `layer`, or where the presence of an FFN changes; n_layer if there is no such
 * layer. A loop that steps from change to change is short even if n_layer is
 * large.
 */
int64_t es_arch_next_change(const es_arch *arch, int64_t layer,
                            int64_t n_layer);

/** Returns false if the layer's FFN is removed, by NoFFN, ScFuFFNi or
 *  ScFuFFNe. */
bool es_arch_has_ffn(const es_arch *arch, int64_t layer, int64_t n_layer);

/**
 * Prints the canonical form into buffer[0..size), terminated by a NUL. A size
 * of ES_ARCH_TEXT_MAX is always enough. Leaves out defaults (the epsilon of
 * PSM, the initial value of a learnable slope). Returns the length as snprintf
 * does.
 */
size_t es_arch_print(char *buffer, size_t size, const es_arch *arch);

#define ES_ARCH_TEXT_MAX 256

#endif
