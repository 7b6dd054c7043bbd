/* Finds the symbol with which figures show a quantity, given the name that
 * configurations and series use for the quantity. */
#include "cli/runs/labels.h"

#include <string.h>

/* clang-format off: keep one row per quantity */
static const struct {
    const char *name, *symbol;
} symbols[] = {
    {"alpha", "\xce\xb1"},
    {"beta", "\xce\xb2"},
    {"beta1", "\xce\xb2\xe2\x82\x81"},
    {"beta2", "\xce\xb2\xe2\x82\x82"},
    {"ctx", "T"},
    {"d_model", "d"},
    {"eps", "\xce\xb5"},
    {"epsilon", "\xce\xb5"},
    {"ereg_reduce", "reduction"},
    {"gamma", "\xce\xb3"},
    {"lambda", "\xce\xbb"},
    {"n_head", "H"},
    {"n_layer", "L"},
    {"sigma", "\xcf\x83"},
    {"t_init", "t\xe2\x82\x80"},
    {"tau", "\xcf\x84"},
    {"theta", "\xce\xb8"},
    {"theta_init", "\xce\xb8\xe2\x82\x80"},
};
/* clang-format on */

const char *es_symbol_of(const char *name)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].symbol;
    return NULL;
}
