#include "samples/corpus/request.h"

#include "analyzer/base/text.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OUTPUT,
    LIMIT,
    TOKENIZER,
    VOCAB,
    MODEL,
    SAMPLE,
    JOBS,
    IDS,
    TOKENIZER_NAME,
    HELD_OUT,
    QUIET,
    HELP,
    VERSION
};

#define DEFAULT_VOCAB 16384
#define DEFAULT_SAMPLE 20000000
#define MAX_JOBS 64

static const es_option option_table[] = {
    [OUTPUT] = {"output", 'o', "FILE",
                "the token file to write; - is standard output"},
    [LIMIT] = {"limit", 0, "BYTES",
               "stop before the file that would make the corpus longer"},
    [TOKENIZER] = {"tokenizer", 0, "bytes|bpe",
                   "what a token is: a byte (default), or a piece of a "
                   "byte-pair model that is trained and written to "
                   "FILE.model"},
    [VOCAB] = {"vocab", 0, "N",
               "pieces of the model to train (default 16384), or vocabulary "
               "of --ids"},
    [MODEL] = {"model", 0, "FILE",
               "take this sentencepiece model rather than train one"},
    [SAMPLE] = {"sample", 0, "BYTES",
                "train the model on about so much of the training part "
                "(default 20000000)"},
    [JOBS] = {"jobs", 'j', "N",
              "encode with N processes (default: the processors)"},
    [IDS] = {"ids", 0, "FILE",
             "pack token ids made elsewhere, decimal numbers with white space "
             "between them; - is standard input"},
    [TOKENIZER_NAME] = {"tokenizer-name", 0, "NAME",
                        "what the token file of --ids says made them, at most "
                        "31 bytes (default ids)"},
    [HELD_OUT] = {"held-out", 0, "PERCENT",
                  "share of --ids, at their end, that is held out (default "
                  "3.125; 100 for probe)"},
    [QUIET] = {"quiet", 'q', NULL, "say nothing of what was read"},
    [HELP] = {"help", 0, NULL, "print this help"},
    [VERSION] = {"version", 0, NULL, "print the version"},
};

const es_command es_corpus_command = {
    .name = "entropy-corpus",
    .synopsis = "-o FILE [OPTION...] [DIR...]",
    .summary = "Python source as a token file for entropy-train",
    .details =
        "Takes every *.py below the directories, in the byte order of their\n"
        "relative paths; by default below the newest /usr/lib/python3.N or\n"
        "/usr/local/lib/python3.N. Left out: symbolic links, empty files,\n"
        "files that hold a NUL or are not UTF-8, files whose text came\n"
        "before, and directories named test, tests, site-packages,\n"
        "dist-packages or .*\n"
        "One document of 32, by a hash of its relative path, is held out.\n"
        "A NUL ends each document. The same files give the same bytes,\n"
        "wherever they lie.\n\n"
        "--tokenizer bpe needs the Debian package sentencepiece. The pieces\n"
        "of a document, put end to end, are its text, byte for byte: that is\n"
        "checked. A newline is a piece of its own. The token file names the\n"
        "model's size and checksum.\n\n"
        "Temporary files, as large as the output, go to $TMPDIR or /tmp.\n\n"
        "Exit codes: 0 fine, 2 usage, 3 an input or output failed, 128+n "
        "signal.",
    .options = option_table,
    .n_options = sizeof option_table / sizeof *option_table,
};

static es_status take_int(int64_t *out, int option, const char *value,
                          int64_t low, int64_t high)
{
    if (es_int_parse(out, value, low, high) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--%s: %s", option_table[option].name,
                   es_message());
}

static es_status take_number(es_job *job, int option, const char *value)
{
    int64_t n = 0;
    es_status status = ES_OK;
    double percent;
    switch (option) {
    case LIMIT:
        status = take_int(&n, option, value, 1, INT64_MAX);
        job->limit = (uint64_t)n;
        return status;
    case VOCAB:
        status = take_int(&n, option, value, 1, INT32_MAX);
        job->vocab = (int)n;
        return status;
    case SAMPLE:
        status = take_int(&n, option, value, 1, INT64_MAX);
        job->sample = (uint64_t)n;
        return status;
    case JOBS:
        status = take_int(&n, option, value, 1, MAX_JOBS);
        job->n_children = (int)n;
        return status;
    default:
        if (es_double_parse(&percent, value) != ES_OK || percent < 0 ||
            percent > 100)
            return es_fail(ES_EUSAGE, "--held-out: not a number of 0 to 100");
        job->held_out = percent / 100;
        return ES_OK;
    }
}

static es_status take_tokenizer(es_job *job, const char *value)
{
    if (strcmp(value, "bytes") == 0)
        job->source = ES_SOURCE_BYTES;
    else if (strcmp(value, "bpe") == 0)
        job->source = ES_SOURCE_PIECES;
    else
        return es_fail(ES_EUSAGE, "--tokenizer %s: bytes or bpe", value);
    return ES_OK;
}

static es_status take_name(es_job *job, const char *value)
{
    size_t n = strlen(value);
    char escaped[32];
    if (n == 0 || n > 31 ||
        es_text_escape(escaped, sizeof escaped, value, ES_ESCAPE_TERMINAL) != n)
        return es_fail(ES_EUSAGE,
                       "--tokenizer-name: 1 to 31 bytes that can be printed");
    job->tokenizer_name = value;
    return ES_OK;
}

static es_status take_option(void *user, int option, const char *value)
{
    es_request *r = user;
    es_job *job = &r->job;
    if (option == ES_OPTION_ARGUMENT) {
        job->folders[job->n_folders++] = (char *)value;
        return ES_OK;
    }
    r->given |= 1u << option;
    switch (option) {
    case OUTPUT:
        job->output = value;
        return ES_OK;
    case TOKENIZER:
        return take_tokenizer(job, value);
    case MODEL:
        job->model = value;
        return ES_OK;
    case IDS:
        job->ids = value;
        return ES_OK;
    case TOKENIZER_NAME:
        return take_name(job, value);
    case QUIET:
        r->quiet = true;
        return ES_OK;
    case HELP:
        r->help = true;
        return ES_OK;
    case VERSION:
        r->version = true;
        return ES_OK;
    default:
        return take_number(job, option, value);
    }
}

/* --- options that go together -------------------------------------------- */

#define BIT(option) (1u << (option))

static bool is_given(const es_request *r, int option)
{
    return r->given & BIT(option);
}

/** The first of a set of options that was given; -1 if none was. */
static int first_given(const es_request *r, unsigned options)
{
    const unsigned given = r->given & options;
    return given ? __builtin_ctz(given) : -1;
}

static es_status refuse(int option, const char *why)
{
    return es_fail(ES_EUSAGE, "--%s: %s", option_table[option].name, why);
}

static es_status settle_ids(es_request *r)
{
    r->job.source = ES_SOURCE_IDS;
    int wrong = first_given(r, BIT(LIMIT) | BIT(TOKENIZER) | BIT(MODEL) |
                                   BIT(SAMPLE) | BIT(JOBS));
    if (wrong >= 0)
        return refuse(wrong, "not with --ids");
    if (r->job.n_folders > 0)
        return es_fail(ES_EUSAGE, "%s: no directory with --ids",
                       r->job.folders[0]);
    if (!is_given(r, VOCAB))
        return es_fail(ES_EUSAGE, "--ids: give the tokenizer's size with "
                                  "--vocab N");
    return ES_OK;
}

static es_status settle_folders(es_request *r)
{
    es_job *job = &r->job;
    if (is_given(r, MODEL) && !is_given(r, TOKENIZER))
        job->source = ES_SOURCE_PIECES;
    int wrong = first_given(r, BIT(TOKENIZER_NAME) | BIT(HELD_OUT));
    if (wrong >= 0)
        return refuse(wrong, "only with --ids");
    wrong = first_given(r, BIT(VOCAB) | BIT(MODEL) | BIT(SAMPLE) | BIT(JOBS));
    if (wrong >= 0 && job->source == ES_SOURCE_BYTES)
        return refuse(wrong, "only with --tokenizer bpe");
    wrong = first_given(r, BIT(VOCAB) | BIT(SAMPLE));
    if (wrong >= 0 && job->model)
        return refuse(wrong, "not with --model, which is trained already");
    if (job->source == ES_SOURCE_PIECES && !job->model &&
        strcmp(job->output, "-") == 0)
        return es_fail(ES_EUSAGE, "-o -: the model that is trained needs a "
                                  "name: give -o FILE");
    return ES_OK;
}

static es_status settle(es_request *r)
{
    if (!r->job.output)
        return es_fail(ES_EUSAGE, "no output: give -o FILE");
    return is_given(r, IDS) ? settle_ids(r) : settle_folders(r);
}

static int default_jobs(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (int)n;
}

es_status es_request_parse(es_request *out, int argc, char **argv)
{
    *out = (es_request){
        .job = {.folders = calloc((size_t)argc + 1, sizeof *out->job.folders),
                .vocab = DEFAULT_VOCAB,
                .sample = DEFAULT_SAMPLE,
                .n_children = default_jobs(),
                .tokenizer_name = "ids",
                .held_out = 1.0 / ES_CORPUS_HELD_OUT}};
    if (!out->job.folders)
        return es_fail(ES_ENOMEM, "out of memory");
    es_status status =
        es_options_parse(&es_corpus_command, argc, argv, take_option, out);
    if (status != ES_OK || out->help || out->version)
        return status;
    return settle(out);
}

void es_request_free(es_request *request)
{
    free(request->job.folders);
    request->job.folders = NULL;
}
