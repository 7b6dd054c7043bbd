/* Fuzzes damaged run files: reads them with all functions of store/reader.h. If
 * no checksum was recomputed, every sample that is read must equal a sample
 * that was written. */
#include "analyzer/base/value.h"
#include "store/reader.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/reading.h"

#include <math.h>

static bool is_written(const float *values, int64_t step, size_t n)
{
    bool missing = true, same = true;
    for (size_t i = 0; i < n; i++) {
        const float wanted = fuzz_run_value(step, i, n);
        missing &= es_is_missing(values[i]);
        same &= values[i] == wanted || (isnan(values[i]) && isnan(wanted));
    }
    return missing || same;
}

static void check_values(es_reader *reader, size_t run, size_t index)
{
    es_series series;
    es_cursor *cursor = NULL;
    const float *values;
    int64_t step;
    if (es_reader_series(reader, run, index, &series) != ES_OK ||
        es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST, ES_STEP_LAST) !=
            ES_OK)
        return;
    while (es_cursor_next(cursor, &step, &values) == ES_OK)
        fuzz_require(is_written(values, step, series.n_values));
    es_cursor_close(cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_reader *reader = NULL;
    bool sealed;
    if (!fuzz_succeeded(
            es_reader_open(&reader, fuzz_damaged_run(bytes, n, &sealed)))) {
        fuzz_require(!reader);
        return 0;
    }
    fuzz_read_all(reader);
    if (!sealed && es_reader_has_checksums(reader))
        for (size_t run = 0; run < es_reader_n_runs(reader); run++)
            for (size_t i = 0; i < es_reader_n_series(reader, run); i++)
                check_values(reader, run, i);
    fuzz_succeeded(es_reader_refresh(reader));
    es_reader_close(reader);
    return 0;
}
