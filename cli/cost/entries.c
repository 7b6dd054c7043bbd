/* Reads the models of entropy-scan cost. An input is a run file if such a file
 * exists, else a published model such as gpt2-medium, else an architecture,
 * whose sizes come from the command line. */
#include "cli/cost/cost.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/damage.h"
#include "cli/runs/model.h"
#include "cli/runs/summary.h"
#include "store/run_place.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct listing {
    const es_cost_options *options;
    es_cost_entry *entries;
    size_t n;
} listing;

static es_status add_entry(es_cost_entry **out, listing *to)
{
    es_status status =
        es_grow(&to->entries, to->n + 1, sizeof *to->entries, "models");
    if (status < 0)
        return status;
    *out = &to->entries[to->n++];
    **out = (es_cost_entry){.number = 1, .eval_ppl = es_missing()};
    return ES_OK;
}

/* --- sizes ----------------------------------------------------------------*/

/* Sets the sizes of a model from the options. If `all` is false, sets only the
 * sizes that were given on the command line. */
static void set_sizes(es_cost_model *model, const es_cost_options *options,
                      bool all)
{
    const struct {
        const char *name;
        int64_t *field, value;
    } sizes[] = {{"n-layer", &model->shape.n_layer, options->n_layer},
                 {"n-head", &model->shape.n_head, options->n_head},
                 {"d-model", &model->shape.d_model, options->d_model},
                 {"ctx", &model->ctx, options->ctx},
                 {"vocab", &model->vocab, options->vocab},
                 {"mlp-mult", &model->shape.mlp_mult, options->mlp_mult}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (all ||
            es_options_has(&es_cost_command, options->given, sizes[i].name))
            *sizes[i].field = sizes[i].value;
    if (options->final_norm != ES_COST_FINAL_AUTO)
        model->final_norm = options->final_norm;
    model->shape.simplified |= options->simplified;
}

static es_status check_sizes(const es_cost_model *model, const char *input)
{
    const es_cost_shape *shape = &model->shape;
    const es_arch *arch = &shape->arch;
    int64_t last = 0;
    for (int i = 0; i < arch->n_spans; i++)
        last = arch->spans[i].last > last ? arch->spans[i].last : last;
    if (shape->d_head == 0 && shape->d_model % shape->n_head)
        return es_fail(
            ES_EUSAGE, "%s: d_model %lld is not a multiple of its %lld heads",
            input, (long long)shape->d_model, (long long)shape->n_head);
    if (last >= shape->n_layer ||
        arch->n_removed + arch->n_removed_first > shape->n_layer)
        return es_fail(
            ES_EUSAGE,
            "%s: names layers beyond the %lld of the model: choose a larger "
            "--n-layer",
            input, (long long)shape->n_layer);
    return ES_OK;
}

/* --- inputs ---------------------------------------------------------------*/

/* Published models, all with the architecture SM+LN+G. */
typedef struct published {
    const char *input, *title;
    int64_t n_layer, n_head, d_model, vocab;
} published;

static const published models[] = {
    {"gpt2", "GPT-2 small", 12, 12, 768, 50257},
    {"gpt2-medium", "GPT-2 medium", 24, 16, 1024, 50257},
    {"gpt2-large", "GPT-2 large", 36, 20, 1280, 50257},
    {"gpt2-xl", "GPT-2 XL", 48, 25, 1600, 50257},
    {"pythia-70m", "Pythia-70M", 6, 8, 512, 50304},
    {"pythia-160m", "Pythia-160M", 12, 12, 768, 50304},
    {"pythia-410m", "Pythia-410M", 24, 16, 1024, 50304},
    {"pythia-1b", "Pythia-1B", 16, 8, 2048, 50304},
    {"pythia-1.4b", "Pythia-1.4B", 24, 16, 2048, 50304},
    {"pythia-2.8b", "Pythia-2.8B", 32, 32, 2560, 50304},
};

/* Returns NULL if no published model has the name `input`. */
static const published *find_published(const char *input)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].input, input) == 0)
            return &models[i];
    return NULL;
}

static es_status add_published(listing *to, const published *model)
{
    es_cost_entry *entry;
    es_status status = add_entry(&entry, to);
    if (status < 0 ||
        (status = es_arch_parse(&entry->model.shape.arch, "SM+LN+G")) < 0)
        return status;
    set_sizes(&entry->model, to->options, true);
    entry->model.shape.n_layer = model->n_layer;
    entry->model.shape.n_head = model->n_head;
    entry->model.shape.d_model = model->d_model;
    entry->model.vocab = model->vocab;
    set_sizes(&entry->model, to->options, false);
    if ((status = check_sizes(&entry->model, model->input)) < 0)
        return status;
    return es_copy_text(&entry->title, model->title);
}

/* Fails with the parser's reason if `text`, the input without its prefix,
 * begins like an architecture. */
static es_status refuse_input(const char *input, const char *text)
{
    static const char *const begins[] = {"SM", "PSM", "RA", "EReg"};
    char reason[ES_MESSAGE_MAX];
    snprintf(reason, sizeof reason, "%s", es_message());
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(text, begins[i], strlen(begins[i])) == 0)
            return es_fail(ES_EUSAGE, "%s: neither a file nor a model; %s",
                           input, reason);
    return es_fail(ES_EUSAGE,
                   "%s: neither a file nor an architecture such as SM+LN+G nor "
                   "a model such as gpt2 or pythia-70m",
                   input);
}

static es_status add_arch(listing *to, const char *input)
{
    char name[ES_ARCH_TEXT_MAX], title[ES_ARCH_TEXT_MAX];
    es_cost_entry *entry;
    es_arch arch;
    const size_t n_prefix = strlen(ES_SAS_PREFIX);
    const bool simplified = strncmp(input, ES_SAS_PREFIX, n_prefix) == 0;
    const char *const text = simplified ? input + n_prefix : input;
    if (es_arch_parse(&arch, text) != ES_OK)
        return refuse_input(input, text);
    es_status status = add_entry(&entry, to);
    if (status < 0)
        return status;
    entry->model.shape.arch = arch;
    if (simplified)
        es_model_simplify(&entry->model);
    set_sizes(&entry->model, to->options, true);
    es_arch_print(name, sizeof name, &arch);
    if ((status = check_sizes(&entry->model, input)) < 0)
        return status;
    return es_copy_text(&entry->title,
                        es_model_name(title, name, simplified ? "sas" : NULL));
}

static es_status add_run(listing *to, es_reader *reader, size_t run,
                         const char *input)
{
    es_cost_entry *entry;
    es_cost_model model;
    es_run_info info;
    char name[ES_ARCH_TEXT_MAX];
    es_status status;
    if ((status = es_run_model_read(&model, reader, run, "a cost")) < 0 ||
        (status = es_reader_run(reader, run, &info)) < 0)
        return status;
    set_sizes(&model, to->options, false);
    if ((status = check_sizes(&model, input)) < 0 ||
        (status = add_entry(&entry, to)) < 0)
        return status;
    entry->model = model;
    entry->number = run + 1;
    if ((status = es_copy_text(&entry->path, es_reader_path(reader))) < 0 ||
        (status = es_copy_text(
             &entry->title, es_model_name(name, info.arch, info.family))) < 0 ||
        (status = es_copy_text(&entry->name, info.name)) < 0 ||
        (status = es_cost_measured_read(entry, reader, run)) < 0)
        return status;
    return es_summary_eval_ppl(&entry->eval_ppl, reader, run);
}

static es_status add_file(listing *to, size_t *n_failed, const char *input)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, input);
    const size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && n == 0)
        status = es_fail(ES_ENOTFOUND, "%s: no run in the file", input);
    for (size_t run = 0; run < n && status == ES_OK; run++)
        status = add_run(to, reader, run, input);
    es_damage_close(reader);
    if (status == ES_OK || status == ES_ENOMEM || status == ES_EUSAGE)
        return status;
    es_print_note("%s", es_message());
    ++*n_failed;
    return ES_OK;
}

es_status es_cost_entries_read(es_cost_entry **out, size_t *n, size_t *n_failed,
                               const es_cost_options *options)
{
    listing to = {.options = options};
    es_status status = ES_OK;
    for (size_t i = 0; i < options->n_inputs && status == ES_OK; i++) {
        const char *input = options->inputs[i];
        const published *model = find_published(input);
        status = access(input, F_OK) == 0 || es_path_is_url(input)
                     ? add_file(&to, n_failed, input)
                 : model ? add_published(&to, model)
                         : add_arch(&to, input);
    }
    *out = to.entries;
    *n = to.n;
    return status;
}

void es_cost_entries_free(es_cost_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(entries[i].title);
        free(entries[i].path);
        free(entries[i].name);
        for (size_t k = 0; k < entries[i].n_measured; k++)
            free(entries[i].measured[k].operation);
        free(entries[i].measured);
    }
    free(entries);
}
