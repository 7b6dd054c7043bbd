/*
 * A reference case in memory: case.json, read as settings of the trainer, and
 * the arrays beside it.
 */
#include "hooks/trainer/verify_internal.h"

#include "hooks/trainer/settings/settings_internal.h"

#include <jansson.h>

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* The members that are settings of the trainer are read as these are. */
static es_status read_config(es_model_config *out, const json_t *object,
                             const char *path)
{
    static const char *const members[] = {
        "arch",       "family", "n_layer", "n_head",     "d_model",
        "ctx",        "vocab",  "batch",   "mlp_mult",   "bias",
        "final_norm", "gamma",  "lambda",  "ereg_reduce"};
    es_settings settings;
    es_settings_default(&settings, ES_VERB_VERIFY);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        es_status status = es_setting_read_member(
            &settings, members[i], json_object_get(object, members[i]), path);
        if (status != ES_OK)
            return status;
    }
    *out = settings.model;
    return es_model_config_check(out);
}

static es_status path_of(char out[PATH_MAX], const char *dir,
                         const char *folder, const char *name,
                         const char *ending)
{
    int n = snprintf(out, PATH_MAX, "%s/%s%s%s%s", dir, folder,
                     folder[0] ? "/" : "", name, ending);
    if (n < 0 || n >= PATH_MAX)
        return es_fail(ES_EIO, "%s: the path is too long", dir);
    return ES_OK;
}

es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder, const char *name)
{
    char path[PATH_MAX];
    es_status status = path_of(path, it->dir, folder, name, ".npy");
    return status ? status : es_npy_read(out, path);
}

bool es_verify_array_exists(const es_verify_case *it, const char *folder,
                            const char *name)
{
    char path[PATH_MAX];
    return path_of(path, it->dir, folder, name, ".npy") == ES_OK &&
           access(path, F_OK) == 0;
}

static es_status read_token_array(es_npy *out, const es_verify_case *it,
                                  const char *name)
{
    size_t dims[2] = {(size_t)it->config.batch, (size_t)it->config.ctx};
    es_status status = es_verify_array_read(out, it, "", name);
    return status ? status : es_npy_expect(out, name, ES_NPY_I4, 2, dims);
}

es_status es_verify_case_read(es_verify_case *out, const char *dir)
{
    char path[PATH_MAX];
    json_error_t error;
    *out = (es_verify_case){.dir = dir};
    es_status status = path_of(path, dir, "", "case", ".json");
    if (status != ES_OK)
        return status;
    json_t *object = json_load_file(path, JSON_DECODE_INT_AS_REAL, &error);
    if (!object)
        return es_fail(ES_EFORMAT, "%s: %s", path, error.text);
    if ((status = read_config(&out->config, object, path)) == ES_OK &&
        (status = read_token_array(&out->tokens, out, "tokens")) == ES_OK)
        status = read_token_array(&out->targets, out, "targets");
    json_decref(object);
    return status;
}

void es_verify_case_free(es_verify_case *it)
{
    es_npy_free(&it->tokens);
    es_npy_free(&it->targets);
}
