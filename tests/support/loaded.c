/* Runs of files as the program sums them up; a test fails that cannot load one.
 */
#include "tests/support/loaded.h"
#include "tests/support/test.h"

es_run_summary *es_loaded(const char *path, size_t run,
                          const es_summary_options *options)
{
    es_reader *reader = es_open_reader(path);
    es_run_summary *out = NULL;
    es_assert_ok(es_summary_load(&out, reader, run, options));
    es_reader_close(reader);
    return out;
}

es_run_summary *es_loaded_run(const char *path, size_t run)
{
    es_summary_options options;
    es_summary_options_default(&options);
    return es_loaded(path, run, &options);
}

es_run_summary *es_loaded_series(const char *path, const char *series)
{
    es_summary_options options;
    es_summary_options_default(&options);
    options.series = series;
    return es_loaded(path, 0, &options);
}
