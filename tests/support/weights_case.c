/* Stores reference cases in the format of Hugging Face's transformers, and
 * computes the outputs of a model with these weights. */
#include "tests/support/weights_case.h"

#include "tests/support/reference_case.h"
#include "tests/support/test.h"
#include <unistd.h>

char es_weights_folder[64], es_weights_file[96], es_weights_config[96];

int es_weights_folder_make(void **state)
{
    (void)state;
    strcpy(es_weights_folder, "/tmp/es_weights_XXXXXX");
    if (!mkdtemp(es_weights_folder))
        return -1;
    snprintf(es_weights_file, sizeof es_weights_file, "%s/model.safetensors",
             es_weights_folder);
    snprintf(es_weights_config, sizeof es_weights_config, "%s/config.json",
             es_weights_folder);
    return 0;
}

int es_weights_folder_remove(void **state)
{
    (void)state;
    unlink(es_weights_file);
    unlink(es_weights_config);
    return rmdir(es_weights_folder);
}

es_weights_case *es_weights_case_open(const char *name, const char *prefix)
{
    es_weights_case *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "%s", es_ref_case_path(name));
    es_assert_ok(es_verify_case_read(&f->it, f->path));
    es_test_tensors_of_case(&f->list, &f->it, prefix);
    unlink(es_weights_config);
    return f;
}

void es_weights_case_close(es_weights_case *f)
{
    es_test_tensors_free(&f->list);
    es_verify_case_free(&f->it);
    free(f);
}

void es_weights_config_write(const char *text)
{
    FILE *file = fopen(es_weights_config, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

es_weights *es_weights_case_read(const es_weights_case *f)
{
    es_weights *weights = NULL;
    es_test_tensors_write(&f->list, es_weights_file);
    es_assert_ok(
        es_weights_open(&weights, es_weights_file, f->it.config.n_head, false));
    return weights;
}

es_model_config es_weights_case_config(const es_weights_case *f,
                                       const es_weights *weights)
{
    es_model_config config = weights->config;
    config.ctx = f->it.config.ctx;
    config.batch = f->it.config.batch;
    return config;
}

size_t es_weights_n_logits(const es_model_config *config)
{
    return (size_t)config->batch * (size_t)config->ctx * (size_t)config->vocab;
}

float *es_weights_logits(const es_weights *weights,
                         const es_model_config *config, const int32_t *tokens,
                         char note[256])
{
    es_model *model = NULL;
    es_losses losses;
    const size_t n = es_weights_n_logits(config);
    float *logits = malloc(n * sizeof *logits);
    assert_non_null(logits);
    es_assert_ok(es_model_new(&model, config, &es_cpu_ops, 1));
    es_assert_ok(es_weights_load(model, weights, note, 256));
    es_assert_ok(es_model_forward(model, &losses, tokens, NULL, false, true));
    memcpy(logits, es_model_logits(model), n * sizeof *logits);
    es_model_free(model);
    return logits;
}
