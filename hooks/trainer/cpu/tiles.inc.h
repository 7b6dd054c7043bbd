/**
 * Implements tiles of attention: lays out their memory, copies blocks of rows
 * to and from tiles, and computes three kinds of products with tiles.
 * attention.inc.h explains how attention uses tiles; part of kernels.inc.h.
 */

#define ROWS (2 * LANES)
/* Number of keys that a loop processes per pass. Numbers of keys are rounded up
 * to a multiple of KEYS. */
#define KEYS 4

/* Forces inlining. Many arguments are constants that the compiler knows only
 * after inlining, and compilers do not always expect inlining to pay off. */
#define KNOWN inline __attribute__((always_inline))

/* Arrays for one head in a thread's scratch memory. */
typedef struct workspace {
    int n_keys;           /* T rounded up to a multiple of KEYS */
    int narrow, wide;     /* head width rounded up to a multiple of 4 and of
                           * LANES, respectively */
    float *k, *v;         /* (n_keys,narrow) */
    float *tile, *dtile;  /* (n_keys,ROWS) */
    float *logs;          /* (n_keys,ROWS) logarithms of weights */
    float *qt, *dyt, *xt; /* (narrow,ROWS) transposed q, transposed dy, and a
                           * transposed result */
    float *q, *dy;        /* (ROWS,wide) blocks of q and dy */
    float *dk, *dv;       /* (n_keys,wide) */
    float *scale;         /* (ROWS) factors that turn q . k into scores */
    bool careful;
} workspace;

static int round_up(int n, int unit)
{
    return (n + unit - 1) / unit * unit;
}

static float *carve_matrix(float **from, int rows, int columns)
{
    float *start = *from;
    *from += ((size_t)rows * (size_t)columns + 15) / 16 * 16;
    return start;
}

static size_t tile_scratch(int n_ctx, int width)
{
    size_t n_keys = (size_t)round_up(n_ctx, KEYS);
    size_t wide = (size_t)round_up(width, LANES > 4 ? LANES : 4);
    return n_keys * (4 * wide + 3 * ROWS) + 5 * ROWS * wide + ROWS + 16 * 16;
}

static workspace open_workspace(const es_cpu_head *head)
{
    float *from = head->scratch;
    workspace w = {.n_keys = round_up(head->n_ctx, KEYS),
                   .narrow = round_up(head->width, 4),
                   .wide = round_up(head->width, LANES)};
    w.k = carve_matrix(&from, w.n_keys, w.narrow);
    w.v = carve_matrix(&from, w.n_keys, w.narrow);
    w.tile = carve_matrix(&from, w.n_keys, ROWS);
    w.dtile = carve_matrix(&from, w.n_keys, ROWS);
    w.logs = carve_matrix(&from, w.n_keys, ROWS);
    w.qt = carve_matrix(&from, w.narrow, ROWS);
    w.dyt = carve_matrix(&from, w.narrow, ROWS);
    w.xt = carve_matrix(&from, w.narrow, ROWS);
    w.q = carve_matrix(&from, ROWS, w.wide);
    w.dy = carve_matrix(&from, ROWS, w.wide);
    w.dk = carve_matrix(&from, w.n_keys, w.wide);
    w.dv = carve_matrix(&from, w.n_keys, w.wide);
    w.scale = carve_matrix(&from, 1, ROWS);
    return w;
}

/* --- packing -------------------------------------------------------------- */

static bool are_finite(uvec sizes)
{
    return largest_lane_size(sizes) < 0x7f800000;
}

/* Records in a lane of `spotted` that a value is not finite: a lane stays 0 as
 * long as all its values are finite, and becomes NaN otherwise. */
static inline vec spot_nonfinite(vec spotted, vec value)
{
    return spotted + value * splat(0);
}

static bool is_zero(vec spotted)
{
    return sum_lanes(spotted) == 0;
}

/* Copies n rows of `from`, which are `stride` floats apart, to out
 * (n_rows,columns), and pads `out` with zeros. Returns true if all numbers are
 * finite. */
static bool pack_rows(float *out, const float *from, int n, int n_rows,
                      int width, int columns, size_t stride)
{
    uvec largest = {0};
    for (int i = 0; i < n; i++, from += stride, out += columns) {
        int c = 0;
        for (; c + LANES <= width; c += LANES) {
            const vec value = load(from + c);
            largest = larger_size(largest, value);
            store(out + c, value);
        }
        if (c < columns) {
            const vec value = load_part(from + c, width - c, 0);
            largest = larger_size(largest, value);
            store_part(out + c, value,
                       columns - c < LANES ? columns - c : LANES);
        }
    }
    memset(out, 0, (size_t)((n_rows - n) * columns) * sizeof *out);
    return are_finite(largest);
}

static void pack_keys(workspace *w, const es_cpu_head *head)
{
    bool finite = pack_rows(w->k, head->k, head->n_ctx, w->n_keys, head->width,
                            w->narrow, head->stride);
    finite &= pack_rows(w->v, head->v, head->n_ctx, w->n_keys, head->width,
                        w->narrow, head->stride);
    w->careful = !finite;
}

/* Copies a block of n rows, which are `stride` floats apart: in transposed form
 * to out_t (width,ROWS), and unchanged to out (ROWS,wide) unless `out` is NULL.
 * Pads both results with zeros. */
static void pack_block(workspace *w, float *out_t, float *out,
                       const float *from, int n, int width, size_t stride)
{
    uvec largest = {0};
    for (int first = 0; first < ROWS; first += LANES)
        for (int c = 0; c < width; c += LANES) {
            int part = width - c < LANES ? width - c : LANES;
            vec rows[LANES];
            for (int i = 0; i < LANES; i++) {
                int row = first + i;
                const float *at = from + (size_t)row * stride + c;
                rows[i] = splat(0);
                if (row < n)
                    rows[i] = load_part(at, part, 0);
                largest = larger_size(largest, rows[i]);
                if (out)
                    store(out + row * w->wide + c, rows[i]);
            }
            transpose(rows);
            for (int i = 0; i < part; i++)
                store(out_t + (c + i) * ROWS + first, rows[i]);
        }
    w->careful |= !are_finite(largest);
}

static void pack_queries(workspace *w, const es_cpu_head *head, int first,
                         int n, float *rows)
{
    for (int i = 0; i < ROWS; i++)
        w->scale[i] = i < n ? es_cpu_head_scale(head, first + i) : 0;
    pack_block(w, w->qt, rows, head->q + (size_t)first * head->stride, n,
               head->width, head->stride);
}

/* Writes the transpose of xt (width,ROWS) to n rows of out, which are `stride`
 * floats apart. Multiplies row i by scale[i] unless `scale` is NULL. */
static void write_block(float *out, const workspace *w, const float *scale,
                        int n, int width, size_t stride)
{
    for (int first = 0; first < n; first += LANES)
        for (int c = 0; c < width; c += LANES) {
            int part = width - c < LANES ? width - c : LANES;
            vec rows[LANES];
            for (int i = 0; i < LANES; i++)
                rows[i] =
                    i < part ? load(w->xt + (c + i) * ROWS + first) : splat(0);
            transpose(rows);
            for (int i = 0; i < LANES && first + i < n; i++)
                store_part(out + (size_t)(first + i) * stride + c,
                           scale ? rows[i] * splat(scale[first + i]) : rows[i],
                           part);
        }
}

/* --- products ------------------------------------------------------------- */

/* Computes tile[j][i] as the sum over c of xt[c][i] * y[j][c], and multiplies
 * column i by scale[i] unless `scale` is NULL. */
static void tile_products(float *tile, const float *xt, const float *y,
                          const float *scale, int n_keys, int width, int narrow)
{
    const vec scale0 = scale ? load(scale) : splat(1);
    const vec scale1 = scale ? load(scale + LANES) : splat(1);
    for (int j = 0; j < n_keys; j += KEYS) {
        const float *row = y + (ptrdiff_t)j * narrow;
        vec sum[KEYS][2] = {{{0}}};
        for (int c = 0; c < width; c++) {
            vec x0 = load(xt + c * ROWS), x1 = load(xt + c * ROWS + LANES);
            for (int k = 0; k < KEYS; k++) {
                vec factor = splat(row[k * narrow + c]);
                sum[k][0] += x0 * factor;
                sum[k][1] += x1 * factor;
            }
        }
        for (int k = 0; k < KEYS; k++) {
            store(tile + (j + k) * ROWS, sum[k][0] * scale0);
            store(tile + (j + k) * ROWS + LANES, sum[k][1] * scale1);
        }
    }
}

/* Turns products q . k into scores: rounds them to fp16, scales them, and
 * replaces scores below `lowest` by `lowest`. */
static void tile_round(float *tile, const float *scale, float lowest,
                       int n_keys)
{
    for (int j = 0; j < n_keys; j++)
        for (int half = 0; half < ROWS; half += LANES) {
            float *at = tile + j * ROWS + half;
            vec score = vec_half(load(at)) * load(scale + half);
            store(at, larger(splat(lowest), score));
        }
}

/* Computes the scores of a block of queries with n_keys keys. If the
 * products are rounded to fp16, replaces scores below `lowest` by `lowest`. */
static void tile_scores(const es_cpu_head *head, workspace *w, float lowest,
                        int n_keys)
{
    tile_products(w->tile, w->qt, w->k, head->half ? NULL : w->scale, n_keys,
                  head->width, w->narrow);
    if (head->half)
        tile_round(w->tile, w->scale, lowest, n_keys);
}

/* Returns a mask of the lanes whose query sees key j of a causal head. Key 0 is
 * at the position of the tile's first query. `half` selects the tile's first or
 * second LANES queries. */
static inline ivec visible(int j, int half)
{
    ivec lane = {0};
    for (int i = 0; i < LANES; i++)
        lane[i] = half * LANES + i;
    return lane >= j;
}

/* Computes xt[c][i] as the sum over the keys j of tile[j][i] * y[j][c]. The
 * keys j >= n_full are masked for some queries; if `careful`, the sum skips
 * these masked keys. */
static void tile_gather(float *xt, const float *tile, const float *y,
                        int n_full, int n_keys, int narrow, bool careful)
{
    const int n_plain = careful ? n_full : n_keys;
    for (int c = 0; c < narrow; c += 4) {
        vec sum[4][2] = {{{0}}};
        for (int j = 0; j < n_plain; j++) {
            const float *row = y + (ptrdiff_t)j * narrow + c;
            vec x0 = load(tile + j * ROWS), x1 = load(tile + j * ROWS + LANES);
            for (int k = 0; k < 4; k++) {
                sum[k][0] += x0 * splat(row[k]);
                sum[k][1] += x1 * splat(row[k]);
            }
        }
        for (int j = n_plain; j < n_keys; j++)
            for (int k = 0; k < 4; k++)
                for (int half = 0; half < 2; half++) {
                    float factor = y[(ptrdiff_t)j * narrow + c + k];
                    vec more =
                        load(tile + j * ROWS + half * LANES) * splat(factor);
                    sum[k][half] +=
                        choose(visible(j - n_full, half), more, splat(0));
                }
        for (int k = 0; k < 4; k++) {
            store(xt + (c + k) * ROWS, sum[k][0]);
            store(xt + (c + k) * ROWS + LANES, sum[k][1]);
        }
    }
}

/* Adds the contributions of queries `first` and later to n_keys rows of y (see
 * tile_scatter), for one vector of columns, or for two if `pair` is true. Each
 * addition waits for the previous addition to the same sum. One vector has only
 * KEYS independent sums, so two vectors at a time are faster. */
static KNOWN void scatter_columns(float *y, const float *tile, const float *x,
                                  int first, int wide, int n_keys, bool pair)
{
    vec sum[KEYS], next[KEYS];
    for (int k = 0; k < n_keys; k++) {
        sum[k] = load(y + k * wide);
        next[k] = pair ? load(y + k * wide + LANES) : splat(0);
    }
    for (int i = first; i < ROWS; i++) {
        const vec x0 = load(x + i * wide);
        const vec x1 = pair ? load(x + i * wide + LANES) : splat(0);
        for (int k = 0; k < n_keys; k++) {
            const vec factor = splat(tile[k * ROWS + i]);
            sum[k] += factor * x0;
            if (pair)
                next[k] += factor * x1;
        }
    }
    for (int k = 0; k < n_keys; k++) {
        store(y + k * wide, sum[k]);
        if (pair)
            store(y + k * wide + LANES, next[k]);
    }
}

static KNOWN void scatter_keys(float *y, const float *tile, const float *x,
                               int first, int wide, int n_keys)
{
    int c = 0;
    for (; c + 2 * LANES <= wide; c += 2 * LANES)
        scatter_columns(y + c, tile, x + c, first, wide, n_keys, true);
    for (; c < wide; c += LANES)
        scatter_columns(y + c, tile, x + c, first, wide, n_keys, false);
}

static void tile_scatter(float *y, const float *tile, const float *x,
                         int n_full, int n_keys, int wide, bool careful)
{
    const int step = careful ? 1 : KEYS;
    for (int j = 0; j < n_keys; j += step) {
        float *to = y + (ptrdiff_t)j * wide;
        int first = j > n_full ? j - n_full : 0;
        if (careful)
            scatter_keys(to, tile + j * ROWS, x, first, wide, 1);
        else
            scatter_keys(to, tile + j * ROWS, x, first, wide, KEYS);
    }
}
