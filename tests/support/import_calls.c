/* Defines the sink that import tests pass to a parser. The sink writes every
 * call of the parser as a line of text. */
#include "tests/support/import_calls.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/import_open.h"
#include "tests/support/cmocka_all.h"

char calls_heard[1 << 16];
es_import_report calls_report;
es_import_options calls_options = {.series = "entropy"};

static size_t n_heard;

__attribute__((format(printf, 1, 2))) static void hear(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(calls_heard + n_heard, sizeof calls_heard - n_heard, fmt,
                      args);
    va_end(args);
    n_heard += (size_t)n;
    if (n_heard >= sizeof calls_heard)
        n_heard = sizeof calls_heard - 1;
}

static es_status hear_begin(void *user, const es_run_info *info,
                            const es_text_series *series, size_t n)
{
    (void)user;
    hear("L%lld H%lld", (long long)info->n_layer, (long long)info->n_head);
    if (info->name)
        hear(" name=%s", info->name);
    if (info->ctx != ES_UNKNOWN)
        hear(" ctx=%lld", (long long)info->ctx);
    if (info->config)
        hear(" %s", info->config);
    for (size_t i = 0; i < n; i++)
        hear(" %s:%s:%s", es_shape_name(series[i].shape),
             es_phase_name(series[i].phase), series[i].name);
    hear("\n");
    return ES_OK;
}

static es_status hear_sample(void *user, size_t series, int64_t step,
                             const float *values, size_t n)
{
    (void)user;
    hear("%zu@%lld", series, (long long)step);
    for (size_t i = 0; i < n; i++) {
        char text[ES_FLOAT_TEXT_MAX];
        hear(" %s",
             es_is_missing(values[i]) ? "_" : es_float_print(text, values[i]));
    }
    hear("\n");
    return ES_OK;
}

static es_status hear_again(void *user, int64_t step)
{
    (void)user;
    hear("again %lld\n", (long long)step);
    return ES_OK;
}

es_import_sink calls_sink = {NULL, hear_begin, hear_sample, hear_again, NULL};

es_status calls_of_stream(FILE *stream)
{
    es_import_format format;
    es_line_reader *lines = NULL;
    n_heard = 0;
    calls_heard[0] = 0;
    es_status status = es_line_reader_new(&lines, stream, "f");
    bool is_document;
    if (status == ES_OK)
        status = es_import_unpack(&is_document, &lines);
    if (status == ES_OK)
        status = es_import_detect(&format, lines, &calls_options);
    if (status == ES_OK)
        status = es_import_parse(&calls_report, lines, format, &calls_options,
                                 &calls_sink);
    es_line_reader_close(lines);
    return status;
}

es_status calls_of_bytes(const void *bytes, size_t n)
{
    FILE *stream = tmpfile();
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, n, stream), n);
    return calls_of_stream(stream);
}

void assert_calls(const char *text, const char *calls)
{
    es_status status = calls_of_bytes(text, strlen(text));
    if (status != ES_OK)
        print_message("# %s\n", es_message());
    assert_int_equal(status, ES_OK);
    assert_string_equal(calls_heard, calls);
}

void assert_refused(const char *text, const char *message)
{
    assert_int_equal(calls_of_bytes(text, strlen(text)), ES_EFORMAT);
    assert_string_equal(es_message(), message);
}
