/* Manages one file in a folder that belongs to the test program, and checks
   that nothing else is left in the folder. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static char folder[512];
char es_scratch_file[600];

int es_scratch_open(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/es-scratch-XXXXXX",
             base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(es_scratch_file, sizeof es_scratch_file, "%s/file", folder);
    return 0;
}

int es_scratch_close(void **state)
{
    unlink(es_scratch_file);
    return rmdir(folder);
}

void es_scratch_write(const void *bytes, size_t n)
{
    es_file_write(es_scratch_file, bytes, n);
}

void es_scratch_no_file(void (*refused)(es_status code, const char *word))
{
    unlink(es_scratch_file);
    refused(ES_EIO, "No such file");
    assert_int_equal(mkfifo(es_scratch_file, 0600), 0);
    refused(ES_EIO, "not a regular file");
    unlink(es_scratch_file);
    assert_int_equal(mkdir(es_scratch_file, 0700), 0);
    refused(ES_EIO, "not a regular file");
    rmdir(es_scratch_file);
}
