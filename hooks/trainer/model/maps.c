/* Computes mean attention maps. Attention weights are computed by their
 * definition, one row at a time, and summed over the cells of a map. */
#include "hooks/trainer/model/maps.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct es_maps {
    int size, n_ctx, n_layer, n_head;
    int width; /* total width of all heads: n_head * d_k */
    bool has_heads;
    int n_kept; /* number of maps per layer: n_head, or 1 for the mean only */
    int n_sequences; /* number of sequences added up in each layer */
    int *cell;       /* the cell to which each of the T tokens belongs */
    double *sums;    /* sums of attention weights, shape (L, n_kept, S, S) */
    float *keys;     /* transposed keys of a head, shape (d_k,T) */
    float *row;      /* the T scores of a row, later replaced by its weights */
    float *log_t;    /* logarithms of temperatures, shape (H,T) */
};

es_status es_maps_new(es_maps **out, const es_model_config *config, int size,
                      bool heads)
{
    static const char what[] = "attention maps";
    const size_t n_ctx = (size_t)config->ctx,
                 width = (size_t)es_model_config_query_width(config);
    es_maps *maps;
    es_status status = es_alloc(out, 1, sizeof **out, what);
    if (status < 0)
        return status;
    maps = *out;
    maps->size = size < config->ctx ? size : config->ctx;
    maps->n_ctx = config->ctx;
    maps->n_layer = config->n_layer;
    maps->n_head = config->n_head;
    maps->width = (int)width;
    maps->has_heads = heads;
    maps->n_kept = heads ? config->n_head : 1;
    const size_t cells = (size_t)maps->size * (size_t)maps->size,
                 n_maps = (size_t)maps->n_layer * (size_t)maps->n_kept;
    if ((status = es_alloc(&maps->sums, n_maps, cells * sizeof *maps->sums,
                           what)) < 0 ||
        (status = es_alloc(&maps->cell, n_ctx, sizeof *maps->cell, what)) < 0 ||
        (status = es_alloc(&maps->keys, n_ctx, width * sizeof *maps->keys,
                           what)) < 0 ||
        (status = es_alloc(&maps->row, n_ctx, sizeof *maps->row, what)) < 0 ||
        (status = es_alloc(&maps->log_t, n_ctx,
                           (size_t)maps->n_head * sizeof *maps->log_t, what)) <
            0) {
        es_maps_free(maps);
        *out = NULL;
        return status;
    }
    for (size_t i = 0; i < n_ctx; i++)
        maps->cell[i] = (int)(i * (size_t)maps->size / n_ctx);
    return ES_OK;
}

void es_maps_free(es_maps *maps)
{
    if (!maps)
        return;
    free(maps->cell);
    free(maps->sums);
    free(maps->keys);
    free(maps->row);
    free(maps->log_t);
    free(maps);
}

int es_maps_size(const es_maps *maps)
{
    return maps->size;
}

int es_maps_n_heads(const es_maps *maps)
{
    return maps->has_heads ? maps->n_head : 0;
}

static double *sums_of(const es_maps *maps, int layer, int kept)
{
    const size_t cells = (size_t)maps->size * (size_t)maps->size;
    return maps->sums +
           ((size_t)layer * (size_t)maps->n_kept + (size_t)kept) * cells;
}

void es_maps_reset(es_maps *maps)
{
    const size_t cells = (size_t)maps->size * (size_t)maps->size;
    memset(maps->sums, 0,
           (size_t)maps->n_layer * (size_t)maps->n_kept * cells *
               sizeof *maps->sums);
    maps->n_sequences = 0;
}

/* --- weights -------------------------------------------------------------- */

/** Replaces the n scores in `row` by softmax weights. A score that is not
 *  finite makes every weight of the row NaN. */
static void softmax(float *row, int n)
{
    float largest = row[0], sum = 0;
    bool finite = true;
    for (int j = 0; j < n; j++) {
        finite = finite && isfinite(row[j]);
        largest = fmaxf(largest, row[j]);
    }
    for (int j = 0; j < n; j++) {
        row[j] = finite ? expf(row[j] - largest) : (float)NAN;
        sum += row[j];
    }
    for (int j = 0; j < n; j++)
        row[j] /= sum;
}

/** Returns the length L in the formulas of attention for a row of n keys. */
static float length_of(const es_attention *how, int n)
{
    return how->length == ES_LENGTH_VISIBLE   ? (float)n
           : how->length == ES_LENGTH_CONTEXT ? (float)how->n_ctx
                                              : 1;
}

static void power_softmax(float *row, int n, const es_attention *how)
{
    float largest = 0, sum = 0;
    bool finite = true;
    for (int j = 0; j < n; j++) {
        finite = finite && isfinite(row[j]);
        largest = fmaxf(largest, fabsf(row[j]));
    }
    const float c = how->plain ? 1 : largest + 1e-6F;
    for (int j = 0; j < n; j++) {
        row[j] =
            finite ? powf(fabsf(row[j]) / c, (float)how->power) : (float)NAN;
        sum += row[j];
    }
    sum += how->epsilon * length_of(how, n);
    for (int j = 0; j < n; j++)
        row[j] = isfinite(sum) && isfinite(1 / sum) ? row[j] / sum : (float)NAN;
}

static void scaled_relu(float *row, int n, const es_attention *how)
{
    for (int j = 0; j < n; j++)
        row[j] = row[j] <= 0 ? 0 : row[j] / length_of(how, n);
}

/** Computes the weights of query i of a head over keys 0 to i, which are the
 *  keys that the query sees. Writes the i + 1 weights to maps->row. */
static void weigh_keys(es_maps *maps, const float *q, int i, int head_width,
                       const es_attention *how, const float *log_t)
{
    const int n = i + 1, n_ctx = maps->n_ctx;
    float *row = maps->row;
    float scale = 1 / sqrtf((float)head_width);
    if (log_t)
        scale *= expf(-log_t[i]);
    memset(row, 0, (size_t)n * sizeof *row);
    for (int c = 0; c < head_width; c++) {
        const float *keys = maps->keys + (size_t)c * (size_t)n_ctx;
        const float weight = q[c] * scale;
        for (int j = 0; j < n; j++)
            row[j] += weight * keys[j];
    }
    if (how->kind == ES_SOFTMAX)
        softmax(row, n);
    else if (how->kind == ES_POWER_SOFTMAX)
        power_softmax(row, n, how);
    else
        scaled_relu(row, n, how);
}

/** Adds the weights of one head in one sequence to `sums`. `qkv` points to the
 *  sequence's first token, at the head's first column. */
static void add_head(es_maps *maps, double *sums, const float *qkv,
                     const es_attention *how, const float *log_t)
{
    const int n_ctx = maps->n_ctx, head_width = maps->width / maps->n_head;
    const size_t stride = 3 * (size_t)maps->width;
    for (int j = 0; j < n_ctx; j++)
        for (int c = 0; c < head_width; c++)
            maps->keys[(size_t)c * (size_t)n_ctx + (size_t)j] =
                qkv[(size_t)j * stride + (size_t)(maps->width + c)];
    for (int i = 0; i < n_ctx; i++) {
        double *cells = sums + (size_t)maps->cell[i] * (size_t)maps->size;
        weigh_keys(maps, qkv + (size_t)i * stride, i, head_width, how, log_t);
        for (int j = 0; j <= i; j++)
            cells[maps->cell[j]] += (double)maps->row[j];
    }
}

static es_status add_layer(es_maps *maps, es_model *model, int layer, int n)
{
    const es_attention how = es_model_attention(model, layer);
    const size_t n_ctx = (size_t)maps->n_ctx, d = (size_t)maps->width;
    const size_t n_head = (size_t)maps->n_head;
    if (how.log_t)
        model->ops->load(model->backend, maps->log_t, how.log_t,
                         n_head * n_ctx * sizeof *maps->log_t);
    const float *qkv =
        model->ops->view(model->backend, model->layers[layer].qkv,
                         (size_t)how.n_batch * n_ctx * 3 * d);
    if (!qkv)
        return es_fail(ES_ENOMEM, "out of memory for attention maps");
    for (size_t b = 0; b < (size_t)n; b++)
        for (size_t h = 0; h < n_head; h++)
            add_head(maps, sums_of(maps, layer, maps->n_kept > 1 ? (int)h : 0),
                     qkv + b * n_ctx * 3 * d + h * (d / n_head), &how,
                     how.log_t ? maps->log_t + h * n_ctx : NULL);
    return ES_OK;
}

es_status es_maps_add(es_maps *maps, es_model *model)
{
    const int left = ES_MAP_SEQUENCES - maps->n_sequences;
    const int n = model->config.batch < left ? model->config.batch : left;
    es_status status = ES_OK;
    for (int l = 0; l < maps->n_layer && n > 0 && status == ES_OK; l++)
        status = add_layer(maps, model, l, n);
    if (status == ES_OK)
        maps->n_sequences += n;
    return status;
}

/* --- results -------------------------------------------------------------- */

/** Computes which tokens, from `first` to `end` - 1, cell c of a map stands
 *  for. */
static void cell_bounds(const es_maps *maps, int c, int *first, int *end)
{
    const int64_t n = maps->n_ctx, size = maps->size;
    *first = (int)((c * n + size - 1) / size);
    *end = (int)(((c + 1) * n + size - 1) / size);
}

/** Counts the pairs of a query and a visible key in a block of the map. */
static double count_pairs(const es_maps *maps, int query_cell, int key_cell)
{
    int first, end, key, key_end;
    double n = 0;
    cell_bounds(maps, query_cell, &first, &end);
    cell_bounds(maps, key_cell, &key, &key_end);
    for (int i = first; i < end; i++)
        n += i < key ? 0 : (i < key_end ? i + 1 : key_end) - key;
    return n;
}

void es_maps_get(float *out, const es_maps *maps, int layer, int head)
{
    const bool summed = head == ES_MAP_MEAN && maps->n_kept > 1;
    const int first = head == ES_MAP_MEAN ? 0 : head;
    const int end = summed ? maps->n_kept : first + 1;
    const double n_heads = head == ES_MAP_MEAN ? (double)maps->n_head : 1;
    for (int q = 0; q < maps->size; q++)
        for (int k = 0; k < maps->size; k++) {
            const size_t cell = (size_t)q * (size_t)maps->size + (size_t)k;
            const double n =
                count_pairs(maps, q, k) * n_heads * (double)maps->n_sequences;
            double sum = 0;
            for (int h = first; h < end; h++)
                sum += sums_of(maps, layer, h)[cell];
            out[cell] = n > 0 ? (float)(sum / n) : es_missing();
        }
}
