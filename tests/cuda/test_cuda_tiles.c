/* Checks the layout of the attention tiles for all tile sizes and many context
 * lengths. Needs no device. */
#include "hooks/trainer/cuda/attention_tiles.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 300 };

static const int sizes[] = {16, 32, 64, 128};
static const int contexts[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 200};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const es_tile_owner owners[] = {ES_OWN_QUERIES, ES_OWN_KEYS};

/* --- blocks --------------------------------------------------------------- */

/* Checks that every row of every head belongs to exactly one thread block, and
 * that the blocks with the most work come first. */
static void test_cuda_tiles__blocks_have_all_rows(void **state)
{
    (void)state;
    for (size_t o = 0; o < 2; o++)
        for (size_t n = 0; n < COUNT(contexts); n++)
            for (size_t i = 0; i < COUNT(sizes); i++) {
                const int tiles = es_tile_count(contexts[n], sizes[i]);
                int seen[3][MOST] = {{0}}, longest = 1 << 30;
                for (unsigned block = 0; block < (unsigned)(3 * tiles);
                     block++) {
                    es_tile_place place = es_tile_place_of(block, contexts[n],
                                                           sizes[i], owners[o]);
                    int length = owners[o] == ES_OWN_QUERIES
                                     ? place.first
                                     : contexts[n] - place.first;
                    assert_true(place.first % sizes[i] == 0);
                    assert_int_equal(place.head, block / (unsigned)tiles);
                    assert_true(block % (unsigned)tiles == 0 ||
                                length <= longest);
                    longest = length;
                    for (int r = place.first; r < place.first + sizes[i]; r++)
                        if (r < contexts[n])
                            seen[place.head][r]++;
                }
                for (int head = 0; head < 3; head++)
                    for (int r = 0; r < contexts[n]; r++)
                        assert_int_equal(seen[head][r], 1);
            }
}

/* Checks the range of positions that a thread block visits. The range must
 * contain every position that the block's rows can see; it is divided into
 * complete tiles, and each tile must contain at least one such position. */
static void check_others(int n_ctx, int n_own, int n_other, es_tile_owner owner)
{
    for (int first = 0; first < n_ctx; first += n_own) {
        es_tile_range range =
            es_tile_others(first, n_own, n_other, n_ctx, owner);
        assert_true(range.begin % n_other == 0);
        assert_true(range.begin >= 0 && range.end <= n_ctx);
        for (int own = first; own < first + n_own && own < n_ctx; own++)
            for (int other = 0; other < n_ctx; other++)
                if (es_tile_visible(own, other, owner))
                    assert_true(other >= range.begin && other < range.end);
        for (int tile = range.begin; tile < range.end; tile += n_other)
            assert_true(es_tile_mask_of(first, n_own, tile, n_other, owner) !=
                        ES_TILE_NONE);
    }
}

static void test_cuda_tiles__blocks_visit_only_visible_rows(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(contexts); n++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t j = 0; j < COUNT(sizes); j++)
                for (size_t o = 0; o < 2; o++)
                    check_others(contexts[n], sizes[i], sizes[j], owners[o]);
}

/* Checks that query i sees key j exactly if j <= i, both for thread blocks that
 * process a range of queries and for those that process a range of keys. */
static void test_cuda_tiles__masks(void **state)
{
    (void)state;
    assert_true(es_tile_visible(5, 5, ES_OWN_QUERIES));
    assert_true(es_tile_visible(5, 4, ES_OWN_QUERIES));
    assert_false(es_tile_visible(5, 6, ES_OWN_QUERIES));
    assert_true(es_tile_visible(5, 6, ES_OWN_KEYS));
    assert_false(es_tile_visible(5, 4, ES_OWN_KEYS));
    for (size_t o = 0; o < 2; o++)
        for (int own = 0; own < 12; own++)
            for (int other = 0; other < 12; other++)
                for (int n = 1; n <= 4; n++) {
                    int n_seen = 0;
                    for (int i = 0; i < n; i++)
                        for (int j = 0; j < 3; j++)
                            n_seen +=
                                es_tile_visible(own + i, other + j, owners[o]);
                    assert_int_equal(
                        es_tile_mask_of(own, n, other, 3, owners[o]),
                        n_seen == 0       ? ES_TILE_NONE
                        : n_seen == 3 * n ? ES_TILE_ALL
                                          : ES_TILE_SOME);
                }
}

/* --- shared memory -------------------------------------------------------- */

/* Checks that each chunk is stored at a separate index, and that chunks which
 * are accessed together do not conflict in shared memory: the same chunk of
 * eight rows, and eight consecutive chunks of one or two rows, must be in eight
 * different groups of four banks. */
static void check_chunks(int n_chunks)
{
    int seen[64 * 16] = {0};
    for (int row = 0; row < 64; row++)
        for (int chunk = 0; chunk < n_chunks; chunk++)
            seen[es_tile_chunk(row, chunk, n_chunks)]++;
    for (int i = 0; i < 64 * n_chunks; i++)
        assert_int_equal(seen[i], 1);
    for (int row = 0; row < 64; row += 8)
        for (int chunk = 0; chunk < n_chunks; chunk++) {
            unsigned banks = 0;
            for (int i = 0; i < 8; i++)
                banks |= 1u << es_tile_chunk(row + i, chunk, n_chunks) % 8;
            assert_int_equal(banks, 0xff);
        }
    for (int row = 0; row < 64; row++) {
        unsigned banks = 0;
        for (int i = 0; i < 8; i++)
            banks |= 1u << es_tile_chunk(row + i / n_chunks, i % n_chunks,
                                         n_chunks) %
                               8;
        if (n_chunks >= 8 || row % 2 == 0)
            assert_int_equal(banks, 0xff);
    }
}

static void test_cuda_tiles__chunks(void **state)
{
    (void)state;
    check_chunks(4);
    check_chunks(8);
    check_chunks(16);
}

static void test_cuda_tiles__lanes_find_their_chunks(void **state)
{
    (void)state;
    for (int n_chunks = 4; n_chunks <= 16; n_chunks *= 2)
        for (int row = 0; row < 48; row += 8)
            for (int chunk = 0; chunk < n_chunks; chunk += 2)
                for (int lane = 0; lane < 32; lane++) {
                    const int r = lane % 16, c = lane / 16;
                    const unsigned at = es_tile_spot_bytes(r, c, n_chunks);
                    assert_int_equal(
                        es_tile_move(4096 + at, row, chunk, n_chunks),
                        4096 +
                            es_tile_spot_bytes(row + r, chunk + c, n_chunks));
                }
}

/* --- fragments ------------------------------------------------------------ */

/* ldmatrix x4 loads 16-bit elements of a tile into registers, two elements per
 * register. Writes the row and column of element i that lane `lane` receives.
 * According to the PTX manual, lane l passes the address of row l % 8 of matrix
 * l / 8. */
static void named(int *row, int *column, es_tile_spot spot(int), int lane,
                  int i, bool turned)
{
    const int matrix = i / 2;
    const int r = turned ? lane % 4 * 2 + i % 2 : lane / 4;
    const int c = turned ? lane / 4 : lane % 4 * 2 + i % 2;
    const es_tile_spot from = spot(matrix * 8 + r);
    *row = from.row;
    *column = from.chunk * 8 + c;
}

static es_tile_spot left_spot(int lane)
{
    return es_tile_left_spot(lane);
}
static es_tile_spot right_spot(int lane)
{
    return es_tile_right_spot(lane);
}

/* Return where element i of a lane lies in an operand of the instruction mma,
 * according to the PTX manual: its row and column in the left operand (16,16),
 * and its row in the right operand (16,8). */
static int left_row(int lane, int i)
{
    return lane / 4 + i / 2 % 2 * 8;
}
static int left_column(int lane, int i)
{
    return lane % 4 * 2 + i % 2 + i / 4 * 8;
}
static int right_row(int lane, int i)
{
    return lane % 4 * 2 + i % 2 + i / 2 * 8;
}

static void test_cuda_tiles__operands(void **state)
{
    int row, column;
    (void)state;
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            /* 1 if element i belongs to the second of the two right operands */
            const int second = i / 4;
            named(&row, &column, left_spot, lane, i, false);
            assert_int_equal(row, left_row(lane, i));
            assert_int_equal(column, left_column(lane, i));
            named(&row, &column, right_spot, lane, i, false);
            assert_int_equal(row, lane / 4 + 8 * second);
            assert_int_equal(column, right_row(lane, i % 4));
            named(&row, &column, left_spot, lane, i, true);
            assert_int_equal(row, right_row(lane, i % 4));
            assert_int_equal(column, lane / 4 + 8 * second);
        }
}

/* Checks that the sums of two adjacent products (16,8) are in the registers in
 * which the next product expects its left operand (16,16). */
static void test_cuda_tiles__sums_become_an_operand(void **state)
{
    (void)state;
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            assert_int_equal(left_row(lane, i), es_tile_sum_row(lane, i % 4));
            assert_int_equal(left_column(lane, i),
                             8 * (i / 4) + es_tile_sum_column(lane, i % 4));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_tiles__blocks_have_all_rows),
        cmocka_unit_test(test_cuda_tiles__blocks_visit_only_visible_rows),
        cmocka_unit_test(test_cuda_tiles__masks),
        cmocka_unit_test(test_cuda_tiles__chunks),
        cmocka_unit_test(test_cuda_tiles__lanes_find_their_chunks),
        cmocka_unit_test(test_cuda_tiles__operands),
        cmocka_unit_test(test_cuda_tiles__sums_become_an_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
