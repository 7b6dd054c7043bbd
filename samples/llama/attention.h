/*
 * llama.cpp's attention weights, seen by its eval callback while a model runs:
 * entropies of each head for one decoded batch at a time.
 *
 *     attention_open(&seen, n_layer, n_head);
 *     context_params.cb_eval = attention_callback;
 *     context_params.cb_eval_user_data = &seen;
 *     context_params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
 *     llama_decode(...);
 *     attention_take(&seen, entropy, sink);        (L,H) of that call
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
    int n_read;      /* tensors since the last attention_take */
    /* Memory of the callback, kept from one tensor to the next. */
    void *weights, *mask; /* of the tensors, as they are */
    void *row;            /* float (H,n), then what is known of it, (2,H) */
    void *cells;          /* int (n): those that a query sees */
    size_t weights_size, mask_size, row_size, cells_size;
    bool refused, failed; /* said once each */
} attention;

/* False without memory, or if a size is below 1. attention_close is due
 * either way. */
bool attention_open(attention *seen, int n_layer, int n_head);

/* Of llama_context_params.cb_eval: wants the tensors kq_soft_max-N. What is not
 * understood is said once on standard error; a model is never stopped. */
bool attention_callback(struct ggml_tensor *tensor, bool ask, void *user_data);

/*
 * Means over the rows since the last call, and starts anew: entropy (nats) and
 * sink (weight on the first visible cell), each (L,H). NaN of a head whose
 * rows are all non-finite, es_missing() of one without rows. The number of
 * tensors that were read.
 */
int attention_take(attention *seen, float *entropy, float *sink);

void attention_close(attention *seen);

#endif
