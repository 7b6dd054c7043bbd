/* es_cuda_qk_statistics against the double-precision form of es_qk_statistics,
 * on the host and where there is a device on it: every row and every head, for
 * every option, type and kernel. */
/* needs: nvcc */
#include "analyzer/base/value.h"
#include "hooks/trainer/cuda/qk_statistics.h"
#include "tests/support/cuda_attention.h"
#include "tests/support/entropy_helpers.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_COPIES = 40, N_FLOATS = 7, N_HEAD_FLOATS = 8, N_COUNTS = 3 };

typedef es_status (*statistics)(const es_cuda_qk *call);
typedef size_t (*workspace_size)(const es_attention_shape *shape);

/* --- memory of a device --------------------------------------------------- */

typedef struct device_memory {
    const es_ops *ops;
    es_backend *backend;
    es_mem *all[MOST_COPIES];
    int n;
} device_memory;

static void *reserve(device_memory *m, size_t bytes)
{
    assert_true(m->n < MOST_COPIES);
    assert_int_equal(m->ops->reserve(m->backend, &m->all[m->n], bytes), ES_OK);
    return m->all[m->n++];
}

static const void *copy(device_memory *m, const void *from, size_t bytes)
{
    void *to = from ? reserve(m, bytes) : NULL;
    if (from)
        m->ops->store(m->backend, to, from, bytes);
    return to;
}

/* --- problems ------------------------------------------------------------- */

/* Options that are not there are 0. */
typedef struct problem {
    es_attention_shape shape;
    es_entropy_type type;
    double size;  /* of queries and keys; 0: 1 */
    double level; /* about which they are drawn */
    bool masked, rows_masked, lengths, offsets, packed, sinks, tempered;
    bool poisoned; /* with NaN and infinities */
} problem;

typedef struct inputs {
    problem is;
    void *q, *k;
    unsigned char *key_mask, *query_mask;
    int32_t *lengths, *offsets, *starts;
    float *temperature, *sinks;
    size_t n_q, n_k, element;
    int n_batch; /* of arrays */
    es_entropy_input query, key;
} inputs;

static void *zeros(size_t n, size_t size)
{
    void *out = calloc(n, size);
    assert_non_null(out);
    return out;
}

static void put(void *to, size_t i, double x, es_entropy_type type,
                uint64_t *state)
{
    const float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == ES_ENTROPY_F32)
        ((float *)to)[i] = value;
    else if (type == ES_ENTROPY_BF16)
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    else if (!isfinite(x))
        ((uint16_t *)to)[i] = isnan(x) ? 0x7e00 : 0x7c00;
    else /* the sign, 2^-3 to 4, and any mantissa */
        ((uint16_t *)to)[i] =
            (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)(12 + i % 5) << 10 |
                       (uint32_t)(random_uniform(state) * 1024));
}

static void draw_options(inputs *in, uint64_t *state)
{
    const es_attention_shape *s = &in->is.shape;
    const size_t n = (size_t)in->n_batch;
    in->key_mask = zeros(n * (size_t)s->n_keys, 1);
    in->query_mask = zeros(n * (size_t)s->n_queries, 1);
    in->lengths = zeros((size_t)s->n_batch, 4);
    in->offsets = zeros((size_t)s->n_batch, 4);
    in->starts = zeros((size_t)s->n_batch + 1, 4);
    in->temperature = zeros((size_t)(s->n_heads * s->n_queries), 4);
    in->sinks = zeros((size_t)s->n_heads, 4);
    for (size_t i = 0; i < n * (size_t)s->n_keys; i++)
        in->key_mask[i] = random_uniform(state) < 0.6;
    for (size_t i = 0; i < n * (size_t)s->n_queries; i++)
        in->query_mask[i] = random_uniform(state) < 0.8;
    for (int b = 0; b < s->n_batch; b++) {
        in->lengths[b] = (int32_t)(random_uniform(state) * s->n_keys) + 1;
        in->offsets[b] = (int32_t)(random_uniform(state) * 9) - 3;
        /* The first is empty, the second long. */
        in->starts[b + 1] = b + 1 == s->n_batch ? s->n_queries
                            : b ? s->n_queries * (b + 1) / (s->n_batch + 1)
                                : 0;
    }
    for (int i = 0; i < s->n_heads * s->n_queries; i++)
        in->temperature[i] = (float)(0.2 + 2 * random_uniform(state));
    for (int i = 0; i < s->n_heads; i++)
        in->sinks[i] = (float)(3 * random_normal(state));
}

static void poison(inputs *in, uint64_t *state)
{
    const size_t d = (size_t)in->is.shape.head_width;
    put(in->q, 3 * d + 1, (double)NAN, in->is.type, state);
    put(in->q, 5 * d, (double)INFINITY, in->is.type, state);
    put(in->k, in->n_k - 1, (double)-INFINITY, in->is.type, state);
    if (in->is.sinks)
        in->sinks[0] = NAN;
    if (in->is.tempered)
        in->temperature[1] = NAN;
    if (in->is.tempered)
        in->temperature[2] = INFINITY;
}

static inputs draw(const problem *p)
{
    const es_attention_shape *s = &p->shape;
    const int kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    inputs in = {.is = *p, .element = p->type == ES_ENTROPY_F32 ? 4 : 2};
    const double size = p->size > 0 ? p->size : 1;
    uint64_t state = 7;
    in.n_batch = p->packed ? 1 : s->n_batch;
    in.n_q = (size_t)in.n_batch * (size_t)(s->n_heads * s->n_queries) *
             (size_t)s->head_width;
    in.n_k =
        (size_t)in.n_batch * (size_t)(kv * s->n_keys) * (size_t)s->head_width;
    in.q = zeros(in.n_q, in.element);
    in.k = zeros(in.n_k, in.element);
    for (size_t i = 0; i < in.n_q; i++)
        put(in.q, i, p->level + random_normal(&state) * size, p->type, &state);
    for (size_t i = 0; i < in.n_k; i++)
        put(in.k, i, p->level + random_normal(&state) * size, p->type, &state);
    draw_options(&in, &state);
    if (p->poisoned)
        poison(&in, &state);
    in.query = (es_entropy_input){
        in.q, p->type,
        es_strides_bthd(s->n_heads, s->n_queries, s->head_width)};
    in.key = (es_entropy_input){in.k, p->type,
                                es_strides_bhtd(kv, s->n_keys, s->head_width)};
    return in;
}

static void free_inputs(inputs *in)
{
    void *all[] = {in->q,          in->k,           in->key_mask,
                   in->query_mask, in->lengths,     in->offsets,
                   in->starts,     in->temperature, in->sinks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* The shape with its arrays where m has them; on the host without m. */
static es_attention_shape shape_of(const inputs *in, device_memory *m)
{
    const problem *p = &in->is;
    es_attention_shape s = p->shape;
    const size_t n = (size_t)in->n_batch, b = (size_t)s.n_batch;
    const struct option {
        const void **to;
        const void *from;
        size_t bytes;
    } all[] = {
        {(const void **)&s.key_mask, p->masked ? in->key_mask : NULL,
         n * (size_t)s.n_keys},
        {(const void **)&s.query_mask, p->rows_masked ? in->query_mask : NULL,
         n * (size_t)s.n_queries},
        {(const void **)&s.key_lengths, p->lengths ? in->lengths : NULL, 4 * b},
        {(const void **)&s.query_offsets, p->offsets ? in->offsets : NULL,
         4 * b},
        {(const void **)&s.query_starts, p->packed ? in->starts : NULL,
         4 * b + 4},
        {(const void **)&s.temperature, p->tempered ? in->temperature : NULL,
         4 * (size_t)(s.n_heads * s.n_queries)},
        {(const void **)&s.sink_logits, p->sinks ? in->sinks : NULL,
         4 * (size_t)s.n_heads}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].to = m ? copy(m, all[i].from, all[i].bytes) : all[i].from;
    return s;
}

/* --- outputs -------------------------------------------------------------- */

typedef struct outputs {
    size_t n_rows, n_heads;
    float *rows[N_FLOATS], *heads[N_HEAD_FLOATS];
    int32_t *nonfinite;
    int64_t *counts[N_COUNTS];
} outputs;

/* In the device's memory with m. */
static outputs new_outputs(const inputs *in, device_memory *m)
{
    const es_attention_shape *s = &in->is.shape;
    outputs out = {.n_heads = (size_t)s->n_heads,
                   .n_rows = (size_t)in->n_batch *
                             (size_t)(s->n_heads * s->n_queries)};
    for (int i = 0; i < N_FLOATS; i++)
        out.rows[i] = m ? reserve(m, 4 * out.n_rows) : zeros(out.n_rows, 4);
    for (int i = 0; i < N_HEAD_FLOATS; i++)
        out.heads[i] = m ? reserve(m, 4 * out.n_heads) : zeros(out.n_heads, 4);
    out.nonfinite = m ? reserve(m, 4 * out.n_rows) : zeros(out.n_rows, 4);
    for (int i = 0; i < N_COUNTS; i++)
        out.counts[i] = m ? reserve(m, 8 * out.n_heads) : zeros(out.n_heads, 8);
    return out;
}

static void free_outputs(outputs *out)
{
    for (int i = 0; i < N_FLOATS; i++)
        free(out->rows[i]);
    for (int i = 0; i < N_HEAD_FLOATS; i++)
        free(out->heads[i]);
    for (int i = 0; i < N_COUNTS; i++)
        free(out->counts[i]);
    free(out->nonfinite);
}

static es_rows rows_of(const outputs *out)
{
    return (es_rows){.size = sizeof(es_rows),
                     .entropy = out->rows[0],
                     .lse = out->rows[1],
                     .max_logit = out->rows[2],
                     .sink = out->rows[3],
                     .missing = out->rows[4],
                     .distance = out->rows[5],
                     .top = out->rows[6],
                     .nonfinite = out->nonfinite};
}

static es_heads heads_of(const outputs *out)
{
    return (es_heads){.size = sizeof(es_heads),
                      .entropy = out->heads[0],
                      .entropy_min = out->heads[1],
                      .entropy_max = out->heads[2],
                      .max_logit = out->heads[3],
                      .sink = out->heads[4],
                      .missing = out->heads[5],
                      .distance = out->heads[6],
                      .top = out->heads[7],
                      .finite_rows = out->counts[0],
                      .nonfinite_rows = out->counts[1],
                      .nonfinite_weights = out->counts[2]};
}

static outputs fetch(const inputs *in, device_memory *m, const outputs *from)
{
    outputs out = new_outputs(in, NULL);
    const es_ops *ops = m->ops;
    for (int i = 0; i < N_FLOATS; i++)
        ops->load(m->backend, out.rows[i], (es_mem *)(void *)from->rows[i],
                  4 * out.n_rows);
    for (int i = 0; i < N_HEAD_FLOATS; i++)
        ops->load(m->backend, out.heads[i], (es_mem *)(void *)from->heads[i],
                  4 * out.n_heads);
    for (int i = 0; i < N_COUNTS; i++)
        ops->load(m->backend, out.counts[i], (es_mem *)(void *)from->counts[i],
                  8 * out.n_heads);
    ops->load(m->backend, out.nonfinite, (es_mem *)(void *)from->nonfinite,
              4 * out.n_rows);
    return out;
}

/* --- comparing ------------------------------------------------------------ */

/* NaN and missing are two things. */
static void assert_number(float got, float wanted, double tolerance,
                          const char *name, size_t i)
{
    const bool same = es_is_missing(got) == es_is_missing(wanted);
    if (same && ((isnan(got) && isnan(wanted)) ||
                 fabs((double)got - (double)wanted) <= tolerance))
        return;
    fail_msg("%s %zu: %.9g instead of %.9g", name, i, (double)got,
             (double)wanted);
}

static void compare(const outputs *got, const outputs *wanted, int n_keys)
{
    static const char *const names[N_FLOATS] = {
        "entropy", "lse", "max_logit", "sink", "missing", "distance", "top"};
    static const int series[N_HEAD_FLOATS] = {0, 0, 0, 2, 3, 4, 5, 6};
    double tolerance[N_FLOATS] = {1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5};
    double largest = 0;
    for (size_t i = 0; i < wanted->n_rows; i++)
        if (isfinite(wanted->rows[1][i]))
            largest = fmax(largest, fabs((double)wanted->rows[1][i]));
    tolerance[1] = tolerance[2] += 2e-6 * largest;
    tolerance[5] *= n_keys;
    for (int s = 0; s < N_FLOATS; s++)
        for (size_t i = 0; i < wanted->n_rows; i++)
            assert_number(got->rows[s][i], wanted->rows[s][i], tolerance[s],
                          names[s], i);
    for (size_t i = 0; i < wanted->n_rows; i++)
        assert_int_equal(got->nonfinite[i], wanted->nonfinite[i]);
    for (int s = 0; s < N_HEAD_FLOATS; s++)
        for (size_t h = 0; h < wanted->n_heads; h++)
            assert_number(got->heads[s][h], wanted->heads[s][h],
                          tolerance[series[s]], "of head", h);
    for (int s = 0; s < N_COUNTS; s++)
        for (size_t h = 0; h < wanted->n_heads; h++)
            assert_int_equal(got->counts[s][h], wanted->counts[s][h]);
}

/* --- a run ---------------------------------------------------------------- */

static void *function_of(const cuda_place *place, const char *name)
{
    void *found = dlsym(place->plugin, name);
    assert_non_null(found);
    return found;
}

static outputs run(const inputs *in, const cuda_place *place)
{
    device_memory m = {.ops = place->ops(ES_FP32)};
    statistics call;
    workspace_size size;
    *(void **)&call = function_of(place, "es_cuda_qk_statistics");
    *(void **)&size = function_of(place, "es_cuda_qk_workspace");
    assert_int_equal(m.ops->open(&m.backend, 0), ES_OK);
    const es_attention_shape shape = shape_of(in, &m);
    const outputs there = new_outputs(in, &m);
    const es_rows rows = rows_of(&there);
    const es_heads heads = heads_of(&there);
    es_entropy_input q = in->query, k = in->key;
    q.data = copy(&m, in->q, in->n_q * in->element);
    k.data = copy(&m, in->k, in->n_k * in->element);
    es_cuda_qk given = {.size = sizeof given,
                        .rows = &rows,
                        .heads = &heads,
                        .q = &q,
                        .k = &k,
                        .shape = &shape,
                        .workspace_bytes = size(&shape)};
    assert_int_not_equal(given.workspace_bytes, 0);
    given.workspace = reserve(&m, given.workspace_bytes);
    assert_int_equal(m.ops->status(m.backend), ES_OK); /* all is there */
    if (call(&given) != ES_OK)
        fail_msg("%s", es_message());
    /* Freeing memory waits for every stream. */
    m.ops->release(m.backend, m.all[--m.n]);
    outputs out = fetch(in, &m, &there);
    assert_int_equal(m.ops->status(m.backend), ES_OK);
    while (m.n > 0)
        m.ops->release(m.backend, m.all[--m.n]);
    m.ops->close(m.backend);
    return out;
}

static void check(problem p)
{
    inputs in = draw(&p);
    outputs wanted = new_outputs(&in, NULL);
    const es_attention_shape shape = shape_of(&in, NULL);
    const es_rows rows = rows_of(&wanted);
    const es_heads heads = heads_of(&wanted);
    assert_int_equal(es_entropy_with(&es_entropy_kernels_reference, &rows,
                                     &heads, &in.query, &in.key, &shape, 1),
                     ES_OK);
    EACH_PLACE(place)
    {
        outputs got = run(&in, place);
        compare(&got, &wanted, shape.n_keys);
        free_outputs(&got);
    }
    free_outputs(&wanted);
    free_inputs(&in);
}

/* --- tests ---------------------------------------------------------------- */

static void widths_and_types_agree_with_double_precision(void **state)
{
    (void)state;
    check((problem){SHAPE(2, 3, 37, 37, 16, true), .type = ES_ENTROPY_F32});
    check((problem){SHAPE(1, 2, 70, 70, 64, true), .type = ES_ENTROPY_BF16});
    check((problem){SHAPE(1, 2, 33, 45, 80, false), .type = ES_ENTROPY_F16});
    check((problem){SHAPE(1, 1, 18, 50, 128, false), .type = ES_ENTROPY_BF16});
    check((problem){SHAPE(1, 1, 5, 17, 200, true), .type = ES_ENTROPY_F32});
    check((problem){SHAPE(3, 1, 1, 1, 1, true), .type = ES_ENTROPY_F32});
    check((problem){SHAPE(1, 2, 9, 40, 12, false), .type = ES_ENTROPY_F16});
}

static void options_agree_with_double_precision(void **state)
{
    problem p = {SHAPE(3, 4, 21, 40, 24, true), .type = ES_ENTROPY_BF16};
    (void)state;
    p.shape.n_kv_heads = 2;
    p.shape.query_offset = 19;
    p.shape.window = 7;
    p.masked = p.sinks = true;
    check(p);
    p.shape.causal = false;
    p.rows_masked = p.lengths = p.offsets = p.tempered = true;
    p.shape.softcap = 4;
    check(p);
    p.shape.window = 0;
    p.shape.scale = 0.7;
    p.masked = false;
    check(p);
}

static void packed_sequences_do_not_see_each_other(void **state)
{
    problem p = {SHAPE(4, 2, 90, 90, 40, true), .type = ES_ENTROPY_F32};
    (void)state;
    p.packed = true;
    check(p);
    p.masked = p.rows_masked = true;
    p.shape.window = 9;
    check(p);
}

/* Products of float32 are off by 1e-3 where all numbers are near 30, and
 * scores differ by a few units. */
static void rows_that_float32_blurs_are_exact(void **state)
{
    problem p = {SHAPE(1, 3, 50, 50, 64, true), .level = 30, .size = 0.05};
    (void)state;
    check(p);
    p.type = ES_ENTROPY_BF16;
    p.size = 0.3;
    check(p);
    p.shape.softcap = 9000;
    check(p);
}

static void peaked_rows_are_exact(void **state)
{
    problem p = {SHAPE(1, 3, 50, 50, 64, true), .size = 12};
    (void)state;
    check(p);
    p.size = 3;
    check(p);
    p.shape.softcap = 30;
    p.size = 20;
    check(p);
}

static void what_is_not_finite_stays_in_its_rows(void **state)
{
    problem p = {SHAPE(2, 3, 20, 20, 16, true), .type = ES_ENTROPY_F32};
    (void)state;
    p.poisoned = true;
    check(p);
    p.type = ES_ENTROPY_F16;
    p.sinks = p.tempered = true;
    p.shape.softcap = 5;
    check(p);
}

static void what_no_kernel_takes_is_refused(void **state)
{
    const es_attention_shape shape = SHAPE(2, 4, 8, 8, 16, true);
    es_attention_shape wrong[] = {shape, shape, shape, shape,
                                  shape, shape, shape};
    const int n_wrong = sizeof wrong / sizeof wrong[0];
    (void)state;
    wrong[0].head_width = 257;
    wrong[1].n_kv_heads = 3;
    wrong[2].scale = -1;
    wrong[3].time_limit = 1;
    wrong[4].size = 0;
    wrong[5].scale = 1e-31;
    wrong[6].softcap = (double)INFINITY;
    EACH_PLACE(place)
    {
        statistics call;
        workspace_size size;
        *(void **)&call = function_of(place, "es_cuda_qk_statistics");
        *(void **)&size = function_of(place, "es_cuda_qk_workspace");
        for (int i = 0; i < n_wrong; i++) {
            es_cuda_qk given = {.size = sizeof given, .shape = &wrong[i]};
            assert_int_equal(size(&wrong[i]), 0);
            assert_int_equal(call(&given), ES_EARGUMENT);
        }
        float q[2 * 4 * 8 * 16] = {0};
        es_entropy_input in = {.data = q, .strides = es_strides_bhtd(4, 8, 16)};
        es_cuda_qk given = {.size = sizeof given, .shape = &shape, .q = &in};
        assert_int_equal(call(&given), ES_EARGUMENT); /* no keys */
        given.k = &in;
        assert_int_equal(call(&given), ES_EARGUMENT); /* no workspace */
        assert_non_null(strstr(es_message(), "workspace"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_and_types_agree_with_double_precision),
        cmocka_unit_test(options_agree_with_double_precision),
        cmocka_unit_test(packed_sequences_do_not_see_each_other),
        cmocka_unit_test(rows_that_float32_blurs_are_exact),
        cmocka_unit_test(peaked_rows_are_exact),
        cmocka_unit_test(what_is_not_finite_stays_in_its_rows),
        cmocka_unit_test(what_no_kernel_takes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
