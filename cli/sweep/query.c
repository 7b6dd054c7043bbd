/* Runs sbatch or squeue and takes what they print, from files in memory, so
 * that nobody has to read along while they run. */
#include "cli/sweep/query.h"

#include "analyzer/base/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_MOST ((off_t)64 << 20) /* bytes */

/* What it prints goes to files in memory: nobody has to read along. */
static es_status run(int *code, char *const argv[], int text, int trouble,
                     double limit)
{
    es_process child;
    es_process_end end;
    int error = es_process_start(
        &child, &(es_process_options){
                    .argv = argv, .streams = {ES_STREAM_NULL, text, trouble}});
    if (error)
        return es_fail(error == ENOENT ? ES_ENOTFOUND : ES_EIO,
                       "%s cannot be run: %s", argv[0], strerror(error));
    bool in_time =
        es_process_wait_or_kill(&end, &child, (int64_t)(limit * 1000));
    es_process_free(&child);
    *code = end.code;
    return in_time ? ES_OK
                   : es_fail(ES_EIO, "%s does not answer within %g s", argv[0],
                             limit);
}

static char *text_of(int fd)
{
    struct stat about;
    bool fits = fstat(fd, &about) == 0 && about.st_size <= ANSWER_MOST;
    char *text = fits ? malloc((size_t)about.st_size + 1) : NULL;
    if (!text)
        return NULL;
    ssize_t n = pread(fd, text, (size_t)about.st_size, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* "sbatch: error: A" and "sbatch: error: B" are "A; B". */
static void join_lines(char *out, size_t size, char *text, const char *program)
{
    char *rest = text;
    *out = '\0';
    for (char *line; (line = strsep(&rest, "\n"));) {
        size_t n = strlen(out), own = strlen(program);
        if (strncmp(line, program, own) == 0 &&
            strncmp(line + own, ": ", 2) == 0)
            line += own + 2;
        if (strncmp(line, "error: ", 7) == 0)
            line += 7;
        if (*line)
            snprintf(out + n, size - n, "%s%s", n ? "; " : "", line);
    }
}

static es_status read_answer(es_sweep_answer *out, int text, int trouble,
                             const char *program)
{
    char *lines = text_of(trouble);
    out->text = text_of(text);
    if (lines)
        join_lines(out->trouble, sizeof out->trouble, lines, program);
    free(lines);
    return out->text
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for what %s says", program);
}

es_status es_sweep_query(es_sweep_answer *out, char *const argv[], double limit)
{
    int text = memfd_create("text", MFD_CLOEXEC);
    int trouble = memfd_create("trouble", MFD_CLOEXEC);
    *out = (es_sweep_answer){.text = NULL};
    es_status status;
    if (text < 0 || trouble < 0)
        status =
            es_fail(ES_EIO, "%s cannot be run: %s", argv[0], strerror(errno));
    else if ((status = run(&out->code, argv, text, trouble, limit)) == ES_OK)
        status = read_answer(out, text, trouble, argv[0]);
    if (text >= 0)
        close(text);
    if (trouble >= 0)
        close(trouble);
    return status;
}
