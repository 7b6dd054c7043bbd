/* Writes safetensors files, valid or deliberately damaged, without using the
 * trainer's code, for tests of readers. */
#include "tests/support/tensor_file.h"
#include "tests/support/test.h"

/* --- a list ------------------------------------------------------------- */

es_test_tensor *es_test_tensor_add(es_test_tensors *list, const char *name,
                                   const float *values, int n_dims,
                                   const int64_t *dims)
{
    assert_true(list->n < ES_TEST_TENSORS);
    es_test_tensor *tensor = &list->all[list->n++];
    *tensor = (es_test_tensor){.type = "F32", .n_dims = n_dims, .n = 1};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    for (int i = 0; i < n_dims; i++) {
        tensor->dims[i] = dims[i];
        tensor->n *= (size_t)dims[i];
    }
    tensor->values = calloc(tensor->n, sizeof *tensor->values);
    assert_non_null(tensor->values);
    if (values)
        memcpy(tensor->values, values, tensor->n * sizeof *values);
    return tensor;
}

es_test_tensor *es_test_tensor_find(es_test_tensors *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->all[i].name, name) == 0)
            return &list->all[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

void es_test_tensor_remove(es_test_tensors *list, const char *name)
{
    es_test_tensor *tensor = es_test_tensor_find(list, name);
    free(tensor->values);
    *tensor = list->all[--list->n];
}

void es_test_tensors_free(es_test_tensors *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->all[i].values);
    list->n = 0;
}

/* --- a file ------------------------------------------------------------- */

/** Returns the fp16 bits of a value, which fp16 must represent exactly and not
 *  as a denormal. */
static unsigned half_bits(float value)
{
    int exponent;
    float fraction = frexpf(fabsf(value), &exponent); /* 0.5 <= fraction < 1 */
    unsigned sign = signbit(value) ? 0x8000u : 0;
    if (fpclassify(value) == FP_ZERO)
        return sign;
    float digits = ldexpf(fraction, 11);
    assert_true(fabsf(digits - rintf(digits)) <= 0);
    assert_true(exponent >= -13 && exponent <= 16);
    return sign | (unsigned)(exponent + 14) << 10 | ((unsigned)digits & 0x3ff);
}

static unsigned bfloat_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(bits & 0xffff, 0);
    return bits >> 16;
}

static size_t type_size(const char *type)
{
    return strcmp(type, "F32") == 0                      ? 4
           : strcmp(type, "BOOL") == 0 || type[1] == '8' ? 1
                                                         : 2;
}

static void write_values(FILE *file, const es_test_tensor *tensor)
{
    size_t size = type_size(tensor->type);
    for (size_t i = 0; i < tensor->n; i++) {
        float value = tensor->values[i];
        uint32_t bits = value > 0;
        if (size == 4)
            memcpy(&bits, &value, sizeof bits);
        else if (size == 2)
            bits =
                tensor->type[0] == 'F' ? half_bits(value) : bfloat_bits(value);
        for (size_t byte = 0; byte < size; byte++)
            fputc((int)(bits >> 8 * byte & 0xff), file);
    }
}

void es_test_tensors_write(const es_test_tensors *list, const char *path)
{
    AUTO_FREE char *header = NULL;
    size_t n = 0, offset = 0;
    FILE *text = open_memstream(&header, &n);
    assert_non_null(text);
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", text);
    for (size_t i = 0; i < list->n; i++) {
        const es_test_tensor *tensor = &list->all[i];
        size_t bytes = tensor->n * type_size(tensor->type);
        fprintf(text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name,
                tensor->type);
        for (int dim = 0; dim < tensor->n_dims; dim++)
            fprintf(text, dim ? ",%lld" : "%lld", (long long)tensor->dims[dim]);
        fprintf(text, "],\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
        offset += bytes;
    }
    fputc('}', text);
    assert_int_equal(fclose(text), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int byte = 0; byte < 8; byte++)
        fputc((int)((uint64_t)n >> 8 * byte & 0xff), file);
    assert_int_equal(fwrite(header, 1, n, file), n);
    for (size_t i = 0; i < list->n; i++)
        write_values(file, &list->all[i]);
    assert_int_equal(fclose(file), 0);
}

/* --- a reference case as saved by another library ------------------------ */

typedef struct writing {
    es_test_tensors *out;
    const es_verify_case *from;
    const char *prefix;
} writing;

/**
 * Adds a parameter, unchanged or as the transposed matrix, under the name that
 * Hugging Face's library uses.
 */
static void add(const writing *w, const char *ours, const char *theirs,
                bool turned)
{
    AUTO_BY(es_npy_free) es_npy array;
    char name[128];
    es_assert_ok(es_verify_array_read(&array, w->from, "params", ours));
    snprintf(name, sizeof name, "%s%s", w->prefix, theirs);
    int n_dims = array.n_dims;
    int64_t rows = (int64_t)array.dims[0];
    int64_t columns = n_dims == 2 ? (int64_t)array.dims[1] : 1;
    int64_t dims[2] = {turned ? columns : rows, turned ? rows : columns};
    es_test_tensor *tensor =
        es_test_tensor_add(w->out, name, array.data, n_dims, dims);
    for (int64_t i = 0; turned && i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            tensor->values[j * rows + i] =
                ((float *)array.data)[i * columns + j];
}

static void add_buffer(const writing *w, const char *name, int64_t ctx,
                       const char *type)
{
    char whole[128];
    const int64_t dims[4] = {1, 1, ctx, ctx};
    snprintf(whole, sizeof whole, "%s%s", w->prefix, name);
    es_test_tensor *tensor =
        es_test_tensor_add(w->out, whole, NULL, ctx > 0 ? 4 : 0, dims);
    snprintf(tensor->type, sizeof tensor->type, "%s", type);
}

static void add_gpt2(writing *w)
{
    static const char *const names[] = {
        "ln_1.weight",       "ln_1.bias",        "ln_2.weight",
        "ln_2.bias",         "mlp.c_fc.weight",  "mlp.c_fc.bias",
        "mlp.c_proj.weight", "mlp.c_proj.bias",  "attn.c_attn.weight",
        "attn.c_attn.bias",  "attn.c_proj.bias", "attn.c_proj.weight"};
    char name[64];
    add(w, "wte", "wte.weight", false);
    add(w, "wpe", "wpe.weight", false);
    for (int layer = 0; layer < w->from->config.n_layer; layer++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(name, sizeof name, "h.%d.%s", layer, names[i]);
            add(w, name, name, false);
        }
        snprintf(name, sizeof name, "h.%d.attn.bias", layer);
        add_buffer(w, name, w->from->config.ctx, "BOOL");
        snprintf(name, sizeof name, "h.%d.attn.masked_bias", layer);
        add_buffer(w, name, 0, "F32");
    }
    add(w, "ln_f.weight", "ln_f.weight", false);
    add(w, "ln_f.bias", "ln_f.bias", false);
    w->prefix = "";
    add(w, "wte", "lm_head.weight", false);
}

/**
 * Adds GPT-NeoX's query_key_value, whose outputs are (H, 3 * d_k), so the rows
 * of q, k and v of each head are adjacent.
 */
static void add_query_key_value(const writing *w, int layer)
{
    const es_model_config *config = &w->from->config;
    int d = config->d_model, d_k = d / config->n_head;
    char ours[64], name[128];
    es_npy weight, bias;
    snprintf(ours, sizeof ours, "h.%d.attn.c_attn.weight", layer);
    assert_int_equal(es_verify_array_read(&weight, w->from, "params", ours), 0);
    snprintf(ours, sizeof ours, "h.%d.attn.c_attn.bias", layer);
    assert_int_equal(es_verify_array_read(&bias, w->from, "params", ours), 0);
    snprintf(name, sizeof name, "%slayers.%d.attention.query_key_value.weight",
             w->prefix, layer);
    const int64_t dims[2] = {3 * d, d};
    float *matrix = es_test_tensor_add(w->out, name, NULL, 2, dims)->values;
    snprintf(name, sizeof name, "%slayers.%d.attention.query_key_value.bias",
             w->prefix, layer);
    float *row_bias = es_test_tensor_add(w->out, name, NULL, 1, dims)->values;
    for (int part = 0; part < 3; part++)
        for (int head = 0; head < config->n_head; head++)
            for (int j = 0; j < d_k; j++) {
                int row = head * 3 * d_k + part * d_k + j;
                int column = part * d + head * d_k + j;
                row_bias[row] = ((float *)bias.data)[column];
                for (int i = 0; i < d; i++)
                    matrix[row * d + i] =
                        ((float *)weight.data)[i * 3 * d + column];
            }
    es_npy_free(&weight);
    es_npy_free(&bias);
}

static void add_neox_layer(const writing *w, int layer)
{
    static const struct {
        const char *ours, *theirs;
        bool turned;
    } names[] = {
        {"ln_1.weight", "input_layernorm.weight", false},
        {"ln_1.bias", "input_layernorm.bias", false},
        {"ln_2.weight", "post_attention_layernorm.weight", false},
        {"ln_2.bias", "post_attention_layernorm.bias", false},
        {"attn.c_proj.weight", "attention.dense.weight", true},
        {"attn.c_proj.bias", "attention.dense.bias", false},
        {"mlp.c_fc.weight", "mlp.dense_h_to_4h.weight", true},
        {"mlp.c_fc.bias", "mlp.dense_h_to_4h.bias", false},
        {"mlp.c_proj.weight", "mlp.dense_4h_to_h.weight", true},
        {"mlp.c_proj.bias", "mlp.dense_4h_to_h.bias", false},
    };
    char ours[64], theirs[96];
    add_query_key_value(w, layer);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(ours, sizeof ours, "h.%d.%s", layer, names[i].ours);
        snprintf(theirs, sizeof theirs, "layers.%d.%s", layer, names[i].theirs);
        add(w, ours, theirs, names[i].turned);
    }
    snprintf(theirs, sizeof theirs, "layers.%d.attention.bias", layer);
    add_buffer(w, theirs, 2048 / 64, "BOOL");
    snprintf(theirs, sizeof theirs, "layers.%d.attention.masked_bias", layer);
    add_buffer(w, theirs, 0, "F32");
    snprintf(theirs, sizeof theirs, "layers.%d.attention.rotary_emb.inv_freq",
             layer);
    add_buffer(w, theirs, 0, "F32");
}

void es_test_tensors_of_case(es_test_tensors *out, const es_verify_case *from,
                             const char *prefix)
{
    writing w = {out, from, prefix};
    out->n = 0;
    if (from->config.family == ES_FAMILY_GPT2) {
        add_gpt2(&w);
        return;
    }
    add(&w, "wte", "embed_in.weight", false);
    for (int layer = 0; layer < from->config.n_layer; layer++)
        add_neox_layer(&w, layer);
    add(&w, "ln_f.weight", "final_layer_norm.weight", false);
    add(&w, "ln_f.bias", "final_layer_norm.bias", false);
    w.prefix = "";
    add(&w, "embed_out", "embed_out.weight", false);
}
