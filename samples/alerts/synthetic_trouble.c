/* Histories of runs in which something is wrong, and since which step. */
#include "samples/alerts/synthetic_internal.h"

#include "analyzer/base/value.h"
#include <string.h>

/* --- collapse -------------------------------------------------------------*/

void es_making_choose_layers(es_making *m, unsigned char *marks)
{
    size_t n = es_making_count(m, 1, m->n_layers);
    memset(marks, 0, m->n_layers);
    if (es_making_below(m, 3) == 0)
        marks[es_making_below(m, m->n_layers)] = 1;
    else
        memset(marks + m->n_layers - n, 1, n);
}

static void choose_some_heads(es_making *m, unsigned char *marks, size_t n)
{
    memset(marks, 0, m->n_heads);
    while (n > 0) {
        size_t h = es_making_below(m, m->n_heads);
        n -= !marks[h];
        marks[h] = 1;
    }
}

void es_making_choose_heads(es_making *m, unsigned char *marks)
{
    choose_some_heads(m, marks,
                      es_making_count(m, (m->n_heads + 1) / 2, m->n_heads));
}

static void kill_heads(es_making *m, size_t l, const unsigned char *heads,
                       size_t from, size_t until)
{
    double depth = es_making_between(m, 0.0005, 0.028);
    for (size_t i = from; i < until; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            if (heads[h])
                es_making_row(m, i, l)[h] =
                    (float)(depth * es_making_between(m, 0.75, 1.25));
}

static void kill(es_making *m, size_t from, size_t until)
{
    unsigned char layers[ES_SYNTHETIC_LAYERS], heads[ES_SYNTHETIC_HEADS];
    es_making_choose_layers(m, layers);
    for (size_t l = 0; l < m->n_layers; l++) {
        es_making_choose_heads(m, heads);
        if (layers[l])
            kill_heads(m, l, heads, from, until);
    }
    m->history->truth.collapse = true;
    m->history->truth.collapse_stands = until == m->n;
    m->history->truth.collapse_step = m->history->steps[from];
}

void es_make_sudden(es_making *m)
{
    kill(m, es_making_count(m, 5, m->n * 3 / 4), m->n);
}

void es_make_from_start(es_making *m)
{
    kill(m, 0, m->n);
}

void es_make_at_end(es_making *m)
{
    kill(m, m->n - es_making_count(m, 3, 5), m->n);
}

void es_make_recovery(es_making *m)
{
    size_t from = es_making_count(m, 5, m->n - 30);
    kill(m, from, from + es_making_count(m, 3, 20));
}

void es_make_half(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 5, m->n - 5);
    choose_some_heads(m, heads, (m->n_heads + 1) / 2);
    kill_heads(m, es_making_below(m, m->n_layers), heads, from, m->n);
    m->history->truth.collapse = m->history->truth.collapse_stands = true;
    m->history->truth.collapse_step = m->history->steps[from];
}

void es_make_all_dead(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 15, m->n - 5);
    memset(heads, 1, sizeof heads);
    for (size_t l = 0; l < m->n_layers; l++)
        kill_heads(m, l, heads, from, m->n);
    m->history->truth.collapse = m->history->truth.collapse_stands = true;
    m->history->truth.collapse_step = m->history->steps[from];
}

/* The deepest layers lose, sample by sample, all but a hundredth. */
void es_make_decay(es_making *m)
{
    unsigned char layers[ES_SYNTHETIC_LAYERS];
    double rate = es_making_between(m, 4.6, 6.5);
    es_making_choose_layers(m, layers);
    for (size_t i = 0; i < m->n * m->n_values; i++) {
        size_t at = i / m->n_values, l = i % m->n_values / m->n_heads;
        if (layers[l])
            m->x[i] *= (float)exp(-rate * (double)at / (double)m->n);
    }
    m->history->truth.collapse = m->history->truth.collapse_stands = true;
}

/* One sample in five or more is as if nothing were. */
void es_make_jitter(es_making *m)
{
    static float before[ES_SYNTHETIC_VALUES];
    size_t first = es_making_count(m, 5, m->n / 2);
    memcpy(before, es_making_row(m, 0, 0), m->n_values * sizeof(float));
    for (size_t v = 0; v < m->n_values; v++)
        before[v] = (float)m->levels[v];
    kill(m, first, m->n);
    for (size_t i = first + es_making_count(m, 4, 10); i + 4 < m->n;
         i += es_making_count(m, 5, 15))
        memcpy(es_making_row(m, i, 0), before, m->n_values * sizeof(float));
}

void es_make_dead_low_layer(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 10, m->n - 5);
    es_make_low_layer(m);
    es_making_choose_heads(m, heads);
    kill_heads(m, es_making_below(m, m->n_layers / 3 + 1), heads, from, m->n);
    m->history->truth.collapse = m->history->truth.collapse_stands = true;
    m->history->truth.collapse_step = m->history->steps[from];
}

/* Heads are missing, each by itself, and whole samples too. */
void es_make_gaps_dead(es_making *m)
{
    double rate = es_making_between(m, 0.1, 0.7);
    kill(m, es_making_count(m, 5, m->n / 2), m->n);
    for (size_t i = 0; i < m->n; i++) {
        bool none = es_making_below(m, 4) == 0;
        for (size_t v = 0; v < m->n_values; v++)
            if (none || es_making_unit(m) < rate)
                m->x[i * m->n_values + v] = es_missing();
    }
}

/* --- NaN ------------------------------------------------------------------*/

static void note_nan(es_making *m, size_t i)
{
    es_truth *truth = &m->history->truth;
    if (!truth->nan)
        truth->nan_step = m->history->steps[i];
    truth->nan = true;
}

static void spoil(es_making *m, size_t from, size_t until)
{
    for (size_t i = from; i < until && i < m->n; i++) {
        for (size_t v = 0; v < m->n_values; v++)
            m->x[i * m->n_values + v] = NAN;
        m->history->loss[i] = NAN;
        note_nan(m, i);
    }
}

/* As far as three samples and NaN without end. */
void es_make_dead_then_nan(es_making *m)
{
    size_t from = es_making_count(m, 5, m->n - 12);
    size_t until = from + es_making_count(m, 3, 6);
    kill(m, from, m->n);
    m->history->truth.collapse_stands = false;
    spoil(m, until, m->n);
}

void es_make_nan_head(es_making *m)
{
    size_t i = es_making_below(m, m->n);
    m->x[i * m->n_values + es_making_below(m, m->n_values)] = NAN;
    note_nan(m, i);
}

void es_make_nan_burst(es_making *m)
{
    for (size_t at = es_making_below(m, 20); at + 3 < m->n;
         at += es_making_count(m, 10, 100))
        spoil(m, at, at + es_making_count(m, 1, 3));
}

void es_make_nan_loss(es_making *m)
{
    size_t i = es_making_below(m, m->n);
    m->history->loss[i] = es_making_below(m, 2) ? NAN : INFINITY;
    note_nan(m, i);
}

void es_make_nan_rows(es_making *m)
{
    size_t i = es_making_below(m, m->n), v = es_making_below(m, m->n_values);
    m->history->nonfinite_rows[i * m->n_values + v] =
        (float)es_making_count(m, 1, 999);
    note_nan(m, i);
}

void es_make_nan_activations(es_making *m)
{
    size_t i = es_making_below(m, m->n), l = es_making_below(m, m->n_layers);
    m->history->nan_activations[i * m->n_layers + l] =
        (float)es_making_count(m, 1, 999);
    note_nan(m, i);
}

/* It is a large logit too, and does not come back. */
void es_make_nan_logit(es_making *m)
{
    size_t first = es_making_below(m, m->n);
    size_t v = es_making_below(m, m->n_values);
    for (size_t i = first; i < m->n; i++)
        m->history->max_logit[i * m->n_values + v] = INFINITY;
    note_nan(m, first);
    m->history->truth.logits = true;
}

void es_make_nan_end(es_making *m)
{
    spoil(m, m->n - 1, m->n);
}

void es_make_nan_start(es_making *m)
{
    spoil(m, 0, m->n);
}

/* One head is NaN once, among heads and samples that are missing. */
void es_make_nan_gaps(es_making *m)
{
    size_t i = es_making_below(m, m->n), v = es_making_below(m, m->n_values);
    es_make_some_heads(m);
    m->x[i * m->n_values + v] = NAN;
    note_nan(m, i);
}

/* --- overload and logits --------------------------------------------------*/

static void raise_heads(es_making *m, size_t from)
{
    double share = es_making_between(m, 0.5, 1);
    for (size_t v = 0; v < m->n_values; v++)
        if ((double)v < share * (double)m->n_values)
            for (size_t i = from; i < m->n; i++)
                m->x[i * m->n_values + v] =
                    (float)es_making_between(m, 0.8, 0.999);
    m->history->truth.overload = true;
}

void es_make_overload(es_making *m)
{
    raise_heads(m, 0);
}

void es_make_overload_late(es_making *m)
{
    raise_heads(m, es_making_count(m, m->n / 2, m->n * 3 / 4));
}

void es_make_logits(es_making *m)
{
    float *logits = m->history->max_logit;
    size_t from = es_making_below(m, m->n);
    size_t head = es_making_below(m, m->n_values);
    for (size_t i = from; i < m->n; i++)
        logits[i * m->n_values + head] =
            (float)es_making_between(m, 1100, 60000);
    m->history->truth.logits = true;
}
