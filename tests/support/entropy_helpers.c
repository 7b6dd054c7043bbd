/* Helper functions for tests of the entropy module: random inputs, outputs with
 * guard values, comparison with the double-precision reference, and stored
 * cases. */
#include "tests/support/entropy_helpers.h"

#include "analyzer/base/value.h"
#include "hooks/trainer/files/arrays.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

double random_uniform(uint64_t *state)
{
    return (double)(splitmix_bits(state) >> 11) * 0x1p-53;
}

double random_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(1 - random_uniform(state)));
    return radius * cos(6.283185307179586 * random_uniform(state));
}

float *new_normals(size_t n, double scale, uint64_t seed)
{
    float *out = malloc((n ? n : 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(scale * random_normal(&seed));
    return out;
}

#define GUARD 8 /* number of guard values before and after an array */
#define SENTINEL 0x5e175e17

row_buffers new_rows(size_t n)
{
    size_t each = n + 2 * (size_t)GUARD;
    int32_t *block = malloc(5 * each * sizeof *block);
    assert_non_null(block);
    for (size_t i = 0; i < 5 * each; i++)
        block[i] = SENTINEL;
    int32_t *first = block + GUARD;
    return (row_buffers){.rows = {.size = sizeof(es_rows),
                                  .entropy = (float *)first,
                                  .lse = (float *)(first + each),
                                  .max_logit = (float *)(first + 2 * each),
                                  .sink = (float *)(first + 3 * each),
                                  .nonfinite = first + 4 * each},
                         .n = n,
                         .block = block};
}

void free_rows(row_buffers *buffers)
{
    free(buffers->block);
}

void assert_sentinels(const row_buffers *buffers)
{
    size_t each = buffers->n + 2 * (size_t)GUARD;
    const int32_t *block = buffers->block;
    for (size_t i = 0; i < 5 * each; i++)
        if (i % each < GUARD || i % each >= each - GUARD)
            assert_int_equal(block[i], SENTINEL);
}

void check_close(double got, double wanted, double tolerance, const char *what,
                 const char *file, int line)
{
    if (fabs(got - wanted) <= tolerance || (isnan(got) && isnan(wanted)))
        return;
    print_error("%s is %.17g, expected %.17g, tolerance %.3g, off by %.3g\n",
                what, got, wanted, tolerance, fabs(got - wanted));
    _fail(file, line);
}

/* --- packed inputs -------------------------------------------------------- */

static int n_key_heads(const es_attention_shape *shape)
{
    return shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads;
}

es_entropy_input weights_at(const float *att, const es_attention_shape *shape)
{
    return (es_entropy_input){
        .data = att,
        .strides =
            es_strides_bhtd(shape->n_heads, shape->n_queries, shape->n_keys)};
}

es_entropy_input queries_at(const float *q, const es_attention_shape *shape)
{
    return (es_entropy_input){.data = q,
                              .strides = es_strides_bhtd(shape->n_heads,
                                                         shape->n_queries,
                                                         shape->head_width)};
}

es_entropy_input keys_at(const float *k, const es_attention_shape *shape)
{
    return (es_entropy_input){.data = k,
                              .strides = es_strides_bhtd(n_key_heads(shape),
                                                         shape->n_keys,
                                                         shape->head_width)};
}

/* --- comparison with the reference ---------------------------------------- */

/** The input of one row, with the keys that the row sees. */
typedef struct row_inputs {
    es_numbers in, k;
    ptrdiff_t k_row;
    int n; /* index of the last key that the row sees, plus 1 */
    const unsigned char *mask;
    float temperature;
    int width;
} row_inputs;

static es_numbers head_at(const es_entropy_input *input, int b, int h)
{
    return es_numbers_from((es_numbers){input->data, input->type},
                           b * input->strides.batch + h * input->strides.head);
}

static row_inputs inputs_of(const es_entropy_input *in,
                            const es_entropy_input *k, const float *temperature,
                            const es_attention_shape *shape, size_t position)
{
    const size_t n_queries = (size_t)shape->n_queries;
    const size_t head = position / n_queries;
    const int b = (int)(head / (size_t)shape->n_heads);
    const int h = (int)(head % (size_t)shape->n_heads);
    const int i = (int)(position % n_queries);
    const int end = shape->query_offset + i + 1;
    row_inputs row = {
        .in = es_numbers_from(head_at(in, b, h), i * in->strides.row),
        .n = shape->causal && end < shape->n_keys ? end : shape->n_keys,
        .temperature = es_temperature(
            temperature, position % ((size_t)shape->n_heads * n_queries)),
        .width = shape->head_width};
    if (shape->key_mask)
        row.mask = shape->key_mask + (ptrdiff_t)b * shape->n_keys;
    if (k) {
        row.k = head_at(k, b, h / (shape->n_heads / n_key_heads(shape)));
        row.k_row = k->strides.row;
    }
    return row;
}

es_ref_row reference_row(const es_entropy_input *in, const es_entropy_input *k,
                         const float *temperature,
                         const es_attention_shape *shape, size_t position)
{
    row_inputs row = inputs_of(in, k, temperature, shape, position);
    const es_ref_query query = {
        .q = row.in,
        .k = row.k,
        .k_row = row.k_row,
        .n = row.n,
        .mask = row.mask,
        .width = row.width,
        .scale = 1 / (sqrt(row.width) * (double)row.temperature)};
    return k ? es_ref_row_qk(&query)
             : es_ref_row_probs(row.in, row.n, row.mask);
}

/** Returns sum |a ln(a + 1e-9)| over the finite visible weights. */
static double mass_of(const row_inputs *row)
{
    double mass = 0;
    for (int j = 0; j < row->n; j++) {
        double a = (double)es_number(row->in, j);
        double summand = a * log(fabs(a) + 1e-9);
        if ((!row->mask || row->mask[j]) && isfinite(summand))
            mass += fabs(summand);
    }
    return mass;
}

/**
 * Returns the maximum over the visible keys of sum |q_c k_c| / (t sqrt(D)),
 * where t is the row's temperature and D the head width. Sets *n_visible to the
 * number of visible keys.
 */
static double reach_of(const row_inputs *row, int *n_visible)
{
    double reach = 0;
    *n_visible = 0;
    for (int j = 0; j < row->n; j++) {
        double sum = 0;
        if (row->mask && !row->mask[j])
            continue;
        ++*n_visible;
        for (int c = 0; c < row->width; c++)
            sum += fabs((double)es_number(row->in, c) *
                        (double)es_number(row->k, j * row->k_row + c));
        reach = fmax(reach, sum);
    }
    return reach / ((double)row->temperature * sqrt(row->width));
}

static void assert_probs_row(const es_rows *rows, size_t position,
                             const es_ref_row *wanted, double mass)
{
    assert_close((double)rows->sink[position], wanted->values[ES_ROW_SINK], 0);
    if (fabs(wanted->values[ES_ROW_ENTROPY]) > (double)FLT_MAX)
        assert_true(isinf(rows->entropy[position]));
    else
        assert_close((double)rows->entropy[position],
                     wanted->values[ES_ROW_ENTROPY], 5e-7 * (1 + mass));
}

static void assert_qk_row(const es_rows *rows, size_t position,
                          const es_ref_row *wanted, const row_inputs *inputs)
{
    int n_visible;
    double one = 5e-7 * (1 + reach_of(inputs, &n_visible));
    double summed = one * (1 + log(n_visible));
    assert_close((double)rows->entropy[position],
                 wanted->values[ES_ROW_ENTROPY], summed + n_visible * 1e-9);
    assert_close((double)rows->lse[position], wanted->values[ES_ROW_LSE],
                 summed);
    assert_close((double)rows->max_logit[position],
                 wanted->values[ES_ROW_MAX_LOGIT], one);
    assert_close((double)rows->sink[position], wanted->values[ES_ROW_SINK],
                 one);
}

void assert_entropy(const es_rows *rows, const es_entropy_input *in,
                    const es_entropy_input *k, const float *temperature,
                    const es_attention_shape *shape, int every)
{
    const size_t n = n_rows(shape);
    for (size_t at = 0; at < n; at += (size_t)every) {
        row_inputs row = inputs_of(in, k, temperature, shape, at);
        es_ref_row wanted = reference_row(in, k, temperature, shape, at);
        assert_int_equal(rows->nonfinite[at], wanted.nonfinite);
        assert_int_equal(es_is_missing(rows->entropy[at]), wanted.unseen);
        assert_int_equal(es_is_missing(rows->sink[at]), wanted.unseen);
        if (k) {
            assert_int_equal(es_is_missing(rows->lse[at]), wanted.unseen);
            assert_qk_row(rows, at, &wanted, &row);
        } else {
            assert_probs_row(rows, at, &wanted, mass_of(&row));
        }
    }
}

void assert_probs(const es_rows *rows, const float *att,
                  const es_attention_shape *shape, int every)
{
    const es_entropy_input in = weights_at(att, shape);
    assert_entropy(rows, &in, NULL, NULL, shape, every);
}

void assert_qk(const es_rows *rows, const float *q, const float *k,
               const float *temperature, const es_attention_shape *shape,
               int every)
{
    const es_entropy_input in = queries_at(q, shape), keys = keys_at(k, shape);
    assert_entropy(rows, &in, &keys, temperature, shape, every);
}

void assert_same_rows(const row_buffers *got, const row_buffers *wanted)
{
    const size_t each = wanted->n + 2 * (size_t)GUARD;
    assert_int_equal(got->n, wanted->n);
    assert_memory_equal(got->block, wanted->block, 5 * each * sizeof(int32_t));
}

/* --- variants ------------------------------------------------------------- */

const es_entropy_kernels *variant(void **state)
{
    return *state;
}

size_t n_rows(const es_attention_shape *shape)
{
    return (size_t)shape->n_batch * (size_t)shape->n_heads *
           (size_t)shape->n_queries;
}

size_t n_weights(const es_attention_shape *shape)
{
    return n_rows(shape) * (size_t)shape->n_keys;
}

size_t n_key_floats(const es_attention_shape *shape)
{
    return (size_t)shape->n_batch * (size_t)n_key_heads(shape) *
           (size_t)shape->n_keys * (size_t)shape->head_width;
}

float *new_weights(const es_attention_shape *shape, double spread,
                   uint64_t seed)
{
    float *att = new_normals(n_weights(shape), spread, seed);
    for (size_t at = 0; at < n_rows(shape); at++) {
        float *row = att + at * (size_t)shape->n_keys;
        int end =
            shape->query_offset + (int)(at % (size_t)shape->n_queries) + 1;
        int n = shape->causal && end < shape->n_keys ? end : shape->n_keys;
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < n; j++)
            top = fmax(top, (double)row[j]);
        for (int j = 0; j < n; j++)
            sum += exp((double)row[j] - top);
        for (int j = 0; j < n; j++)
            row[j] = (float)(exp((double)row[j] - top) / sum);
        for (int j = n; j < shape->n_keys; j++)
            row[j] = NAN;
    }
    return att;
}

void run_probs(const es_entropy_kernels *set, const es_rows *rows,
               const float *att, const es_attention_shape *shape, int n_threads)
{
    const es_entropy_input in = weights_at(att, shape);
    assert_int_equal(
        es_entropy_with(set, rows, NULL, &in, NULL, shape, n_threads), ES_OK);
}

void run_qk(const es_entropy_kernels *set, const es_rows *rows, const float *q,
            const float *k, const float *temperature,
            const es_attention_shape *shape, int n_threads)
{
    const es_entropy_input in = queries_at(q, shape), keys = keys_at(k, shape);
    es_attention_shape scaled = *shape;
    scaled.temperature = temperature;
    assert_int_equal(
        es_entropy_with(set, rows, NULL, &in, &keys, &scaled, n_threads),
        ES_OK);
}

/* Shapes as B, H, T, S, D, causal: sizes of 1, odd sizes, S != T, and sizes
 * close to those of tiles (8, 16, 48), chunks (240) and parts (1024) in the
 * kernels. */
const es_attention_shape test_shapes[] = {
    SHAPE(1, 1, 1, 1, 1, true),      SHAPE(1, 1, 1, 1, 64, false),
    SHAPE(2, 3, 2, 2, 3, true),      SHAPE(3, 1, 7, 7, 5, true),
    SHAPE(1, 2, 15, 15, 16, true),   SHAPE(2, 2, 16, 16, 17, true),
    SHAPE(1, 2, 17, 17, 80, true),   SHAPE(1, 3, 33, 33, 15, true),
    SHAPE(2, 1, 47, 47, 128, true),  SHAPE(1, 2, 49, 49, 64, true),
    SHAPE(1, 1, 65, 65, 1, true),    SHAPE(1, 2, 5, 61, 3, false),
    SHAPE(1, 1, 9, 241, 33, false),  SHAPE(2, 1, 3, 500, 20, false),
    SHAPE(1, 1, 40, 90, 12, true),   SHAPE(1, 1, 90, 40, 12, true),
    SHAPE(1, 1, 260, 260, 31, true), SHAPE(1, 1, 1, 300, 7, true),
    SHAPE(1, 1, 300, 1, 7, true),    SHAPE(1, 1, 12, 1, 4, false),
    SHAPE(1, 1, 1031, 13, 2, false), SHAPE(1, 1, 1030, 1030, 3, true)};

const size_t n_test_shapes = sizeof test_shapes / sizeof test_shapes[0];

int run_for_variants(const variant_case *cases, size_t n)
{
    static struct CMUnitTest tests[100];
    static char names[100][80];
    size_t n_variants, at = 0;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n_variants);
    if (n * n_variants > 100)
        return 1;
    for (size_t v = 0; v < n_variants; v++) {
        if (!es_vectors_supported(all[v]->needs))
            continue;
        for (size_t c = 0; c < n; c++, at++) {
            snprintf(names[at], sizeof names[at], "%s, %s", cases[c].name,
                     all[v]->name);
            tests[at] =
                (struct CMUnitTest){.name = names[at],
                                    .test_func = cases[c].run,
                                    .initial_state = (void *)(intptr_t)all[v]};
        }
    }
    /* Call the function behind cmocka's macro, because the macro would treat
     * all hundred elements of the array as tests. */
    return _cmocka_run_group_tests("variants", tests, at, NULL, NULL);
}

/* --- tests/analyzer/cases ------------------------------------------------- */

#define CASES "tests/analyzer/cases"

/** Returns the data of the array `name`; NULL if the case has no such array. */
static void *read_array(const es_arrays *from, const char *name,
                        es_npy_type type, int n_dims, const size_t *dims)
{
    es_npy array;
    if (!es_arrays_has(from, name))
        return NULL;
    es_assert_ok(es_arrays_read_as(&array, from, name, type, n_dims, dims));
    return array.data;
}

static bool is_causal(const es_arrays *from)
{
    char label[ES_ARRAY_LABEL_MAX];
    AUTO_FREE char *text = NULL;
    es_assert_ok(es_arrays_text(&text, label, from, "case"));
    bool causal = strstr(text, "\"causal\": true") != NULL;
    assert_true(causal != (strstr(text, "\"causal\": false") != NULL));
    return causal;
}

/**
 * Reads the dimensions of an array of a case: sequences, heads, rows or keys,
 * and the head width or the number of keys. Returns false if the case has no
 * such array.
 */
static bool read_dims(size_t dims[4], const es_arrays *from, const char *name)
{
    es_npy array;
    if (!es_arrays_has(from, name))
        return false;
    es_assert_ok(es_arrays_read(&array, from, name));
    assert_int_equal(array.n_dims, 4);
    memcpy(dims, array.dims, 4 * sizeof *dims);
    es_npy_free(&array);
    return true;
}

static entropy_case load_case(const es_arrays *from)
{
    size_t a[4] = {0}, k[4] = {0};
    entropy_case out = {.from_qk = !read_dims(a, from, "probs")};
    if (out.from_qk) {
        assert_true(read_dims(a, from, "q"));
        assert_true(read_dims(k, from, "k"));
    }
    size_t rows[] = {a[0], a[1], a[2]};
    out.shape = (es_attention_shape){.n_batch = (int)a[0],
                                     .n_heads = (int)a[1],
                                     .n_queries = (int)a[2],
                                     .n_keys = (int)(out.from_qk ? k[2] : a[3]),
                                     .head_width = out.from_qk ? (int)a[3] : 0,
                                     .causal = is_causal(from)};
    out.att = read_array(from, "probs", ES_NPY_F4, 4, a);
    out.q = read_array(from, "q", ES_NPY_F4, 4, a);
    out.k = read_array(from, "k", ES_NPY_F4, 4, k);
    out.temperature = read_array(from, "t", ES_NPY_F4, 2, rows + 1);
    out.row_entropy = read_array(from, "out/row_entropy", ES_NPY_F4, 3, rows);
    out.entropy = read_array(from, "out/entropy", ES_NPY_F4, 1, rows + 1);
    out.lse = read_array(from, "out/lse", ES_NPY_F4, 3, rows);
    out.nonfinite = read_array(from, "out/nonfinite", ES_NPY_I4, 1, rows + 1);
    assert_true(out.row_entropy && out.entropy && out.nonfinite);
    assert_true(!out.from_qk || out.lse);
    return out;
}

static void free_case(entropy_case *loaded)
{
    void *blocks[] = {loaded->att,         loaded->q,           loaded->k,
                      loaded->temperature, loaded->row_entropy, loaded->entropy,
                      loaded->lse,         loaded->nonfinite};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
}

void each_entropy_case(void (*visit)(const entropy_case *, void *user),
                       void *user)
{
    DIR *dir = opendir(CASES);
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        es_arrays from;
        if (!strstr(entry->d_name, ".safetensors"))
            continue;
        snprintf(path, sizeof path, CASES "/%s", entry->d_name);
        es_assert_ok(es_arrays_open(&from, path));
        entropy_case loaded = load_case(&from);
        es_arrays_close(&from);
        visit(&loaded, user);
        free_case(&loaded);
        n++;
    }
    closedir(dir);
    assert_true(n >= 20);
}
