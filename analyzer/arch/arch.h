/** The notation of architectures; README.md beside this header has its
 *  grammar. */
#ifndef ES_ARCH_H
#define ES_ARCH_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum es_attention_kind {
    ES_SOFTMAX,
    ES_POWER_SOFTMAX,
    ES_SCALED_RELU /* RA: relu(s) / L */
} es_attention_kind;

/** What L of a row is, where its weights depend on it. */
typedef enum es_row_length {
    ES_LENGTH_NONE,
    ES_LENGTH_VISIBLE, /* the keys that the row sees */
    ES_LENGTH_CONTEXT  /* T */
} es_row_length;

typedef enum es_activation {
    ES_ACT_LINEAR,
    ES_ACT_GELU,         /* G: exact */
    ES_ACT_GELU_TANH,    /* GT */
    ES_ACT_RELU,         /* R */
    ES_ACT_LEAKY,        /* LR(...) */
    ES_ACT_GELU_SIGMOID, /* GS: x sigmoid(1.702 x) */
    ES_ACT_SWIGLU /* SwiGLU: x sigmoid(x) of one matrix times another one's */
} es_activation;

typedef enum es_slope_kind {
    ES_SLOPE_FIXED,
    ES_SLOPE_LAYER,
    ES_SLOPE_GLOBAL
} es_slope_kind;

typedef enum es_ffn_kind {
    ES_FFN_TWO,    /* d -> m d -> d, with or without an activation */
    ES_FFN_SCALED, /* ScFFN */
    ES_FFN_FUSED   /* ScFuFFN, ScFuFFNe x, ScFuFFNi x */
} es_ffn_kind;

/** Sets of matrices that a normalisation names. */
enum { ES_NORM_QK = 1, ES_NORM_V = 2, ES_NORM_O = 4, ES_NORM_FFN = 8 };

/** Float32 keeps four digits of a weight up to this power. */
#define ES_POWER_MAX 64

/** An activation of layers first .. last: G[0-5]. */
typedef struct es_act_span {
    es_activation activation; /* of every FFN; with spans that of the first */
    double slope;             /* of ES_ACT_LEAKY */
    int first, last;
} es_act_span;

enum { ES_ARCH_SPANS_MAX = 8 };

typedef struct es_arch {
    es_attention_kind attention;
    bool temperature; /* SM(t) */
    double clip;      /* SM(clip tau): QK-Clip's largest logit; 0: none */
    bool gate;        /* SM(gate), PSM(p,gate): of the heads' outputs */
    int power;        /* PSM: even, 2 .. ES_POWER_MAX */
    double power_epsilon;
    bool power_plain;     /* PSM(p,plain): of scores as they are, not divided
                             by the row's largest */
    es_row_length length; /* PSM(p,length): the epsilon is taken L times; RA:
                             what it divides by, never ES_LENGTH_NONE */
    bool layer_norm;      /* LN */
    bool rms_norm;        /* RN; not both */
    es_activation activation;
    es_slope_kind slope_kind; /* of ES_ACT_LEAKY */
    double slope;             /* fixed value, or the initial one */
    es_ffn_kind ffn;
    int n_removed; /* x of ScFuFFNi x: FFNs of the last x layers; else 0 */
    int n_removed_first;                  /* x of ScFuFFNe x: of the first x */
    unsigned weight_norm, spectral_norm;  /* sets of ES_NORM_ */
    bool entropy_reg;                     /* EReg(...) */
    int n_spans;                          /* 0: one activation for all */
    es_act_span spans[ES_ARCH_SPANS_MAX]; /* (n_spans), by layer; layers in
                                             none have no activation */
} es_arch;

/**
 * Reads an architecture; blanks and tabs are ignored. Fields that the notation
 * does not mention are 0 (slope and power_epsilon have the spec's defaults
 * where their part is there; that of a plain power is 0). x = 0 is read as
 * plain ScFuFFN.
 *
 * ES_OK, or ES_EUSAGE with the offending part in the message; *out is then
 * untouched. es_model_config_check compares x and layers with L.
 */
es_status es_arch_parse(es_arch *out, const char *text) ES_MUST_USE;

/** The activation of a layer, and the slope of a leaky one. */
es_activation es_arch_activation(const es_arch *arch, int layer, double *slope);

/** False where the FFN is removed. */
bool es_arch_has_ffn(const es_arch *arch, int layer, int n_layer);

/** Canonical form into buffer[0..size), terminated; ES_ARCH_TEXT_MAX is always
 *  enough. A default (PSM's epsilon, a learnable slope's start) is left out.
 *  Returns its length as snprintf does. */
size_t es_arch_print(char *buffer, size_t size, const es_arch *arch);

#define ES_ARCH_TEXT_MAX 256

#endif
