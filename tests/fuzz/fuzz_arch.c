/* Fuzzes the notation of architectures: analyzer/arch/arch.h. */
#include "analyzer/arch/arch.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Checks that the canonical form of an accepted architecture can be parsed, and
 * that parsing and printing do not change it. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_arch arch, again;
    char printed[ES_ARCH_TEXT_MAX], twice[ES_ARCH_TEXT_MAX];
    char *text = fuzz_string(bytes, n);
    if (fuzz_succeeded(es_arch_parse(&arch, text))) {
        fuzz_require(es_arch_print(printed, sizeof printed, &arch) <
                     sizeof printed);
        fuzz_require(es_arch_parse(&again, printed) == ES_OK);
        es_arch_print(twice, sizeof twice, &again);
        fuzz_require(strcmp(printed, twice) == 0);
        fuzz_require(arch.slope == again.slope &&
                     arch.power_epsilon == again.power_epsilon &&
                     arch.clip == again.clip && arch.gate == again.gate &&
                     arch.n_removed == again.n_removed &&
                     arch.n_removed_first == again.n_removed_first &&
                     arch.no_ffn == again.no_ffn &&
                     arch.n_spans == again.n_spans);
    }
    free(text);
    return 0;
}
