/* Reads the lines of a text file, with any line endings, into a buffer of fixed
   size. The parsers of import and the readers of sweep files use this. */
#include "cli/exchange/lines.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

struct es_line_reader {
    FILE *stream;
    const char *name;
    char *line; /* (ES_LINE_MAX + 1) bytes of the current line */
    size_t number;
    uint64_t bytes;
    void (*watch)(uint64_t bytes); /* called after each read; may be NULL */
    bool after_cr; /* true if the last line ended with CR, so that an LF after
                      the CR is skipped */
    size_t start, end;
    unsigned char block[BLOCK];
};

static es_status system_error(const char *name)
{
    return es_fail(ES_EIO, "%s: %s", name, strerror(errno));
}

es_status es_line_reader_new(es_line_reader **out, FILE *stream,
                             const char *name)
{
    es_line_reader *lines;
    es_status status = es_alloc(&lines, 1, sizeof *lines, "lines");
    *out = NULL;
    if (status < 0) {
        fclose(stream);
        return status;
    }
    lines->stream = stream;
    lines->name = name;
    if ((status = es_alloc(&lines->line, ES_LINE_MAX + 1, 1, "a line")) < 0 ||
        (status = es_line_reader_rewind(lines)) < 0)
        es_line_reader_close(lines);
    else
        *out = lines;
    return status;
}

static es_status spool_stdin(FILE **out)
{
    char block[BLOCK];
    size_t n;
    FILE *copy = tmpfile();
    if (!copy)
        return system_error("a temporary copy of standard input");
    while ((n = fread(block, 1, sizeof block, stdin)) > 0 &&
           fwrite(block, 1, n, copy) == n)
        ;
    es_status status = ES_OK;
    if (ferror(stdin))
        status = system_error("standard input");
    else if (fflush(copy) != 0 || ferror(copy))
        status = system_error("a temporary copy of standard input");
    if (status != ES_OK)
        fclose(copy);
    else
        *out = copy;
    return status;
}

static es_status open_regular(FILE **out, const char *path)
{
    int fd;
    uint64_t size;
    es_status status = es_infile_open(&fd, &size, path);
    if (status == ES_OK && !(*out = fdopen(fd, "r")))
        status = system_error(path);
    if (status != ES_OK && fd >= 0)
        close(fd);
    return status;
}

es_status es_line_reader_open(es_line_reader **out, const char *path)
{
    FILE *stream = NULL;
    bool standard = strcmp(path, "-") == 0;
    es_status status =
        standard ? spool_stdin(&stream) : open_regular(&stream, path);
    return status < 0 ? status
                      : es_line_reader_new(out, stream,
                                           standard ? "standard input" : path);
}

const char *es_line_reader_name(const es_line_reader *lines)
{
    return lines->name;
}

uint64_t es_line_reader_bytes(const es_line_reader *lines)
{
    return lines->bytes;
}

uint64_t es_line_reader_size(const es_line_reader *lines)
{
    struct stat about;
    return fstat(fileno(lines->stream), &about) == 0 && about.st_size > 0
               ? (uint64_t)about.st_size
               : 0;
}

void es_line_reader_watch(es_line_reader *lines, void (*watch)(uint64_t bytes))
{
    lines->watch = watch;
}

static es_status fill_block(es_line_reader *lines)
{
    lines->start = 0;
    lines->end = fread(lines->block, 1, BLOCK, lines->stream);
    lines->bytes += lines->end;
    if (lines->watch)
        lines->watch(lines->bytes);
    if (!lines->end && ferror(lines->stream))
        return system_error(lines->name);
    return lines->end ? ES_OK : ES_DONE;
}

es_status es_line_reader_rewind(es_line_reader *lines)
{
    if (fseek(lines->stream, 0, SEEK_SET) != 0)
        return system_error(lines->name);
    lines->number = 0;
    lines->bytes = 0;
    lines->after_cr = false;
    es_status status = fill_block(lines);
    const unsigned char *b = lines->block;
    if (lines->end >= 3 && memcmp(b, "\xef\xbb\xbf", 3) == 0)
        lines->start = 3;
    else if (lines->end >= 2 &&
             (memcmp(b, "\xff\xfe", 2) == 0 || memcmp(b, "\xfe\xff", 2) == 0))
        status =
            es_fail(ES_EFORMAT, "%s: is UTF-16: save it as UTF-8", lines->name);
    return status == ES_DONE ? ES_OK : status;
}

static void append_bytes(es_line *line, const unsigned char *bytes, size_t n)
{
    size_t left = ES_LINE_MAX - line->n;
    line->cut = line->cut || n > left;
    if (n > left)
        n = left;
    memcpy(line->text + line->n, bytes, n);
    line->n += n;
}

/* Copies bytes of the block into the line; returns true if the line is
   complete. */
static bool take_bytes(es_line_reader *lines, es_line *line)
{
    const unsigned char *from = lines->block + lines->start;
    size_t left = lines->end - lines->start;
    const unsigned char *lf = memchr(from, '\n', left);
    const unsigned char *cr =
        memchr(from, '\r', lf ? (size_t)(lf - from) : left);
    const unsigned char *end = cr ? cr : lf;
    size_t n = end ? (size_t)(end - from) : left;
    append_bytes(line, from, n);
    lines->start += end ? n + 1 : n;
    lines->after_cr = end && *end == '\r';
    return end != NULL;
}

/* Moves to the first byte of the next line. If the last line ended with CR LF,
   skips the LF. */
static es_status start_line(es_line_reader *lines)
{
    for (;;) {
        es_status status =
            lines->start < lines->end ? ES_OK : fill_block(lines);
        if (status != ES_OK)
            return status;
        bool skip = lines->after_cr && lines->block[lines->start] == '\n';
        lines->after_cr = false;
        if (!skip)
            return ES_OK;
        lines->start++;
    }
}

es_status es_line_reader_next(es_line_reader *lines, es_line *out)
{
    *out = (es_line){.text = lines->line, .number = lines->number + 1};
    es_status status = start_line(lines);
    if (status != ES_OK)
        return status;
    while (status == ES_OK && !take_bytes(lines, out))
        status = fill_block(lines);
    if (status < 0)
        return status;
    out->text[out->n] = 0;
    lines->number++;
    return ES_OK;
}

es_status es_line_reader_bytes_read(es_line_reader *lines, void *out, size_t n,
                                    size_t *got)
{
    for (*got = 0; *got < n;) {
        es_status status =
            lines->start < lines->end ? ES_OK : fill_block(lines);
        if (status != ES_OK)
            return status == ES_DONE ? ES_OK : status;
        size_t left = lines->end - lines->start;
        size_t part = n - *got < left ? n - *got : left;
        memcpy((char *)out + *got, lines->block + lines->start, part);
        lines->start += part;
        *got += part;
    }
    return ES_OK;
}

void es_line_reader_close(es_line_reader *lines)
{
    if (!lines)
        return;
    fclose(lines->stream);
    free(lines->line);
    free(lines);
}
