#include "tests/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[512];
char es_scratch_file[600];

int es_scratch_open(void **state)
{
    (void)state;
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
    (void)state;
    unlink(es_scratch_file);
    return rmdir(folder);
}
