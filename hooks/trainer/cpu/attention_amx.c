/* Computes attention of bf16 heads with the AMX matrix units. Matrix products
 * run on tiles of bfloat16 with float32 sums; softmax, PowerSoftmax and
 * statistics come from attention.inc.h. The program may call these functions
 * only after es_cpu_tiles_choose has found that the machine supports AMX. */
#include "analyzer/base/value.h"
#include "hooks/trainer/cpu/kernels.h"

/* Clang before version 16 defines __AMXBF16__ instead. */
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#define LANES 16
#include "analyzer/base/tiles.h"
#include "hooks/trainer/cpu/vector.h"

/* attention.inc.h defines float32 passes over a head, which this file replaces
 * by its own passes and leaves unused. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "hooks/trainer/cpu/attention.inc.h"

/* Layout of AMX tiles, which have SIDE rows of 64 bytes. A product out = a * b
 * reads the rows of a as they are stored, DEEP numbers at a time. b must be
 * rearranged into matrices of number pairs: row r of a matrix holds, for each
 * of SIDE columns of b, the numbers 2 * r and 2 * r + 1 of the column. */
#define SIDE 16
#define DEEP 32
#define MATRIX (SIDE * DEEP)

/* Scratch memory of one head, divided into arrays. n_keys is T and `wide` the
 * head's width, both rounded up to multiples of DEEP. */
typedef struct area {
    workspace w; /* only w.tile, w.dtile, w.logs and w.scale are used */
    int n_keys, wide;
    es_bfloat *k, *v;        /* (n_keys,wide) */
    es_bfloat *turned;       /* v^T, or k^T in the backward pass;
                              * (wide,n_keys) */
    es_bfloat *rows, *rows2; /* blocks of q and of dy (the gradient of the
                              * output); (ROWS,wide) each */
    es_bfloat *q, *dy;       /* blocks of q and of dy (the gradient of the
                              * output), rearranged as pairs of columns */
    es_bfloat *q2, *dy2;     /* blocks of q and of dy (the gradient of the
                              * output), rearranged as pairs of rows */
    es_bfloat *weights;      /* unnormalised weights u or gradients ds of the
                              * scores (n_keys,ROWS), rearranged as pairs of
                              * keys */
    es_bfloat *a, *ds;       /* attention weights, and gradients of the scores;
                              * (n_keys,ROWS) each */
    float *xt;               /* (wide,ROWS) */
    float *dk, *dv;          /* (n_keys,wide) */
    __mmask32 nonfinite;     /* lanes in which a non-finite number has been
                              * found */
} area;

static es_bfloat *carve_halves(float **from, int rows, int columns)
{
    return (es_bfloat *)(void *)carve_matrix(from, rows, columns / 2);
}

static size_t area_size(int n_ctx, int width)
{
    const size_t n_keys = (size_t)round_up(n_ctx, DEEP);
    const size_t wide = (size_t)round_up(width, DEEP);
    return n_keys * (4 * wide + 5 * ROWS) + 4 * ROWS * wide + ROWS + 16 * 16;
}

static area open_area(const es_cpu_head *head)
{
    float *from = head->scratch;
    area m = {.n_keys = round_up(head->n_ctx, DEEP),
              .wide = round_up(head->width, DEEP)};
    m.k = carve_halves(&from, m.n_keys, m.wide);
    m.v = carve_halves(&from, m.n_keys, m.wide);
    m.turned = carve_halves(&from, m.n_keys, m.wide);
    m.rows = carve_halves(&from, ROWS, m.wide);
    m.rows2 = carve_halves(&from, ROWS, m.wide);
    m.q = carve_halves(&from, ROWS, m.wide);
    m.dy = carve_halves(&from, ROWS, m.wide);
    m.q2 = carve_halves(&from, ROWS, m.wide);
    m.dy2 = carve_halves(&from, ROWS, m.wide);
    m.weights = carve_halves(&from, m.n_keys, ROWS);
    m.a = carve_halves(&from, m.n_keys, ROWS);
    m.ds = carve_halves(&from, m.n_keys, ROWS);
    m.xt = carve_matrix(&from, m.wide, ROWS);
    m.dk = carve_matrix(&from, m.n_keys, m.wide);
    m.dv = carve_matrix(&from, m.n_keys, m.wide);
    m.w.tile = carve_matrix(&from, m.n_keys, ROWS);
    m.w.dtile = carve_matrix(&from, m.n_keys, ROWS);
    m.w.logs = carve_matrix(&from, m.n_keys, ROWS);
    m.w.scale = carve_matrix(&from, 1, ROWS);
    return m;
}

/* --- packing -------------------------------------------------------------- */

static inline __m512i load_halves(const es_bfloat *from)
{
    return _mm512_loadu_si512(from);
}

static inline void store_halves(es_bfloat *to, __m512i x)
{
    _mm512_storeu_si512(to, x);
}

/* Copies n rows of `from`, which are `stride` numbers apart, to `out`, whose
 * rows have m->wide numbers. Fills the rest of these rows and the rows from n
 * to n_rows with zeros. */
static void copy_rows(es_bfloat *out, area *m, const es_bfloat *from, int n,
                      int n_rows, int width, size_t stride)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    for (int i = 0; i < n; i++, from += stride, out += m->wide)
        for (int c = 0; c < m->wide; c += DEEP) {
            const int part = width - c < DEEP ? width - c : DEEP;
            const __mmask32 there = (__mmask32)(((uint64_t)1 << part) - 1);
            const __m512i x = _mm512_maskz_loadu_epi16(there, from + c);
            m->nonfinite |= _mm512_cmpeq_epi16_mask(
                _mm512_and_si512(x, exponent), exponent);
            store_halves(out + c, x);
        }
    memset(out, 0, (size_t)((n_rows - n) * m->wide) * sizeof *out);
}

/* Rearranges SIDE rows of DEEP numbers, which are `wide` numbers apart, into
 * SIDE rows of number pairs. */
static inline void turn_pairs(vec out[SIDE], const es_bfloat *from, int wide)
{
    for (int i = 0; i < SIDE; i++)
        memcpy(&out[i], from + (ptrdiff_t)i * wide, sizeof out[i]);
    transpose(out);
}

/* Rearranges a block of rows (ROWS,wide) for use as the right factor of a
 * matrix product that sums over the block's columns. Each DEEP columns give two
 * matrices: one for the first SIDE rows and one for the last SIDE rows. */
static void pair_columns(es_bfloat *out, const es_bfloat *rows, int wide)
{
    for (int c = 0; c < wide; c += DEEP)
        for (int half = 0; half < 2; half++, out += MATRIX) {
            vec pairs[SIDE];
            turn_pairs(pairs, rows + (ptrdiff_t)half * SIDE * wide + c, wide);
            memcpy(out, pairs, sizeof pairs);
        }
}

/* Returns every second number of the vectors `low` and `high`, starting at
 * number `odd` (0 or 1). */
static inline __m512i every_other(__m512i low, __m512i high, int odd)
{
    const __m512i lane = _mm512_set_epi16(
        62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28,
        26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i which = _mm512_add_epi16(lane, _mm512_set1_epi16((short)odd));
    return _mm512_permutex2var_epi16(low, which, high);
}

/* Returns a vector that takes numbers alternately from `even` and `odd`,
 * starting at number `first` of each. */
static inline __m512i by_turns(__m512i even, __m512i odd, int first)
{
    const __m512i lane = _mm512_set_epi16(
        47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38,
        6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i which =
        _mm512_add_epi16(lane, _mm512_set1_epi16((short)first));
    return _mm512_permutex2var_epi16(even, which, odd);
}

/* Rearranges a block of rows (ROWS,wide) for use as the right factor of a
 * matrix product that sums over the block's rows. Each SIDE columns give one
 * matrix. */
static void pair_rows(es_bfloat *out, const es_bfloat *rows, int wide)
{
    for (int i = 0; i < ROWS; i += 2, rows += 2 * wide)
        for (int c = 0; c < wide; c += DEEP) {
            const __m512i even = load_halves(rows + c);
            const __m512i odd = load_halves(rows + wide + c);
            es_bfloat *to = out + c / SIDE * MATRIX + i / 2 * DEEP;
            store_halves(to, by_turns(even, odd, 0));
            store_halves(to + MATRIX, by_turns(even, odd, SIDE));
        }
}

/* Computes out (wide,n_keys), the transpose of rows (n_keys,wide). */
static void turn_rows(es_bfloat *out, const es_bfloat *rows, int n_keys,
                      int wide)
{
    for (int j = 0; j < n_keys; j += DEEP)
        for (int c = 0; c < wide; c += DEEP) {
            const es_bfloat *from = rows + (ptrdiff_t)j * wide + c;
            es_bfloat *to = out + (ptrdiff_t)c * n_keys + j;
            vec low[SIDE], high[SIDE];
            turn_pairs(low, from, wide);
            turn_pairs(high, from + (ptrdiff_t)SIDE * wide, wide);
            for (int i = 0; i < DEEP; i++, to += n_keys)
                store_halves(to, every_other((__m512i)low[i / 2],
                                             (__m512i)high[i / 2], i % 2));
        }
}

/* Rounds vectors a and b to bf16; a becomes the lower half and b the upper half
 * of the result. */
static inline __m512i round_both(const float *a, const float *b)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(b), _mm512_loadu_ps(a));
}

/* Rearranges a tile (n_keys,ROWS) for use as the right factor of a matrix
 * product that sums over the keys. Each DEEP keys give two matrices: one for
 * the first SIDE queries and one for the last SIDE queries. Pads the result
 * with zeros to m->n_keys keys. */
static void pair_keys(es_bfloat *out, const float *tile, int n_keys)
{
    const __m512i zero = _mm512_setzero_si512();
    for (int j = 0; j < round_up(n_keys, DEEP); j += 2)
        for (int half = 0; half < 2; half++) {
            const float *at = tile + j * ROWS + half * SIDE;
            es_bfloat *to =
                out + (j / DEEP * 2 + half) * MATRIX + j % DEEP / 2 * DEEP;
            const __m512i both = j < n_keys ? round_both(at, at + ROWS) : zero;
            store_halves(to,
                         by_turns(both, _mm512_alignr_epi64(both, both, 4), 0));
        }
}

/* Rounds a tile (n_keys,ROWS) to bf16 and pads it with zeros to a multiple of
 * DEEP keys. */
static void round_tile(es_bfloat *out, const float *tile, int n_keys)
{
    for (int j = 0; j < n_keys; j++, tile += ROWS, out += ROWS)
        store_halves(out, round_both(tile, tile + SIDE));
    memset(out, 0,
           (size_t)((round_up(n_keys, DEEP) - n_keys) * ROWS) * sizeof *out);
}

/* Writes the transpose of xt (width,ROWS) to n rows of out, which are `stride`
 * numbers apart. Multiplies row i by scale[i] unless `scale` is NULL. */
static void write_turned(es_bfloat *out, const float *xt, const float *scale,
                         int n, int width, size_t stride)
{
    for (int first = 0; first < n; first += LANES)
        for (int c = 0; c < width; c += LANES) {
            const int part = width - c < LANES ? width - c : LANES;
            vec rows[LANES];
            for (int i = 0; i < LANES; i++)
                rows[i] = load(xt + (c + i) * ROWS + first);
            transpose(rows);
            for (int i = 0; i < LANES && first + i < n; i++)
                store_bf16(out + (size_t)(first + i) * stride + c,
                           scale ? rows[i] * splat(scale[first + i]) : rows[i],
                           part);
        }
}

static void write_rows(es_bfloat *out, const float *from, int n, int width,
                       int wide, size_t stride)
{
    for (int i = 0; i < n; i++, out += stride, from += wide)
        for (int c = 0; c < width; c += LANES)
            store_bf16(out + c, load(from + c),
                       width - c < LANES ? width - c : LANES);
}

/* --- products ------------------------------------------------------------- */

/* Computes SIDE or 2 * SIDE rows (n_sides 1 or 2) of out = a * b; see
 * multiply_rows. */
static inline void multiply_sides(float *out, const es_bfloat *a, int stride,
                                  const es_bfloat *b, int depth, int n_sides)
{
    const size_t bytes = (size_t)stride * sizeof *a;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int d = 0; d < depth; d++, a += DEEP, b += 2 * MATRIX) {
        _tile_loadd(4, a, bytes);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + MATRIX, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (n_sides > 1) {
            _tile_loadd(5, a + (ptrdiff_t)SIDE * stride, bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, out, ROWS * 4);
    _tile_stored(1, out + SIDE, ROWS * 4);
    if (n_sides > 1) {
        _tile_stored(2, out + SIDE * ROWS, ROWS * 4);
        _tile_stored(3, out + SIDE * ROWS + SIDE, ROWS * 4);
    }
}

/* Computes out = a * b with the shape (n,ROWS), with n rounded up to a multiple
 * of SIDE. The rows of a are `stride` numbers apart; b consists of `depth`
 * pairs of matrices, as pair_columns writes them. */
static void multiply_rows(float *out, const es_bfloat *a, int stride,
                          const es_bfloat *b, int n, int depth)
{
    for (int i = 0; i < n; i += 2 * SIDE)
        if (i + SIDE < n)
            multiply_sides(out + (ptrdiff_t)i * ROWS, a + (ptrdiff_t)i * stride,
                           stride, b, depth, 2);
        else
            multiply_sides(out + (ptrdiff_t)i * ROWS, a + (ptrdiff_t)i * stride,
                           stride, b, depth, 1);
}

/* Adds a * b to out (n_keys,wide), where n_keys is a multiple of DEEP; a is
 * (n_keys,ROWS), and b has one matrix for each SIDE columns, as pair_rows
 * writes them. */
static void add_products(float *out, const es_bfloat *a, const es_bfloat *b,
                         int n_keys, int wide)
{
    const size_t bytes = (size_t)wide * sizeof *out;
    for (int c = 0; c < wide; c += 2 * SIDE, b += 2 * MATRIX) {
        _tile_loadd(6, b, 64);
        _tile_loadd(7, b + MATRIX, 64);
        for (int j = 0; j < n_keys; j += 2 * SIDE) {
            float *to = out + (ptrdiff_t)j * wide + c;
            float *next = to + (ptrdiff_t)SIDE * wide;
            _tile_loadd(4, a + j * ROWS, 64);
            _tile_loadd(5, a + (j + SIDE) * ROWS, 64);
            _tile_loadd(0, to, bytes);
            _tile_dpbf16ps(0, 4, 6);
            _tile_stored(0, to, bytes);
            _tile_loadd(1, to + SIDE, bytes);
            _tile_dpbf16ps(1, 4, 7);
            _tile_stored(1, to + SIDE, bytes);
            _tile_loadd(2, next, bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_stored(2, next, bytes);
            _tile_loadd(3, next + SIDE, bytes);
            _tile_dpbf16ps(3, 5, 7);
            _tile_stored(3, next + SIDE, bytes);
        }
    }
}

/* --- a block -------------------------------------------------------------- */

/* Computes the scores of n queries, starting at query `first`, with n_keys
 * keys. Copies the queries to m->rows. */
static void score_block(const es_cpu_head *head, area *m, int first, int n,
                        int n_keys)
{
    const es_cpu_half_head *halves = &head->halves;
    for (int i = 0; i < ROWS; i++)
        m->w.scale[i] = i < n ? es_cpu_head_scale(head, first + i) : 0;
    copy_rows(m->rows, m, halves->q + (size_t)first * halves->stride, n, ROWS,
              head->width, halves->stride);
    pair_columns(m->q, m->rows, m->wide);
    multiply_rows(m->w.tile, m->k, m->wide, m->q, n_keys, m->wide / DEEP);
    const vec scale[2] = {load(m->w.scale), load(m->w.scale + LANES)};
    float *at = m->w.tile;
    for (int j = 0; j < n_keys; j++, at += ROWS) {
        store(at, load(at) * scale[0]);
        store(at + LANES, load(at + LANES) * scale[1]);
    }
}

static bool pack_head(const es_cpu_head *head, area *m)
{
    const es_cpu_half_head *halves = &head->halves;
    copy_rows(m->k, m, halves->k, head->n_ctx, m->n_keys, head->width,
              halves->stride);
    copy_rows(m->v, m, halves->v, head->n_ctx, m->n_keys, head->width,
              halves->stride);
    return !m->nonfinite;
}

static void write_block_outputs(const es_cpu_head *head, const area *m,
                                const row_state row[2], int first, int n)
{
    float scale[ROWS];
    store(scale, splat(1) / row[0].divisor);
    store(scale + LANES, splat(1) / row[1].divisor);
    write_turned(head->halves.y + (size_t)first * head->halves.y_stride, m->xt,
                 scale, n, head->width, head->halves.y_stride);
    for (int i = 0; i < n; i++) {
        float *saved = head->saved + 2 * (first + i);
        saved[0] = row[i / LANES].m[i % LANES];
        saved[1] = row[i / LANES].divisor[i % LANES];
    }
}

static void attend_block(const es_cpu_head *head, area *m, int first, int n)
{
    const int n_keys = round_up(first + n, KEYS);
    row_state row[2];
    score_block(head, m, first, n, n_keys);
    weigh_block(head, &m->w, row, first, n_keys);
    for (int half = 0; half < 2 && head->rows[ES_ROW_ENTROPY]; half++)
        measure_rows(head, m->w.tile + half * LANES, &row[half],
                     first + half * LANES, n_keys, first + n);
    pair_keys(m->weights, m->w.tile, n_keys);
    multiply_rows(m->xt, m->turned, m->n_keys, m->weights, head->width,
                  round_up(n_keys, DEEP) / DEEP);
    write_block_outputs(head, m, row, first, n);
}

static bool attention_tiles(const es_cpu_head *head)
{
    area m = open_area(head);
    if (!pack_head(head, &m))
        return false;
    turn_rows(m.turned, m.v, m.n_keys, m.wide);
    es_tiles_configure();
    for (int first = 0; first < head->n_ctx; first += ROWS)
        attend_block(head, &m, first,
                     head->n_ctx - first < ROWS ? head->n_ctx - first : ROWS);
    _tile_release();
    return !m.nonfinite;
}

/* --- backward ------------------------------------------------------------- */

/* Computes <g>, the weighted mean of each row's gradient dL/da. It equals the
 * dot product of the output y and its gradient dy. */
static void mean_products(float out[ROWS], const es_cpu_head *head, int first,
                          int n)
{
    const size_t stride = head->halves.y_stride;
    const es_bfloat *y = head->halves.y + (size_t)first * stride;
    const es_bfloat *dy = head->halves.dy + (size_t)first * stride;
    memset(out, 0, ROWS * sizeof *out);
    for (int i = 0; i < n; i++, y += stride, dy += stride) {
        vec sum = splat(0);
        for (int c = 0; c < head->width; c += LANES) {
            const int part = head->width - c < LANES ? head->width - c : LANES;
            sum += load_bf16(dy + c, part) * load_bf16(y + c, part);
        }
        out[i] = sum_lanes(sum);
    }
}

static void differentiate_block(const es_cpu_head *head, area *m, int first,
                                int n)
{
    const es_cpu_half_head *halves = &head->halves;
    const int n_keys = round_up(first + n, KEYS);
    const int n_deep = round_up(n_keys, DEEP);
    float mean_g[ROWS];
    score_block(head, m, first, n, n_keys);
    copy_rows(m->rows2, m, halves->dy + (size_t)first * halves->y_stride, n,
              ROWS, head->width, halves->y_stride);
    pair_columns(m->dy, m->rows2, m->wide);
    mean_products(mean_g, head, first, n);
    multiply_rows(m->w.dtile, m->v, m->wide, m->dy, n_keys, m->wide / DEEP);
    const reach keys = {first, n_keys, n_keys};
    gradient_half(head, &m->w, mean_g, first, n, &keys, 0);
    gradient_half(head, &m->w, mean_g, first, n, &keys, 1);
    pair_keys(m->weights, m->w.dtile, n_keys);
    multiply_rows(m->xt, m->turned, m->n_keys, m->weights, head->width,
                  n_deep / DEEP);
    write_turned(halves->dq + (size_t)first * halves->stride, m->xt, NULL, n,
                 head->width, halves->stride);
    round_tile(m->a, m->w.tile, n_keys);
    round_tile(m->ds, m->w.dtile, n_keys);
    pair_rows(m->q2, m->rows, m->wide);
    pair_rows(m->dy2, m->rows2, m->wide);
    add_products(m->dk, m->ds, m->q2, n_deep, m->wide);
    add_products(m->dv, m->a, m->dy2, n_deep, m->wide);
}

static bool attention_tiles_backward(const es_cpu_head *head)
{
    const es_cpu_half_head *halves = &head->halves;
    area m = open_area(head);
    const size_t n = (size_t)m.n_keys * (size_t)m.wide;
    if (!pack_head(head, &m))
        return false;
    turn_rows(m.turned, m.k, m.n_keys, m.wide);
    memset(m.dk, 0, n * sizeof *m.dk);
    memset(m.dv, 0, n * sizeof *m.dv);
    es_tiles_configure();
    for (int first = 0; first < head->n_ctx; first += ROWS)
        differentiate_block(head, &m, first,
                            head->n_ctx - first < ROWS ? head->n_ctx - first
                                                       : ROWS);
    _tile_release();
    write_rows(halves->dk, m.dk, head->n_ctx, head->width, m.wide,
               halves->stride);
    write_rows(halves->dv, m.dv, head->n_ctx, head->width, m.wide,
               halves->stride);
    return !m.nonfinite;
}

const es_cpu_tiles es_cpu_tiles_amx = {"amx", area_size, attention_tiles,
                                       attention_tiles_backward};

#else

const es_cpu_tiles es_cpu_tiles_amx = {.name = NULL};

#endif
