/* Runs attention on the CUDA back-end, with guard bytes around each array and
 * poison in the outputs. */
#include "tests/support/cuda_attention.h"

#include "hooks/trainer/cpu/half.h"
#include "tests/support/cmocka_all.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { GUARD = 256, GUARD_BYTE = 0xa5, POISON_BYTE = 0xff };

/* --- places --------------------------------------------------------------- */

static bool open_place(cuda_place *place)
{
    char path[4096];
    const char *build = getenv("BUILD"), *named = getenv("ENTROPY_TRAIN_CUDA");
    es_backend *backend = NULL;
    snprintf(path, sizeof path, "%s/%s", build ? build : "build", place->file);
    if (named && strstr(place->file, "host"))
        snprintf(path, sizeof path, "%s", named);
    place->plugin = dlopen(path, RTLD_NOW);
    if (!place->plugin) {
        print_message("# %s: not built\n", path);
        return false;
    }
    *(void **)&place->ops = dlsym(place->plugin, "es_cuda_ops");
    assert_non_null(place->ops);
    if (place->ops(ES_FP32)->open(&backend, 0) != ES_OK) {
        print_message("# %s: no CUDA device: %s\n", path, es_message());
        return false;
    }
    place->ops(ES_FP32)->close(backend);
    return true;
}

const cuda_place *cuda_places(void)
{
    static const char *const files[] = {"tests/libentropytrain_cuda_host.so",
                                        "libentropytrain_cuda.so"};
    static cuda_place places[3];
    static bool are_open;
    for (size_t i = 0, n = 0; !are_open && i < 2; i++) {
        places[n] = (cuda_place){.file = files[i]};
        if (open_place(&places[n]))
            n++;
        else
            places[n] = (cuda_place){0};
    }
    are_open = true;
    if (!places[0].plugin)
        es_skip("no nvcc");
    return places;
}

/* --- activations ---------------------------------------------------------- */

static float round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return x;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the fp16 bits of x, which fp16 must be able to represent exactly. */
static uint16_t fp16_bits(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    float size = fabsf(x), fraction;
    if (isnan(x))
        return 0x7e00;
    if (isinf(x))
        return sign | 0x7c00;
    if (size < 0x1p-14f)
        return sign | (uint16_t)(size * 0x1p24f);
    fraction = frexpf(size, &exponent); /* 1/2 <= fraction < 1 */
    return (uint16_t)(sign | (exponent + 14) << 10 |
                      ((int)(fraction * 2048) - 1024));
}

static void round_inputs(float *x, size_t n, es_precision precision)
{
    for (size_t i = 0; i < n; i++)
        if (precision == ES_BF16)
            x[i] = round_bf16(x[i]);
        else if (precision == ES_FP16)
            x[i] = es_half_round(x[i]);
}

static void store_activations(const es_ops *ops, es_backend *backend,
                              es_mem *out, const float *x, size_t n,
                              es_precision precision)
{
    uint16_t *narrow = malloc((n + 1) * sizeof *narrow);
    uint32_t bits;
    assert_non_null(narrow);
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        narrow[i] =
            precision == ES_BF16 ? (uint16_t)(bits >> 16) : fp16_bits(x[i]);
    }
    if (ops->activation_size == sizeof *x)
        ops->store(backend, out, x, n * sizeof *x);
    else
        ops->store(backend, out, narrow, n * sizeof *narrow);
    free(narrow);
}

/* --- guarded memory ------------------------------------------------------- */

typedef struct guarded {
    es_mem *memory; /* GUARD bytes, the array, GUARD bytes again */
    es_mem *at;
    size_t bytes;
} guarded;

static guarded open_guarded(const es_ops *ops, es_backend *backend,
                            size_t bytes)
{
    guarded g = {.bytes = bytes};
    unsigned char *fill = malloc(bytes + 2 * GUARD);
    assert_non_null(fill);
    assert_int_equal(ops->reserve(backend, &g.memory, bytes + 2 * GUARD),
                     ES_OK);
    memset(fill, GUARD_BYTE, bytes + 2 * GUARD);
    memset(fill + GUARD, POISON_BYTE, bytes);
    ops->store(backend, g.memory, fill, bytes + 2 * GUARD);
    g.at = es_mem_at(g.memory, GUARD);
    free(fill);
    return g;
}

static void close_guarded(const es_ops *ops, es_backend *backend, guarded *g)
{
    unsigned char *found = malloc(g->bytes + 2 * GUARD);
    assert_non_null(found);
    ops->load(backend, found, g->memory, g->bytes + 2 * GUARD);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(found[i], GUARD_BYTE);
        assert_int_equal(found[GUARD + g->bytes + i], GUARD_BYTE);
    }
    ops->release(backend, g->memory);
    free(found);
}

/* --- a run ---------------------------------------------------------------- */

/* The arrays of one call of attention, in the back-end's memory. */
typedef struct run_memory {
    guarded qkv, dy, log_t, dentropy;  /* inputs */
    guarded y, saved, dqkv, dlog_t;    /* outputs */
    guarded rows[ES_N_ROW_STATISTICS]; /* outputs */
} run_memory;

static run_memory open_memory(const attention_problem *p, const es_ops *ops,
                              es_backend *backend)
{
    const size_t f = sizeof(float), act = ops->activation_size;
    const size_t n_steps = (size_t)(p->n_head * p->n_ctx);
    run_memory m;
    m.qkv = open_guarded(ops, backend, 3 * p->n_values * act);
    m.dy = open_guarded(ops, backend, p->n_values * act);
    m.log_t = open_guarded(ops, backend, n_steps * f);
    m.dentropy = open_guarded(ops, backend, p->n_rows * f);
    m.y = open_guarded(ops, backend, p->n_values * act);
    m.saved = open_guarded(ops, backend, ES_N_SAVED * p->n_rows * f);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        m.rows[i] = open_guarded(ops, backend, p->n_rows * f);
    m.dqkv = open_guarded(ops, backend, 3 * p->n_values * act);
    m.dlog_t = open_guarded(ops, backend, n_steps * f);
    return m;
}

static void close_memory(run_memory *m, const es_ops *ops, es_backend *backend)
{
    guarded *all[] = {&m->qkv, &m->dy,    &m->log_t, &m->dentropy,
                      &m->y,   &m->saved, &m->dqkv,  &m->dlog_t};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        close_guarded(ops, backend, all[i]);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        close_guarded(ops, backend, &m->rows[i]);
}

static void fetch_activations(float *out, const es_ops *ops,
                              es_backend *backend, const guarded *from,
                              size_t n)
{
    memcpy(out, ops->view(backend, from->at, n), n * sizeof *out);
}

static void fetch_results(attention_problem *p, const run_memory *m,
                          const es_ops *ops, es_backend *backend)
{
    const size_t f = sizeof(float);
    p->on_device = true;
    fetch_activations(p->y, ops, backend, &m->y, p->n_values);
    fetch_activations(p->dqkv, ops, backend, &m->dqkv, 3 * p->n_values);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        ops->load(backend, attention_rows(p, (es_row_statistic)i),
                  m->rows[i].at, p->n_rows * f);
    if (p->dlog_t)
        ops->load(backend, p->dlog_t, m->dlog_t.at,
                  (size_t)(p->n_head * p->n_ctx) * f);
}

static void store_inputs(attention_problem *p, const run_memory *m,
                         const es_ops *ops, es_backend *backend,
                         es_precision precision)
{
    const size_t n_steps = (size_t)(p->n_head * p->n_ctx);
    round_inputs(p->qkv, 3 * p->n_values, precision);
    round_inputs(p->dy, p->n_values, precision);
    store_activations(ops, backend, m->qkv.at, p->qkv, 3 * p->n_values,
                      precision);
    store_activations(ops, backend, m->dy.at, p->dy, p->n_values, precision);
    ops->store(backend, m->dentropy.at, p->dentropy, p->n_rows * sizeof(float));
    if (p->log_t)
        ops->store(backend, m->log_t.at, p->log_t, n_steps * sizeof(float));
    ops->zero(backend, m->dlog_t.at, n_steps * sizeof(float));
}

static void run_both(const attention_problem *p, const run_memory *m,
                     const es_ops *ops, es_backend *backend, cuda_run how)
{
    es_row_mem rows;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows.array[i] = m->rows[i].at;
    es_attention shape = attention_shape(p);
    shape.log_t = p->log_t ? m->log_t.at : NULL;
    ops->attention(backend, m->y.at, m->saved.at, how.unmeasured ? NULL : &rows,
                   m->qkv.at, &shape);
    ops->attention_backward(
        backend, m->dqkv.at, p->dlog_t ? m->dlog_t.at : NULL, m->dy.at, m->y.at,
        how.entropy ? m->dentropy.at : NULL, m->qkv.at, m->saved.at, &shape);
}

void cuda_attention_run(attention_problem *p, const cuda_place *place,
                        cuda_run how)
{
    const es_ops *ops = place->ops(how.precision);
    const es_extents largest = {.n_rows = p->n_batch * p->n_ctx,
                                .width = 3 * p->n_head * p->width,
                                .n_ctx = p->n_ctx,
                                .n_head = p->n_head,
                                .head_width = p->width};
    es_backend *backend;
    run_memory memory;
    assert_int_equal(ops->open(&backend, 0), ES_OK);
    assert_int_equal(ops->prepare(backend, &largest), ES_OK);
    memory = open_memory(p, ops, backend);
    store_inputs(p, &memory, ops, backend, how.precision);
    run_both(p, &memory, ops, backend, how);
    assert_int_equal(ops->status(backend), ES_OK);
    fetch_results(p, &memory, ops, backend);
    close_memory(&memory, ops, backend);
    ops->close(backend);
    p->rounding = how.precision == ES_BF16   ? 4 * 0x1p-8
                  : how.precision == ES_FP16 ? 4 * 0x1p-11
                                             : 0;
}
