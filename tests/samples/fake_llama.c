/*
 * A fake of llama.cpp for samples/llama, with known attention: head h of layer
 * l attends uniformly to the last 1 + l * H + h cells that its query sees,
 * where H is the number of heads. The head's entropy is therefore the
 * logarithm of this number. Each word is one token; batches are decoded four
 * queries at a time; cells are allocated 32 at a time, and every second cell
 * belongs to another sequence. $FAKE injects faults.
 */
#include <llama.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, N_HEADS = 4, BATCH = 4, MAX_CELLS = 512, QUERY_PADDING = 3 };

struct llama_context {
    struct llama_context_params params;
    int position;
    bool stopped;
};

static int dummy;

static bool fault(const char *name)
{
    const char *wanted = getenv("FAKE");
    return wanted && strcmp(wanted, name) == 0;
}

size_t ggml_nbytes(const struct ggml_tensor *tensor)
{
    size_t n = tensor->type == GGML_TYPE_F16 ? 2 : 4;
    for (int i = 0; i < 4; i++)
        n += (size_t)(tensor->ne[i] - 1) * tensor->nb[i];
    return n;
}

void ggml_backend_tensor_get(const struct ggml_tensor *tensor, void *data,
                             size_t offset, size_t size)
{
    memcpy(data, (const char *)tensor->data + offset, size);
}

/* --- one layer -------------------------------------------------------------*/

static float weights[(MAX_CELLS + 5) * N_HEADS * BATCH];
static unsigned char mask[4 * MAX_CELLS * (BATCH + QUERY_PADDING)];

/* Returns true if the query at `position` sees `cell`. Cell c contains token c
 * / 2 of our sequence if c is even, else a token of another sequence. */
static bool sees(int position, int cell)
{
    return cell % 2 == 0 && cell / 2 <= position;
}

static struct ggml_tensor make_mask(int layer, int position, int n, int n_cells)
{
    bool half = layer % 2;
    size_t width = half ? 2 : 4;
    struct ggml_tensor out = {.type = half ? GGML_TYPE_F16 : GGML_TYPE_F32,
                              .ne = {n_cells, n + QUERY_PADDING, 1, 1},
                              .nb = {width, width * (size_t)n_cells},
                              .data = mask};
    for (int query = 0; query < n + QUERY_PADDING; query++)
        for (int cell = 0; cell < n_cells; cell++) {
            bool seen = query < n && sees(position + query, cell) &&
                        !(fault("padding") && query == n - 1);
            const float value = seen ? 0 : -INFINITY;
            const uint16_t bits = seen ? 0 : 0xfc00;
            memcpy(mask + (size_t)query * out.nb[1] + (size_t)cell * width,
                   half ? (const void *)&bits : &value, width);
        }
    return out;
}

static void make_weights(struct ggml_tensor *out, int layer, int position,
                         int n)
{
    for (int head = 0; head < N_HEADS; head++)
        for (int query = 0; query < n; query++) {
            char *row = (char *)out->data + (size_t)query * out->nb[1] +
                        (size_t)head * out->nb[2];
            int tokens = position + query + 1;
            int window = 1 + layer * N_HEADS + head;
            int wide = window < tokens ? window : tokens;
            float share = fault("sinks") ? 0.25f : 1;
            for (int cell = 0; cell < out->ne[0]; cell++) {
                bool looks =
                    sees(position + query, cell) && cell / 2 >= tokens - wide;
                /* Set hidden cells to NaN, because the callback must never read
                   them. */
                float value = !sees(position + query, cell) ? NAN
                              : looks ? share / (float)wide
                                      : 0;
                if (fault("nan") && layer == 2 && head == 3)
                    value = NAN;
                memcpy(row + cell * 4, &value, sizeof value);
            }
        }
}

/* Computes one layer for n queries. In odd layers, the weights are stored query
 * by query instead of head by head, with gaps between the rows. */
static bool run_layer(struct llama_context *context, int layer, int n)
{
    int n_cells = (2 * (context->position + n) + 31) / 32 * 32;
    size_t row = (size_t)(n_cells + (layer % 2 ? 5 : 0)) * 4;
    struct ggml_tensor seen = make_mask(layer, context->position, n, n_cells);
    struct ggml_tensor sinks = {.ne = {N_HEADS, 1, 1, 1}};
    struct ggml_tensor tensor = {.op = GGML_OP_SOFT_MAX,
                                 .ne = {n_cells, n, N_HEADS, 1},
                                 .nb = {4, row, row * (size_t)n},
                                 .src = {NULL, &seen},
                                 .data = weights};
    if (layer % 2) {
        tensor.nb[1] = row * N_HEADS;
        tensor.nb[2] = row;
    }
    if (fault("sinks"))
        tensor.src[2] = &sinks;
    if (fault("half") && layer == 1)
        tensor.type = GGML_TYPE_F16;
    if (fault("mask") && layer == 1)
        seen.ne[0]--;
    if (fault("op") && layer == 1)
        tensor.op = GGML_OP_NONE;
    snprintf(tensor.name, sizeof tensor.name, "kq_soft_max-%d", layer);
    make_weights(&tensor, layer, context->position, n);
    if (!context->params.cb_eval(&tensor, true,
                                 context->params.cb_eval_user_data))
        return true;
    return context->params.cb_eval(&tensor, false,
                                   context->params.cb_eval_user_data);
}

/* Offers tensors that the callback must not request. */
static bool run_others(struct llama_context *context)
{
    static const char *const names[] = {
        "kq-0",           "kq_soft_max",    "kq_soft_max-",
        "kq_soft_max-1x", "kq_soft_max-99", "kq_soft_max-1 (view)"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ggml_tensor tensor = {.ne = {1, 1, 1, 1}};
        snprintf(tensor.name, sizeof tensor.name, "%s", names[i]);
        if (context->params.cb_eval(&tensor, true,
                                    context->params.cb_eval_user_data))
            fprintf(stderr, "fake: %s is wanted\n", names[i]);
    }
    return true;
}

int32_t llama_decode(struct llama_context *context, llama_batch batch)
{
    for (int first = 0; first < batch.n_tokens; first += BATCH) {
        int left = batch.n_tokens - first;
        int n = left < BATCH ? left : BATCH;
        run_others(context);
        for (int layer = 0; layer < LAYERS && !fault("flash"); layer++)
            if (!run_layer(context, layer, n))
                return -3;
        context->position += n;
    }
    return fault("decode") && context->position > 6 ? 1 : 0;
}

/* --- other functions -------------------------------------------------------*/

void llama_backend_init(void)
{
}

void llama_backend_free(void)
{
}

struct llama_model_params llama_model_default_params(void)
{
    return (struct llama_model_params){0};
}

struct llama_context_params llama_context_default_params(void)
{
    return (struct llama_context_params){.flash_attn_type = 1};
}

struct llama_model *llama_model_load_from_file(const char *path,
                                               struct llama_model_params params)
{
    (void)params;
    return strstr(path, "missing") ? NULL : (struct llama_model *)&dummy;
}

void llama_model_free(struct llama_model *model)
{
    (void)model;
}

int32_t llama_model_n_layer(const struct llama_model *model)
{
    (void)model;
    return LAYERS;
}

int32_t llama_model_n_head(const struct llama_model *model)
{
    (void)model;
    return fault("heads") ? N_HEADS - 1 : N_HEADS;
}

const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model)
{
    return (const struct llama_vocab *)model;
}

struct llama_context *llama_init_from_model(struct llama_model *model,
                                            struct llama_context_params params)
{
    struct llama_context *out = calloc(1, sizeof *out);
    (void)model;
    if (out)
        out->params = params;
    if (params.flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED)
        fprintf(stderr, "fake: flash attention is on\n");
    return out;
}

void llama_free(struct llama_context *context)
{
    free(context);
}

int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text,
                       int32_t text_length, llama_token *tokens,
                       int32_t n_tokens_max, bool add_special,
                       bool parse_special)
{
    int32_t n = 0;
    (void)vocab, (void)add_special, (void)parse_special;
    for (int32_t i = 0; i < text_length; i++)
        if (text[i] != ' ' && (i == 0 || text[i - 1] == ' '))
            n++;
    for (int32_t i = 0; i < n && n <= n_tokens_max; i++)
        tokens[i] = i;
    return n <= n_tokens_max ? n : -n;
}

bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token)
{
    (void)vocab;
    return token == 9;
}

llama_batch llama_batch_get_one(llama_token *tokens, int32_t n_tokens)
{
    return (llama_batch){.n_tokens = n_tokens, .token = tokens};
}

struct llama_sampler *llama_sampler_init_greedy(void)
{
    return (struct llama_sampler *)&dummy;
}

llama_token llama_sampler_sample(struct llama_sampler *sampler,
                                 struct llama_context *context, int32_t index)
{
    (void)sampler, (void)index;
    return context->position;
}

void llama_sampler_free(struct llama_sampler *sampler)
{
    (void)sampler;
}
