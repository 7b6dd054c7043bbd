/* Chooses the counter that provides the steps. Loggers write their own counter
   in addition to the step of the training run (W&B's _step counts calls); some
   rows contain only one of the two counters, and their values must not be
   mixed. The parsers of named numbers count how many numbers could be imported
   with each counter, and use a single counter for the complete file. */
#include "cli/exchange/import_steps.h"

#include <string.h>
#include <strings.h>

/* Usual names of step counters, in order of preference. Counters of the
   training loop precede those of loggers. */
static const char *const names[ES_STEP_KEYS] = {
    "trainer/global_step", "train/global_step", "global_step", "step", "_step"};

int es_step_key_of(const char *name)
{
    for (int i = 0; i < ES_STEP_KEYS; i++)
        if (strcasecmp(name, names[i]) == 0)
            return i;
    return -1;
}

void es_step_keys_add(es_step_keys *keys, const char *name, size_t n_attention,
                      size_t n_numbers)
{
    es_step_count *to = &keys->counts[es_step_key_of(name)];
    if (!*to->name)
        snprintf(to->name, sizeof to->name, "%s", name);
    to->n_rows++;
    to->n_attention += n_attention;
    to->n_numbers += n_numbers;
}

static bool is_better(const es_step_count *a, const es_step_count *b,
                      bool by_attention)
{
    return by_attention ? a->n_attention > b->n_attention
                        : a->n_numbers > b->n_numbers;
}

const char *es_step_keys_choose(const es_step_keys *keys,
                                es_import_report *report)
{
    const es_step_count *best = NULL;
    bool by_attention = false;
    size_t n = 0;
    for (int i = 0; i < ES_STEP_KEYS; i++)
        by_attention = by_attention || keys->counts[i].n_attention > 0;
    for (int i = 0; i < ES_STEP_KEYS; i++) {
        const es_step_count *one = &keys->counts[i];
        if (one->n_rows && (!best || is_better(one, best, by_attention)))
            best = one;
    }
    *report->step_key = *report->other_keys = '\0';
    for (int i = 0; best && i < ES_STEP_KEYS; i++) {
        const es_step_count *one = &keys->counts[i];
        if (!one->n_rows || one == best)
            continue;
        snprintf(report->step_key, sizeof report->step_key, "%s", best->name);
        n += (size_t)snprintf(report->other_keys + n,
                              sizeof report->other_keys - n, "%s'%s'",
                              n ? ", " : "", one->name);
    }
    return best ? best->name : NULL;
}
