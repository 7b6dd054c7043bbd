/* Written by `make cost-fit` (fit.py): do not edit. Each item has a coefficient
   (bytes of communication or seconds of latency per unit), its standard
   deviation, and a group number (errors within a group are correlated). The
   relative residuals of the fits and the ranges of the fitted rows follow.
   Source: AERO (Jha and Reagen, arXiv 2410.13060), tables 4 to 7, figure 1;
   28 rows. */
/* clang-format off */
static const coefficient coefficients[][ES_N_COST_ITEMS] = {
    [ES_COST_BYTES] = {
        [ES_COST_SOFTMAX] = {1718.55, 5.48, 0},
        [ES_COST_LAYER_NORM] = {865.847, 19.7, 1},
        [ES_COST_GELU] = {3455.65, 17.9, 2},
        [ES_COST_RELU] = {90.64, 8.46, 3},
        [ES_COST_LINEAR] = {56.5302, 1.63, 4},
        [ES_COST_OUTPUT] = {228.574, 8.82, 5},
        [ES_COST_FIXED] = {2.63049e+08, 5.57e+07, 6},
    },
    [ES_COST_SECONDS] = {
        [ES_COST_SOFTMAX] = {1.43082e-05, 7.94e-07, 0},
        [ES_COST_LAYER_NORM] = {7.2088e-06, 4e-07, 0},
        [ES_COST_GELU] = {2.87708e-05, 1.6e-06, 0},
        [ES_COST_RELU] = {7.54643e-07, 4.19e-08, 0},
        [ES_COST_LINEAR] = {6.28342e-06, 4.85e-07, 1},
        [ES_COST_OUTPUT] = {2.77345e-05, 1.08e-06, 2},
    },
};
static const double residual[] = {
    [ES_COST_BYTES] = 0.0043,
    [ES_COST_SECONDS] = 0.0441,
};
static const span fitted_layers = {12, 18};
static const span fitted_heads = {12, 12};
static const span fitted_width = {768, 768};
static const span fitted_ctx = {128, 512};
static const span fitted_mult = {4, 4};
static const span fitted_vocab = {16384, 50257};
