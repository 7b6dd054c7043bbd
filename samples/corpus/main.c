/* entropy-corpus: real Python source as a token file. */
#include "analyzer/base/options.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/tokens.h"
#include "samples/corpus/collect.h"
#include "store/outfile.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT, LIMIT, QUIET, HELP, VERSION };

static const es_option option_table[] = {
    [OUTPUT] = {"output", 'o', "FILE",
                "the token file to write; - is standard output"},
    [LIMIT] = {"limit", 0, "BYTES",
               "stop before the file that would make the corpus longer"},
    [QUIET] = {"quiet", 'q', NULL, "say nothing of what was read"},
    [HELP] = {"help", 0, NULL, "print this help"},
    [VERSION] = {"version", 0, NULL, "print the version"},
};

static const es_command command = {
    .name = "entropy-corpus",
    .synopsis = "-o FILE [OPTION...] [DIR...]",
    .summary = "Python source as a token file for entropy-train",
    .details =
        "Takes every *.py below the directories, in the byte order of their\n"
        "relative paths; by default below the newest /usr/lib/python3.N or\n"
        "/usr/local/lib/python3.N. A token is a byte, a NUL ends a document.\n"
        "Left out: symbolic links, empty files, files that hold a NUL, and\n"
        "directories named test, tests, site-packages, dist-packages or .*\n"
        "One document of 32, by a hash of its relative path, is held out.\n"
        "The same files give the same bytes, wherever they lie.\n\n"
        "Exit codes: 0 fine, 2 usage, 3 an input or output failed.",
    .options = option_table,
    .n_options = sizeof option_table / sizeof *option_table,
};

typedef struct job {
    const char *output;
    int64_t limit;
    bool quiet, help, version;
    char **folders; /* borrowed */
    size_t n_folders;
} job;

static es_status take_option(void *user, int option, const char *value)
{
    job *j = user;
    switch (option) {
    case OUTPUT:
        j->output = value;
        break;
    case LIMIT:
        if (es_int_parse(&j->limit, value, 1, INT64_MAX) != ES_OK)
            return es_fail(ES_EUSAGE, "--limit: %s", es_message());
        break;
    case QUIET:
        j->quiet = true;
        break;
    case HELP:
        j->help = true;
        break;
    case VERSION:
        j->version = true;
        break;
    default:
        j->folders[j->n_folders++] = (char *)value;
    }
    return ES_OK;
}

/** N of "/usr/lib/python3.N"; -1 for another path. */
static int64_t minor_version(const char *path)
{
    int64_t minor;
    const char *dot = strrchr(path, '.');
    if (!dot || es_int_parse(&minor, dot + 1, 0, 9999) != ES_OK)
        return -1;
    return minor;
}

/** The newest standard library on the machine; out keeps it. */
static es_status standard_library(glob_t *out, char **folder)
{
    glob("/usr/lib/python3.[0-9]*", 0, NULL, out);
    glob("/usr/local/lib/python3.[0-9]*", GLOB_APPEND, NULL, out);
    int64_t newest = -1;
    *folder = NULL;
    for (size_t i = 0; i < out->gl_pathc; i++) {
        int64_t minor = minor_version(out->gl_pathv[i]);
        if (minor <= newest)
            continue;
        newest = minor;
        *folder = out->gl_pathv[i];
    }
    if (*folder)
        return ES_OK;
    return es_fail(ES_EIO, "/usr/lib/python3.*: no Python standard library: "
                           "install libpython3-stdlib or name a directory");
}

static es_status collect(es_corpus *corpus, const job *j)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < j->n_folders && status == ES_OK; i++)
        status =
            es_corpus_add_folder(corpus, j->folders[i], (uint64_t)j->limit);
    if (status == ES_OK && corpus->train.n_documents == 0)
        status = es_fail(ES_EFORMAT, "%s%s: no Python source for training",
                         j->folders[0], j->n_folders > 1 ? ", ..." : "");
    return status;
}

/** Training part, then held-out part, in one block. */
static es_status join(unsigned char **out, const es_corpus *corpus)
{
    *out = malloc(corpus->train.n + corpus->held_out.n);
    if (!*out)
        return es_fail(ES_ENOMEM, "out of memory for %zu tokens",
                       corpus->train.n + corpus->held_out.n);
    memcpy(*out, corpus->train.bytes, corpus->train.n);
    if (corpus->held_out.n > 0)
        memcpy(*out + corpus->train.n, corpus->held_out.bytes,
               corpus->held_out.n);
    return ES_OK;
}

static es_status write_corpus(const es_corpus *corpus, const char *path)
{
    es_outfile *file = NULL;
    FILE *stream = NULL;
    unsigned char *tokens = NULL;
    es_status status = join(&tokens, corpus);
    if (status == ES_OK)
        status = es_outfile_open(&file, &stream, path);
    if (status == ES_OK) {
        es_tokens_content content = {
            .vocab = 256,
            .token_bytes = 1,
            .n_train = corpus->train.n,
            .n_held_out = corpus->held_out.n,
            .n_train_documents = corpus->train.n_documents,
            .n_held_out_documents = corpus->held_out.n_documents,
            .tokenizer = "bytes",
            .tokens = tokens};
        status = es_tokens_write(stream, &content);
        if (status == ES_OK)
            status = es_outfile_close(file);
        else
            es_outfile_abandon(file);
    }
    free(tokens);
    return status;
}

static void report(const es_corpus *corpus, const job *j)
{
    double n = (double)corpus->train.n + (double)corpus->held_out.n;
    fprintf(stderr,
            "%s: %llu documents, %.2f MB, held out %llu (%.1f %% of bytes)\n",
            j->output,
            (unsigned long long)(corpus->train.n_documents +
                                 corpus->held_out.n_documents),
            n / 1e6, (unsigned long long)corpus->held_out.n_documents,
            100.0 * (double)corpus->held_out.n / n);
    if (corpus->n_empty + corpus->n_unreadable + corpus->n_binary > 0)
        fprintf(stderr,
                "left out: %llu empty, %llu unreadable, "
                "%llu with a NUL byte\n",
                (unsigned long long)corpus->n_empty,
                (unsigned long long)corpus->n_unreadable,
                (unsigned long long)corpus->n_binary);
    if (corpus->held_out.n == 0)
        fprintf(stderr, "no document is held out: too few of them\n");
}

static es_status make(job *j)
{
    glob_t found = {0};
    es_corpus corpus = {0};
    es_status status = ES_OK;
    if (!j->output)
        return es_fail(ES_EUSAGE, "no output: give -o FILE");
    if (j->n_folders == 0) {
        status = standard_library(&found, &j->folders[0]);
        j->n_folders = 1;
    }
    if (status == ES_OK)
        status = collect(&corpus, j);
    if (status == ES_OK)
        status = write_corpus(&corpus, j->output);
    if (status == ES_OK && !j->quiet)
        report(&corpus, j);
    es_corpus_free(&corpus);
    globfree(&found);
    return status;
}

int main(int argc, char **argv)
{
    job j = {.folders = calloc((size_t)argc + 1, sizeof *j.folders)};
    es_status status = es_fail(ES_ENOMEM, "out of memory");
    if (j.folders)
        status = es_options_parse(&command, argc, argv, take_option, &j);
    if (status == ES_OK) {
        if (j.help)
            es_options_print_help(stdout, &command, 80);
        else if (j.version)
            puts("entropy-corpus " ES_VERSION);
        else
            status = make(&j);
    }
    free(j.folders);
    if (status != ES_OK)
        fprintf(stderr, "entropy-corpus: %s\n", es_message());
    return es_exit_code(status);
}
