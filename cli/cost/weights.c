/* Implements entropy-scan cost --figure weights, which draws the attention
 * weights that softmax and PowerSoftmax compute from three vectors of scores:
 * normally distributed, uniformly distributed and evenly spaced (figure 1 of
 * the PowerSoftmax paper). The figure needs no model. */
#include "cli/cost/cost.h"
#include "render/figures/curves.h"

#include <math.h>
#include <stdlib.h>

enum { SCORES = 32, KINDS = 4, VECTORS = 3, NORMAL = 0, UNIFORM = 1 };

/* Largest absolute score of the uniform and of the evenly spaced vector. */
#define WIDEST 3.0

/* Powers of PowerSoftmax; 0 stands for softmax. */
static const int powers[KINDS] = {0, 2, 4, 8};

/* Returns a number in (0,1) of a fixed sequence (Knuth's generator for
 * MMIX). */
static double draw_number(uint64_t *state)
{
    *state =
        *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static int compare_scores(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sets the scores of vector `vector` (normal, uniform or evenly spaced), in
 * ascending order. */
static void make_vector(double scores[SCORES], int vector)
{
    uint64_t state = 5;
    for (int i = 0; i < SCORES; i++) {
        const double u = draw_number(&state), v = draw_number(&state);
        scores[i] = vector == NORMAL    ? sqrt(-2 * log(u)) * cos(2 * M_PI * v)
                    : vector == UNIFORM ? WIDEST * (2 * u - 1)
                                        : WIDEST * (2.0 * i / (SCORES - 1) - 1);
    }
    qsort(scores, SCORES, sizeof *scores, compare_scores);
}

static void weigh(float out[SCORES], const double scores[SCORES], int power)
{
    double weights[SCORES], sum = 0;
    for (int i = 0; i < SCORES; i++) {
        weights[i] = power ? pow(scores[i], power) : exp(scores[i]);
        sum += weights[i];
    }
    for (int i = 0; i < SCORES; i++)
        out[i] = (float)(weights[i] / sum);
}

es_status es_cost_draw_weights(es_picture **out, const es_cost_options *options)
{
    static const char *const labels[KINDS] = {"softmax", "p = 2", "p = 4",
                                              "p = 8"};
    static const char *const titles[VECTORS] = {"normal", "uniform",
                                                "evenly spaced"};
    int64_t elements[SCORES];
    float weights[VECTORS][KINDS][SCORES];
    es_curve curves[VECTORS][KINDS];
    es_curves_panel panels[VECTORS];
    for (int i = 0; i < SCORES; i++)
        elements[i] = i + 1;
    for (int v = 0; v < VECTORS; v++) {
        double scores[SCORES];
        make_vector(scores, v);
        for (int k = 0; k < KINDS; k++) {
            weigh(weights[v][k], scores, powers[k]);
            curves[v][k] = (es_curve){.label = labels[k],
                                      .x = elements,
                                      .values = weights[v][k],
                                      .n = SCORES,
                                      .color = (size_t)k};
        }
        panels[v] = (es_curves_panel){
            .title = titles[v], .curves = curves[v], .n_curves = KINDS};
    }
    return es_curves_draw(
        out,
        &(es_curves){.style = es_figures_style(&options->look, options->format),
                     .panels = panels,
                     .n_panels = VECTORS,
                     .y_text = "weight",
                     .x_text = "rank of the score",
                     .colors = ES_CURVES_BY_CATEGORY,
                     .reference = (double)NAN,
                     .note = "32 scores x: normal with mean 0 and deviation 1; "
                             "uniform and evenly spaced from \u22123 to 3. "
                             "PowerSoftmax: weights proportional to x\u1d56."});
}
