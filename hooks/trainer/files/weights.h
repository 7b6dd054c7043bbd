/**
 * Loads the weights of an existing model from a safetensors file: a checkpoint
 * of entropy-train, or GPT-2, GPT-NeoX (Pythia), Llama (Qwen2, Qwen3), BERT,
 * RoBERTa or ViT as saved by Hugging Face's library. Arrays whose name or
 * layout in the file differs are converted to the order of model/params.h.
 *
 * A file is untrusted: the names and shapes of all tensors are compared with
 * those of the model; an extra tensor is as much an error as a missing one.
 */
#ifndef ES_WEIGHTS_H
#define ES_WEIGHTS_H

#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/params.h"

/** An open file of weights; all members are read-only. */
typedef struct es_weights {
    char *path;
    /* program or library that wrote the file: "entropy-train", "GPT-2",
     * "GPT-NeoX", "Llama", "BERT", "RoBERTa", "ViT" */
    const char *maker;
    /* The model: architecture, family, sizes, bias, final norm. ctx is the
     * number of position embeddings in the file; if the model has none, the
     * context that config.json or the checkpoint specifies, else 0. For a
     * checkpoint, config also has all other settings (gamma, lambda, batch,
     * seed, ...); for other files they have the values of
     * es_model_config_default. */
    es_model_config config;
    int64_t step; /* number of steps for which a checkpoint's model was trained;
                     else 0 */
    int n_skipped; /* number of position embeddings that precede the model's
                      first one in the file */
    es_safetensors *file;
    char *names; /* names of the tensors without prefixes such as `module.`, for
                    files of other programs; else NULL */
    const struct es_weights_format *format; /* NULL for a checkpoint of
                                               entropy-train */
    const char *prefix;        /* prefix that names in this file have, or "" */
    es_params params;          /* list of the arrays of config */
    const es_tensor **tensors; /* tensor of each of the params.n arrays */
} es_weights;

/**
 * Opens a file, or an index of several files (model.safetensors.index.json),
 * determines which model it holds, and checks that no tensor is missing. Does
 * not read any weights yet.
 *
 * The numbers of layers, widths and vocabulary follow from the shapes. The
 * number of heads, the activation and LayerNorm's epsilon do not: for files of
 * Hugging Face's library they are read from config.json in the same folder,
 * whose other properties must match what this program computes. Without
 * config.json the activation of the published models is assumed (GPT-2: GT,
 * GPT-NeoX: G); Llama and BERT need config.json.
 *
 *   n_head    heads per layer, 0: unknown
 *   predicts  whether the model must predict tokens. RoBERTa with its layers
 *             lm_head then has family roberta, and an unknown mask token (-1);
 *             otherwise it has family bert, which has no loss, and these layers
 *             are ignored. Has no effect on other models.
 *
 * Returns ES_OK; ES_EUSAGE (the number of heads is unknown or differs from
 * n_head; a size that this program does not support; RoBERTa without lm_head
 * must predict); ES_EIO; ES_EFORMAT (an unknown format; a tensor that is
 * missing, unexpected or of another shape; a model that is computed
 * differently), naming file and tensor; ES_ENOMEM.
 */
es_status es_weights_open(es_weights **out, const char *path, int n_head,
                          bool predicts) ES_MUST_USE;
void es_weights_close(es_weights *weights); /* `weights` may be NULL */

/**
 * Checks that a model of this configuration can start from the weights.
 *
 * The configurations of model and weights must be equal, except for differences
 * that do not change what the model computes at its start. Parts whose initial
 * values have no effect may be added: EReg's thresholds, temperatures of 1
 * (SM(t)), alpha and beta of 1 on a linear FFN (ScFFN), and biases of 0. EReg
 * may be dropped. Two differences change the function but not the arrays and
 * are allowed, too: attention of another kind (softmax, PowerSoftmax of any
 * form, scaled ReLU), and x sigmoid(1.702 x) in place of GELU. The context may
 * be shorter: the model then uses the first of the absolute positions. Rotary
 * models accept any context. Any mask token fits RoBERTa's weights, whose
 * config.json does not name it.
 *
 * Returns ES_OK, or ES_EUSAGE naming the first difference.
 */
es_status es_weights_check(const es_weights *weights,
                           const es_model_config *config) ES_MUST_USE;

/**
 * Stores the weights in a model that es_weights_check has accepted. Arrays that
 * are missing from the file keep their values.
 *
 *   note  (size) output: one line that names changes of the function that the
 *         model computes, arrays missing from the file, and ignored arrays; ""
 *         if there is nothing to report
 *
 * Returns ES_OK; ES_EUSAGE (an array is missing; the message names it);
 * ES_EFORMAT, ES_EIO (the file has changed); ES_ENOMEM. After an error the
 * model is partly filled.
 */
es_status es_weights_load(es_model *model, const es_weights *weights,
                          char *note, size_t size) ES_MUST_USE;

#endif
