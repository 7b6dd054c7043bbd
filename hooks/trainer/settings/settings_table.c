#include "hooks/trainer/settings/settings_internal.h"

#include <limits.h>

/* A row: name, argument, where the value lies, range, who takes it, help. */
#define ROW(flag, value, field, takes, text)                                   \
    .name = flag, .argument = value, .help = text, .verbs = takes,             \
    .offset = offsetof(es_settings, field)
#define KEPT(kind_of_setting, ...)                                             \
    ROW(__VA_ARGS__), .kind = kind_of_setting, .kept = true
#define INT(flag, value, field, from, to, takes, text)                         \
    KEPT(ES_SETTING_INT, flag, value, field, takes, text), .low = from,        \
                                                           .high = to
#define LONG(flag, value, field, from, to, takes, text)                        \
    KEPT(ES_SETTING_LONG, flag, value, field, takes, text), .low = from,       \
                                                            .high = to
#define REAL(flag, value, field, from, to, takes, text)                        \
    KEPT(ES_SETTING_REAL, flag, value, field, takes, text), .low = from,       \
                                                            .high = to
#define CHOICE(flag, value, field, names, takes, text)                         \
    KEPT(ES_SETTING_CHOICE, flag, value, field, takes, text), .choices = names
#define TEXT(flag, value, field, takes, text)                                  \
    ROW(flag, value, field, takes, text),                                      \
        .kind = ES_SETTING_TEXT, .size = sizeof((es_settings *)0)->field
#define FLAG(flag, field, takes, text)                                         \
    ROW(flag, NULL, field, takes, text), .kind = ES_SETTING_FLAG

#define TRAIN ES_VERB_TRAIN
#define RUNS (ES_VERB_TRAIN | ES_VERB_BENCH)
#define PASS (ES_VERB_TRAIN | ES_VERB_PROBE)
#define MODEL (RUNS | ES_VERB_PROBE)
#define ALL (RUNS | ES_VERB_VERIFY | ES_VERB_PROBE)
#define LARGE 9007199254740992.0 /* 2^53: whole numbers are exact below */
#define BELOW_ONE 0.999999999    /* a decay of 1 would divide by zero */

static const char *const families[] = {"gpt2", "pythia", NULL};
static const char *const biases[] = {"all", "qk", "none", NULL};
static const char *const final_norms[] = {"auto", "on", "off", NULL};
static const char *const emulations[] = {"none", "fp16", NULL};
static const char *const reductions[] = {"token", "mean", NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16", NULL};

const es_setting es_setting_table[] = {
    {KEPT(ES_SETTING_ARCH, "arch", "ARCH", model.arch, RUNS,
          "architecture, as 'SM+LN+G'")},
    {TEXT("data", "FILE", data, PASS,
          "token file to read, made by entropy-corpus"),
     .kept = true},
    {TEXT("out", "FILE", out, PASS, "run file to record into"), .letter = 'o'},
    {FLAG("no-record", no_record, PASS, "record into no run file")},
    {TEXT("init", "FILE", init, PASS,
          "start from these weights: a checkpoint, or safetensors of GPT-2 or "
          "GPT-NeoX"),
     .kept = true},
    {FLAG("dry-run", dry_run, TRAIN,
          "check everything, print the resolved configuration, train "
          "nothing")},
    {ROW("config", "FILE", model, RUNS,
         "read options from lines 'name = value'; later options override"),
     .kind = ES_SETTING_FILE},
    {TEXT("name", "TEXT", name, PASS,
          "name of the run; that of the run file if not given")},

    {CHOICE("family", "NAME", model.family, families, RUNS, "gpt2 or pythia")},
    {INT("n-layer", "L", model.n_layer, 1, INT_MAX, RUNS, "layers")},
    {INT("n-head", "H", model.n_head, 1, INT_MAX, MODEL, "heads of a layer")},
    {INT("d-model", "D", model.d_model, 1, INT_MAX, RUNS, "model width")},
    {INT("ctx", "T", model.ctx, 1, INT_MAX, MODEL, "context length, tokens")},
    {INT("vocab", "V", model.vocab, 0, INT_MAX, RUNS,
         "vocabulary; 0 takes the token file's, another must be the same")},
    {INT("mlp-mult", "M", model.mlp_mult, 1, INT_MAX, RUNS,
         "width of the feed-forward network, in model widths")},
    {CHOICE("bias", "WHICH", model.bias, biases, RUNS, "all, qk or none")},
    {CHOICE("final-norm", "WHEN", model.final_norm, final_norms, RUNS,
            "auto (with LN), on or off")},
    {CHOICE("emulate", "TYPE", model.emulate, emulations, PASS,
            "fp16: activations and logits have its range and precision, as "
            "said below; or none")},
    {REAL("gamma", "X", model.gamma, 0, 1e9, RUNS,
          "EReg: tolerance, as a share of ln T")},
    {REAL("lambda", "X", model.lambda, 0, 1e9, RUNS, "EReg: strength")},
    {CHOICE("ereg-reduce", "HOW", model.ereg_reduce, reductions, RUNS,
            "EReg: token or mean")},
    {REAL("t-init", "X", model.t_init, 1e-9, 1e9, RUNS,
          "SM(t): initial temperature")},
    {REAL("theta-init", "X", model.theta_init, -1e9, 1e9, RUNS,
          "EReg: initial threshold, as a share of ln T")},
    {LONG("seed", "N", model.seed, 0, LARGE, MODEL,
          "fixes parameters and batches")},

    {INT("batch", "B", model.batch, 1, INT_MAX, MODEL,
         "sequences of a micro-batch")},
    {INT("accumulate", "N", train.accumulate, 1, 1e6, TRAIN,
         "micro-batches of a step")},
    {LONG("steps", "N", train.steps, 1, LARGE, TRAIN, "optimiser steps")},
    {REAL("lr", "X", train.lr, 0, 1e30, RUNS, "peak learning rate")},
    {REAL("warm-up", "X", train.warm_up, 0, 1, TRAIN,
          "linear warm-up, as a share of the steps; then linear to 0")},
    {REAL("beta1", "X", train.beta1, 0, BELOW_ONE, RUNS, "AdamW: first decay")},
    {REAL("beta2", "X", train.beta2, 0, BELOW_ONE, RUNS,
          "AdamW: second decay")},
    {REAL("eps", "X", train.eps, 1e-300, 1, RUNS, "AdamW: epsilon")},
    {REAL("weight-decay", "X", train.weight_decay, 0, 1e9, RUNS,
          "AdamW: decay of matrices and embeddings")},
    {FLAG("slope-decay", train.slope_decay, RUNS,
          "AdamW: decay of learnable slopes too"),
     .kept = true},
    {REAL("clip", "X", train.clip, 0, 1e300, RUNS,
          "largest global gradient norm; 0 for no clipping")},

    {LONG("record-every", "N", record_every, 1, LARGE, TRAIN,
          "steps from one record to the next")},
    {LONG("eval-every", "N", eval_every, 0, LARGE, TRAIN,
          "steps from one evaluation to the next; 0 for none")},
    {LONG("eval-batches", "N", eval_batches, 1, 1e9, TRAIN,
          "micro-batches of an evaluation")},
    {LONG("batches", "N", eval_batches, 1, 1e9, ES_VERB_PROBE,
          "micro-batches to probe with")},
    {FLAG("random", random, ES_VERB_PROBE,
          "micro-batches from places drawn from the seed; otherwise those of "
          "a training's evaluation"),
     .kept = true},
    {LONG("after-nan", "N", after_nan, 0, LARGE, TRAIN,
          "steps to go on after the loss is no longer finite")},
    {LONG("log-every", "N", log_every, 0, LARGE, TRAIN,
          "steps from one line to the next where standard error is no "
          "terminal; 0 for about twenty lines")},
    {TEXT("checkpoint", "DIR", checkpoint, TRAIN,
          "folder for checkpoints, written at the end or a stop; none after a "
          "loss that is not finite")},
    {LONG("checkpoint-every", "N", checkpoint_every, 0, LARGE, TRAIN,
          "steps from one checkpoint to the next; 0 for the end alone")},
    {LONG("keep", "N", keep, 0, LARGE, TRAIN,
          "checkpoints kept, the last ones; 0 for all")},
    {TEXT("resume", "PATH", resume, TRAIN,
          "go on with a checkpoint, or the newest good one of a folder")},
    {LONG("pairs", "N", pairs, 5, 1e6, ES_VERB_BENCH,
          "steps with and without recording to compare")},
    {TEXT("backend", "NAME", backend, ALL,
          "cpu, cuda, or auto: cuda where there is a device, else cpu"),
     .kept = true},
    {CHOICE("precision", "TYPE", precision, precisions, ALL,
            "of activations and products: fp32, and of cuda tf32, bf16 or "
            "fp16")},
    {INT("threads", "N", threads, 0, 1024, ALL,
         "threads; 0 for as many as there are processors to run on")},
    {FLAG("quiet", quiet, PASS, "no progress"), .letter = 'q'},
    {FLAG("help", help, ALL, "print this help")},
    {FLAG("version", version, ALL, "print the version")},
};

const size_t es_setting_count =
    sizeof es_setting_table / sizeof *es_setting_table;

_Static_assert(sizeof es_setting_table / sizeof *es_setting_table <=
                   ES_MAX_SETTINGS,
               "es_settings has a place for every row");
