/* Tests the memory that every variant of the kernels reads, writes and
   allocates, and the use of threads. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/** n floats that end right before an inaccessible page. */
typedef struct guarded {
    void *map;
    size_t size;
    float *data;
} guarded;

static guarded guard(const float *from, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = n * sizeof *from;
    size_t body = (bytes + page - 1) / page * page;
    guarded out = {.size = body + page};
    out.map = mmap(NULL, out.size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(out.map != MAP_FAILED);
    assert_int_equal(mprotect((char *)out.map + body, page, PROT_NONE), 0);
    out.data = (float *)((char *)out.map + (body - bytes));
    memcpy(out.data, from, bytes);
    return out;
}

static void release(guarded *block)
{
    munmap(block->map, block->size);
}

/**
 * The kernels read nothing beyond the arrays or above the diagonal. The masked
 * weights are NaN, so a kernel that read them would return NaN.
 */
static void test_entropy_memory__nothing_is_read_beyond_arrays(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (size_t i = 0; i < n_test_shapes; i++) {
        const es_attention_shape *shape = &test_shapes[i];
        size_t n = n_rows(shape) * (size_t)shape->head_width;
        float *att = new_weights(shape, 1, i);
        float *numbers = new_normals(n + n_key_floats(shape), 1, i);
        guarded a = guard(att, n_weights(shape)), q = guard(numbers, n);
        guarded k = guard(numbers + n, n_key_floats(shape));
        row_buffers got = new_rows(n_rows(shape));
        run_probs(set, &got.rows, a.data, shape, 1);
        assert_probs(&got.rows, att, shape, 7);
        run_qk(set, &got.rows, q.data, k.data, NULL, shape, 1);
        assert_qk(&got.rows, q.data, k.data, NULL, shape, 7);
        free_rows(&got);
        release(&k);
        release(&q);
        release(&a);
        free(numbers);
        free(att);
    }
}

static void test_entropy_memory__outputs_may_be_null(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 2, 19, 19, 4, true);
    float *q = new_normals(n_rows(&shape) * 4, 1, 61);
    float *att = new_weights(&shape, 1, 62);
    row_buffers got = new_rows(n_rows(&shape)), all = new_rows(n_rows(&shape));
    for (unsigned wanted = 0; wanted < 32; wanted++) {
        es_rows some = {.entropy = wanted & 1 ? got.rows.entropy : NULL,
                        .lse = wanted & 2 ? got.rows.lse : NULL,
                        .max_logit = wanted & 4 ? got.rows.max_logit : NULL,
                        .sink = wanted & 8 ? got.rows.sink : NULL,
                        .nonfinite = wanted & 16 ? got.rows.nonfinite : NULL};
        run_probs(set, &some, att, &shape, 1);
        run_qk(set, &some, q, q, NULL, &shape, 1);
    }
    run_qk(set, &all.rows, q, q, NULL, &shape, 1);
    assert_memory_equal(got.rows.entropy, all.rows.entropy, 38 * 4);
    assert_memory_equal(got.rows.lse, all.rows.lse, 38 * 4);
    assert_memory_equal(got.rows.max_logit, all.rows.max_logit, 38 * 4);
    assert_memory_equal(got.rows.sink, all.rows.sink, 38 * 4);
    assert_memory_equal(got.rows.nonfinite, all.rows.nonfinite, 38 * 4);
    assert_sentinels(&got);
    free_rows(&all);
    free_rows(&got);
    free(att);
    free(q);
}

/**
 * es_entropy_probs does not change the arrays of those statistics that only
 * es_qk_statistics computes.
 */
static void
test_entropy_memory__weights_leave_score_statistics_unchanged(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 5, 5, 0, true);
    float *att = new_weights(&shape, 1, 63);
    row_buffers got = new_rows(5), untouched = new_rows(5);
    att[0] = NAN;
    run_probs(set, &got.rows, att, &shape, 1);
    assert_memory_equal(got.rows.lse, untouched.rows.lse, 5 * 4);
    assert_memory_equal(got.rows.max_logit, untouched.rows.max_logit, 5 * 4);
    free_rows(&untouched);
    free_rows(&got);
    free(att);
}

static void test_entropy_memory__threads_give_the_same_bits(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape cases[] = {SHAPE(2, 3, 50, 50, 90, true),
                                        SHAPE(1, 1, 2100, 2100, 4, true)};
    for (int c = 0; c < 2; c++) {
        const es_attention_shape *shape = &cases[c];
        size_t n = n_rows(shape), bytes = n * sizeof(float);
        float *q = new_normals(n * (size_t)shape->head_width, 1, 81);
        float *att = new_weights(shape, 1, 82);
        row_buffers one = new_rows(n), more = new_rows(n);
        for (int i = 0; i < 4; i++) {
            run_qk(set, &one.rows, q, q, NULL, shape, 1);
            run_qk(set, &more.rows, q, q, NULL, shape, (int[]){0, 2, 3, 7}[i]);
            assert_memory_equal(one.rows.entropy, more.rows.entropy, bytes);
            assert_memory_equal(one.rows.lse, more.rows.lse, bytes);
            assert_memory_equal(one.rows.sink, more.rows.sink, bytes);
            run_probs(set, &one.rows, att, shape, 1);
            run_probs(set, &more.rows, att, shape, (int[]){0, 2, 3, 7}[i]);
            assert_memory_equal(one.rows.entropy, more.rows.entropy, bytes);
        }
        free_rows(&more);
        free_rows(&one);
        free(att);
        free(q);
    }
}

/**
 * Kernels check the clock between groups of rows. If the deadline has passed
 * before they begin, they write no row.
 */
static void test_entropy_memory__a_late_part_ends_early(void **state)
{
    enum { ROWS = 90, WIDTH = 8 };
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape shape = SHAPE(1, 1, ROWS, ROWS, WIDTH, false);
    const es_entropy_keys keys = {.n = ROWS};
    float *numbers = new_normals((size_t)ROWS * WIDTH, 1, 91), entropy[ROWS];
    float *scratch = aligned_alloc(64, (es_qk_scratch(&shape) + 15) / 16 * 64);
    es_entropy_part part = {.rows.floats[ES_ROW_ENTROPY] = entropy,
                            .in.data = numbers,
                            .k.data = numbers,
                            .in_row = WIDTH,
                            .k_row = WIDTH,
                            .scale = 1,
                            .keys = &keys,
                            .n_queries = ROWS,
                            .width = WIDTH,
                            .end = ROWS,
                            .deadline = 1e-9};
    assert_non_null(scratch);
    for (int i = 0; i < ROWS; i++)
        entropy[i] = -7;
    set->qk(&part, scratch);
    for (int i = 0; i < ROWS; i++)
        assert_true(entropy[i] == -7);
    part.deadline = es_entropy_now() + 1e6;
    set->qk(&part, scratch);
    for (int i = 0; i < ROWS; i++)
        assert_true(entropy[i] > 0 && entropy[i] < log(ROWS) + 1e-6);
    free(scratch);
    free(numbers);
}

/**
 * Number of bytes that aligned_alloc has returned, which is the scratch memory
 * of the calls. Other allocations amount to only about a hundred bytes per
 * sequence and unit of work.
 */
static size_t n_allocated;

/* Replaces the C library's aligned_alloc and counts the bytes. */
void *aligned_alloc(size_t alignment, size_t size)
{
    void *block;
    n_allocated += size;
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static void
test_entropy_memory__two_threads_take_less_than_two_mebibytes(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const int widths[] = {64, 128, 512};
    for (int i = 0; i < 3; i++) {
        const es_attention_shape shape =
            SHAPE(1, 2, 70, 2000, widths[i], false);
        const size_t width = (size_t)widths[i];
        float *q = new_normals(140 * width, 1, 92);
        float *k = new_normals(4000 * width, 1, 93);
        row_buffers got = new_rows(140);
        n_allocated = 0;
        run_qk(set, &got.rows, q, k, NULL, &shape, 2);
        assert_true(n_allocated > (size_t)2 * 48 * (size_t)widths[i] * 4);
        assert_true(n_allocated < (size_t)2 << 20);
        free_rows(&got);
        free(k);
        free(q);
    }
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_memory__nothing_is_read_beyond_arrays),
        VARIANT_CASE(test_entropy_memory__outputs_may_be_null),
        VARIANT_CASE(
            test_entropy_memory__weights_leave_score_statistics_unchanged),
        VARIANT_CASE(test_entropy_memory__threads_give_the_same_bits),
        VARIANT_CASE(test_entropy_memory__a_late_part_ends_early),
        VARIANT_CASE(
            test_entropy_memory__two_threads_take_less_than_two_mebibytes),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
