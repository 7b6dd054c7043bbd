/* Writes fragment files for tests with es_writer, and parses them with the
   functions of esf.h. */
#include "tests/support/test.h"

#include "store/esf_out.h"
#include "tests/support/esf_files.h"

#include <string.h>

es_writer *es_esf_begin(const char *path, int64_t resume, int64_t *run)
{
    int64_t entropy;
    es_run_info info = es_run_of(ES_ESF_LAYERS, ES_ESF_PER_LAYER);
    info.uuid = ES_ESF_UUID;
    info.arch = "SM+LN+G";
    info.config = "{\"steps\":100}";
    es_writer *writer = es_open_writer(path);
    es_assert_ok(es_writer_begin(writer));
    es_assert_ok(es_writer_run(writer, run, &info, resume));
    es_assert_ok(es_writer_series(writer, &entropy, *run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL));
    assert_int_equal(entropy, 1);
    es_assert_ok(es_writer_commit(writer));
    return writer;
}

void es_esf_commit(es_writer *writer, int64_t from, int64_t to)
{
    es_assert_ok(es_writer_begin(writer));
    for (int64_t step = from; step < to; step++)
        es_assert_ok(es_write_values(writer, 1, step, ES_ESF_CELLS));
    es_assert_ok(es_writer_commit(writer));
}

void es_esf_write(const char *path, int n_commits)
{
    int64_t run;
    es_writer *writer = es_esf_begin(path, 0, &run);
    for (int i = 0; i < n_commits; i++)
        es_esf_commit(writer, 2 * i, 2 * i + 2);
    es_assert_ok(es_writer_end_run(writer, run, ES_RUN_FINISHED));
    es_assert_ok(es_writer_close(writer));
}

static bool is_missing(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(values[i]))
            return false;
    return true;
}

int64_t es_esf_check(es_reader *reader, bool may_miss, int64_t *gap)
{
    es_series series;
    const float *values;
    int64_t step, n = 0;
    es_status status;
    *gap = 0;
    if (es_reader_find(reader, 0, "entropy", ES_PHASE_TRAIN, &series) != ES_OK)
        return 0;
    AUTO(es_cursor) cursor = es_open_cursor(reader, &series);
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        if (!may_miss || !is_missing(values, series.n_values))
            es_assert_values(values, 1, step, series.n_values);
        *gap += step == *gap;
        n++;
    }
    assert_int_equal(status, ES_DONE);
    return n;
}

int64_t es_esf_check_file(const char *path, bool may_miss, int64_t *gap)
{
    es_reader *reader = NULL;
    if (es_reader_open(&reader, path) < 0)
        return -1;
    int64_t n = es_esf_check(reader, may_miss, gap);
    es_reader_close(reader);
    return n;
}

size_t es_esf_find(es_esf_frame *frame, uint32_t *seed,
                   const unsigned char *bytes, size_t n, int i)
{
    bool newer;
    size_t place = ES_ESF_HEADER_BYTES;
    assert_true(n >= place && es_esf_header_read(seed, &newer, bytes));
    for (;; i--) {
        assert_true(place + ES_ESF_FRAME_BYTES <= n);
        assert_true(es_esf_frame_read(frame, bytes + place, *seed));
        if (i == 0)
            return place;
        place += ES_ESF_FRAME_BYTES + frame->bytes;
    }
}

void es_esf_seal(unsigned char *bytes, size_t place, es_esf_frame *frame,
                 uint32_t seed)
{
    frame->crc =
        es_esf_checksum(seed, bytes + place + ES_ESF_FRAME_BYTES, frame->bytes);
    es_esf_frame_write(bytes + place, frame, seed);
}

void es_esf_clock_after(const unsigned char *bytes, size_t n, int64_t ms)
{
    es_esf_frame frame;
    uint32_t seed;
    es_esf_find(&frame, &seed, bytes, n, 0);
    es_esf_shift_clock(0);
    es_esf_shift_clock(frame.time + ms - es_esf_clock());
}

void es_esf_move_abroad(const char *path)
{
    char boot[ES_UUID_SIZE];
    es_esf_frame frame;
    uint32_t seed;
    size_t n;
    unsigned char *bytes = es_file_read(path, &n);
    size_t place = es_esf_find(&frame, &seed, bytes, n, 0);
    es_esf_boot(boot);
    unsigned char *found =
        memmem(bytes + place, frame.bytes, boot, ES_UUID_SIZE - 1);
    assert_non_null(found);
    found[0] = found[0] == 'f' ? 'e' : 'f';
    es_esf_seal(bytes, place, &frame, seed);
    es_file_write(path, bytes, n);
    free(bytes);
}
