/*
 * Records the attention entropy of every head while llama.cpp runs a model, one
 * sample for each decoded batch: first the prompt, then one token at a time.
 *
 *     cc -I. samples/llama/{main,attention}.c -o llama-entropy \
 *         $(pkg-config --cflags --libs llama entropyrecord) -lm
 *     ./llama-entropy model.gguf run.db 32 'Once upon a time'
 *     entropy-scan run.db --heatmap
 *
 * Flash attention is switched off, because it does not store attention weights.
 */
#include "samples/llama/attention.h"

#include <entropyscan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTROPY, SINK, N_SERIES };

/* The resources that close_all() releases. */
typedef struct session {
    struct llama_model *model;
    struct llama_context *context;
    struct llama_sampler *sampler;
    llama_token *tokens;
    int n_tokens, n_more;
    attention seen;
    float *values; /* (N_SERIES,L,H) */
    es_recorder *recorder;
    int series[N_SERIES];
} session;

static int fail(const char *object, const char *reason)
{
    fprintf(stderr, "%s: %s\n", object, reason);
    return 3;
}

static int tokenize(session *s, const char *text)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(s->model);
    int length = (int)strlen(text);
    int n = -llama_tokenize(vocab, text, length, NULL, 0, true, true);
    if (n < 1 || s->n_more > INT32_MAX - n)
        return fail("prompt", "the prompt has no tokens or too many tokens");
    s->tokens = malloc((size_t)n * sizeof *s->tokens);
    if (!s->tokens)
        return fail("prompt", "out of memory");
    s->n_tokens = llama_tokenize(vocab, text, length, s->tokens, n, true, true);
    return s->n_tokens == n ? 0 : fail("prompt", "llama_tokenize failed");
}

static int open_model(session *s, const char *path, const char *prompt)
{
    s->model = llama_model_load_from_file(path, llama_model_default_params());
    if (!s->model)
        return fail(path, "llama.cpp cannot load the model");
    int n_layer = llama_model_n_layer(s->model);
    int n_head = llama_model_n_head(s->model);
    if (!attention_open(&s->seen, n_layer, n_head))
        return fail(path, "the model has no heads, or memory is short");
    s->values =
        calloc((size_t)n_layer * (size_t)n_head, N_SERIES * sizeof *s->values);
    if (!s->values)
        return fail(path, "out of memory");
    int code = tokenize(s, prompt);
    if (code)
        return code;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(s->n_tokens + s->n_more);
    params.n_batch = (uint32_t)s->n_tokens;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.cb_eval = attention_callback;
    params.cb_eval_user_data = &s->seen;
    s->context = llama_init_from_model(s->model, params);
    s->sampler = llama_sampler_init_greedy();
    return s->context && s->sampler ? 0 : fail(path, "cannot create a context");
}

static int open_recorder(session *s, const char *path, const char *model)
{
    const char *name = strrchr(model, '/');
    es_run_info run = {.size = sizeof run,
                       .name = name ? name + 1 : model,
                       .n_layer = s->seen.n_layer,
                       .n_head = s->seen.n_head,
                       .d_model = ES_UNKNOWN,
                       .ctx = s->n_tokens + s->n_more,
                       .vocab = ES_UNKNOWN,
                       .batch = 1,
                       .seed = ES_UNKNOWN,
                       .program = "llama-entropy"};
    es_recorder_options options = {
        .size = sizeof options, .path = path, .run = &run};
    if (es_recorder_open(&s->recorder, &options) < 0 ||
        es_recorder_series(s->recorder, &s->series[ENTROPY], "entropy",
                           ES_SHAPE_HEAD, ES_PHASE_EVAL, "nats") < 0 ||
        es_recorder_series(s->recorder, &s->series[SINK], "sink", ES_SHAPE_HEAD,
                           ES_PHASE_EVAL, NULL) < 0)
        return fail("recorder", es_message());
    return 0;
}

static int record(session *s, int step)
{
    size_t n = (size_t)s->seen.n_layer * (size_t)s->seen.n_head;
    int n_read = attention_take(&s->seen, s->values, s->values + n);
    for (int i = 0; i < N_SERIES && n_read > 0; i++)
        es_recorder_push(s->recorder, s->series[i], step,
                         s->values + (size_t)i * n, n);
    return n_read;
}

static int generate(session *s, const char *path)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(s->model);
    llama_batch batch = llama_batch_get_one(s->tokens, s->n_tokens);
    llama_token token;
    for (int step = 0; step <= s->n_more; step++) {
        if (llama_decode(s->context, batch) != 0)
            return fail(path, "llama_decode failed");
        if (record(s, step) == 0)
            return fail(path, "no tensor kq_soft_max-N could be read: is flash "
                              "attention on?");
        token = llama_sampler_sample(s->sampler, s->context, -1);
        if (llama_vocab_is_eog(vocab, token))
            break;
        batch = llama_batch_get_one(&token, 1);
    }
    return 0;
}

static int close_all(session *s, int code)
{
    es_recorder_report report = {.size = sizeof report};
    es_run_status status = code ? ES_RUN_FAILED : ES_RUN_FINISHED;
    if (s->recorder && es_recorder_close(s->recorder, status, &report) < 0)
        code = fail("recorder", es_message());
    if (s->sampler)
        llama_sampler_free(s->sampler);
    if (s->context)
        llama_free(s->context);
    if (s->model)
        llama_model_free(s->model);
    attention_close(&s->seen);
    free(s->values);
    free(s->tokens);
    return code;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long n_more = argc == 5 ? strtol(argv[3], &end, 10) : -1;
    if (argc != 5 || *end || end == argv[3] || n_more < 0 || n_more > 1000000) {
        fprintf(stderr, "usage: %s MODEL.gguf RUN.db TOKENS PROMPT\n", argv[0]);
        return 2;
    }
    session s = {.n_more = (int)n_more};
    llama_backend_init();
    int code = open_model(&s, argv[1], argv[4]);
    if (!code)
        code = open_recorder(&s, argv[2], argv[1]);
    if (!code)
        code = generate(&s, argv[1]);
    code = close_all(&s, code);
    llama_backend_free();
    return code;
}
