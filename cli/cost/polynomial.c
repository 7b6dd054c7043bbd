/* Implements entropy-scan cost --polynomial, which prints the cost of the
 * polynomials that replace functions under homomorphic encryption. */
#include "analyzer/polynomial/polynomial.h"
#include "analyzer/polynomial/approximation.h"

#include "analyzer/base/text.h"
#include "cli/cost/cost.h"
#include "cli/output/grid.h"

typedef es_polynomial_cost approximation(double k, double error);

/* Prints how many iterations and multiplicative levels an approximation needs:
 * a row for each range of the argument, two columns for each relative error. */
static es_status print_iterations(FILE *stream, approximation *cost)
{
    static const double ranges[] = {10, 67, 100, 128, 512, 750, 1e3, 1e4, 1e6};
    static const double errors[] = {1e-2, 1e-3, 1e-4, 1e-6};
    es_sheet sheet = {0};
    es_table_options form;
    es_table_options_for(&form, stream);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put(&sheet, "range", "%g", ranges[i]);
        for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
            const es_polynomial_cost found = cost(ranges[i], errors[k]);
            char title[32];
            snprintf(title, sizeof title, "error %g", errors[k]);
            es_text_shorten_exponents(title);
            es_sheet_put(&sheet, title, "%d", found.iterations);
            es_sheet_put(&sheet, "levels", "%d", found.levels);
        }
    }
    es_status status = es_sheet_print(&sheet, stream, &form);
    es_sheet_free(&sheet);
    return status;
}

static es_status print_gelu(FILE *stream)
{
    static const int degrees[] = {7, 15, 31, 63};
    es_sheet sheet = {0};
    es_table_options form;
    es_table_options_for(&form, stream);
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put(&sheet, "degree", "%d", degrees[i]);
        es_sheet_put(&sheet, "levels", "%d", es_polynomial_levels(degrees[i]));
        for (int range = 8; range <= 32; range *= 2) {
            char title[32];
            snprintf(title, sizeof title, "error, |u| <= %d", range);
            es_sheet_put(&sheet, title, "%.2g",
                         es_polynomial_gelu_error(degrees[i], range));
        }
    }
    es_status status = es_sheet_print(&sheet, stream, &form);
    es_sheet_free(&sheet);
    return status;
}

es_status es_cost_print_polynomials(FILE *stream)
{
    es_status status;
    fputs("inverse of PowerSoftmax's sum (Goldschmidt): number of factors "
          "and of multiplicative levels that reach each relative error;\n"
          "range: largest argument divided by the smallest one; in the stable "
          "form, at most the number of keys in a row\n",
          stream);
    if ((status = print_iterations(stream, es_polynomial_inverse)) < 0)
        return status;
    fputs("\n"
          "LayerNorm's inverse square root (Newton): number of steps and of "
          "levels\n",
          stream);
    if ((status = print_iterations(stream, es_polynomial_rsqrt)) < 0)
        return status;
    fputs("\n"
          "GELU as x p(u), u = 1.702 x, where p is a Chebyshev approximation "
          "of the sigmoid: for each degree of p,\n"
          "the error that p adds to the error 0.0203 of x sigmoid(u); beyond "
          "the range, this error grows without bound\n",
          stream);
    return print_gelu(stream);
}
