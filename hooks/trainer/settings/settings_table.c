/*
 * The options of entropy-train: one row each serves the command line, the
 * configuration file, --help and the configuration that a run keeps.
 */
#include "hooks/trainer/ranks/ranks.h"
#include "hooks/trainer/settings/settings.h"
#include "store/run.h"

#include "analyzer/base/text.h"
#include <limits.h>
#include <string.h>

/* A row: name, argument, field, range or names, who takes it, help. What INT,
   REAL and CHOICE read is kept with a run; the others say so. */
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
#define ALL (RUNS | ES_VERB_VERIFY | ES_VERB_PROBE)
#define LARGE 9007199254740992 /* 2^53: whole numbers are exact below */
#define BELOW_ONE 0.999999999  /* a decay of 1 would divide by zero */

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

/* All but the base, which is an option of its own. */
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
                       "%s: '%.40s': none, or four numbers above 0, as "
                       "8,1,4,8192",
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

/* The checkpoint of a probe. */
static es_status read_checkpoint(void *field, const es_option *option,
                                 const char *value, const char *where)
{
    char *init = field;
    (void)where;
    if (init[0])
        return es_fail(ES_EUSAGE, "'%s': one checkpoint at a time", value);
    if (strlen(value) >= option->size)
        return es_fail(ES_EUSAGE, "the checkpoint's path is too long");
    strcpy(init, value);
    return ES_OK;
}

/* --- the table ------------------------------------------------------------*/

const es_option es_settings_table[ES_N_SETTINGS] = {
    {.tags = ES_VERB_PROBE, ES_OPT_CALL(es_settings, init, read_checkpoint)},
    {.tags = ES_VERB_VERIFY, ES_OPT_LIST(es_settings, cases, n_cases)},

    {ROW("arch", "ARCH", RUNS | KEPT, "architecture, as 'SM+LN+G'"),
     ES_OPT_CALL(es_settings, model.arch, read_arch), .print = print_arch},
    {TEXT("data", "FILE", data, PASS | KEPT,
          "token file to read, made by entropy-corpus")},
    {TEXT("out", "FILE", out, PASS, "run file to record into"), .letter = 'o'},
    {ROW("store", "STORE", PASS,
         "what the run is kept in while it is recorded: auto, sqlite or "
         "fragment (RUN.esf, which auto takes on nfs and other file systems "
         "that hosts share)"),
     ES_OPT_CHOICE(es_settings, store, stores)},
    {FLAG("no-record", no_record, PASS, "record into no run file")},
    {TEXT("init", "FILE", init, PASS | KEPT,
          "start from these weights: a checkpoint, or safetensors of GPT-2, "
          "GPT-NeoX, Llama or ViT; of a probe also BERT")},
    {FLAG("dry-run", dry_run, TRAIN,
          "check all that a training would, print the whole configuration, "
          "train nothing")},
    {ROW("config", "FILE", RUNS,
         "read options from lines 'name = value'; later options override"),
     ES_OPT_ALL(read_config)},
    {ROW("preset", "NAME", RUNS,
         "options of one of the papers' configurations, under those of "
         "--config and the command line; list prints the names"),
     ES_OPT_CALL(es_settings, preset, read_preset)},
    {TEXT("name", "TEXT", name, PASS,
          "name of the run; that of the run file if not given")},

    {CHOICE("family", "NAME", model.family, es_family_names, RUNS,
            "gpt2, pythia, llama, sas, roberta or vit; bert is for probe")},
    {INT("n-layer", "L", model.n_layer, 1, INT_MAX, RUNS, "layers")},
    {INT("n-head", "H", model.n_head, 1, INT_MAX, MODEL, "heads of a layer")},
    {INT("d-model", "D", model.d_model, 1, INT_MAX, RUNS, "model width")},
    {INT("ctx", "T", model.ctx, 1, INT_MAX, MODEL, "context length, tokens")},
    {INT("vocab", "V", model.vocab, 0, INT_MAX, RUNS,
         "vocabulary; 0 takes the token file's, another must be the same")},
    {INT("mlp-mult", "M", model.mlp_mult, 1, INT_MAX, RUNS,
         "width of the feed-forward network, in model widths")},
    {INT("d-ff", "N", model.d_ff, 0, INT_MAX, RUNS,
         "llama, roberta, vit: that width in numbers; 0 for --mlp-mult")},
    {INT("n-kv-head", "N", model.n_kv_head, 0, INT_MAX, RUNS,
         "llama: heads of keys and values; 0 for as many as heads")},
    {INT("d-head", "N", model.d_head, 0, INT_MAX, RUNS,
         "llama: width of a head; 0 for --d-model / --n-head")},
    {REAL("rope-base", "X", model.rope.base, 0, 1e30, RUNS,
          "llama: base of the rotary positions; 0 for 10000")},
    {ROW("rope-scaling", "F,L,H,N", RUNS | KEPT,
         "llama: its 3.1's scaling of slow positions, by factor F, from low "
         "L and high H of N positions, as 8,1,4,8192; or none"),
     ES_OPT_CALL(es_settings, model.rope, read_scaling),
     .print = print_scaling},
    {FLAG("qk-norm", model.qk_norm, RUNS | KEPT,
          "llama: RMSNorm of each head's queries and keys, as in Qwen3")},
    {INT("padding", "ID", model.padding, -1, INT_MAX, MODEL,
         "roberta, bert: token whose keys are hidden; -1 for none")},
    {INT("mask-token", "ID", model.mask, -1, INT_MAX, RUNS,
         "roberta: token in the place of hidden ones; -1 for one more than the "
         "data have")},
    {INT("image-size", "S", model.image.size, 0, INT_MAX, RUNS,
         "vit: side of an image, pixels")},
    {INT("patch-size", "P", model.image.patch, 0, INT_MAX, RUNS,
         "vit: side of a patch; --ctx follows")},
    {INT("channels", "C", model.image.channels, 1, INT_MAX, RUNS,
         "vit: channels of an image, one after another in the data")},
    {INT("classes", "N", model.image.classes, 0, INT_MAX, RUNS,
         "vit: classes; the data have the class behind each image")},
    {FLAG("tied", model.tied, RUNS | KEPT,
          "llama: the output matrix is the embedding")},
    {CHOICE(
        "bias", "WHICH", model.bias, es_bias_names, RUNS,
        "all, qkv, qk or none; llama: none if not given, roberta, vit: all")},
    {CHOICE("final-norm", "WHEN", model.final_norm, final_norms, RUNS,
            "auto (with LN or RN), on or off")},
    {CHOICE("emulate", "TYPE", model.emulate, emulations,
            PASS | ES_SETTING_OF_WEIGHTS,
            "fp16: activations and logits have its range and precision, as "
            "said below; or none")},
    {REAL("gamma", "X", model.gamma, 0, 1e9, RUNS,
          "EReg: tolerance, as a share of ln T")},
    {REAL("lambda", "X", model.lambda, 0, 1e9, RUNS, "EReg: strength")},
    {CHOICE("ereg-reduce", "HOW", model.ereg_reduce, reductions, RUNS,
            "EReg: token or mean")},
    {REAL("range-attn", "X", model.range_weight[ES_RANGE_ATTN], 0, 1e9, RUNS,
          "weight of the range loss of PowerSoftmax: each layer's largest "
          "|score|")},
    {REAL("range-act", "X", model.range_weight[ES_RANGE_ACT], 0, 1e9, RUNS,
          "of the activation: each layer's largest |input|")},
    {REAL("range-norm", "X", model.range_weight[ES_RANGE_NORM], 0, 1e9, RUNS,
          "of LN, RN: each norm's largest |input|")},
    {REAL("t-init", "X", model.t_init, 1e-9, 1e9, RUNS,
          "SM(t): initial temperature")},
    {REAL("theta-init", "X", model.theta_init, -1e9, 1e9, RUNS,
          "EReg: initial threshold, as a share of ln T")},
    {REAL("dropout", "P", model.dropout, 0, BELOW_ONE, RUNS,
          "while training, share of the embedding's and both sub-blocks' "
          "outputs that is 0")},
    {REAL("ln-eps", "X", model.ln_eps, 0, 1e30, MODEL,
          "LN, RN: epsilon; 1e12 makes LN linear")},
    {INT("seed", "N", model.seed, 0, LARGE, MODEL,
         "fixes parameters and batches")},

    {INT("batch", "B", model.batch, 1, INT_MAX, MODEL,
         "sequences of a micro-batch")},
    {INT("accumulate", "N", train.accumulate, 1, 1e6, TRAIN,
         "micro-batches of a step")},
    {INT("steps", "N", train.steps, 1, LARGE, TRAIN, "optimiser steps")},
    {REAL("lr", "X", train.lr, 0, 1e30, RUNS, "peak learning rate")},
    {REAL("warm-up", "X", train.warm_up, 0, 1, TRAIN,
          "linear warm-up, as a share of the steps")},
    {CHOICE("schedule", "NAME", train.schedule, schedules, TRAIN,
            "rate after the warm-up: linear or cosine to --lr-min, or "
            "constant")},
    {REAL("lr-min", "X", train.lr_min, 0, 1e30, TRAIN,
          "learning rate at the end of linear and cosine")},
    {REAL("beta1", "X", train.beta1, 0, BELOW_ONE, RUNS, "AdamW: first decay")},
    {REAL("beta2", "X", train.beta2, 0, BELOW_ONE, RUNS,
          "AdamW: second decay")},
    {REAL("eps", "X", train.eps, 1e-300, 1, RUNS, "AdamW: epsilon")},
    {REAL("weight-decay", "X", train.weight_decay, 0, 1e9, RUNS,
          "AdamW: decay of matrices and embeddings")},
    {FLAG("slope-decay", train.slope_decay, RUNS | KEPT,
          "AdamW: decay of learnable slopes too")},
    {REAL("clip", "X", train.clip, 0, 1e300, RUNS,
          "largest global gradient norm; 0 for no clipping")},

    {CHOICE("record", "SET", record, series_sets, PASS | ES_VERB_BENCH,
            "series: core; standard, with logits, norms and activations; or "
            "all, with gradients, updates, spectra and whole parameters")},
    {INT("record-every", "N", record_every, 1, LARGE, TRAIN,
         "steps from one record to the next")},
    {INT("eval-every", "N", eval_every, 0, LARGE, TRAIN,
         "steps from one evaluation to the next; 0 for none")},
    {INT("eval-batches", "N", eval_batches, 1, 1e9, TRAIN,
         "micro-batches of an evaluation")},
    {INT("batches", "N", eval_batches, 1, 1e9, ES_VERB_PROBE,
         "micro-batches to probe with")},
    {FLAG("random", random, ES_VERB_PROBE | KEPT,
          "micro-batches from places drawn from the seed; otherwise those of "
          "a training's evaluation")},
    {CHOICE("inference", "HOW", inference, inferences, PASS,
            "of evaluations: exact, or polynomial: division, LayerNorm and "
            "GELU as encryption would have them, as said below")},
    {INT("poly-batches", "N", poly_batches, 1, 1e9, PASS,
         "polynomial: held-out micro-batches, after those of the evaluation, "
         "that intervals are calibrated with")},
    {REAL("poly-margin", "X", polynomial.margin, 1, 1e9, PASS,
          "polynomial: how much wider intervals are than calibrated")},
    {REAL("poly-error", "X", polynomial.error, 1e-12, 0.5, PASS,
          "polynomial: error that iterations and degrees are chosen for: "
          "relative of inverses, absolute of activations")},
    {INT("poly-factors", "D", polynomial.factors, 0,
         ES_POLYNOMIAL_MOST_ITERATIONS, PASS,
         "polynomial: factors of the division by Goldschmidt; 0 chooses")},
    {INT("poly-steps", "N", polynomial.steps, 0, ES_POLYNOMIAL_MOST_ITERATIONS,
         PASS,
         "polynomial: steps of LayerNorm's inverse root by Newton; 0 chooses")},
    {INT("poly-degree", "N", polynomial.degree, 0, ES_GATE_MOST_DEGREE, PASS,
         "polynomial: degree of GELU's gate by Chebyshev; 0 chooses")},
    {INT("maps", "S", maps, 0, ES_MAP_MAX, PASS,
         "attention maps of each layer at some evaluations: means over blocks "
         "of a grid of S by S, 4 S^2 bytes each; 0 for none")},
    {FLAG("map-heads", map_heads, PASS | KEPT,
          "attention maps of each head, too")},
    {INT("map-count", "N", map_count, 1, 1000, TRAIN,
         "evaluations that record attention maps, spread evenly; the last is "
         "one of them")},
    {INT("after-nan", "N", after_nan, 0, LARGE, TRAIN,
         "steps to go on after the loss is no longer finite")},
    {INT("log-every", "N", log_every, 0, LARGE, TRAIN,
         "steps from one line to the next where standard error is no "
         "terminal; 0 for about twenty lines")},
    {TEXT("checkpoint", "DIR", checkpoint, TRAIN,
          "folder for checkpoints, written at the end or a stop; none after a "
          "loss that is not finite")},
    {INT("checkpoint-every", "N", checkpoint_every, 0, LARGE, TRAIN,
         "steps from one checkpoint to the next; 0 for the end alone")},
    {INT("keep", "N", keep, 0, LARGE, TRAIN,
         "checkpoints kept, the last ones; 0 for all")},
    {TEXT("resume", "PATH", resume, TRAIN,
          "go on with a checkpoint, or the newest good one of a folder")},
    {ROW("world", "N", TRAIN,
         "processes (ranks) that train together, each with --accumulate "
         "micro-batches of a step; 0: those that mpirun or srun has started"),
     ES_OPT_INT(es_settings, world, 0, ES_MAX_RANKS)},
    {ROW("rank", "R", TRAIN,
         "which of them this is, from 0 on; -1: as mpirun or srun says"),
     ES_OPT_INT(es_settings, rank, -1, ES_MAX_RANKS - 1)},
    {TEXT("rendezvous", "FILE", rendezvous, TRAIN,
          "file by which ranks find each other, in a folder that all see; "
          "RUN.db.ranks if not given")},
    {ROW("rank-timeout", "S", TRAIN,
         "seconds after which a rank that does not come, or is silent, ends "
         "the training; more than an evaluation takes"),
     ES_OPT_REAL(es_settings, rank_timeout, 0.1, 1e9)},
    {FLAG("fixed-order", fixed_order, TRAIN | KEPT,
          "sum micro-batch by micro-batch in the order of the data, so that "
          "bits do not depend on how many ranks share them; costs an exchange "
          "for each")},
    {INT("pairs", "N", pairs, 5, 1e6, ES_VERB_BENCH,
         "steps with and without recording to compare")},
    {TEXT("backend", "NAME", backend, ALL | KEPT,
          "cpu, cuda, or auto: cuda where there is a device, else cpu")},
    {CHOICE("precision", "TYPE", precision, precisions, ALL,
            "of activations and products: fp32 or bf16, and of cuda also tf32 "
            "or fp16")},
    {CHOICE("products", "NAME", products, libraries, ALL,
            "on the CPU: openblas, onednn, or auto: for each product the "
            "faster of those that are there")},
    {INT("threads", "N", threads, 0, 1024, ALL,
         "threads; 0 for as many as there are processors to run on")},
    {FLAG("quiet", quiet, PASS, "no progress"), .letter = 'q'},
    {FLAG("help", help, ALL, "print this help"), .letter = 'h'},
    {FLAG("version", version, ALL, "print the version"), .letter = 'V'},
};
