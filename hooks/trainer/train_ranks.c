/* Checks, before ranks train together, that all ranks will train in the same
 * way. Each rank writes everything on which its parameters depend as lines of
 * text, and rank 0 compares the lines of every rank with its own lines. */
#include "hooks/trainer/train_ranks.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"
#include "hooks/trainer/cpu/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Computes a hash of all current parameters, including SNorm's state. */
static es_status hash_weights(uint64_t *hash, es_model *model)
{
    es_status status = ES_OK;
    *hash = 0;
    for (size_t i = 0; status == ES_OK && i < es_model_n_arrays(model); i++) {
        const size_t n = es_model_parameter(model, i).n;
        float *values = NULL;
        status = es_alloc(&values, n, sizeof *values, "weights");
        if (status == ES_OK &&
            (status = es_model_get(model, i, values, n)) == ES_OK) {
            const uint64_t both[2] = {
                *hash, es_tokens_hash(values, n * sizeof *values)};
            *hash = es_tokens_hash(both, sizeof both);
        }
        free(values);
    }
    return status;
}

static bool may_differ(const es_option *setting)
{
    static const char *const names[] = {"data", "init", "threads"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(setting->name, names[i]) == 0)
            return true;
    return false;
}

static void write_lines(FILE *out, const es_trainer *trainer, uint64_t weights)
{
    const es_settings *settings = &trainer->settings;
    es_cpu_engine engine;
    es_cpu_engine_find(&engine);
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *setting = &es_settings_table[i];
        char value[ES_SETTING_TEXT_MAX];
        if (!es_setting_is_kept(setting, settings) || may_differ(setting))
            continue;
        es_option_print(value, sizeof value, settings, setting);
        fprintf(out, "--%s %s\n", setting->name, value);
    }
    fprintf(out, "%s\n", settings->out[0] ? "an --out" : "no --out");
    fprintf(out, "data with checksum %016" PRIx64 "\n",
            trainer->tokens->checksum);
    fprintf(out, "a start at step %" PRId64 "\n", trainer->first_step);
    fprintf(out, "kernels for %s\n", engine.kernels);
    fprintf(out, "weights with checksum %016" PRIx64 "\n", weights);
}

static es_status compare_lines(const char *first, const char *other, int rank)
{
    while (*first || *other) {
        const size_t n = strcspn(first, "\n"), m = strcspn(other, "\n");
        if (n != m || memcmp(first, other, n) != 0)
            return es_fail(ES_EUSAGE,
                           "rank %d has %.*s, rank 0 has %.*s: start all ranks "
                           "with the same options, data and weights",
                           rank, (int)(m < 200 ? m : 200), other,
                           (int)(n < 200 ? n : 200), first);
        first += n + (first[n] == '\n');
        other += m + (other[m] == '\n');
    }
    return ES_OK;
}

/* Gathers the texts of all ranks. Each text is padded to the length of the
 * longest text, including the NUL. */
static es_status gather_texts(char **all, size_t *size, es_transport *transport,
                              const char *text)
{
    const size_t n_ranks = (size_t)es_transport_world(transport);
    uint64_t sizes[ES_MAX_RANKS] = {0}, own = strlen(text) + 1;
    char *padded = NULL;
    es_status status = es_transport_gather(transport, sizes, &own, sizeof own);
    *size = 0;
    for (size_t r = 0; r < n_ranks; r++)
        *size = sizes[r] > *size ? sizes[r] : *size;
    if (status == ES_OK &&
        (status = es_alloc(&padded, 1, *size, "the settings of all ranks")) ==
            ES_OK &&
        (status = es_alloc(all, n_ranks, *size, "the settings of all ranks")) ==
            ES_OK) {
        memcpy(padded, text, own);
        status = es_transport_gather(transport, *all, padded, *size);
    }
    free(padded);
    return status;
}

es_status es_train_compare_ranks(es_transport *transport, es_trainer *trainer)
{
    char *text = NULL, *all = NULL;
    size_t n = 0, size;
    uint64_t weights;
    if (!transport)
        return ES_OK;
    es_status status = hash_weights(&weights, trainer->model);
    FILE *out = status == ES_OK ? es_text_stream(&text, &n) : NULL;
    if (status == ES_OK && !out)
        status =
            es_fail(ES_ENOMEM,
                    "out of memory while comparing the settings of all ranks");
    if (status == ES_OK) {
        write_lines(out, trainer, weights);
        if (fclose(out) != 0)
            status = es_fail(
                ES_ENOMEM,
                "out of memory while comparing the settings of all ranks");
    }
    if (status == ES_OK)
        status = gather_texts(&all, &size, transport, text);
    for (int r = 1; status == ES_OK && es_transport_rank(transport) == 0 &&
                    r < es_transport_world(transport);
         r++)
        status = compare_lines(all, all + (size_t)r * size, r);
    free(text);
    free(all);
    /* If rank 0 has found a difference, this call returns rank 0's error on the
     * other ranks. */
    return status == ES_OK ? es_transport_wait(transport) : status;
}
