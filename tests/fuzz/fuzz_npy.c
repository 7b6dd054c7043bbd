/* Fuzzes the reader of NumPy arrays, hooks/trainer/files/npy.h. */
#include "hooks/trainer/files/npy.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* Builds a file. Most inputs get a correct header length, so that the code
 * after the header is reached. The first byte decides whether the length is
 * correct. */
static size_t build(uint8_t *file, const uint8_t *bytes, size_t n)
{
    fuzz_input input = {bytes, n};
    uint8_t how = fuzz_byte(&input);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    if (how & 1)
        file[6] = fuzz_byte(&input);
    const uint8_t *line = memchr(input.at, '\n', input.left);
    size_t header = line ? (size_t)(line - input.at) + 1 : input.left;
    size_t prefix = file[6] == 2 ? 12 : 10;
    memset(file + 8, 0, 4);
    file[8] = (uint8_t)header;
    file[9] = (uint8_t)(header >> 8);
    if (how & 2)
        file[8 + how % 4] = fuzz_byte(&input);
    memcpy(file + prefix, input.at, input.left);
    return prefix + input.left;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static uint8_t file[8192];
    es_npy npy = {0};
    double sum = 0;
    if (n + 16 > sizeof file)
        return 0;
    size_t size = n > 0 && bytes[0] & 128 ? n : build(file, bytes, n);
    const char *path = fuzz_file(n > 0 && bytes[0] & 128 ? bytes : file, size);
    if (fuzz_succeeded(es_npy_read(&npy, path))) {
        size_t product = 1;
        for (int i = 0; i < npy.n_dims; i++)
            product *= npy.dims[i];
        fuzz_require(product == npy.n && npy.data);
        for (size_t i = 0; i < npy.n; i++)
            sum += es_npy_at(&npy, i);
        (void)sum;
        fuzz_succeeded(es_npy_expect(&npy, path, ES_NPY_F4, 1, &product));
    }
    es_npy_free(&npy);
    return 0;
}
