/* Implements entropy-scan cost --figure inverse, which draws the error of a
 * polynomial that approximates 1/x against the number of its factors (figure 7
 * of the PowerSoftmax paper). The figure needs no model. */
#include "analyzer/polynomial/approximation.h"
#include "cli/cost/cost.h"
#include "render/figures/curves.h"

#include <math.h>

enum { FACTORS = 16, EPSILONS = 4 };

es_status es_cost_draw_inverse(es_picture **out, const es_cost_options *options)
{
    static const double epsilons[EPSILONS] = {1e-4, 1e-3, 1e-2, 1e-1};
    static const char *const labels[EPSILONS] = {
        "\u03b5 = 10\u207b\u2074", "\u03b5 = 10\u207b\u00b3",
        "\u03b5 = 10\u207b\u00b2", "\u03b5 = 10\u207b\u00b9"};
    int64_t factors[FACTORS];
    float errors[EPSILONS][FACTORS];
    es_curve curves[EPSILONS];
    for (int i = 0; i < EPSILONS; i++) {
        for (int d = 0; d < FACTORS; d++) {
            const es_division how = {{epsilons[i], 1 + epsilons[i]}, d + 1};
            factors[d] = d + 1;
            errors[i][d] = (float)es_division_error(&how);
        }
        curves[i] = (es_curve){.label = labels[i],
                               .x = factors,
                               .values = errors[i],
                               .n = FACTORS,
                               .color = (size_t)i};
    }
    const es_curves_panel panel = {.curves = curves, .n_curves = EPSILONS};
    return es_curves_draw(
        out,
        &(es_curves){
            .style = es_figures_style(&options->look, options->format),
            .panels = &panel,
            .n_panels = 1,
            .y_text = "largest error of 1 / (x + \u03b5)",
            .logarithmic = true,
            .x_text = "factors of the division",
            .colors = ES_CURVES_BY_CATEGORY,
            .reference = (double)NAN,
            .note = "0 \u2264 x \u2264 1, by Goldschmidt in float64: "
                    "s (1 + e) (1 + e\u00b2) (1 + e\u2074)..., e = 1 \u2212 s "
                    "(x + \u03b5), s = 2 / (1 + 2\u03b5). Encrypted "
                    "numbers have less precision."});
}
