/* Reads reference cases in the format of `entropy-train verify`. */
#include "tests/support/reference_case.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/params.h"
#include "hooks/trainer/verify.h"
#include "tests/support/test.h"

#include <dirent.h>

#define CASES "tests/trainer/cases"

/* --- paths ---------------------------------------------------------------- */

const char *es_ref_case_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, CASES "/%s.safetensors", name);
    return path;
}

static int is_case(const struct dirent *entry)
{
    return strstr(entry->d_name, ".safetensors") != NULL;
}

void es_ref_each_case(void (*check)(const char *path))
{
    struct dirent **entries = NULL;
    const int n = scandir(CASES, &entries, is_case, alphasort);
    assert_true(n >= 69);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, CASES "/%s", entries[i]->d_name);
        check(path);
        free(entries[i]);
    }
    free(entries);
}

/* --- reading -------------------------------------------------------------- */

double *es_ref_case_array(const char *path, const char *folder,
                          const char *name, size_t n)
{
    es_verify_case it = {.tokens = {0}};
    es_npy array = {0};
    es_assert_ok(es_arrays_open(&it.arrays, path));
    es_assert_ok(es_verify_array_read(&array, &it, folder, name));
    es_verify_case_free(&it);
    if (array.n != n)
        fail_msg("%s: %s/%s: %zu values, not %zu", path, folder, name, array.n,
                 n);
    double *out = calloc(n, sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = es_npy_at(&array, i);
    es_npy_free(&array);
    return out;
}

static int32_t *whole_numbers(const es_npy *from)
{
    int32_t *out = calloc(from->n, sizeof *out);
    memcpy(out, from->data, from->n * sizeof *out);
    return out;
}

es_ref_case es_ref_case_read(const char *path)
{
    es_verify_case from;
    es_ref_case it;
    es_assert_ok(es_verify_case_read(&from, path));
    it.model = es_ref_model_new(&from.config);
    it.tokens = whole_numbers(&from.tokens);
    it.targets = whole_numbers(&from.targets);
    es_verify_case_free(&from);
    for (size_t i = 0; i < it.model->n_arrays; i++) {
        const char *name = it.model->names[i];
        const size_t n = it.model->sizes[i];
        char t[ES_PARAM_NAME_MAX];
        const bool is_log = es_temperatures_name(t, sizeof t, name);
        free(it.model->values[i]);
        it.model->values[i] =
            es_ref_case_array(path, es_ref_is_state(name) ? "state" : "params",
                              is_log ? t : name, n);
        for (size_t j = 0; is_log && j < n; j++)
            it.model->values[i][j] =
                log(it.model->values[i][j] > 0 ? it.model->values[i][j]
                                               : (double)ES_LEAST_TEMPERATURE);
    }
    return it;
}

void es_ref_case_free(es_ref_case *it)
{
    es_ref_model_free(it->model);
    free(it->tokens);
    free(it->targets);
}
