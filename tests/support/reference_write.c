/* Writes cases as folders (tests/trainer/cases/README.md), either from the
 * double-precision model or from a case that is stored in a file. */
#include "hooks/trainer/files/arrays.h"
#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/params.h"
#include "tests/support/reference_case.h"
#include "tests/support/test.h"

typedef struct place {
    const char *dir, *folder; /* name of a folder in dir; "" stands for dir
                               * itself */
    const char *name;
} place;

static FILE *create(const place *at, const char *ending)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s%s", at->dir, at->folder, at->name,
             ending);
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_msg("%s: cannot be written", path);
    return file;
}

static void make_folder(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (mkdir(path, 0700) != 0)
        fail_msg("%s: cannot be made", path);
}

/* Creates NAME.npy and writes its header. `dims` is a list that ends with 0. */
static FILE *create_array(const place *at, const char *type, const int *dims)
{
    char shape[96] = "", header[256];
    size_t n = 0;
    for (; *dims; dims++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%d, ", *dims);
    const int length =
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 type, shape);
    /* Magic number, version and length field take 10 bytes. The complete header
       must be a multiple of 64 bytes long. */
    const int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    FILE *file = create(at, ".npy");
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc(padded % 256, file);
    fputc(padded / 256, file);
    fprintf(file, "%-*s\n", padded - 1, header);
    return file;
}

static void close_array(FILE *file)
{
    assert_int_equal(fclose(file), 0);
}

static size_t product(const int *dims)
{
    size_t n = 1;
    for (; *dims; dims++)
        n *= (size_t)*dims;
    return n;
}

/* Writes the values as float32. */
static void write_floats(const char *dir, const char *folder, const char *name,
                         const double *values, const int *dims)
{
    FILE *file = create_array(&(place){dir, folder, name}, "<f4", dims);
    for (size_t i = 0; i < product(dims); i++) {
        const float value = (float)values[i];
        fwrite(&value, sizeof value, 1, file);
    }
    close_array(file);
}

static void write_number(const char *dir, const char *name, double value)
{
    FILE *file = create_array(&(place){dir, "out", name}, "<f8", (int[]){1, 0});
    fwrite(&value, sizeof value, 1, file);
    close_array(file);
}

static void write_whole(const char *dir, const char *folder, const char *name,
                        const int32_t *values, const int *dims)
{
    FILE *file = create_array(&(place){dir, folder, name}, "<i4", dims);
    fwrite(values, sizeof *values, product(dims), file);
    close_array(file);
}

/* --- from a file ---------------------------------------------------------- */

/* Writes one array of the file; the name is for example "grads/wte". */
static void unpack(const char *dir, const es_arrays *from, const char *name)
{
    static const char *const types[] = {
        [ES_NPY_F4] = "<f4", [ES_NPY_F8] = "<f8", [ES_NPY_I4] = "<i4"};
    AUTO_BY(es_npy_free) es_npy array = {0};
    char folder[64] = "";
    int dims[ES_NPY_MAX_DIMS + 1] = {0};
    const char *slash = strchr(name, '/');
    if (slash) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, folder);
        if (access(path, F_OK) != 0)
            make_folder(dir, folder);
    }
    es_assert_ok(es_arrays_read(&array, from, name));
    for (int i = 0; i < array.n_dims; i++)
        dims[i] = (int)array.dims[i];
    const place at = {dir, folder, slash ? slash + 1 : name};
    FILE *file = create_array(&at, types[array.type], dims);
    fwrite(array.data, array.type == ES_NPY_F8 ? 8 : 4, array.n, file);
    close_array(file);
}

void es_ref_case_unpack(const char *dir, const char *path)
{
    AUTO_BY(es_arrays_close) es_arrays from = {0};
    AUTO_FREE char *text = NULL;
    char label[ES_ARRAY_LABEL_MAX];
    es_assert_ok(es_arrays_open(&from, path));
    es_assert_ok(es_arrays_text(&text, label, &from, "case"));
    FILE *file = create(&(place){dir, "", "case"}, ".json");
    fputs(text, file);
    close_array(file);
    for (size_t i = 0; i < from.file->n; i++)
        unpack(dir, &from, from.file->tensors[i].name);
}

/* --- from the model ------------------------------------------------------- */

static void write_json(const char *dir, const es_model_config *config)
{
    static const char *const norms[] = {"auto", "on", "off"};
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &config->arch);
    FILE *file = create(&(place){dir, "", "case"}, ".json");
    fprintf(
        file,
        "{\"arch\": \"%s\", \"family\": \"%s\", \"n_layer\": %d, "
        "\"n_head\": %d, \"d_model\": %d, \"ctx\": %d, \"vocab\": %d, "
        "\"batch\": %d, \"mlp_mult\": %d, \"bias\": \"%s\", "
        "\"final_norm\": \"%s\", \"gamma\": %.17g, \"lambda\": %.17g, "
        "\"ereg_reduce\": \"%s\", \"renormalised\": true, \"note\": \"\"}\n",
        arch, es_family_names[config->family], config->n_layer, config->n_head,
        config->d_model, config->ctx, config->vocab, config->batch,
        config->mlp_mult, es_bias_names[config->bias],
        norms[config->final_norm], config->gamma, config->lambda,
        config->ereg_reduce == ES_EREG_TOKEN ? "token" : "mean");
    close_array(file);
}

/* Writes an array of the model under its name in the case's folder. A case
 * stores temperatures, whereas the model stores their logarithms. If `gradient`
 * is true, the values are derivatives with respect to the model's
 * parameters. */
static void write_array(const char *dir, const char *folder,
                        const es_ref_model *model, size_t index,
                        const double *values, bool gradient)
{
    const size_t n = model->sizes[index];
    AUTO_FREE double *of_t = calloc(n, sizeof *of_t);
    char name[ES_PARAM_NAME_MAX];
    const bool is_log =
        es_temperatures_name(name, sizeof name, model->names[index]);
    for (size_t i = 0; is_log && i < n; i++) {
        const double t = exp(model->values[index][i]);
        of_t[i] = gradient ? values[i] / t : t;
    }
    write_floats(dir, folder, is_log ? name : model->names[index],
                 is_log ? of_t : values,
                 (int[]){model->dims[index][0], model->dims[index][1], 0});
}

/* Writes the arrays of the model that are state (u and v), or all other
 * arrays. */
static void write_arrays(const char *dir, const char *folder,
                         const es_ref_model *model, bool state)
{
    make_folder(dir, folder);
    for (size_t i = 0; i < model->n_arrays; i++)
        if (es_ref_is_state(model->names[i]) == state)
            write_array(dir, folder, model, i, model->values[i], false);
}

/* Writes the means of row statistics over the rows of each head, all of which
 * are finite. */
static void write_heads(const char *dir, const es_ref_result *result,
                        const es_model_config *config)
{
    const int L = config->n_layer, B = config->batch, H = config->n_head;
    const int T = config->ctx, dims[] = {L, H, 0};
    AUTO_FREE double *entropy = calloc((size_t)(L * H), sizeof *entropy);
    AUTO_FREE int32_t *nonfinite = calloc((size_t)(L * H), sizeof *nonfinite);
    for (int row = 0; row < L * B * H * T; row++) {
        const int l = row / (B * H * T), h = row / T % H;
        entropy[l * H + h] += result->rows[ES_ROW_ENTROPY][row] / (B * T);
    }
    write_floats(dir, "out", "entropy", entropy, dims);
    write_whole(dir, "out", "nonfinite", nonfinite, dims);
}

static void write_outputs(const char *dir, const es_ref_result *result,
                          const es_model_config *config)
{
    make_folder(dir, "out");
    write_number(dir, "loss", result->loss);
    write_number(dir, "ce", result->ce);
    write_number(dir, "ereg", result->ereg);
    write_floats(dir, "out", "logits", result->logits,
                 (int[]){config->batch, config->ctx, config->vocab, 0});
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        char name[64];
        snprintf(name, sizeof name, "row_%s", es_row_statistic_names[i]);
        if (i != ES_ROW_LSE && es_row_statistic_exists((es_row_statistic)i,
                                                       config->arch.attention))
            write_floats(dir, "out", name, result->rows[i],
                         (int[]){config->n_layer, config->batch, config->n_head,
                                 config->ctx, 0});
    }
    write_heads(dir, result, config);
}

static void write_gradients(const char *dir, const es_ref_case *it,
                            es_ref_result *result)
{
    const es_ref_model *model = it->model;
    make_folder(dir, "grads");
    for (size_t i = 0; i < model->n_arrays; i++) {
        AUTO_FREE double *gradient = calloc(model->sizes[i], sizeof *gradient);
        for (size_t j = 0; j < model->sizes[i]; j++)
            gradient[j] = es_ref_model_gradient(model, result, it->tokens,
                                                it->targets, i, j);
        if (!es_ref_is_state(model->names[i]))
            write_array(dir, "grads", model, i, gradient, true);
    }
}

void es_ref_case_write(const char *dir, es_ref_case *it)
{
    const es_model_config *config = &it->model->config;
    const int dims[] = {config->batch, config->ctx, 0};
    es_ref_result *result = es_ref_result_new(config);
    write_json(dir, config);
    write_whole(dir, "", "tokens", it->tokens, dims);
    write_whole(dir, "", "targets", it->targets, dims);
    write_arrays(dir, "params", it->model, false);
    write_arrays(dir, "state", it->model, true);
    es_ref_model_iterate(it->model);
    write_arrays(dir, "state_after", it->model, true);
    es_ref_model_run(it->model, result, it->tokens, it->targets);
    write_outputs(dir, result, config);
    write_gradients(dir, it, result);
    es_ref_result_free(result);
}
