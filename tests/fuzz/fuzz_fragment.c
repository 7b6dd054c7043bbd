/* Fuzzes damaged fragments: reads them with all functions of store/reader.h,
 * and continues them with store/writer.h. Frames are changed, omitted,
 * duplicated, reordered and truncated, with correct or wrong checksums; if no
 * checksum was recomputed, every sample that is read must equal a sample that
 * was written. */
#include "store/esf.h"
#include "store/esf_record.h"
#include "store/map.h"
#include "store/writer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reading.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, HEADS = 2, STEPS = 6, MOST = 1 << 16, FRAMES_MOST = 64 };

static unsigned char sound[MOST], damaged[2 * MOST];
/* length of the undamaged fragment; offsets of its frames and of its end */
static size_t n_sound, places[FRAMES_MOST + 1];
static int n_frames;
static uint32_t seed;
static char path[4096];

/* --- the sound fragment ---------------------------------------------------*/

static float value_of(int64_t step, size_t i)
{
    return (float)(1 + step) + (float)i / 16;
}

static void write_step(es_writer *writer, int64_t series, int64_t step)
{
    float values[LAYERS * HEADS];
    for (size_t i = 0; i < LAYERS * HEADS; i++)
        values[i] = value_of(step, i);
    fuzz_require(es_writer_sample(writer, series, step, values,
                                  LAYERS * HEADS) == ES_OK);
}

static void write_attempt(const char *uuid, int64_t from)
{
    es_writer *writer = NULL;
    int64_t run, series;
    const es_run_info info = {.uuid = uuid,
                              .name = "fuzz",
                              .n_layer = LAYERS,
                              .n_head = HEADS,
                              .ctx = 16,
                              .config = "{\"steps\":60}"};
    const es_event event = {.step = 1, .kind = "nan", .dedupe = "nan"};
    const es_map map = {.step = 2, .size = 2, .n_ctx = 8};
    static const float cells[4] = {1, 0, 0.5F, 0.5F};
    fuzz_require(es_writer_open(&writer, path, ES_FAST) == ES_OK);
    fuzz_require(es_writer_run(writer, &run, &info, from) == ES_OK);
    fuzz_require(es_writer_series(writer, &series, run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN,
                                  NULL) == ES_OK);
    for (int64_t step = from; step < from + STEPS; step++)
        write_step(writer, series, step);
    fuzz_require(es_writer_event(writer, run, &event) == ES_OK);
    fuzz_require(es_writer_map(writer, run, &map, cells) == ES_OK);
    fuzz_require(es_writer_end_run(writer, run, ES_RUN_FINISHED) == ES_OK);
    fuzz_require(es_writer_close(writer) == ES_OK);
}

static void make_sound(void)
{
    static const char first[] = "00000000-0000-4000-8000-000000000001";
    bool newer;
    es_esf_frame frame;
    snprintf(path, sizeof path, "%s.esf", fuzz_file("", 0));
    unlink(path);
    write_attempt(first, 0);
    write_attempt(first, 3);
    write_attempt("00000000-0000-4000-8000-000000000002", 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, sound, MOST);
    close(fd);
    fuzz_require(n > 0 && n < MOST);
    n_sound = (size_t)n;
    fuzz_require(es_esf_header_read(&seed, &newer, sound));
    for (size_t at = ES_ESF_HEADER_BYTES; at < n_sound;) {
        fuzz_require(n_frames < FRAMES_MOST &&
                     es_esf_frame_read(&frame, sound + at, seed));
        places[n_frames++] = at;
        at += ES_ESF_FRAME_BYTES + frame.bytes;
    }
    places[n_frames] = n_sound;
}

/* --- damage ---------------------------------------------------------------*/

/** Marks the run and series records in a payload as repeated records. */
static void say_again(unsigned char *payload, size_t n)
{
    for (size_t at = 0; at + ES_ESF_RECORD_BYTES <= n;) {
        uint32_t words[2];
        memcpy(words, payload + at, sizeof words);
        if (words[0] == ES_ESF_RUN)
            words[0] = ES_ESF_RUN_AGAIN;
        else if (words[0] == ES_ESF_SERIES)
            words[0] = ES_ESF_SERIES_AGAIN;
        memcpy(payload + at, words, sizeof words);
        at += ES_ESF_RECORD_BYTES + ((size_t)words[1] + 7) / 8 * 8;
    }
}

/**
 * Appends frame i with a changed payload or header and recomputed checksums.
 * Returns the new length.
 */
static size_t add_changed(size_t n, fuzz_input *input, int i)
{
    es_esf_frame frame;
    unsigned char *at = damaged + n;
    const size_t size = places[i + 1] - places[i];
    memcpy(at, sound + places[i], size);
    fuzz_require(es_esf_frame_read(&frame, at, seed));
    for (int k = fuzz_byte(input) % 6; k > 0 && frame.bytes; k--) {
        size_t place = (size_t)fuzz_number(input) % frame.bytes;
        at[ES_ESF_FRAME_BYTES + place] = fuzz_byte(input);
    }
    switch (fuzz_byte(input) % 8) {
    case 0:
        frame.sequence = fuzz_number(input);
        break;
    case 1:
        frame.attempt = (uint32_t)fuzz_number(input);
        break;
    case 2:
        frame.run = (uint32_t)fuzz_number(input);
        break;
    case 3:
        frame.resume = (int64_t)fuzz_number(input);
        break;
    case 4:
        say_again(at + ES_ESF_FRAME_BYTES, frame.bytes);
        break;
    default:
        break;
    }
    frame.crc = es_esf_checksum(seed, at + ES_ESF_FRAME_BYTES, frame.bytes);
    es_esf_frame_write(at, &frame, seed);
    return n + size;
}

/**
 * Builds the damaged fragment. Sets *honest to true if no checksum was
 * recomputed, so that the reader can detect the damage.
 */
static size_t damage(fuzz_input *input, bool *honest)
{
    size_t n = ES_ESF_HEADER_BYTES;
    memcpy(damaged, sound, n);
    *honest = true;
    for (int i = 0; i < n_frames && n < MOST; i++) {
        const size_t size = places[i + 1] - places[i];
        const uint8_t fate = fuzz_byte(input) % 16;
        if (fate == 1) {
            n = add_changed(n, input, i);
            *honest = false;
        } else if (fate != 2) {
            int from = fate == 3 ? fuzz_byte(input) % n_frames : i;
            size_t most = places[from + 1] - places[from];
            memcpy(damaged + n, sound + places[from], most);
            if (fate == 4)
                damaged[n + (size_t)fuzz_number(input) % size] ^=
                    (uint8_t)(1 | fuzz_byte(input));
            n += fate == 5 ? (size_t)fuzz_number(input) % most : most;
        }
    }
    return n;
}

static void write_damaged(size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(write(fd, damaged, n) == (ssize_t)n);
    close(fd);
}

/* --- reading --------------------------------------------------------------*/

static void check_values(es_reader *reader)
{
    for (size_t run = 0; run < es_reader_n_runs(reader); run++) {
        es_series series;
        es_cursor *cursor = NULL;
        const float *values;
        int64_t step;
        if (es_reader_find(reader, run, "entropy", ES_PHASE_TRAIN, &series) !=
                ES_OK ||
            es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST,
                           ES_STEP_LAST) != ES_OK)
            continue;
        while (es_cursor_next(cursor, &step, &values) == ES_OK)
            for (size_t i = 0; i < series.n_values; i++)
                fuzz_require(values[i] == value_of(step, i));
        es_cursor_close(cursor);
    }
}

static void go_on(void)
{
    es_writer *writer = NULL;
    if (!fuzz_succeeded(es_writer_open(&writer, path, ES_FAST)))
        return;
    int64_t run;
    const es_run_info info = {.uuid = "00000000-0000-4000-8000-000000000001",
                              .n_layer = LAYERS,
                              .n_head = HEADS};
    fuzz_succeeded(es_writer_run(writer, &run, &info, 2));
    fuzz_succeeded(es_writer_close(writer));
}

static void read_file(bool honest)
{
    es_reader *reader = NULL;
    if (!fuzz_succeeded(es_reader_open(&reader, path))) {
        fuzz_require(!reader);
        return;
    }
    fuzz_read_all(reader);
    if (honest)
        check_values(reader);
    es_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_input input = {bytes, n};
    bool honest;
    if (!n_sound)
        make_sound();
    es_esf_shift_clock(fuzz_byte(&input) & 1 ? ES_ESF_SETTLED_MS + 1000 : 0);
    const uint8_t more = fuzz_byte(&input);
    write_damaged(damage(&input, &honest));
    read_file(honest);
    if (more & 1) {
        go_on();
        read_file(honest);
    }
    unlink(path);
    return 0;
}
