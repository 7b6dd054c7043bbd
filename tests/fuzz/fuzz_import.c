/* Fuzzes the import of text files from other programs: cli/exchange/import.h.
 */
#include "cli/exchange/import.h"
#include "cli/exchange/import_open.h"
#include "store/crc32c.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define SERIES 64 /* number of series whose shapes are recorded */

/* The data that the sink has received from the parser, used to check that the
 * parser does what import.h promises. */
typedef struct received {
    int begun;
    int64_t n_layer, n_head, step;
    size_t n_series, n_samples, n_again;
    size_t n_values[SERIES];
    double sum; /* sum of all values, computed so that every value is read */
} received;

static es_status begin(void *user, const es_run_info *info,
                       const es_text_series *series, size_t n_series)
{
    received *t = user;
    fuzz_require(!t->begun++);
    fuzz_require(info->n_layer >= 1 && info->n_layer <= ES_MAX_LAYERS);
    fuzz_require(info->n_head >= 1 && info->n_head <= ES_MAX_HEADS);
    fuzz_require(info->n_layer * info->n_head <= ES_MAX_VALUES);
    fuzz_require(n_series >= 1 && n_series <= ES_MAX_TEXT_SERIES);
    t->n_series = n_series;
    t->step = -1;
    for (size_t i = 0; i < n_series; i++) {
        fuzz_require(series[i].name && series[i].name[0]);
        fuzz_require(series[i].phase <= ES_PHASE_EVAL);
        if (i < SERIES)
            t->n_values[i] =
                es_shape_values(series[i].shape, info->n_layer, info->n_head);
    }
    return ES_OK;
}

static es_status sample(void *user, size_t series, int64_t step,
                        const float *values, size_t n)
{
    received *t = user;
    fuzz_require(t->begun && series < t->n_series);
    fuzz_require(step >= t->step && step <= ES_MAX_STEP);
    fuzz_require(series >= SERIES || n == t->n_values[series]);
    for (size_t i = 0; i < n; i++)
        t->sum += (double)values[i];
    t->step = step;
    t->n_samples++;
    return ES_OK;
}

static es_status again(void *user, int64_t step)
{
    received *t = user;
    fuzz_require(t->begun && step >= 0 && step <= t->step);
    t->step = step;
    t->n_again++;
    return ES_OK;
}

static void parse(es_line_reader *lines, es_import_format format,
                  const es_import_options *options)
{
    received t = {0};
    es_import_report report;
    const es_import_sink sink = {&t, begin, sample, again, NULL};
    if (fuzz_succeeded(
            es_import_parse(&report, lines, format, options, &sink))) {
        fuzz_require(t.begun);
        fuzz_require(report.n_samples == t.n_samples);
        /* Histories and event files are sorted before they are passed to the
           sink. */
        fuzz_require(t.n_again ==
                     (format < ES_IMPORT_HISTORY ? report.n_again : 0));
    }
}

/* Splits the bytes into records with correct checksums, so that the parser
 * reads their contents. The byte before each record gives its size. */
static size_t frame(uint8_t *out, size_t most, const uint8_t *bytes, size_t n)
{
    size_t total = 0;
    while (n > 0 && total + 16 + 256 < most) {
        size_t size = bytes[0] < n - 1 ? bytes[0] : n - 1;
        uint64_t length = size;
        uint32_t crc = es_crc32c(0, &length, 8);
        crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
        memcpy(out + total, &length, 8);
        memcpy(out + total + 8, &crc, 4);
        memcpy(out + total + 12, bytes + 1, size);
        crc = es_crc32c(0, bytes + 1, size);
        crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
        memcpy(out + total + 12 + size, &crc, 4);
        total += 16 + size;
        bytes += 1 + size;
        n -= 1 + size;
    }
    return total;
}

/* The first byte selects the format (or automatic detection) and the options;
 * the remaining bytes are the text to import. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_line_reader *lines;
    if (n < 2)
        return 0;
    uint8_t how = bytes[0];
    static uint8_t framed[1 << 16];
    /* Formats, indexed by the first byte modulo 8; -1 stands for automatic
     * detection. With index 6, names are parsed with a pattern (--tags); with
     * index 7, the records of the input get correct checksums. */
    static const int formats[8] = {ES_IMPORT_MATRIX,  ES_IMPORT_LONG,
                                   ES_IMPORT_LOG,     -1,
                                   ES_IMPORT_HISTORY, ES_IMPORT_EVENTS,
                                   ES_IMPORT_HISTORY, ES_IMPORT_EVENTS};
    bool guess = formats[how % 8] < 0, frames = how % 8 == 7;
    es_import_format format =
        guess ? ES_IMPORT_MATRIX : (es_import_format)formats[how % 8];
    size_t n_framed =
        frames ? frame(framed, sizeof framed, bytes + 1, n - 1) : n - 1;
    FILE *stream = fmemopen(frames ? framed : (void *)(uintptr_t)(bytes + 1),
                            n_framed, "rb");
    fuzz_require(stream);
    if (!fuzz_succeeded(es_line_reader_new(&lines, stream, "input")))
        return 0;
    es_about about;
    es_about_init(&about);
    es_import_options options = {.given = &about.info,
                                 .series = how & 16 ? "x" : "entropy",
                                 .phase =
                                     how & 32 ? ES_PHASE_EVAL : ES_PHASE_TRAIN,
                                 .step = how & 64 ? 7 : 0};
    if (how & 128)
        about.info.n_layer = 3;
    if (how % 8 == 6)
        options.tags = "{series}{layer}.{head}";
    es_status status = ES_OK;
    bool is_document;
    if (guess)
        status = es_import_unpack(&is_document, &lines);
    if (guess && status == ES_OK)
        status = es_import_detect(&format, lines, &options);
    if (fuzz_succeeded(status))
        parse(lines, format, &options);
    es_about_free(&about);
    es_line_reader_close(lines);
    return 0;
}
