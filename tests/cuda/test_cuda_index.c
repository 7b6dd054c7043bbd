/* Tests how the kernels of the CUDA back-end assign work to threads. Needs no
 * device. */
#include "hooks/trainer/cuda/index.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/reference_ops.h"

#include <stdlib.h>

static uint64_t seed = 9;

static void test_cuda_index__row_stride(void **state)
{
    (void)state;
    for (int width = 1; width < 1000; width++) {
        const int stride = es_row_stride(width);
        assert_int_equal(stride % 64, 0);
        assert_in_range(stride, width, width + 63);
    }
    assert_int_equal(es_row_stride(50257), 50304);
}

/* --- packs ---------------------------------------------------------------- */

/* Checks es_split_at, which splits an array into aligned packs and single
 * elements: every element must belong to exactly one part, and the packs must
 * be aligned. */
static void check_split(uintptr_t address, size_t size, size_t n)
{
    const size_t lanes = ES_PACK / size;
    const es_split split = es_split_at(address, size, n);
    unsigned char *seen = calloc(n + 1, 1);
    assert_non_null(seen);
    assert_int_equal(split.head + split.n_packs * lanes + split.tail, n);
    for (size_t i = 0; i < split.head + split.tail; i++)
        seen[es_split_single(&split, i, lanes)]++;
    for (size_t i = 0; i < split.n_packs; i++) {
        const size_t at = split.head + i * lanes;
        assert_int_equal((address + at * size) % ES_PACK, 0);
        for (size_t c = 0; c < lanes; c++)
            seen[at + c]++;
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(seen[n], 0);
    free(seen);
}

static void test_cuda_index__split(void **state)
{
    (void)state;
    for (size_t size = 2; size <= 4; size *= 2)
        for (uintptr_t address = 64; address < 96; address++)
            for (size_t n = 0; n < 40; n++)
                check_split(address, size, n);
    /* in a long array, most elements must be in packs */
    assert_int_equal(es_split_at(2, 2, 50257).n_packs, 6281);
    assert_int_equal(es_split_at(1, 2, 50257).n_packs, 0);
}

/* --- a warp's columns ----------------------------------------------------- */

static void check_slots(int width, int lanes)
{
    const int n = es_n_slots(width, lanes);
    unsigned char *seen = calloc((size_t)n, 1);
    assert_non_null(seen);
    assert_in_range(n, width, width + 32 * lanes - 1);
    for (int lane = 0; lane < 32; lane++)
        for (int k = 0, j = lane * lanes; j < width; k++, j += 32 * lanes)
            for (int c = 0; c < lanes && j + c < width; c++) {
                const int slot = es_slot(lane, k, c, lanes);
                assert_int_equal(slot, es_slot_of_column(j + c, lanes));
                /* each lane uses a separate bank of shared memory */
                assert_int_equal(slot % 32, lane);
                assert_true(slot < n);
                seen[slot]++;
            }
    for (int j = 0; j < width; j++)
        assert_int_equal(seen[es_slot_of_column(j, lanes)], 1);
    free(seen);
}

static void test_cuda_index__slots(void **state)
{
    (void)state;
    const int widths[] = {1, 3, 31, 32, 33, 257, 768, 1024, 1032};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_slots(widths[i], 1);
        check_slots(widths[i] / 4 * 4 + 4, 4);
        check_slots(widths[i] / 8 * 8 + 8, 8);
    }
}

/* --- the order of tokens -------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Draws random keys of n rows. With a small vocabulary many rows have the same
 * token. The largest possible token is among them. */
static uint64_t *draw_keys(int n, int vocab)
{
    uint64_t *keys = malloc((size_t)n * sizeof *keys);
    assert_non_null(keys);
    for (int i = 0; i < n; i++) {
        int32_t token = (int32_t)((es_test_random(&seed) + 1) / 2 * vocab);
        keys[i] = es_sort_key(i % 50 == 49 ? INT32_MAX : token, i);
        assert_int_equal(es_key_row(keys[i]), i);
        assert_true(keys[i] < ES_SORT_PAD);
    }
    return keys;
}

/* Sorts a tile as the sorting kernel does, but runs its threads one after
 * another. */
static void sort_tile(uint64_t *keys)
{
    for (int run = 2; run <= ES_SORT_TILE; run *= 2)
        for (int stride = run / 2; stride > 0; stride /= 2)
            for (int i = 0; i < ES_SORT_TILE / 2; i++) {
                const int first = es_sort_first(i, stride);
                uint64_t *a = &keys[first], *b = &keys[first + stride];
                const uint64_t low = *a < *b ? *a : *b, high = *a ^ *b ^ low;
                *a = es_sort_ascends(first, run) ? low : high;
                *b = es_sort_ascends(first, run) ? high : low;
            }
}

static void test_cuda_index__sorted_tile(void **state)
{
    (void)state;
    const int vocabs[] = {1, 7, 50257};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
        uint64_t *keys = draw_keys(ES_SORT_TILE, vocabs[i]);
        uint64_t want[ES_SORT_TILE];
        memcpy(want, keys, sizeof want);
        qsort(want, ES_SORT_TILE, sizeof *want, compare);
        sort_tile(keys);
        assert_memory_equal(keys, want, sizeof want);
        free(keys);
    }
}

static void test_cuda_index__count_smaller(void **state)
{
    (void)state;
    const uint64_t sorted[] = {2, 4, 4, 9};
    for (uint64_t key = 0; key < 12; key++) {
        int want = 0;
        for (int i = 0; i < 4; i++)
            want += sorted[i] < key;
        assert_int_equal(es_count_smaller(sorted, 4, key), want);
        assert_int_equal(es_count_smaller(sorted, 0, key), 0);
    }
}

/* Rows with the same token form a run, which may extend over several chunks.
 * Checks es_carries_of, which returns the later chunks into which a run
 * continues. A chunk that begins within a run must be in the result for the
 * chunk in which the run begins, and in no other result. */
static void check_carries(int n, int vocab)
{
    const int n_chunks = (int)es_ceil_div((size_t)n, ES_SUM_CHUNK);
    uint64_t *order = draw_keys(n, vocab);
    int *owner = malloc((size_t)n_chunks * sizeof *owner);
    assert_non_null(owner);
    qsort(order, (size_t)n, sizeof *order, compare);
    for (int i = 0; i < n_chunks; i++)
        owner[i] = -1;
    for (int i = 0; i < n_chunks; i++) {
        const es_carries carries = es_carries_of(order, n, i);
        for (int k = 0; k < carries.n; k++) {
            assert_true(carries.first + k < n_chunks);
            assert_int_equal(owner[carries.first + k], -1);
            owner[carries.first + k] = i;
        }
    }
    for (int i = 0; i < n_chunks; i++) {
        int first = i * ES_SUM_CHUNK, begin = first;
        while (begin > 0 &&
               es_key_token(order[begin - 1]) == es_key_token(order[first]))
            begin--;
        assert_int_equal(owner[i], begin < first ? begin / ES_SUM_CHUNK : -1);
    }
    free(order), free(owner);
}

static void test_cuda_index__carries(void **state)
{
    (void)state;
    for (int n = 1; n < 200; n++)
        for (int vocab = 1; vocab < 30; vocab += 4)
            check_carries(n, vocab);
    check_carries(5000, 50257);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_index__row_stride),
        cmocka_unit_test(test_cuda_index__split),
        cmocka_unit_test(test_cuda_index__slots),
        cmocka_unit_test(test_cuda_index__sorted_tile),
        cmocka_unit_test(test_cuda_index__count_smaller),
        cmocka_unit_test(test_cuda_index__carries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
