/* Fuzzes rules files. Rules that are accepted must be within their bounds, and
 * printing and reading them must not change them. */
#include "cli/alerts/rules/rules_file.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *print(const es_rules_file *file, size_t *n)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, n);
    fuzz_require(stream);
    es_rules_file_print(stream, file, false);
    fuzz_require(fclose(stream) == 0);
    return text;
}

static void check_rule(const es_rule *rule)
{
    fuzz_require(memchr(rule->name, 0, sizeof rule->name) && *rule->name);
    fuzz_require(memchr(rule->series, 0, sizeof rule->series) && *rule->series);
    fuzz_require(rule->aggregate < ES_N_RULE_AGGREGATES);
    fuzz_require(rule->comparison < ES_N_RULE_COMPARISONS);
    fuzz_require(rule->reference < ES_N_RULE_REFERENCES);
    fuzz_require(rule->action < ES_N_RULE_ACTIONS);
    fuzz_require(isfinite(rule->threshold) && rule->samples >= 1);
    fuzz_require(rule->share >= 0 && rule->share <= 1);
    fuzz_require(rule->warm_up >= 0 && rule->warm_up <= 1);
    fuzz_require(rule->severity >= ES_SEVERITY_INFO);
    fuzz_require(rule->severity <= ES_SEVERITY_CRITICAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_rules_file file, back;
    size_t n_text, n_again;
    if (fuzz_succeeded(
            es_rules_file_parse(&file, "r.ini", (const char *)bytes, n))) {
        fuzz_require(file.n <= ES_RULES_MOST);
        fuzz_require(file.flags.collapse_samples >= 1);
        for (size_t i = 0; i < file.n; i++)
            check_rule(&file.rules[i]);
        char *text = print(&file, &n_text);
        fuzz_require(es_rules_file_parse(&back, "x", text, n_text) == ES_OK);
        char *again = print(&back, &n_again);
        fuzz_require(n_text == n_again && strcmp(text, again) == 0);
        free(text);
        free(again);
        es_rules_file_free(&back);
    }
    es_rules_file_free(&file);
    return 0;
}
