/* Draws the values of a random search. Random bits are computed as a hash of
 * the seed, the number of the draw and the key (SplitMix64: Steele, Lea, Flood,
 * OOPSLA 2014), so that no generator state is kept between draws. Numbers are
 * rounded to six digits, because they become part of run names. */
#include "cli/sweep/random.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of attempts to find a draw that differs from all earlier
 * draws. */
#define ATTEMPTS_MOST 1000
#define DIGITS 6

uint64_t es_sweep_hash(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)(*text == '_' ? '-' : *text)) * 0x100000001b3;
    return hash;
}

static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* --- distributions --------------------------------------------------------*/

typedef double es_sweep_draw_number(double u, const double *arguments);

static double uniform(double u, const double *a)
{
    return a[0] + u * (a[1] - a[0]);
}

static double log_uniform(double u, const double *a)
{
    return exp(log(a[0]) + u * (log(a[1]) - log(a[0])));
}

static double q_uniform(double u, const double *a)
{
    return round(uniform(u, a) / a[2]) * a[2];
}

static double int_uniform(double u, const double *a)
{
    return a[0] + floor(u * (a[1] - a[0] + 1));
}

typedef struct distribution {
    const char *name;
    size_t n_arguments;
    es_sweep_draw_number *draw; /* draws a number; NULL for a distribution
                                   that chooses one of its arguments */
} distribution;

static const distribution distributions[] = {{"uniform", 2, uniform},
                                             {"log-uniform", 2, log_uniform},
                                             {"q-uniform", 3, q_uniform},
                                             {"int-uniform", 2, int_uniform},
                                             {"choice", 1, NULL}};

/* The distribution of one key, as parsed from the spec. */
typedef struct source {
    const distribution *from;
    double arguments[3];
    uint64_t hash;
} source;

static es_status read_source(source *out, const es_sweep_random *key)
{
    const size_t n = key->n_words - 1;
    *out = (source){.hash = es_sweep_hash(key->key)};
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++)
        if (es_sweep_hash(distributions[i].name) ==
            es_sweep_hash(key->words[0]))
            out->from = &distributions[i];
    if (!out->from || n < out->from->n_arguments ||
        (out->from->draw && n > out->from->n_arguments))
        return es_fail(ES_EUSAGE,
                       "%s: '%.60s': expected " ES_SWEEP_DISTRIBUTIONS,
                       key->key, key->words[0]);
    if (!out->from->draw)
        return ES_OK;
    double *a = out->arguments;
    for (size_t i = 0; i < n; i++)
        if (es_double_parse(&a[i], key->words[1 + i]) != ES_OK)
            return es_fail(ES_EUSAGE, "%s: %s", key->key, es_message());
    if (!(a[0] < a[1]))
        return es_fail(ES_EUSAGE, "%s: expected a low and a high bound",
                       key->key);
    if (out->from->draw == log_uniform && !(a[0] > 0))
        return es_fail(ES_EUSAGE,
                       "%s: the bounds of log-uniform must be above 0",
                       key->key);
    if (out->from->draw == q_uniform && !(a[2] > 0))
        return es_fail(ES_EUSAGE, "%s: the step must be above 0", key->key);
    if (out->from->draw == int_uniform &&
        (a[0] != floor(a[0]) || a[1] != floor(a[1]) || fabs(a[0]) > 1e15 ||
         fabs(a[1]) > 1e15))
        return es_fail(ES_EUSAGE,
                       "%s: the bounds of int-uniform must be whole numbers",
                       key->key);
    return ES_OK;
}

/* --- draws ----------------------------------------------------------------*/

static es_status draw_value(char **out, const es_sweep_random *key,
                            const source *from, uint64_t bits)
{
    const double u =
        (double)(mixed(bits ^ from->hash) >> 11) * 0x1p-53; /* [0,1) */
    char text[ES_FLOAT_TEXT_MAX];
    if (!from->from->draw)
        return es_copy_text(
            out, key->words[1 + (size_t)(u * (double)(key->n_words - 1))]);
    const double value = from->from->draw(u, from->arguments);
    if (from->from->draw == int_uniform)
        snprintf(text, sizeof text, "%" PRId64, (int64_t)value);
    else
        es_number_print(text, value == 0 ? 0 : value, DIGITS);
    return es_copy_text(out, text);
}

static bool was_there(const es_sweep_random *keys, size_t n_keys, size_t draw)
{
    for (size_t i = 0; i < draw; i++) {
        size_t k = 0;
        while (k < n_keys && strcmp(keys[k].drawn[i], keys[k].drawn[draw]) == 0)
            k++;
        if (k == n_keys)
            return true;
    }
    return false;
}

static es_status draw_one(es_sweep_random *keys, const source *sources,
                          size_t n_keys, size_t draw, uint64_t seed)
{
    for (uint64_t attempt = 0; attempt < ATTEMPTS_MOST; attempt++) {
        const uint64_t bits = mixed(mixed(mixed(seed) ^ draw) ^ attempt);
        for (size_t k = 0; k < n_keys; k++) {
            free(keys[k].drawn[draw]);
            keys[k].drawn[draw] = NULL;
            es_status status =
                draw_value(&keys[k].drawn[draw], &keys[k], &sources[k], bits);
            if (status < 0)
                return status;
        }
        if (!was_there(keys, n_keys, draw))
            return ES_OK;
    }
    return es_fail(ES_EUSAGE,
                   "found only %zu different draws: use a "
                   "smaller n, or [grid]",
                   draw);
}

es_status es_sweep_draw(es_sweep_random *keys, size_t n_keys, size_t n_draws,
                        uint64_t seed)
{
    source *sources;
    es_status status =
        es_alloc(&sources, n_keys, sizeof *sources, "a random search");
    for (size_t k = 0; k < n_keys && status == ES_OK; k++)
        if ((status = read_source(&sources[k], &keys[k])) == ES_OK)
            status = es_alloc(&keys[k].drawn, n_draws, sizeof *keys[k].drawn,
                              "a random search");
    for (size_t i = 0; i < n_draws && status == ES_OK; i++)
        status = draw_one(keys, sources, n_keys, i, seed);
    free(sources);
    return status;
}
