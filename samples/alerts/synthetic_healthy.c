/* Draws chance, sizes and levels, and makes the healthy histories that are
 * hard to judge: dips, bursts, drifts, gaps. */
#include "samples/alerts/synthetic_internal.h"

#include "analyzer/base/value.h"
#include <math.h>

/* --- random numbers -------------------------------------------------------*/

static uint64_t bits(es_making *m) /* splitmix64 */
{
    uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double es_making_unit(es_making *m)
{
    return (double)(bits(m) >> 11) / 0x1p53;
}

double es_making_between(es_making *m, double a, double b)
{
    return a + (b - a) * es_making_unit(m);
}

double es_making_normal(es_making *m)
{
    double radius = sqrt(-2 * log(1 - es_making_unit(m)));
    return radius * cos(6.283185307179586 * es_making_unit(m));
}

size_t es_making_below(es_making *m, size_t n)
{
    return (size_t)(bits(m) >> 32) % n;
}

size_t es_making_count(es_making *m, size_t a, size_t b)
{
    return a + es_making_below(m, b - a + 1);
}

/* --- healthy heads --------------------------------------------------------*/

float *es_making_row(es_making *m, size_t i, size_t l)
{
    return m->x + i * m->n_values + l * m->n_heads;
}

/* Layer 0 the highest and layer 1 the lowest, as the published ones; no more
   than one head in eight near the ceiling. */
static void draw_levels(es_making *m)
{
    size_t n_high = m->n_values / 8;
    for (size_t i = 0; i < m->n_values; i++) {
        size_t layer = i / m->n_heads;
        bool low = layer == 1 && m->n_layers > 2;
        m->levels[i] = low ? es_making_between(m, 0.15, 0.5)
                           : es_making_between(m, 0.4, 0.66);
        if (!low && n_high > 0 && es_making_below(m, 6) == 0) {
            m->levels[i] = es_making_between(m, 0.8, 0.98);
            n_high--;
        }
    }
}

static void fill_head(es_making *m, size_t head, double down)
{
    double last = down * (double)m->n, noise = es_making_normal(m);
    for (size_t i = 0; i < m->n; i++) {
        double way = last > 0 ? fmin((double)i / last, 1) : 1;
        double top = 1 - 0.03 * es_making_unit(m);
        double level = m->levels[head] * exp(0.08 * noise);
        way = way * way * (3 - 2 * way);
        noise = 0.8 * noise + 0.6 * es_making_normal(m);
        m->x[i * m->n_values + head] =
            (float)fmin(way * level + (1 - way) * top, 0.999);
    }
}

void es_making_fill(es_making *m, double down)
{
    draw_levels(m);
    for (size_t head = 0; head < m->n_values; head++)
        fill_head(m, head, down * es_making_between(m, 0.6, 1));
}

/* --- kinds ----------------------------------------------------------------*/

void es_make_steady(es_making *m)
{
    (void)m;
}

/* Real small models come down as late as after nine tenths of their steps. */
void es_make_warm_up(es_making *m)
{
    es_making_fill(m, es_making_between(m, 0.05, 0.95));
}

static void sink_row(es_making *m, size_t i, size_t l)
{
    double depth = es_making_between(m, 0.0005, 0.03);
    float *row = es_making_row(m, i, l);
    for (size_t h = 0; h < m->n_heads; h++)
        row[h] = (float)(depth * es_making_between(m, 0.7, 1.1));
}

/* All layers for one sample, or a third of them for one or two; what follows
   has to be measured to distinguish it from a collapse. */
static void dip(es_making *m, size_t at)
{
    bool all = m->n_layers < 3 || es_making_below(m, 3) == 0;
    size_t n_samples = all ? 1 : es_making_count(m, 1, 2);
    size_t n_layers = all ? m->n_layers : (m->n_layers + 2) / 3;
    size_t first = es_making_below(m, m->n_layers - n_layers + 1);
    for (size_t i = at; i < at + n_samples && i < m->n; i++)
        for (size_t l = first; l < first + n_layers; l++)
            sink_row(m, i, l);
    for (size_t i = at + n_samples; i < at + 4 && i < m->n; i++)
        m->kept[i] = 1;
}

void es_make_dips(es_making *m)
{
    size_t at = es_making_count(m, 0, 10);
    for (; at + 5 < m->n; at += es_making_count(m, 4, 60))
        dip(m, at);
    if (es_making_below(m, 4) == 0)
        dip(m, m->n - 1);
}

/* As many heads as there are go up to the ceiling for up to seven samples. */
void es_make_bursts(es_making *m)
{
    for (size_t at = es_making_count(m, 0, 40); at < m->n;
         at += es_making_count(m, 20, 80)) {
        size_t end = at + es_making_count(m, 1, 7);
        for (size_t i = at; i < end && i < m->n; i++)
            for (size_t v = 0; v < m->n_values; v++)
                m->x[i * m->n_values + v] =
                    (float)es_making_between(m, 0.9, 0.999);
    }
}

/* An early layer whose heads look at a few keys, and fewer than half of them
   at one: the previous token's heads of healthy models. */
void es_make_low_layer(es_making *m)
{
    size_t layer = es_making_below(m, m->n_layers / 3 + 1);
    size_t n_sharp = es_making_below(m, (m->n_heads + 1) / 2);
    size_t down = es_making_below(m, 2) ? 0 : es_making_count(m, 1, m->n / 3);
    for (size_t h = 0; h < m->n_heads; h++) {
        bool sharp = h < n_sharp;
        double level = sharp ? es_making_between(m, 0, 0.028)
                             : es_making_between(m, 0.08, 0.25);
        for (size_t i = 0; i < m->n; i++) {
            double way = i < down ? (double)i / (double)down : 1;
            double now = level * es_making_between(m, 0.8, 1.25);
            es_making_row(m, i, layer)[h] = (float)(way * now + (1 - way));
        }
    }
}

void es_make_low_dips(es_making *m)
{
    es_make_low_layer(m);
    es_make_dips(m);
}

/* To a seventh of where they were, over the whole run; not to nothing. */
void es_make_slow_fall(es_making *m)
{
    double rate = es_making_between(m, 0.5, log(7));
    for (size_t i = 0; i < m->n * m->n_values; i++) {
        double done = (double)(i / m->n_values) / (double)m->n;
        double least = es_making_between(m, 0.07, 0.09);
        m->x[i] = (float)fmax(m->x[i] * exp(-rate * done), least);
    }
}

/* Some layers become sharp from one sample to the next, and stay so. */
void es_make_phases(es_making *m)
{
    size_t layer = es_making_below(m, m->n_layers);
    size_t end = layer + es_making_count(m, 1, 3);
    for (; layer < end && layer < m->n_layers; layer++) {
        double to = es_making_between(m, 0.13, 0.25);
        size_t at = es_making_below(m, m->n);
        for (size_t i = at; i < m->n; i++)
            for (size_t h = 0; h < m->n_heads; h++)
                es_making_row(m, i, layer)[h] =
                    (float)(to * es_making_between(m, 0.75, 1.25));
    }
}

void es_make_waves(es_making *m)
{
    double length = es_making_between(m, 8, 80);
    double depth = es_making_between(m, 0.2, 0.5);
    for (size_t i = 0; i < m->n; i++) {
        double wave = 1 - depth * pow(sin(3.14159265 * (double)i / length), 2);
        for (size_t v = 0; v < m->n_values; v++)
            m->x[i * m->n_values + v] *= (float)wave;
    }
}

/* Whole samples, whole layers for a while, and what they were in. */
void es_make_gaps(es_making *m)
{
    double rate = es_making_between(m, 0.05, 0.7);
    size_t away = es_making_below(m, m->n_layers);
    size_t from = es_making_below(m, m->n);
    size_t until = from + es_making_count(m, 1, 60);
    es_make_low_dips(m);
    for (size_t i = 0; i < m->n; i++) {
        bool none = es_making_unit(m) < rate;
        if (m->kept[i])
            continue;
        for (size_t v = 0; v < m->n_values; v++)
            if (none || (i >= from && i < until && v / m->n_heads == away))
                m->x[i * m->n_values + v] = es_missing();
        if (none)
            m->history->loss[i] = es_missing();
    }
}

void es_make_some_heads(es_making *m)
{
    double rate = es_making_between(m, 0.1, 0.8);
    es_make_low_layer(m);
    for (size_t i = 0; i < m->n * m->n_values; i++)
        if (es_making_unit(m) < rate)
            m->x[i] = es_missing();
}

/* Each sample has every second, third, or fourth of the heads. */
static void measure_in_turn(es_making *m)
{
    size_t period = es_making_count(m, 2, 4);
    for (size_t i = 0; i < m->n; i++)
        for (size_t v = 0; v < m->n_values; v++)
            if (v % m->n_heads % period != i % period)
                m->x[i * m->n_values + v] = es_missing();
}

void es_make_in_turn(es_making *m)
{
    es_make_low_layer(m);
    measure_in_turn(m);
}

void es_make_turn_dead(es_making *m)
{
    es_make_sudden(m);
    measure_in_turn(m);
}

void es_make_logits_mild(es_making *m)
{
    float *logits = m->history->max_logit;
    for (size_t i = 0; i < m->n * m->n_values; i++)
        if (es_making_below(m, 10) == 0)
            logits[i] = (float)es_making_between(m, 50, 990);
}
