/*
 * Implements the eval callback for llama.cpp. The tensor kq_soft_max-N contains
 * the attention weights of layer N as f32 with the dimensions {cells of the KV
 * cache, queries, heads, streams}; heads are query heads, even if keys are
 * grouped. Cells are allocated in advance and shared by sequences. The second
 * source of the softmax is the mask, with the dimensions {cells, queries or
 * more, 1, streams}; it is -inf for the cells that a query does not see.
 */
#include "samples/llama/attention.h"

#include <entropyscan.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS, QUERIES, HEADS, STREAMS };

bool attention_open(attention *seen, int n_layer, int n_head)
{
    *seen = (attention){.n_layer = n_layer, .n_head = n_head};
    if (n_layer < 1 || n_head < 1)
        return false;
    size_t n = (size_t)n_layer * (size_t)n_head;
    seen->sums = calloc(n, sizeof *seen->sums);
    return seen->sums != NULL;
}

void attention_close(attention *seen)
{
    free(seen->sums);
    free(seen->weights);
    free(seen->mask);
    free(seen->row);
    free(seen->cells);
    *seen = (attention){0};
}

/* Returns the layer number in the name of a tensor kq_soft_max-N, and -1 for
 * other tensors. Older versions of llama.cpp use the name kq_soft_max_ext. */
static int layer_of(const char *name)
{
    static const char *const prefixes[] = {"kq_soft_max-", "kq_soft_max_ext-"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) != 0)
            continue;
        size_t digits = strspn(name + length, "0123456789");
        if (digits > 0 && digits < 6 && !name[length + digits])
            return atoi(name + length);
    }
    return -1;
}

/* --- reading tensors -------------------------------------------------------*/

static bool refuse(attention *seen, const struct ggml_tensor *tensor,
                   const char *reason)
{
    if (!seen->refused)
        fprintf(stderr, "%s: not recorded: %s\n", tensor->name, reason);
    seen->refused = true;
    return false;
}

static bool is_understood(attention *seen, const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *mask = tensor->src[1];
    if (tensor->type != GGML_TYPE_F32)
        return refuse(seen, tensor, "the tensor's type is not f32");
    if (tensor->op != GGML_OP_SOFT_MAX)
        return refuse(seen, tensor,
                      "the tensor is not the result of a softmax");
    if (tensor->ne[HEADS] > seen->n_head)
        return refuse(seen, tensor, "the tensor has more heads than the model");
    for (int i = 0; i < 4; i++)
        if (tensor->ne[i] < 1 || tensor->ne[i] > INT_MAX)
            return refuse(seen, tensor, "the tensor is empty or too large");
    if (!mask)
        return true;
    if (mask->type != GGML_TYPE_F32 && mask->type != GGML_TYPE_F16)
        return refuse(seen, tensor, "the mask is neither f32 nor f16");
    if (mask->ne[CELLS] != tensor->ne[CELLS] ||
        mask->ne[QUERIES] < tensor->ne[QUERIES] || mask->ne[HEADS] != 1 ||
        (mask->ne[STREAMS] != 1 && mask->ne[STREAMS] != tensor->ne[STREAMS]))
        return refuse(seen, tensor,
                      "the mask's shape does not match the weights");
    return true;
}

static bool grow(void **memory, size_t *size, size_t n, size_t width)
{
    if (n > SIZE_MAX / width)
        return false;
    if (*size >= n * width)
        return true;
    void *larger = realloc(*memory, n * width);
    if (!larger)
        return false;
    *memory = larger;
    *size = n * width;
    return true;
}

/* Copies the data of a tensor, which may be on a GPU. */
static bool fetch(void **out, size_t *size, const struct ggml_tensor *tensor)
{
    size_t n = ggml_nbytes(tensor);
    if (!grow(out, size, n, 1))
        return false;
    ggml_backend_tensor_get(tensor, *out, 0, n);
    return true;
}

static bool fetch_all(attention *seen, const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *mask = tensor->src[1];
    size_t n = (size_t)tensor->ne[CELLS], n_head = (size_t)tensor->ne[HEADS];
    return grow(&seen->cells, &seen->cells_size, n, sizeof(int)) &&
           grow(&seen->row, &seen->row_size, (n + 2) * n_head, sizeof(float)) &&
           fetch(&seen->weights, &seen->weights_size, tensor) &&
           (!mask || fetch(&seen->mask, &seen->mask_size, mask));
}

/* --- rows ------------------------------------------------------------------*/

static bool is_hidden(const unsigned char *cell, enum ggml_type type)
{
    float value;
    uint16_t half;
    if (type == GGML_TYPE_F16) {
        memcpy(&half, cell, sizeof half);
        return half == 0xfc00; /* -inf */
    }
    memcpy(&value, cell, sizeof value);
    return value == -INFINITY;
}

/* Lists the cells that a query sees; without a mask these are all cells.
   Returns the number of cells. */
static int visible_cells(attention *seen, const struct ggml_tensor *tensor,
                         int64_t query, int64_t stream)
{
    const struct ggml_tensor *mask = tensor->src[1];
    const unsigned char *row = seen->mask;
    int *cells = seen->cells, n = 0;
    if (mask && mask->ne[STREAMS] > 1)
        row += (size_t)stream * mask->nb[STREAMS];
    if (mask)
        row += (size_t)query * mask->nb[QUERIES];
    for (int64_t cell = 0; cell < tensor->ne[CELLS]; cell++)
        if (!mask ||
            !is_hidden(row + (size_t)cell * mask->nb[CELLS], mask->type))
            cells[n++] = (int)cell;
    return n;
}

/* Collects the weights (H, n) of one query on the n cells that the query sees.
 * If the model has learnt sinks (the third source of the softmax), the weights
 * sum to less than 1; they are normalised so that the entropy is computed over
 * the cells alone. */
static void gather(attention *seen, const struct ggml_tensor *tensor,
                   int64_t query, int64_t stream, int n)
{
    const unsigned char *first = seen->weights;
    const int *cells = seen->cells;
    first += (size_t)query * tensor->nb[QUERIES] +
             (size_t)stream * tensor->nb[STREAMS];
    for (int64_t head = 0; head < tensor->ne[HEADS]; head++) {
        const unsigned char *from = first + (size_t)head * tensor->nb[HEADS];
        float *row = (float *)seen->row + head * n;
        double sum = 0;
        for (int i = 0; i < n; i++) {
            memcpy(row + i, from + (size_t)cells[i] * tensor->nb[CELLS],
                   sizeof *row);
            sum += row[i];
        }
        for (int i = 0; i < n && tensor->src[2]; i++)
            row[i] = (float)(row[i] / sum);
    }
}

static bool add_row(attention *seen, const struct ggml_tensor *tensor,
                    head_sums *sums, int n)
{
    const int n_head = (int)tensor->ne[HEADS];
    float *values = (float *)seen->row + (size_t)n_head * (size_t)n;
    const es_rows rows = {
        .size = sizeof rows, .entropy = values, .sink = values + n_head};
    const es_entropy_input weights = {.data = seen->row,
                                      .strides = es_strides_bhtd(n_head, 1, n)};
    const es_attention_shape shape = {.size = sizeof shape,
                                      .n_batch = 1,
                                      .n_heads = n_head,
                                      .n_queries = 1,
                                      .n_keys = n};
    if (es_entropy_probs(&rows, &weights, &shape, 1) < 0)
        return false;
    for (int head = 0; head < n_head; head++) {
        bool finite = isfinite(rows.entropy[head]);
        sums[head].finite += finite;
        sums[head].nonfinite += !finite;
        sums[head].entropy += finite ? (double)rows.entropy[head] : 0;
        sums[head].sink += finite ? (double)rows.sink[head] : 0;
    }
    return true;
}

static bool read_tensor(attention *seen, const struct ggml_tensor *tensor,
                        head_sums *sums)
{
    if (!fetch_all(seen, tensor))
        return false;
    for (int64_t stream = 0; stream < tensor->ne[STREAMS]; stream++)
        for (int64_t query = 0; query < tensor->ne[QUERIES]; query++) {
            int n = visible_cells(seen, tensor, query, stream);
            if (n == 0) /* a row of padding has no entropy */
                continue;
            gather(seen, tensor, query, stream, n);
            if (!add_row(seen, tensor, sums, n))
                return false;
        }
    seen->n_read++;
    return true;
}

bool attention_callback(struct ggml_tensor *tensor, bool ask, void *user_data)
{
    attention *seen = user_data;
    int layer = layer_of(tensor->name);
    bool wanted = layer >= 0 && layer < seen->n_layer;
    if (ask)
        return wanted;
    if (wanted && is_understood(seen, tensor) &&
        !read_tensor(seen, tensor,
                     seen->sums + (size_t)layer * (size_t)seen->n_head) &&
        !seen->failed) {
        seen->failed = true;
        fprintf(stderr, "%s: not recorded: out of memory\n", tensor->name);
    }
    return true;
}

int attention_take(attention *seen, float *entropy, float *sink)
{
    const size_t n = (size_t)seen->n_layer * (size_t)seen->n_head;
    const int n_read = seen->n_read;
    for (size_t i = 0; i < n; i++) {
        const head_sums *sums = seen->sums + i;
        double rows = (double)sums->finite;
        float none = sums->nonfinite > 0 ? NAN : es_missing();
        entropy[i] = sums->finite > 0 ? (float)(sums->entropy / rows) : none;
        sink[i] = sums->finite > 0 ? (float)(sums->sink / rows) : none;
    }
    seen->n_read = 0;
    memset(seen->sums, 0, n * sizeof *seen->sums);
    return n_read;
}
