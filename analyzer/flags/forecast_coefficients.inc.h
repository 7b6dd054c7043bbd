/* Made by samples/forecast/fit.py: not to be edited. */
#define FORECAST_WARNING 0.979305
#define FORECAST_WARNING_SAMPLES 1
#define FORECAST_STOP 0.999599
#define FORECAST_STOP_SAMPLES 1
#define FORECAST_BIAS -3.64095098

static const forecast_weight forecast_weights[] = {
    {"elapsed", -1.85834293, 3.90886499, 0.582936019},
    {"typical_ahead", -1.11940163, -0.644122133, 0.994202944},
    {"loss_noise", 0.892127846, -2.57841018, 0.98723159},
    {"grad", -0.43631082, 0.257412396, 1.01325142},
    {"grad_noise", 0.253235814, -1.0524139, 0.506174031},
};
