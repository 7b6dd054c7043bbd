#include "samples/corpus/spool.h"

#include "store/outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

es_status es_temporary_file(FILE **out)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (!folder || !*folder)
        folder = "/tmp";
    *out = NULL;
    int n = snprintf(path, sizeof path, "%s/entropy-corpus-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return es_fail(ES_EIO, "TMPDIR: too long");
    int low = mkostemp(path, O_CLOEXEC);
    if (low < 0)
        return es_fail(ES_EIO, "%s: %s: set TMPDIR", folder, strerror(errno));
    unlink(path);
    int fd = fcntl(low, F_DUPFD_CLOEXEC, 3); /* a child's 0, 1, 2 are taken */
    close(low);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: %s", folder, strerror(errno));
    *out = fdopen(fd, "w+b");
    if (*out)
        return ES_OK;
    close(fd);
    return es_fail(ES_ENOMEM, "%s: out of memory", folder);
}

static uint32_t width_of(uint32_t vocab)
{
    if (vocab <= UINT32_C(1) << 8)
        return 1;
    return vocab <= UINT32_C(1) << 16 ? 2 : 4;
}

es_status es_spool_open(es_spool *spool, uint32_t vocab)
{
    *spool = (es_spool){.vocab = vocab, .token_bytes = width_of(vocab)};
    return es_temporary_file(&spool->file);
}

static es_status spool_failed(void)
{
    return es_fail(ES_EIO,
                   "temporary file: %s: set TMPDIR to a folder with "
                   "more room",
                   strerror(errno));
}

es_status es_spool_put(es_spool *spool, const uint32_t *tokens, size_t n)
{
    unsigned char bytes[4096];
    const size_t width = spool->token_bytes, room = sizeof bytes / width;
    for (size_t done = 0; done < n;) {
        size_t some = n - done < room ? n - done : room;
        for (size_t i = 0; i < some; i++)
            for (size_t k = 0; k < width; k++)
                bytes[i * width + k] =
                    (unsigned char)(tokens[done + i] >> 8 * k);
        if (fwrite(bytes, width, some, spool->file) != some)
            return spool_failed();
        done += some;
    }
    spool->n += n;
    return ES_OK;
}

es_status es_spool_put_bytes(es_spool *spool, const unsigned char *bytes,
                             size_t n)
{
    if (spool->vocab != 256)
        return es_fail(ES_EARGUMENT, "bytes in a vocabulary of %u",
                       spool->vocab);
    if (fwrite(bytes, 1, n, spool->file) != n)
        return spool_failed();
    spool->n += n;
    return ES_OK;
}

static es_status write_file(const char *path, const es_tokens_content *content)
{
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_status status = es_outfile_open(&file, &stream, path);
    if (status != ES_OK)
        return status;
    return es_outfile_finish(file, es_tokens_write(stream, content));
}

es_status es_spool_write(es_spool *spool, const char *path,
                         const es_tokens_content *content)
{
    es_tokens_content whole = *content;
    whole.vocab = spool->vocab;
    whole.token_bytes = spool->token_bytes;
    if (spool->n == 0)
        return es_fail(ES_EFORMAT, "%s: no tokens", path);
    if (fflush(spool->file) != 0)
        return spool_failed();
    size_t n = (size_t)spool->n * spool->token_bytes;
    void *tokens =
        mmap(NULL, n, PROT_READ, MAP_PRIVATE, fileno(spool->file), 0);
    if (tokens == MAP_FAILED)
        return es_fail(ES_ENOMEM, "%s: cannot map %zu bytes: %s", path, n,
                       strerror(errno));
    whole.tokens = tokens;
    es_status status = write_file(path, &whole);
    munmap(tokens, n);
    return status;
}

void es_spool_close(es_spool *spool)
{
    if (spool->file)
        fclose(spool->file);
    spool->file = NULL;
}
