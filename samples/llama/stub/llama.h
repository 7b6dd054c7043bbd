/*
 * Declares the names that samples/llama uses from llama.cpp's llama.h, ggml.h
 * and ggml-backend.h, so that the sample can be compiled without llama.cpp and
 * tested with a fake library. The struct layouts differ from llama.cpp's: a
 * program that runs a real model must be compiled with the real headers.
 */
#ifndef LLAMA_H
#define LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1 };

enum ggml_op { GGML_OP_NONE = 0, GGML_OP_SOFT_MAX = 1 };

struct ggml_tensor {
    enum ggml_type type;
    enum ggml_op op;
    int64_t ne[4]; /* size of each dimension, innermost first */
    size_t nb[4];  /* stride of each dimension in bytes */
    struct ggml_tensor *src[10];
    void *data;
    char name[64];
};

typedef bool (*ggml_backend_sched_eval_callback)(struct ggml_tensor *tensor,
                                                 bool ask, void *user_data);
size_t ggml_nbytes(const struct ggml_tensor *tensor);
void ggml_backend_tensor_get(const struct ggml_tensor *tensor, void *data,
                             size_t offset, size_t size);

typedef int32_t llama_token;
struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_sampler;

enum llama_flash_attn_type { LLAMA_FLASH_ATTN_TYPE_DISABLED = 0 };

struct llama_model_params {
    int32_t n_gpu_layers;
};
struct llama_context_params {
    uint32_t n_ctx, n_batch;
    enum llama_flash_attn_type flash_attn_type;
    ggml_backend_sched_eval_callback cb_eval;
    void *cb_eval_user_data;
};
typedef struct llama_batch {
    int32_t n_tokens;
    llama_token *token;
} llama_batch;

void llama_backend_init(void);
void llama_backend_free(void);
struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
struct llama_model *
llama_model_load_from_file(const char *path, struct llama_model_params params);
void llama_model_free(struct llama_model *model);
int32_t llama_model_n_layer(const struct llama_model *model);
int32_t llama_model_n_head(const struct llama_model *model);
const struct llama_vocab *
llama_model_get_vocab(const struct llama_model *model);
struct llama_context *llama_init_from_model(struct llama_model *model,
                                            struct llama_context_params params);
void llama_free(struct llama_context *context);
int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text,
                       int32_t text_length, llama_token *tokens,
                       int32_t n_tokens_max, bool add_special,
                       bool parse_special);
bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token);
llama_batch llama_batch_get_one(llama_token *tokens, int32_t n_tokens);
int32_t llama_decode(struct llama_context *context, llama_batch batch);
struct llama_sampler *llama_sampler_init_greedy(void);
llama_token llama_sampler_sample(struct llama_sampler *sampler,
                                 struct llama_context *context, int32_t index);
void llama_sampler_free(struct llama_sampler *sampler);

#endif
