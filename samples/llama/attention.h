/*
 * Reads llama.cpp's attention weights with its eval callback while a model runs
 * and computes the entropies of each head, for one decoded batch at a time.
 *
 *     attention_open(&seen, n_layer, n_head);
 *     context_params.cb_eval = attention_callback;
 *     context_params.cb_eval_user_data = &seen;
 *     context_params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
 *     llama_decode(...);
 *     attention_take(&seen, entropy, sink);        (L,H) of that batch
 */
#ifndef LLAMA_ATTENTION_H
#define LLAMA_ATTENTION_H

#include <llama.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums over the rows of one head since the last attention_take. */
typedef struct head_sums {
    double entropy, sink;
    int64_t finite, nonfinite;
} head_sums;

typedef struct attention {
    int n_layer, n_head;
    head_sums *sums; /* (L,H) */
    int n_read;      /* number of tensors since the last attention_take */
    /* Buffers of the callback, reused for each tensor. */
    void *weights, *mask; /* copies of the tensors' data */
    void *row;            /* floats: the attention weights (H,n) of one query,
                             followed by its entropies and sinks (2,H) */
    void *cells;          /* integers: the n cells of the KV cache that a query
                             sees */
    size_t weights_size, mask_size, row_size, cells_size;
    bool refused, failed; /* true once the callback has reported a tensor of an
                             unsupported form (refused) or a tensor that could
                             not be read (failed) */
} attention;

/* Returns false if memory is short or a size is below 1. Call attention_close
 * also after a failure. */
bool attention_open(attention *seen, int n_layer, int n_head);

/* The callback for llama_context_params.cb_eval. Requests the tensors
 * kq_soft_max-N. The first tensor that cannot be read is reported on standard
 * error; the model is never stopped. */
bool attention_callback(struct ggml_tensor *tensor, bool ask, void *user_data);

/*
 * Writes the means over the rows since the last call, and resets the sums:
 * entropy (nats) and sink (weight on the first visible cell), each (L,H). A
 * head whose rows are all non-finite is NaN, and a head without rows is
 * es_missing(). Returns the number of tensors that were read.
 */
int attention_take(attention *seen, float *entropy, float *sink);

void attention_close(attention *seen);

#endif
