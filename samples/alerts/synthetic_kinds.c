/* Defines the kinds of synthetic histories: random numbers, healthy heads, the
 * variations that make healthy histories hard to judge (dips, bursts, drifts,
 * gaps), and the failures of unhealthy histories. */
#include "samples/alerts/synthetic_internal.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <string.h>

/* --- random numbers -------------------------------------------------------*/

static uint64_t bits(es_making *m) /* splitmix64 */
{
    uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double unit(es_making *m)
{
    return (double)(bits(m) >> 11) / 0x1p53;
}

double es_making_between(es_making *m, double a, double b)
{
    return a + (b - a) * unit(m);
}

double es_making_normal(es_making *m)
{
    double radius = sqrt(-2 * log(1 - unit(m)));
    return radius * cos(6.283185307179586 * unit(m));
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

static float *row_of(es_making *m, size_t i, size_t l)
{
    return m->x + i * m->n_values + l * m->n_heads;
}

/* Draws the final entropies of heads. Layer 0 has the highest entropies and
   layer 1 the lowest, as in the published models; at most one head in eight is
   near the ceiling. */
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
        double top = 1 - 0.03 * unit(m);
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

/* Keeps heads at the ceiling for a long warm-up. In real small models heads may
   leave the ceiling only after 90 % of the steps. */
static void warm_up(es_making *m)
{
    es_making_fill(m, es_making_between(m, 0.05, 0.95));
}

static void sink_row(es_making *m, size_t i, size_t l)
{
    double depth = es_making_between(m, 0.0005, 0.03);
    float *row = row_of(m, i, l);
    for (size_t h = 0; h < m->n_heads; h++)
        row[h] = (float)(depth * es_making_between(m, 0.7, 1.1));
}

/* Lowers the entropy of all layers for one sample, or of a third of the layers
   for one or two samples. The samples after the dip must not be missing, so
   that the dip can be distinguished from a collapse. */
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

static void dips(es_making *m)
{
    size_t at = es_making_count(m, 0, 10);
    for (; at + 5 < m->n; at += es_making_count(m, 4, 60))
        dip(m, at);
    if (es_making_below(m, 4) == 0)
        dip(m, m->n - 1);
}

/* Raises all heads to the ceiling for up to seven samples. */
static void bursts(es_making *m)
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

/* Makes an early layer whose heads attend to few keys. Fewer than half of the
   heads attend to a single key, like the previous-token heads of healthy
   models. */
static void low_layer(es_making *m)
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
            row_of(m, i, layer)[h] = (float)(way * now + (1 - way));
        }
    }
}

static void low_dips(es_making *m)
{
    low_layer(m);
    dips(m);
}

/* Makes the entropies of all heads fall over the whole run by a factor of at
   most seven, but not to zero. */
static void slow_fall(es_making *m)
{
    double rate = es_making_between(m, 0.5, log(7));
    for (size_t i = 0; i < m->n * m->n_values; i++) {
        double done = (double)(i / m->n_values) / (double)m->n;
        double least = es_making_between(m, 0.07, 0.09);
        m->x[i] = (float)fmax(m->x[i] * exp(-rate * done), least);
    }
}

/* Makes some layers sharp (low entropy) from one sample to the next; they
   remain sharp. */
static void phases(es_making *m)
{
    size_t layer = es_making_below(m, m->n_layers);
    size_t end = layer + es_making_count(m, 1, 3);
    for (; layer < end && layer < m->n_layers; layer++) {
        double to = es_making_between(m, 0.13, 0.25);
        size_t at = es_making_below(m, m->n);
        for (size_t i = at; i < m->n; i++)
            for (size_t h = 0; h < m->n_heads; h++)
                row_of(m, i, layer)[h] =
                    (float)(to * es_making_between(m, 0.75, 1.25));
    }
}

static void waves(es_making *m)
{
    double length = es_making_between(m, 8, 80);
    double depth = es_making_between(m, 0.2, 0.5);
    for (size_t i = 0; i < m->n; i++) {
        double wave = 1 - depth * pow(sin(3.14159265 * (double)i / length), 2);
        for (size_t v = 0; v < m->n_values; v++)
            m->x[i * m->n_values + v] *= (float)wave;
    }
}

/* Removes whole samples, and one layer for some time. */
static void gaps(es_making *m)
{
    double rate = es_making_between(m, 0.05, 0.7);
    size_t away = es_making_below(m, m->n_layers);
    size_t from = es_making_below(m, m->n);
    size_t until = from + es_making_count(m, 1, 60);
    low_dips(m);
    for (size_t i = 0; i < m->n; i++) {
        bool none = unit(m) < rate;
        if (m->kept[i])
            continue;
        for (size_t v = 0; v < m->n_values; v++)
            if (none || (i >= from && i < until && v / m->n_heads == away))
                m->x[i * m->n_values + v] = es_missing();
        if (none)
            m->history->loss[i] = es_missing();
    }
}

static void some_heads(es_making *m)
{
    double rate = es_making_between(m, 0.1, 0.8);
    low_layer(m);
    for (size_t i = 0; i < m->n * m->n_values; i++)
        if (unit(m) < rate)
            m->x[i] = es_missing();
}

/* Keeps only every second, third or fourth head in each sample; the measured
   heads rotate. */
static void measure_in_turn(es_making *m)
{
    size_t period = es_making_count(m, 2, 4);
    for (size_t i = 0; i < m->n; i++)
        for (size_t v = 0; v < m->n_values; v++)
            if (v % m->n_heads % period != i % period)
                m->x[i * m->n_values + v] = es_missing();
}

static void in_turn(es_making *m)
{
    low_layer(m);
    measure_in_turn(m);
}

static void logits_mild(es_making *m)
{
    float *logits = m->history->max_logit;
    for (size_t i = 0; i < m->n * m->n_values; i++)
        if (es_making_below(m, 10) == 0)
            logits[i] = (float)es_making_between(m, 50, 990);
}
/* --- collapse -------------------------------------------------------------*/

static void choose_layers(es_making *m, unsigned char *marks)
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

static void choose_heads(es_making *m, unsigned char *marks)
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
                row_of(m, i, l)[h] =
                    (float)(depth * es_making_between(m, 0.75, 1.25));
}

static void kill(es_making *m, size_t from, size_t until)
{
    unsigned char layers[ES_SYNTHETIC_LAYERS], heads[ES_SYNTHETIC_HEADS];
    choose_layers(m, layers);
    for (size_t l = 0; l < m->n_layers; l++) {
        choose_heads(m, heads);
        if (layers[l])
            kill_heads(m, l, heads, from, until);
    }
}

static void sudden(es_making *m)
{
    kill(m, es_making_count(m, 5, m->n * 3 / 4), m->n);
}

static void turn_dead(es_making *m)
{
    sudden(m);
    measure_in_turn(m);
}

static void from_start(es_making *m)
{
    kill(m, 0, m->n);
}

static void at_end(es_making *m)
{
    kill(m, m->n - es_making_count(m, 3, 5), m->n);
}

static void recovery(es_making *m)
{
    size_t from = es_making_count(m, 5, m->n - 30);
    kill(m, from, from + es_making_count(m, 3, 20));
}

static void half(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 5, m->n - 5);
    choose_some_heads(m, heads, (m->n_heads + 1) / 2);
    kill_heads(m, es_making_below(m, m->n_layers), heads, from, m->n);
}

static void all_dead(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 15, m->n - 5);
    memset(heads, 1, sizeof heads);
    for (size_t l = 0; l < m->n_layers; l++)
        kill_heads(m, l, heads, from, m->n);
}

/* Makes the entropies of some random layers decay gradually to less than a
   hundredth of their initial level. */
static void decay(es_making *m)
{
    unsigned char layers[ES_SYNTHETIC_LAYERS];
    double rate = es_making_between(m, 4.6, 6.5);
    choose_layers(m, layers);
    for (size_t i = 0; i < m->n * m->n_values; i++) {
        size_t at = i / m->n_values, l = i % m->n_values / m->n_heads;
        if (layers[l])
            m->x[i] *= (float)exp(-rate * (double)at / (double)m->n);
    }
}

/* Makes a collapse that is interrupted by a healthy sample every 5 to 15
   samples. */
static void jitter(es_making *m)
{
    static float before[ES_SYNTHETIC_VALUES];
    size_t first = es_making_count(m, 5, m->n / 2);
    memcpy(before, row_of(m, 0, 0), m->n_values * sizeof(float));
    for (size_t v = 0; v < m->n_values; v++)
        before[v] = (float)m->levels[v];
    kill(m, first, m->n);
    for (size_t i = first + es_making_count(m, 4, 10); i + 4 < m->n;
         i += es_making_count(m, 5, 15))
        memcpy(row_of(m, i, 0), before, m->n_values * sizeof(float));
}

static void dead_low_layer(es_making *m)
{
    unsigned char heads[ES_SYNTHETIC_HEADS];
    size_t from = es_making_count(m, 10, m->n - 5);
    low_layer(m);
    choose_heads(m, heads);
    kill_heads(m, es_making_below(m, m->n_layers / 3 + 1), heads, from, m->n);
}

/* Makes a collapse in which the values of some heads, and some whole samples,
 * are missing. */
static void gaps_dead(es_making *m)
{
    double rate = es_making_between(m, 0.1, 0.7);
    kill(m, es_making_count(m, 5, m->n / 2), m->n);
    for (size_t i = 0; i < m->n; i++) {
        bool none = es_making_below(m, 4) == 0;
        for (size_t v = 0; v < m->n_values; v++)
            if (none || unit(m) < rate)
                m->x[i * m->n_values + v] = es_missing();
    }
}

/* --- NaN ------------------------------------------------------------------*/

static void spoil(es_making *m, size_t from, size_t until)
{
    for (size_t i = from; i < until && i < m->n; i++) {
        for (size_t v = 0; v < m->n_values; v++)
            m->x[i * m->n_values + v] = NAN;
        m->history->loss[i] = NAN;
    }
}

/* Makes a collapse of three to six samples, then NaN until the end. */
static void dead_then_nan(es_making *m)
{
    size_t from = es_making_count(m, 5, m->n - 12);
    size_t until = from + es_making_count(m, 3, 6);
    kill(m, from, m->n);
    spoil(m, until, m->n);
}

static void nan_head(es_making *m)
{
    size_t i = es_making_below(m, m->n);
    m->x[i * m->n_values + es_making_below(m, m->n_values)] = NAN;
}

static void nan_burst(es_making *m)
{
    for (size_t at = es_making_below(m, 20); at + 3 < m->n;
         at += es_making_count(m, 10, 100))
        spoil(m, at, at + es_making_count(m, 1, 3));
}

static void nan_loss(es_making *m)
{
    size_t i = es_making_below(m, m->n);
    m->history->loss[i] = es_making_below(m, 2) ? NAN : INFINITY;
}

static void nan_rows(es_making *m)
{
    size_t i = es_making_below(m, m->n), v = es_making_below(m, m->n_values);
    m->history->nonfinite_rows[i * m->n_values + v] =
        (float)es_making_count(m, 1, 999);
}

static void nan_activations(es_making *m)
{
    size_t i = es_making_below(m, m->n), l = es_making_below(m, m->n_layers);
    m->history->nan_activations[i * m->n_layers + l] =
        (float)es_making_count(m, 1, 999);
}

/* Makes one head's largest logit infinite from a random sample to the end; the
   label "large logits" is then also true. */
static void nan_logit(es_making *m)
{
    size_t first = es_making_below(m, m->n);
    size_t v = es_making_below(m, m->n_values);
    for (size_t i = first; i < m->n; i++)
        m->history->max_logit[i * m->n_values + v] = INFINITY;
}

static void nan_end(es_making *m)
{
    spoil(m, m->n - 1, m->n);
}

static void nan_start(es_making *m)
{
    spoil(m, 0, m->n);
}

/* Makes one head NaN once, while many other values are missing. */
static void nan_gaps(es_making *m)
{
    size_t i = es_making_below(m, m->n), v = es_making_below(m, m->n_values);
    some_heads(m);
    m->x[i * m->n_values + v] = NAN;
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
}

static void overload(es_making *m)
{
    raise_heads(m, 0);
}

static void overload_late(es_making *m)
{
    raise_heads(m, es_making_count(m, m->n / 2, m->n * 3 / 4));
}

static void logits(es_making *m)
{
    float *logits = m->history->max_logit;
    size_t from = es_making_below(m, m->n);
    size_t head = es_making_below(m, m->n_values);
    for (size_t i = from; i < m->n; i++)
        logits[i * m->n_values + head] =
            (float)es_making_between(m, 1100, 60000);
}

/* --- the table ------------------------------------------------------------*/

const es_synthetic_row es_synthetic_kinds[ES_SYNTHETIC_N_KINDS] = {
    {"healthy", NULL, 3, 300, ANY_HEADS},
    {"healthy, one or two samples", NULL, 1, 2, ANY_HEADS},
    {"healthy, a single head", dips, 40, 300, ONE_HEAD},
    {"healthy, only layer means recorded", dips, 40, 300, MEANS},
    {"healthy, context length unknown", low_dips, 40, 300, NO_CTX},
    {"healthy with short dips", dips, 40, 300, ANY_HEADS},
    {"healthy with bursts to the ceiling", bursts, 40, 300, 0},
    {"healthy, long warm-up at the ceiling", warm_up, 40, 300, 0},
    {"healthy, long warm-up, planned steps unknown", warm_up, 40, 300, NO_PLAN},
    {"healthy, one layer low from the start", low_layer, 20, 300, 0},
    {"healthy, one low layer and short dips", low_dips, 40, 300, 0},
    {"healthy, slow fall to a low level", slow_fall, 40, 300, 0},
    {"healthy, layers suddenly sharp", phases, 40, 300, 0},
    {"healthy, levels rise and fall in waves", waves, 40, 300, ANY_HEADS},
    {"healthy, missing samples", gaps, 40, 300, 0},
    {"healthy, only some heads measured", some_heads, 40, 300, 0},
    {"healthy, heads measured in rotation", in_turn, 40, 300, 0},
    {"healthy, large logits below 1000", logits_mild, 20, 200, 0},

    {"collapse", sudden, 30, 300, DEAD},
    {"collapse of a model with one head", sudden, 30, 300, ONE_HEAD | DEAD},
    {"collapse of exactly half of the heads", half, 30, 300, ANY_HEADS | DEAD},
    {"collapse of all layers", all_dead, 30, 300, ANY_HEADS | DEAD},
    {"collapse by a slow decay", decay, 60, 300, DEAD},
    {"collapse with some healthy samples", jitter, 60, 300, DEAD},
    {"collapse of a layer that was low before", dead_low_layer, 30, 300, DEAD},
    {"collapse from the start", from_start, 3, 200, ANY_HEADS | DEAD},
    {"collapse, one or two samples", from_start, 1, 2, ANY_HEADS | DEAD},
    {"collapse in the last samples", at_end, 20, 300, DEAD},
    {"collapse with a late recovery", recovery, 60, 300, COLLAPSE},
    {"collapse, missing samples", gaps_dead, 120, 300, DEAD},
    {"collapse, heads measured in rotation", turn_dead, 120, 300, DEAD},
    {"collapse, context length unknown", all_dead, 40, 300, NO_CTX | DEAD},
    {"collapse, only layer means recorded", all_dead, 40, 300, MEANS | DEAD},
    {"collapse, then NaN", dead_then_nan, 30, 200, COLLAPSE | NONFINITE},

    {"one head is NaN once", nan_head, 3, 300, ANY_HEADS | NONFINITE},
    {"repeated short bursts of NaN", nan_burst, 30, 300, ANY_HEADS | NONFINITE},
    {"loss is NaN or infinite once", nan_loss, 3, 300, ANY_HEADS | NONFINITE},
    {"count of NaN rows above zero once", nan_rows, 3, 300,
     ANY_HEADS | NONFINITE},
    {"count of NaN activations above zero once", nan_activations, 3, 300,
     ANY_HEADS | NONFINITE},
    {"one logit is infinite until the end", nan_logit, 3, 300,
     ANY_HEADS | NONFINITE | LOGITS},
    {"all heads NaN in the last sample", nan_end, 1, 200,
     ANY_HEADS | NONFINITE},
    {"all heads NaN from the first sample", nan_start, 1, 200,
     ANY_HEADS | NONFINITE},
    {"one head is NaN once among missing values", nan_gaps, 30, 300, NONFINITE},

    {"overload", overload, 2, 300, COMPLETE | OVERLOAD},
    {"overload, planned steps unknown", overload, 30, 300, NO_PLAN | OVERLOAD},
    {"overload that begins late", overload_late, 60, 300, OVERLOAD},
    {"logits above 1000", logits, 20, 200, LOGITS},
};
