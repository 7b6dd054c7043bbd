/* Runs reference cases and checks refusals for the tests of families. On a
 * failure, prints the output of verify, array by array. */
#include "tests/support/families.h"

#include "hooks/trainer/verify.h"
#include "tests/support/test.h"

static void fail_with(FILE *output, int n_threads)
{
    char text[4096];
    rewind(output);
    text[fread(text, 1, sizeof text - 1, output)] = 0;
    fail_msg("%d threads:\n%s", n_threads, text);
}

void es_expect_case(const char *path, const es_ops *ops, es_precision precision)
{
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        es_verify_counts counts;
        FILE *output = tmpfile();
        assert_non_null(output);
        es_assert_ok(
            es_verify(output, &path, 1, ops, precision, n_threads, &counts));
        if (counts.passed != 1)
            fail_with(output, n_threads);
        fclose(output);
    }
}

void es_expect_config_refused(const es_model_config *config, const char *named)
{
    if (es_model_config_check(config) != ES_EUSAGE)
        fail_msg("the configuration is not refused for %s", named);
    if (!strstr(es_message(), named))
        fail_msg("message '%s' does not contain '%s'", es_message(), named);
}
