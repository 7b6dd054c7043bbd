/* Implements the helpers of the fuzz targets: writes an input to a file, and
 * discards standard output. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s (message: %s)\n", file, line, condition,
            es_message());
    abort();
}

int fuzz_succeeded(es_status status)
{
    if (status == ES_OK)
        return 1;
    fuzz_require(status <= ES_EUSAGE && status >= ES_EFULL);
    fuzz_require(es_message()[0] && !strpbrk(es_message(), "\r\n"));
    return 0;
}

static char path[4096];

static void remove_file(void)
{
    unlink(path);
}

const char *fuzz_file(const void *bytes, size_t n)
{
    static int fd = -1;
    if (fd < 0) {
        const char *folder = getenv("TMPDIR");
        snprintf(path, sizeof path, "%s/es-fuzz-XXXXXX",
                 folder ? folder : "/tmp");
        fd = mkstemp(path);
        atexit(remove_file);
    }
    fuzz_require(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
    fuzz_require(pwrite(fd, bytes, n, 0) == (ssize_t)n);
    return path;
}

uint8_t fuzz_byte(fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

uint64_t fuzz_number(fuzz_input *input)
{
    uint64_t number = 0;
    for (int n = fuzz_byte(input) & 7; n >= 0; n--)
        number = number << 8 | fuzz_byte(input);
    return number;
}

const char *fuzz_text(fuzz_input *input, size_t most)
{
    static char text[256];
    size_t n = 0;
    while (n < most && input->left > 0 && *input->at != 0xff)
        text[n++] = (char)fuzz_byte(input);
    fuzz_byte(input);
    text[n] = '\0';
    return text;
}

char *fuzz_string(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    fuzz_require(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}
