/* Runs Slurm's programs. The output of a program is written to files in memory
 * instead of a pipe, so that the program never waits for this process to
 * read. */
#include "cli/slurm/query.h"

#include "analyzer/base/process.h"
#include "analyzer/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_MOST ((off_t)64 << 20) /* bytes */

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

/* Joins the lines of an error message: "sbatch: error: A" and "sbatch: error:
 * B" become "A; B". */
static void join_lines(char *out, size_t size, char *text, const char *program)
{
    es_text joined = es_text_begin(out, size);
    size_t own = strlen(program);
    for (char *line; (line = strsep(&text, "\n"));) {
        if (strncmp(line, program, own) == 0 &&
            strncmp(line + own, ": ", 2) == 0)
            line += own + 2;
        if (strncmp(line, "error: ", 7) == 0)
            line += 7;
        if (*line)
            es_text_append(&joined, "%s%s", joined.length ? "; " : "", line);
    }
}

es_status es_slurm_query(es_slurm_answer *out, char *const argv[], double limit)
{
    int text = memfd_create("text", MFD_CLOEXEC);
    int trouble = memfd_create("trouble", MFD_CLOEXEC);
    char *lines = NULL;
    es_process child;
    es_process_end end;
    es_status status = ES_OK;
    *out = (es_slurm_answer){.text = NULL};
    int error = text < 0 || trouble < 0 ? errno : 0;
    const es_process_options options = {
        .argv = argv, .streams = {ES_STREAM_NULL, text, trouble}};
    if (error || (error = es_process_start(&child, &options))) {
        bool is_there = error != ENOENT;
        status = es_fail(is_there ? ES_EIO : ES_ENOTFOUND, "%s: cannot run: %s",
                         argv[0], strerror(error));
        goto done;
    }
    bool in_time =
        es_process_wait_or_kill(&end, &child, (int64_t)(limit * 1000));
    es_process_free(&child);
    out->code = end.code;
    if (!in_time) {
        status = es_fail(ES_EIO, "%s: no answer within %g s", argv[0], limit);
        goto done;
    }
    lines = text_of(trouble);
    out->text = text_of(text);
    if (lines)
        join_lines(out->trouble, sizeof out->trouble, lines, argv[0]);
    if (!out->text)
        status =
            es_fail(ES_ENOMEM, "out of memory for the output of %s", argv[0]);
done:
    free(lines);
    if (text >= 0)
        close(text);
    if (trouble >= 0)
        close(trouble);
    return status;
}

es_status es_slurm_submit(int64_t *job, char *const argv[], const char *script)
{
    es_slurm_answer answer;
    es_status status = es_slurm_query(&answer, argv, 300);
    if (status < 0)
        return status;
    char *end = answer.text; /* sbatch prints "4711" or "4711;CLUSTER" */
    *job = strtoll(answer.text, &end, 10);
    if (answer.code != 0)
        status =
            es_fail(ES_EIO, "%s: sbatch failed: %s", script,
                    *answer.trouble ? answer.trouble : "it printed no reason");
    else if (end == answer.text || *job < 0)
        status = es_fail(ES_EIO, "%s: sbatch printed no job number: '%.40s'",
                         script, answer.text);
    free(answer.text);
    return status;
}

void es_slurm_print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._/=:,";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

void es_slurm_print_log(FILE *out, const char *folder, const char *name)
{
    char path[2 * PATH_MAX + 64];
    size_t n = 0;
    for (const char *c = folder; *c && n < 2 * PATH_MAX; c++) {
        if (*c == '%')
            path[n++] = '%';
        path[n++] = *c;
    }
    snprintf(path + n, sizeof path - n, "/%s", name);
    es_slurm_print_word(out, path);
}
