/**
 * Weights of an existing model out of a safetensors file: a checkpoint of
 * entropy-train, or GPT-2, GPT-NeoX (Pythia) Llama (Qwen2, Qwen3), BERT,
 * RoBERTa or ViT as Hugging Face's library saves them. What is trained here by
 * another name, transposed or interleaved there, is put in the order of
 * model/params.h.
 *
 * A file is untrusted: every tensor's name and shape is compared with what the
 * model has; one too many is as much an error as one too few.
 */
#ifndef ES_WEIGHTS_H
#define ES_WEIGHTS_H

#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/params.h"

/** A file of weights that is open; to be read alone. */
typedef struct es_weights {
    char *path;
    const char *maker; /* "entropy-train", "GPT-2", "GPT-NeoX", "Llama",
                          "BERT" */
    /* The model: arch, family, sizes, bias, final norm; ctx is the longest
       that the weights have positions for, or, where they have none, the one
       that config.json or the checkpoint names, 0 if neither does. Of a
       checkpoint everything else too (gamma, lambda, batch, seed, ...); of the
       others that is as es_model_config_default has it. */
    es_model_config config;
    int64_t step;  /* steps a checkpoint's model was trained for; or 0 */
    int n_skipped; /* positions in the file before the first that is used */
    es_safetensors *file;
    char *names; /* of the file's tensors, where others saved it: those of the
                    model without its wrappers; or NULL */
    const struct es_weights_format *format; /* NULL: a checkpoint of our own */
    const char *prefix;                     /* the one in use, or "" */
    es_params params;                       /* arrays of config */
    const es_tensor **tensors; /* (params.n): where they are in the file */
} es_weights;

/**
 * Opens a file, or an index of several (model.safetensors.index.json), finds
 * out what model it holds, and checks that all of it is there. No weight is
 * read yet.
 *
 * Layers, widths and vocabulary follow from the shapes. What they do not say
 * - the number of heads, the activation, LayerNorm's epsilon - is taken from
 * the config.json beside a file of Hugging Face's; what that says of anything
 * else must be what this program computes. Without a config.json the activation
 * is the published models' (GPT-2: GT, GPT-NeoX: G); those of Llama and BERT
 * have to be there.
 *
 *   n_head  heads of a layer, 0: not known
 *
 * ES_OK; ES_EUSAGE (the number of heads is not known, or not n_head; a size
 * that no model here can have); ES_EIO; ES_EFORMAT (neither of the three; a
 * tensor that is missing, of another shape, or that such a model does not
 * have; a model that is computed in another way), naming file and tensor;
 * ES_ENOMEM.
 */
es_status es_weights_open(es_weights **out, const char *path,
                          int n_head) ES_MUST_USE;
void es_weights_close(es_weights *weights); /* NULL is fine */

/**
 * Compares a model that is to start from the weights with what they are of.
 *
 * The two have to be the same but for what leaves the model's function as it
 * is when it starts: EReg's thresholds and SM(t)'s temperatures at 1, ScFFN's
 * alpha and beta at 1 over a linear network, biases at 0 may be new, EReg may
 * go. Attention may be of another kind (softmax, PowerSoftmax of any form,
 * scaled ReLU) and GELU may be x sigmoid(1.702 x): such a model goes on as
 * another function with the same arrays. The context may be shorter: positions
 * are absolute, and the first ones are taken. Rotary positions have no end: any
 * context will do.
 *
 * ES_OK, or ES_EUSAGE naming the first difference.
 */
es_status es_weights_check(const es_weights *weights,
                           const es_model_config *config) ES_MUST_USE;

/**
 * Fills a model that es_weights_check has passed. Arrays that the file lacks
 * keep the values they have.
 *
 *   note  written, size bytes: as which other function it goes on, what is new
 *         and what was left out, one line;
 *         "" if nothing
 *
 * ES_OK; ES_EUSAGE (an array is missing: its name is said); ES_EFORMAT, ES_EIO
 * (the file changed); ES_ENOMEM: the model is then partly filled.
 */
es_status es_weights_load(es_model *model, const es_weights *weights,
                          char *note, size_t size) ES_MUST_USE;

#endif
