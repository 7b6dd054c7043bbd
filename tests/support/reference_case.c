/* Reads reference cases, the folders that `entropy-train verify` takes. */
#include "tests/support/reference_case.h"
#include "hooks/trainer/files/npy.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/params.h"
#include "hooks/trainer/verify.h"
#include "tests/support/test.h"

#include <dirent.h>

/* --- where they are ------------------------------------------------------- */

const char *es_ref_case_dir(const char *name)
{
    static char dir[512];
    const char *shared = getenv("ES_SHARED");
    snprintf(dir, sizeof dir, "%s/reference/train/%s",
             shared ? shared : "../shared", name);
    if (access(dir, R_OK) != 0) {
        print_message("# no %s: set ES_SHARED\n", dir);
        skip();
    }
    return dir;
}

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int es_ref_each_case(void (*check)(const char *dir))
{
    struct dirent **entries = NULL;
    const int n = scandir(es_ref_case_dir(""), &entries, is_case, alphasort);
    for (int i = 0; i < n; i++) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s", es_ref_case_dir(entries[i]->d_name));
        check(dir);
        free(entries[i]);
    }
    free(entries);
    return n;
}

/* --- reading -------------------------------------------------------------- */

double *es_ref_case_array(const char *dir, const char *folder, const char *name,
                          size_t n)
{
    const es_verify_case it = {.dir = dir};
    es_npy array = {0};
    es_assert_ok(es_verify_array_read(&array, &it, folder, name));
    if (array.n != n)
        fail_msg("%s/%s/%s: %zu values, not %zu", dir, folder, name, array.n,
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

es_ref_case es_ref_case_read(const char *dir)
{
    es_verify_case from;
    es_ref_case it;
    es_assert_ok(es_verify_case_read(&from, dir));
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
            es_ref_case_array(dir, es_ref_is_state(name) ? "state" : "params",
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
