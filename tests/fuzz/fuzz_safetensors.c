/* Fuzzes safetensors files: hooks/trainer/files/safetensors.h. */
#include "hooks/trainer/files/safetensors.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define MAX 4096

/* Builds a file. Most inputs get a correct header length, so that the code
 * after the header is reached. The header of the input ends at its first
 * newline, which is not part of the file. The first byte decides whether the
 * length is correct. */
static size_t build(uint8_t *file, const uint8_t *bytes, size_t n)
{
    const uint8_t *line = memchr(bytes, '\n', n);
    size_t header = line ? (size_t)(line - bytes) : n;
    size_t data = line ? n - header - 1 : 0;
    uint64_t length = header;
    memcpy(file, &length, 8);
    memcpy(file + 8, bytes, header);
    if (data > 0)
        memcpy(file + 8 + header, line + 1, data);
    return 8 + header + data;
}

/** Reads every number of an accepted file, which must succeed. */
static void read_all(const es_safetensors *file)
{
    float values[MAX];
    uint64_t end = 0;
    for (size_t i = 0; i < file->n; i++) {
        const es_tensor *tensor = &file->tensors[i];
        fuzz_require(es_safetensors_find(file, tensor->name) == tensor);
        fuzz_require(i == 0 || tensor->offset == end);
        end = tensor->offset + tensor->n_bytes;
        fuzz_require(tensor->n_bytes <= sizeof values);
        fuzz_require(es_safetensors_read_bytes(file, tensor, values) == ES_OK);
        if (tensor->type > ES_TENSOR_F64) {
            fuzz_require(!fuzz_succeeded(
                es_safetensors_read(file, tensor, values, 0, tensor->n)));
            continue;
        }
        fuzz_require(tensor->n <= MAX);
        fuzz_require(es_safetensors_read(file, tensor, values, 0, tensor->n) ==
                     ES_OK);
        fuzz_require(!fuzz_succeeded(
            es_safetensors_read(file, tensor, values, 1, tensor->n)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static uint8_t built[MAX + 16];
    es_safetensors *file;
    if (n > MAX || n == 0)
        return 0;
    size_t size = n;
    if (!(bytes[0] & 128)) {
        size = build(built, bytes + 1, n - 1);
        bytes = built;
    }
    if (!fuzz_succeeded(es_safetensors_open(&file, fuzz_file(bytes, size))))
        return 0;
    read_all(file);
    (void)es_safetensors_metadata(file, "step");
    es_safetensors_close(file);
    return 0;
}
