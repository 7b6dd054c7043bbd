/* Tests weights that are split over several files, and models whose LayerNorm
   is linear. */
#include "tests/support/test.h"
#include "tests/support/weights_case.h"

/* --- several files -------------------------------------------------------- */

static char index_path[96], shard_paths[2][96];

/* Writes the first `n_first` tensors to one file, the other tensors to a second
   file, and an index of both files. `more` is added to the index's weight_map;
   the tensor `left_out` is omitted from the index. */
static void write_shards(const es_weights_case *f, size_t n_first,
                         const char *more, size_t left_out)
{
    es_test_tensors *part = calloc(1, sizeof *part);
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json",
             es_weights_folder);
    FILE *file = fopen(index_path, "w");
    assert_true(file && part);
    fprintf(file, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int k = 0; k < 2; k++) {
        const size_t from = k ? n_first : 0, to = k ? f->list.n : n_first;
        snprintf(shard_paths[k], sizeof shard_paths[k],
                 "%s/model-%d.safetensors", es_weights_folder, k);
        part->n = to - from;
        memcpy(part->all, f->list.all + from, part->n * sizeof *part->all);
        es_test_tensors_write(part, shard_paths[k]);
        for (size_t i = from; i < to; i++)
            if (i != left_out)
                fprintf(file, "\"%s\": \"model-%d.safetensors\", ",
                        f->list.all[i].name, k);
    }
    fprintf(file, "%s}}", more);
    assert_int_equal(fclose(file), 0);
    free(part);
}

static void remove_shards(void)
{
    unlink(index_path);
    unlink(shard_paths[0]);
    unlink(shard_paths[1]);
}

TEST(an_index_of_two_files_makes_one_model)
{
    es_weights_case *f = es_weights_case_open("g02_sm_ln_gt", "transformer.");
    char note[256];
    es_weights *weights = NULL, *whole = es_weights_case_read(f);
    char last[256]; /* last entry of the weight_map, which is not followed by a
                       comma */
    snprintf(last, sizeof last, "\"%s\": \"model-0.safetensors\"",
             f->list.all[0].name);
    write_shards(f, 5, last, 0);
    es_assert_ok(es_weights_open(&weights, index_path, 3, false));
    es_model_config config = es_weights_case_config(f, weights);
    AUTO_FREE float *got =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    AUTO_FREE float *want =
        es_weights_logits(whole, &config, f->it.tokens.data, note);
    assert_memory_equal(got, want, es_weights_n_logits(&config) * sizeof *got);
    es_weights_close(weights);
    es_weights_close(whole);
    remove_shards();
    es_weights_case_close(f);
}

static void refuse_index(es_status code, const char *word)
{
    es_weights *weights = NULL;
    assert_int_equal(es_weights_open(&weights, index_path, 3, false), code);
    if (!strstr(es_message(), word))
        fail_msg("%s", es_message());
    assert_null(weights);
}

TEST(an_index_that_does_not_match_its_files_is_refused)
{
    es_weights_case *f = es_weights_case_open("g02_sm_ln_gt", "transformer.");
    static const char *const wrong[][2] = {
        {"\"x\": \"model-0.safetensors\"", "tensor x is missing from"},
        {"\"x\": \"../model-0.safetensors\"", "is not a safetensors file"},
        {"\"x\": \"model-0.bin\"", "is not a safetensors file"},
        {"\"x\": 3", "is not a safetensors file"},
        {"\"x\": ", "line 1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_shards(f, 5, wrong[i][0], f->list.n);
        refuse_index(ES_EFORMAT, wrong[i][1]);
    }
    char moved[256], why[128]; /* index entry that assigns a tensor of the
                                  second file to the first file */
    snprintf(moved, sizeof moved, "\"%s\": \"model-0.safetensors\"",
             f->list.all[5].name);
    write_shards(f, 5, moved, 5);
    snprintf(why, sizeof why, "is missing from %s", shard_paths[0]);
    refuse_index(ES_EFORMAT, why);
    write_shards(f, 5, "\"x\": \"/model-0.safetensors\"", f->list.n);
    refuse_index(ES_EFORMAT, "is not a safetensors file");
    write_shards(f, 5, "\"x\": \"model-7.safetensors\"", f->list.n);
    refuse_index(ES_EIO, "model-7.safetensors");
    FILE *file = fopen(index_path, "w");
    fprintf(file, "{\"weight_map\": {\"%s\": \"model-0.safetensors\"}}",
            f->list.all[0].name);
    assert_int_equal(fclose(file), 0);
    refuse_index(ES_EFORMAT, "is missing from weight_map");
    file = fopen(index_path, "w");
    fputs("{\"metadata\": {}}", file);
    assert_int_equal(fclose(file), 0);
    refuse_index(ES_EFORMAT, "the object 'weight_map' is missing");
    remove_shards();
    es_weights_case_close(f);
}

/* --- linear LayerNorm
   ---------------------------------------------------------- */

/* Runs a model whose LayerNorm is linear, because its epsilon is much larger
   than any variance, as in the published models. The weights of LayerNorm are
   multiplied by `factor`, the square root of epsilon, so the function must be
   the same for every epsilon. */
static float *run_linear(es_weights_case *f, const char *epsilon, float factor)
{
    char note[256], text[64];
    for (size_t i = 0; i < f->list.n; i++) {
        es_test_tensor *tensor = &f->list.all[i];
        const bool is_norm = strstr(tensor->name, "ln_") != NULL;
        if (is_norm && strstr(tensor->name, ".weight"))
            for (size_t k = 0; k < tensor->n; k++)
                tensor->values[k] *= factor;
    }
    snprintf(text, sizeof text, "{\"layer_norm_epsilon\": %s}", epsilon);
    es_weights_config_write(text);
    AUTO(es_weights) weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    assert_true(fabs(config.ln_eps / strtod(epsilon, NULL) - 1) < 1e-12);
    float *logits =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    config.ln_eps = 2;
    assert_int_equal(es_weights_check(weights, &config), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "--ln-eps"));
    return logits;
}

TEST(an_epsilon_of_1e12_is_a_model_without_layer_norm)
{
    es_weights_case *f = es_weights_case_open("g02_sm_ln_gt", "transformer.");
    AUTO_FREE float *with = run_linear(f, "1e-05", 1);
    AUTO_FREE float *one = run_linear(f, "1000000000000.0", 1e6f);
    AUTO_FREE float *other = run_linear(f, "1e+14", 10);
    const size_t n = es_weights_n_logits(&f->it.config);
    double off = 0, apart = 0;
    for (size_t i = 0; i < n; i++) {
        off = fmax(off, fabs((double)one[i] - (double)other[i]));
        apart = fmax(apart, fabs((double)one[i] - (double)with[i]));
    }
    assert_true(off <= 1e-4 && apart > 0.1);
    es_weights_case_close(f);
}

TEST_GROUP(es_weights_folder_make, es_weights_folder_remove)
