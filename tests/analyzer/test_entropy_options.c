/* Calls es_qk_statistics with random combinations of all options, for every
   variant of the kernels. Compares the statistics of rows and heads with the
   definition in entropy.h, which tests/support/entropy_definition.c implements
   in double precision. */
#include "tests/support/entropy_cases.h"

enum { ROUNDS = SANITIZED ? 100 : 200 };

static void test_entropy_options__all_options_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (int round = 1; round <= ROUNDS; round++) {
        options_case *c = new_options_case((uint64_t)round, 0, 0);
        print_message("# round %d\n", round);
        check_options_call(set, c, 1 + round % 3);
        free_options_case(c);
    }
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_options__all_options_agree),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
