/* entropy-corpus: real Python source, or ids made elsewhere, as a token file.
 */
#include "analyzer/base/text.h"
#include "samples/corpus/child.h"
#include "samples/corpus/request.h"
#include <glob.h>
#include <string.h>

/* --- the standard library ------------------------------------------------ */

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

/* --- the report ----------------------------------------------------------- */

static void report_corpus(const es_corpus *corpus, const char *output)
{
    const uint64_t *documents = corpus->n_documents, *bytes = corpus->n_bytes;
    double n = (double)bytes[ES_SPLIT_TRAIN] + (double)bytes[ES_SPLIT_HELD_OUT];
    fprintf(stderr,
            "%s: %llu documents, %.2f MB, held out %llu (%.1f %% of bytes), "
            "text %016llx\n",
            output, (unsigned long long)(documents[0] + documents[1]), n / 1e6,
            (unsigned long long)documents[ES_SPLIT_HELD_OUT],
            100.0 * (double)bytes[ES_SPLIT_HELD_OUT] / n,
            (unsigned long long)es_corpus_checksum(corpus));
    if (corpus->n_empty + corpus->n_unreadable + corpus->n_binary +
            corpus->n_twice + corpus->n_not_utf8 >
        0)
        fprintf(stderr,
                "left out: %llu empty, %llu unreadable, %llu with a NUL byte, "
                "%llu there already, %llu not UTF-8\n",
                (unsigned long long)corpus->n_empty,
                (unsigned long long)corpus->n_unreadable,
                (unsigned long long)corpus->n_binary,
                (unsigned long long)corpus->n_twice,
                (unsigned long long)corpus->n_not_utf8);
}

static void report(const es_job_result *result, const es_job *job)
{
    const es_corpus *corpus = &result->corpus;
    uint64_t n = result->n_tokens[0] + result->n_tokens[1];
    if (corpus->n > 0)
        report_corpus(corpus, job->output);
    if (job->source == ES_SOURCE_BYTES)
        return;
    fprintf(stderr, "%s: %llu tokens of %u, %s, held out %llu", job->output,
            (unsigned long long)n, result->vocab, result->tokenizer,
            (unsigned long long)result->n_tokens[ES_SPLIT_HELD_OUT]);
    if (corpus->n > 0)
        fprintf(stderr, ", %.2f bytes each",
                (double)(corpus->n_bytes[0] + corpus->n_bytes[1]) / (double)n);
    fputc('\n', stderr);
    if (result->model)
        fprintf(stderr, "%s: the model\n", result->model);
}

static es_status make(es_request *request)
{
    glob_t found = {0};
    es_job_result result = {0};
    es_job *job = &request->job;
    es_status status = ES_OK;
    if (job->n_folders == 0 && job->source != ES_SOURCE_IDS) {
        status = standard_library(&found, &job->folders[0]);
        job->n_folders = 1;
    }
    if (job->source == ES_SOURCE_PIECES)
        es_child_catch_signals();
    if (status == ES_OK)
        status = es_job_run(&result, job);
    if (status == ES_OK && !request->quiet)
        report(&result, job);
    es_job_result_free(&result);
    globfree(&found);
    return status;
}

int main(int argc, char **argv)
{
    es_request request;
    es_status status = es_request_parse(&request, argc, argv);
    if (status == ES_OK) {
        if (request.help)
            es_options_print_help(stdout, &es_corpus_command, 80);
        else if (request.version)
            puts("entropy-corpus " ES_VERSION);
        else
            status = make(&request);
    }
    es_request_free(&request);
    if (status != ES_OK)
        fprintf(stderr, "entropy-corpus: %s\n", es_message());
    if (status != ES_OK && es_child_signal())
        return 128 + es_child_signal();
    return es_exit_code(status);
}
