/* Damaged run files, read by all of store/reader.h. */
#include "store/reader.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_reader *reader = NULL;
    if (!fuzz_succeeded(es_reader_open(&reader, fuzz_damaged_run(bytes, n)))) {
        fuzz_require(!reader);
        return 0;
    }
    fuzz_read_all(reader);
    fuzz_succeeded(es_reader_refresh(reader));
    es_reader_close(reader);
    return 0;
}
