/* Usage: entropy-histories N SEED DIR. Writes N synthetic histories as run
   files into DIR, and a table of their true labels to standard output. SEED
   selects the random numbers. */
#include "samples/alerts/synthetic.h"

#include "analyzer/base/text.h"
#include <stdio.h>

static es_status write_file(const es_synthetic *history, const char *folder,
                            size_t index)
{
    char path[4096], name[32];
    es_writer *writer = NULL;
    es_status status;
    snprintf(name, sizeof name, "%05zu", index);
    if ((size_t)snprintf(path, sizeof path, "%s/%s.db", folder, name) >=
        sizeof path)
        return es_fail(ES_EUSAGE, "%.40s...: the path is too long", folder);
    if ((status = es_writer_open(&writer, path, ES_FAST)) < 0)
        return status;
    status = es_synthetic_write(writer, history, name);
    if (status == ES_OK)
        return es_writer_close(writer);
    es_writer_abandon(writer);
    return status;
}

static es_status write_all(int64_t n, int64_t seed, const char *folder)
{
    es_status status = ES_OK;
    puts("history\tkind\tnan\tcollapse\tcollapse_stands\toverload\tlogits");
    for (size_t i = 0; i < (size_t)n && status == ES_OK; i++) {
        es_synthetic *history = es_synthetic_new((uint64_t)seed, i);
        if (!history)
            return es_fail(ES_ENOMEM, "out of memory");
        const es_truth *truth = &history->truth;
        status = write_file(history, folder, i);
        if (status == ES_OK)
            printf("%05zu\t%s\t%d\t%d\t%d\t%d\t%d\n", i, history->kind,
                   truth->nan, truth->collapse, truth->collapse_stands,
                   truth->overload, truth->logits);
        es_synthetic_free(history);
    }
    return status;
}

int main(int argc, char **argv)
{
    int64_t n, seed;
    if (argc != 4 || es_int_parse(&n, argv[1], 1, 99999) != ES_OK ||
        es_int_parse(&seed, argv[2], 0, INT32_MAX) != ES_OK) {
        fputs("usage: entropy-histories N SEED DIR\n", stderr);
        return 2;
    }
    if (write_all(n, seed, argv[3]) == ES_OK && fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "entropy-histories: %s\n", es_message());
    return 3;
}
