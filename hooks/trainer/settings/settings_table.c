/* Defines the options of entropy-train. One row per option serves the command
 * line, the configuration file, --help and the configuration that is stored
 * with a run. */
#include "hooks/entropyscan.h"
#include "hooks/trainer/ranks/ranks.h"
#include "hooks/trainer/settings/settings.h"

#include "analyzer/base/text.h"
#include <limits.h>
#include <string.h>

/* Build a row from the option's name, argument, field, range or names, verbs
 * and help. Options of the kinds INT, REAL and CHOICE are stored with a run;
 * other kinds need the tag KEPT to be stored. */
#define ROW(flag, value, takes, text)                                          \
    .name = flag, .argument = value, .help = text, .tags = takes
#define INT(flag, value, field, from, to, takes, text)                         \
    ROW(flag, value, (takes) | KEPT, text),                                    \
        ES_OPT_INT(es_settings, field, from, to)
#define REAL(flag, value, field, from, to, takes, text)                        \
    ROW(flag, value, (takes) | KEPT, text),                                    \
        ES_OPT_REAL(es_settings, field, from, to)
#define CHOICE(flag, value, field, names, takes, text)                         \
    ROW(flag, value, (takes) | KEPT, text),                                    \
        ES_OPT_CHOICE(es_settings, field, names)
#define TEXT(flag, value, field, takes, text)                                  \
    ROW(flag, value, takes, text), ES_OPT_COPY(es_settings, field)
#define FLAG(flag, field, takes, text)                                         \
    ROW(flag, NULL, takes, text), ES_OPT_FLAG(es_settings, field)

#define TRAIN ES_VERB_TRAIN
#define RUNS (ES_VERB_TRAIN | ES_VERB_BENCH)
#define PASS (ES_VERB_TRAIN | ES_VERB_PROBE)
#define KEPT ES_SETTING_KEPT
#define MODEL (RUNS | ES_VERB_PROBE | ES_SETTING_OF_WEIGHTS)
#define VERBS (RUNS | ES_VERB_VERIFY | ES_VERB_PROBE)
#define ALL (VERBS | ES_VERB_FUSE)
/* 2^53; a double can represent every whole number up to this one exactly */
#define LARGE 9007199254740992
/* Largest decay rate: with 1, AdamW's bias correction would divide by zero. */
#define BELOW_ONE 0.999999999

static const char *const final_norms[] = {"auto", "on", "off", NULL};
static const char *const schedules[] = {"linear", "cosine", "constant", NULL};
static const char *const emulations[] = {"none", "fp16", NULL};
static const char *const reductions[] = {"token", "mean", NULL};
static const char *const stores[] = {"auto", "sqlite", "fragment", NULL};
static const char *const libraries[] = {"auto", "openblas", "onednn", NULL};
static const char *const inferences[] = {"exact", "polynomial", NULL};
static const char *const series_sets[] = {"core", "standard", "all", NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16", NULL};

/* --- readers --------------------------------------------------------------*/

static es_status read_arch(void *field, const es_option *option,
                           const char *value, const char *where)
{
    es_arch arch;
    (void)option;
    if (es_arch_parse(&arch, value) != ES_OK)
        return es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    *(es_arch *)field = arch;
    return ES_OK;
}

static void print_arch(char *out, size_t size, const void *field)
{
    es_arch_print(out, size, field);
}

/* Reads all parameters of the rotary scaling except the base, which is a
 * separate option. */
static es_status read_scaling(void *field, const es_option *option,
                              const char *value, const char *where)
{
    es_rope *rope = field, new = {.base = rope->base};
    double *const numbers[] = {&new.factor, &new.low, &new.high, &new.original};
    char text[128], *rest = text;
    (void)option;
    bool right = snprintf(text, sizeof text, "%s", value) < (int)sizeof text;
    if (strcmp(value, "none") == 0)
        rest = NULL;
    for (int i = 0; i < 4 && rest && right; i++) {
        char *comma = strchr(rest, ',');
        right = (comma != NULL) == (i < 3);
        if (comma)
            *comma = 0;
        right = right && es_double_parse(numbers[i], rest) == ES_OK &&
                *numbers[i] > 0;
        rest = comma ? comma + 1 : rest;
    }
    if (!right)
        return es_fail(ES_EUSAGE,
                       "%s: '%.40s': expected none, or four numbers above 0, "
                       "such as 8,1,4,8192",
                       where, value);
    *rope = new;
    return ES_OK;
}

static void print_scaling(char *out, size_t size, const void *field)
{
    const es_rope *rope = field;
    char number[4][ES_FLOAT_TEXT_MAX];
    if (rope->factor > 0)
        snprintf(out, size, "%s,%s,%s,%s",
                 es_double_print(number[0], rope->factor),
                 es_double_print(number[1], rope->low),
                 es_double_print(number[2], rope->high),
                 es_double_print(number[3], rope->original));
    else
        snprintf(out, size, "none");
}

static es_status read_config(void *field, const es_option *option,
                             const char *value, const char *where)
{
    (void)option, (void)where;
    return es_settings_read(field, value);
}

static es_status read_preset(void *field, const es_option *option,
                             const char *value, const char *where)
{
    es_status status = es_preset_check(value, where);
    if (status == ES_OK)
        snprintf(field, option->size, "%s", value);
    return status;
}

/* Reads the checkpoint argument of a probe. */
static es_status read_checkpoint(void *field, const es_option *option,
                                 const char *value, const char *where)
{
    char *init = field;
    (void)where;
    if (init[0])
        return es_fail(ES_EUSAGE, "'%s': only one checkpoint can be given",
                       value);
    if (strlen(value) >= option->size)
        return es_fail(ES_EUSAGE, "the checkpoint's path is too long");
    strcpy(init, value);
    return ES_OK;
}

/* Reads the arguments IN and OUT of the verb fuse. */
static es_status read_fused(void *field, const es_option *option,
                            const char *value, const char *where)
{
    es_settings *settings = field;
    (void)option, (void)where;
    if (settings->fused[0])
        return es_fail(ES_EUSAGE, "'%s': fuse takes only IN and OUT", value);
    char *to = settings->init[0] ? settings->fused : settings->init;
    if (strlen(value) >= sizeof settings->init)
        return es_fail(ES_EUSAGE, "the path of a checkpoint is too long");
    strcpy(to, value);
    return ES_OK;
}

/* Parses a range of layers such as "8-11", or a single layer such as "8", from
 * the first n characters of `text`. */
static bool parse_range(es_layer_range *out, const char *text, size_t n)
{
    char first[32];
    int64_t from = 0, to = 0;
    if (n >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)n, text);
    char *dash = strchr(first, '-');
    if (dash)
        *dash = 0;
    const char *last = dash ? dash + 1 : first;
    if (es_int_parse(&from, first, 0, INT_MAX) != ES_OK ||
        es_int_parse(&to, last, from, INT_MAX) != ES_OK)
        return false;
    *out = (es_layer_range){(int)from, (int)to};
    return true;
}

/* Reads layers and ranges of layers, separated by commas. */
static es_status read_layers(void *field, const es_option *option,
                             const char *value, const char *where)
{
    es_layer_set set = {.n = 0};
    (void)option;
    for (const char *at = value;; at++) {
        const size_t n = strcspn(at, ",");
        if (set.n == ES_ARCH_SPANS_MAX)
            return es_fail(ES_EUSAGE, "%s: '%.40s': more than %d ranges", where,
                           value, ES_ARCH_SPANS_MAX);
        if (!parse_range(&set.ranges[set.n++], at, n))
            return es_fail(ES_EUSAGE,
                           "%s: '%.40s': expected layers, as in 8-11 or 1,3-4",
                           where, value);
        at += n;
        if (!*at)
            break;
    }
    *(es_layer_set *)field = set;
    return ES_OK;
}

/* --- the table ------------------------------------------------------------*/

const es_option es_settings_table[ES_N_SETTINGS] = {
    {.tags = ES_VERB_PROBE, ES_OPT_CALL(es_settings, init, read_checkpoint)},
    {.tags = ES_VERB_VERIFY, ES_OPT_LIST(es_settings, cases, n_cases)},
    {.tags = ES_VERB_FUSE, ES_OPT_ALL(read_fused)},

    {ROW("arch", "ARCH", RUNS | KEPT, "architecture, for example 'SM+LN+G'"),
     ES_OPT_CALL(es_settings, model.arch, read_arch), .print = print_arch},
    {TEXT("data", "FILE", data, PASS | ES_VERB_FUSE | KEPT,
          "token file to read, made by entropy-corpus")},
    {TEXT("out", "FILE", out, PASS, "run file to record into"), .letter = 'o'},
    {ROW("store", "STORE", PASS,
         "format while recording: auto, sqlite or fragment (RUN.esf); auto "
         "uses a fragment on nfs and other file systems shared between hosts"),
     ES_OPT_CHOICE(es_settings, store, stores)},
    {ROW("drop", "LAYERS", ES_VERB_FUSE,
         "drop the FFNs of these layers, such as 8-11 or 1,3-4"),
     ES_OPT_CALL(es_settings, drop, read_layers)},
    {FLAG("no-record", no_record, PASS, "do not record a run file")},
    {TEXT("init", "FILE", init, PASS | KEPT,
          "start from these weights: a checkpoint, or safetensors of GPT-2, "
          "GPT-NeoX, Llama, RoBERTa or ViT; probe also accepts BERT")},
    {FLAG("dry-run", dry_run, TRAIN,
          "run all checks of a training run and print the whole configuration, "
          "but do not train")},
    {ROW("config", "FILE", RUNS,
         "read options from lines 'name = value'; later options override them"),
     ES_OPT_ALL(read_config)},
    {ROW("preset", "NAME", RUNS,
         "use a configuration from the papers; --config and the command line "
         "override it; list prints the names"),
     ES_OPT_CALL(es_settings, preset, read_preset)},
    {TEXT("name", "TEXT", name, PASS,
          "name of the run; default: the name of the run file")},

    {CHOICE("family", "NAME", model.family, es_family_names, RUNS,
            "gpt2, pythia, llama, sas, roberta or vit; bert only in probe")},
    {INT("n-layer", "L", model.n_layer, 1, INT_MAX, RUNS, "layers")},
    {INT("n-head", "H", model.n_head, 1, INT_MAX, MODEL | ES_VERB_FUSE,
         "heads per layer")},
    {INT("d-model", "D", model.d_model, 1, INT_MAX, RUNS, "model width")},
    {INT("ctx", "T", model.ctx, 1, INT_MAX, MODEL | ES_VERB_FUSE,
         "context length in tokens")},
    {INT("vocab", "V", model.vocab, 0, INT_MAX, RUNS,
         "vocabulary size; 0 uses that of the token file, and any other value "
         "must equal it")},
    {INT("mlp-mult", "M", model.mlp_mult, 1, INT_MAX, RUNS,
         "width of the feed-forward network, as a multiple of --d-model")},
    {INT("d-ff", "N", model.d_ff, 0, INT_MAX, RUNS,
         "llama, roberta, vit: width of the feed-forward network; 0 computes "
         "it from --mlp-mult")},
    {INT("n-kv-head", "N", model.n_kv_head, 0, INT_MAX, RUNS,
         "llama: number of key and value heads; 0 for the value of --n-head")},
    {INT("d-head", "N", model.d_head, 0, INT_MAX, RUNS,
         "llama: width of a head; 0 for --d-model / --n-head")},
    {REAL("rope-base", "X", model.rope.base, 0, 1e30, RUNS,
          "llama: base of the rotary position embedding; 0 for 10000")},
    {ROW("rope-scaling", "F,L,H,N", RUNS | KEPT,
         "llama: rotary scaling of Llama 3.1: factor F, low-frequency factor "
         "L, high-frequency factor H, original context N, such as 8,1,4,8192; "
         "or none"),
     ES_OPT_CALL(es_settings, model.rope, read_scaling),
     .print = print_scaling},
    {FLAG("qk-norm", model.qk_norm, RUNS | KEPT,
          "llama: apply RMSNorm to each head's queries and keys, like Qwen3")},
    {INT("padding", "ID", model.padding, -1, INT_MAX, MODEL,
         "roberta, bert: padding token, whose keys are masked; -1 for none")},
    {INT("mask-token", "ID", model.mask, -1, INT_MAX, MODEL,
         "roberta: token that replaces masked tokens, 50264 in published "
         "weights; -1 adds one to the vocabulary")},
    {INT("image-size", "S", model.image.size, 0, INT_MAX, RUNS,
         "vit: side of an image in pixels")},
    {INT("patch-size", "P", model.image.patch, 0, INT_MAX, RUNS,
         "vit: side of a patch in pixels; determines --ctx")},
    {INT("channels", "C", model.image.channels, 1, INT_MAX, RUNS,
         "vit: channels of an image; the data hold one channel after another")},
    {INT("classes", "N", model.image.classes, 0, INT_MAX, RUNS,
         "vit: number of classes; in the data the class follows its image")},
    {FLAG("tied", model.tied, RUNS | KEPT,
          "llama: use the embedding as the output matrix")},
    {CHOICE("bias", "WHICH", model.bias, es_bias_names, RUNS,
            "matrices with a bias: all, qkv, qk or none; llama defaults to "
            "none, roberta and vit to all")},
    {CHOICE("final-norm", "WHEN", model.final_norm, final_norms, RUNS,
            "norm before the output matrix: auto (if the architecture has LN "
            "or RN), on or off")},
    {CHOICE("emulate", "TYPE", model.emulate, emulations,
            PASS | ES_SETTING_OF_WEIGHTS,
            "fp16 gives activations and logits the range and precision of half "
            "precision (see below); or none")},
    {REAL("gamma", "X", model.gamma, 0, 1e9, RUNS,
          "EReg: tolerance as a fraction of ln T")},
    {REAL("lambda", "X", model.lambda, 0, 1e9, RUNS,
          "EReg: weight of the regularisation loss")},
    {CHOICE("ereg-reduce", "HOW", model.ereg_reduce, reductions, RUNS,
            "EReg: the loss penalises row entropies (token) or head means "
            "(mean)")},
    {REAL("range-attn", "X", model.range_weight[ES_RANGE_ATTN], 0, 1e9, RUNS,
          "weight of the range loss on the largest |score| of each "
          "layer's PowerSoftmax")},
    {REAL("range-act", "X", model.range_weight[ES_RANGE_ACT], 0, 1e9, RUNS,
          "weight of the range loss on the largest |input| of each layer's "
          "activation")},
    {REAL("range-norm", "X", model.range_weight[ES_RANGE_NORM], 0, 1e9, RUNS,
          "weight of the range loss on the largest |input| of each LN or "
          "RN")},
    {REAL("t-init", "X", model.t_init, 1e-9, 1e9, RUNS,
          "SM(t): initial temperature")},
    {REAL("theta-init", "X", model.theta_init, -1e9, 1e9, RUNS,
          "EReg: initial threshold as a fraction of ln T")},
    {REAL("dropout", "P", model.dropout, 0, BELOW_ONE, RUNS,
          "dropout in training: probability of zeroing outputs of the "
          "embedding and of both sub-blocks")},
    {REAL("ln-eps", "X", model.ln_eps, 0, 1e30, MODEL,
          "LN, RN: epsilon; 1e12 makes LN linear")},
    {INT("seed", "N", model.seed, 0, LARGE, MODEL,
         "random seed of the initial parameters and the batches")},

    {INT("batch", "B", model.batch, 1, INT_MAX, MODEL | ES_VERB_FUSE,
         "sequences per micro-batch")},
    {INT("accumulate", "N", train.accumulate, 1, 1e6, TRAIN,
         "micro-batches per step")},
    {INT("steps", "N", train.steps, 1, LARGE, TRAIN, "optimiser steps")},
    {REAL("lr", "X", train.lr, 0, 1e30, RUNS, "peak learning rate")},
    {REAL("warm-up", "X", train.warm_up, 0, 1, TRAIN,
          "linear warm-up as a fraction of the steps")},
    {CHOICE("schedule", "NAME", train.schedule, schedules, TRAIN,
            "learning rate after the warm-up: linear or cosine decay to "
            "--lr-min, or constant")},
    {REAL("lr-min", "X", train.lr_min, 0, 1e30, TRAIN,
          "learning rate at the end of a linear or cosine schedule")},
    {REAL("beta1", "X", train.beta1, 0, BELOW_ONE, RUNS,
          "AdamW: decay rate of the first moment")},
    {REAL("beta2", "X", train.beta2, 0, BELOW_ONE, RUNS,
          "AdamW: decay rate of the second moment")},
    {REAL("eps", "X", train.eps, 1e-300, 1, RUNS, "AdamW: epsilon")},
    {REAL("weight-decay", "X", train.weight_decay, 0, 1e9, RUNS,
          "AdamW: weight decay of matrices and embeddings")},
    {FLAG("slope-decay", train.slope_decay, RUNS | KEPT,
          "AdamW: apply weight decay to learnable slopes too")},
    {REAL("clip", "X", train.clip, 0, 1e300, RUNS,
          "clip the global gradient norm to this value; 0 for no clipping")},

    {CHOICE(
        "record", "SET", record, series_sets, PASS | ES_VERB_BENCH,
        "series to record: core; standard adds logits, norms and activations; "
        "all adds gradients, updates, spectra and single parameter values")},
    {INT("record-every", "N", record_every, 1, LARGE, TRAIN,
         "steps between records")},
    {INT("eval-every", "N", eval_every, 0, LARGE, TRAIN,
         "steps between evaluations; 0 for none")},
    {INT("eval-batches", "N", eval_batches, 1, 1e9, TRAIN,
         "micro-batches per evaluation")},
    {INT("batches", "N", eval_batches, 1, 1e9, ES_VERB_PROBE | ES_VERB_FUSE,
         "number of held-out micro-batches to evaluate")},
    {FLAG("random", random, ES_VERB_PROBE | KEPT,
          "read micro-batches from random places, determined by the seed, "
          "instead of the places that a training run evaluates")},
    {CHOICE("inference", "HOW", inference, inferences, PASS,
            "evaluate exactly (exact), or with division, LayerNorm and GELU as "
            "the polynomials of encrypted inference (polynomial; see below)")},
    {INT("poly-batches", "N", poly_batches, 1, 1e9, PASS,
         "polynomial: held-out micro-batches that calibrate the intervals; "
         "they follow the micro-batches of the evaluation")},
    {REAL("poly-margin", "X", polynomial.margin, 1, 1e9, PASS,
          "polynomial: factor by which calibrated intervals are widened")},
    {REAL("poly-error", "X", polynomial.error, 1e-12, 0.5, PASS,
          "polynomial: target error by which iterations and degrees are chosen "
          "(relative for inverses, absolute for activations)")},
    {INT("poly-factors", "D", polynomial.factors, 0,
         ES_POLYNOMIAL_MOST_ITERATIONS, PASS,
         "polynomial: number of factors of Goldschmidt's division; 0 chooses "
         "automatically")},
    {INT("poly-steps", "N", polynomial.steps, 0, ES_POLYNOMIAL_MOST_ITERATIONS,
         PASS,
         "polynomial: Newton steps of LayerNorm's inverse square root; 0 "
         "chooses automatically")},
    {INT("poly-degree", "N", polynomial.degree, 0, ES_GATE_MOST_DEGREE, PASS,
         "polynomial: degree of the Chebyshev polynomial of GELU's gate; 0 "
         "chooses automatically")},
    {INT("maps", "S", maps, 0, ES_MAP_MAX, PASS,
         "record attention maps of each layer at some evaluations, averaged to "
         "S by S cells of 4 bytes; 0 for none")},
    {FLAG("map-heads", map_heads, PASS | KEPT,
          "also record attention maps of each head")},
    {INT("map-count", "N", map_count, 1, 1000, TRAIN,
         "number of evaluations that record attention maps, evenly spaced and "
         "including the last")},
    {INT("after-nan", "N", after_nan, 0, LARGE, TRAIN,
         "steps to continue after the loss stops being finite")},
    {INT("log-every", "N", log_every, 0, LARGE, TRAIN,
         "steps between progress lines if standard error is not a terminal; 0 "
         "for about twenty lines")},
    {TEXT("checkpoint", "DIR", checkpoint, TRAIN,
          "folder for checkpoints, which are written at the end and on a stop, "
          "but not after a NaN or infinite loss")},
    {INT("checkpoint-every", "N", checkpoint_every, 0, LARGE, TRAIN,
         "steps between checkpoints; 0 for one at the end only")},
    {INT("keep", "N", keep, 0, LARGE, TRAIN,
         "number of latest checkpoints to keep; 0 for all")},
    {TEXT(
        "resume", "PATH", resume, TRAIN,
        "resume from a checkpoint, or from the newest valid one in a folder")},
    {ROW("world", "N", TRAIN,
         "processes (ranks) that train together, each with --accumulate "
         "micro-batches per step; 0 for the number that mpirun or srun has "
         "started"),
     ES_OPT_INT(es_settings, world, 0, ES_MAX_RANKS)},
    {ROW("rank", "R", TRAIN,
         "rank of this process, from 0; -1 for the rank given by mpirun or "
         "srun"),
     ES_OPT_INT(es_settings, rank, -1, ES_MAX_RANKS - 1)},
    {TEXT("rendezvous", "FILE", rendezvous, TRAIN,
          "file through which ranks find each other, in a folder that all can "
          "read (default: RUN.db.ranks)")},
    {ROW("rank-timeout", "S", TRAIN,
         "end the training if a rank does not join or answer for this many "
         "seconds; must be longer than an evaluation"),
     ES_OPT_REAL(es_settings, rank_timeout, 0.1, 1e9)},
    {FLAG("fixed-order", fixed_order, TRAIN | KEPT,
          "sum micro-batches in the order of the data, so that results are "
          "bit-identical for any number of ranks; costs one exchange per "
          "micro-batch")},
    {INT("pairs", "N", pairs, 5, 1e6, ES_VERB_BENCH,
         "pairs of steps, with and without recording, to compare")},
    {TEXT("backend", "NAME", backend, VERBS | KEPT,
          "cpu, cuda, or auto (cuda if there is a device, else cpu)")},
    {CHOICE("precision", "TYPE", precision, precisions, VERBS,
            "precision of activations and products: fp32 or bf16; with cuda "
            "also tf32 or fp16")},
    {CHOICE("products", "NAME", products, libraries, ALL,
            "library of matrix products on the CPU: openblas, onednn, or auto "
            "(the faster available one for each product)")},
    {INT("threads", "N", threads, 0, 1024, ALL,
         "threads; 0 for the number of available processors")},
    {FLAG("quiet", quiet, PASS | ES_VERB_FUSE, "do not show progress"),
     .letter = 'q'},
    {FLAG("help", help, ALL, "print this help"), .letter = 'h'},
    {FLAG("version", version, ALL, "print the version"), .letter = 'V'},
};
