/* Reads the inputs of the cost model from the columns and the configuration of
   a run. Tables, figures and `entropy-scan cost` use this. */
#include "cli/runs/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAPERS_MULT 4

static es_status read_member(void *user, const es_config_member *member)
{
    es_cost_model *model = user;
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = {{"mlp_mult", &model->shape.mlp_mult},
                 {"d_ff", &model->shape.d_ff},
                 {"n_kv_head", &model->shape.n_kv_head},
                 {"d_head", &model->shape.d_head}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(member->key, sizes[i].key) == 0 && member->number >= 1 &&
            member->number <= 1e6)
            *sizes[i].size = (int64_t)member->number;
    if (strcmp(member->key, "final_norm") == 0 &&
        strcmp(member->text, "auto") != 0)
        model->final_norm = strcmp(member->text, "on") == 0 ? ES_COST_FINAL_ON
                                                            : ES_COST_FINAL_OFF;
    return ES_OK;
}

static bool is_simplified(const char *family)
{
    return family && strcmp(family, "sas") == 0;
}

void es_model_simplify(es_cost_model *model)
{
    model->shape.simplified = model->first_norm = true;
    model->final_norm = ES_COST_FINAL_ON;
}

char *es_model_name(char out[ES_ARCH_TEXT_MAX], const char *arch,
                    const char *family)
{
    snprintf(out, ES_ARCH_TEXT_MAX, "%s%s",
             is_simplified(family) ? ES_SAS_PREFIX : "", arch);
    return out;
}

es_status es_run_model_read(es_cost_model *out, es_reader *reader, size_t run,
                            const char *user)
{
    es_run_info info;
    es_cost_model model = {.shape.mlp_mult = PAPERS_MULT};
    es_status status;
    *out = (es_cost_model){.ctx = 0};
    if ((status = es_reader_run(reader, run, &info)) < 0)
        return status;
    if (is_simplified(info.family))
        es_model_simplify(&model);
    if ((status = es_reader_config_each(reader, run, read_member, &model)) < 0)
        return status;
    const char *lacking = !info.arch         ? "architecture"
                          : info.d_model < 1 ? "d_model"
                          : info.ctx < 1     ? "ctx"
                                             : NULL;
    if (lacking)
        return es_fail(
            ES_ENOTFOUND,
            "%s: %s needs the run's %s, which the file does not contain",
            es_reader_path(reader), user, lacking);
    if (es_arch_parse(&model.shape.arch, info.arch) != ES_OK)
        return es_fail(
            ES_ENOTFOUND,
            "%s: %s needs an architecture such as SM+LN+G, not '%.60s'",
            es_reader_path(reader), user, info.arch);
    model.shape.n_layer = info.n_layer;
    model.shape.n_head = info.n_head;
    model.shape.d_model = info.d_model;
    model.ctx = info.ctx;
    model.vocab = info.vocab;
    *out = model;
    return ES_OK;
}

double es_cost_shown(es_cost_kind kind, double modelled)
{
    return modelled / (kind == ES_COST_BYTES ? 1e9 : 60);
}
