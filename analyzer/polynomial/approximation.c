/* Evaluates polynomial approximations, for the trainer's polynomial inference
 * and for the tables of the verb cost. polynomial.c computes the theoretical
 * cost of the approximations. */
#include "analyzer/polynomial/approximation.h"

#include "analyzer/polynomial/polynomial.h"

#include <float.h>
#include <math.h>

/* Number of steps in the grid of points at which the largest error is searched
   for. */
enum { PLACES = 4000 };

const char *const es_approximated_names[ES_N_APPROXIMATED] = {
    [ES_APPROXIMATED_ATTN] = "attn",
    [ES_APPROXIMATED_ACT] = "act",
    [ES_APPROXIMATED_NORM] = "norm"};

/* --- gates ---------------------------------------------------------------- */

bool es_gate_exists(es_activation kind)
{
    return kind == ES_ACT_GELU || kind == ES_ACT_GELU_TANH ||
           kind == ES_ACT_GELU_SIGMOID;
}

double es_gate_exact(es_activation kind, double x)
{
    if (kind == ES_ACT_GELU)
        return erfc(-x * M_SQRT1_2) / 2;
    if (kind == ES_ACT_GELU_TANH)
        return (1 + tanh(sqrt(M_2_PI) * (x + 0.044715 * x * x * x))) / 2;
    return 1 / (1 + exp(-1.702 * x));
}

bool es_gate_make(es_gate *out, es_activation kind, int degree, double range)
{
    const int n = degree + 1;
    if (!es_gate_exists(kind) || degree < 1 || degree > ES_GATE_MOST_DEGREE ||
        !(range > 0) || !isfinite(range))
        return false;
    *out = (es_gate){.kind = kind, .range = range, .degree = degree};
    for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            const double angle = M_PI * (i + 0.5) / n;
            sum += es_gate_exact(kind, range * cos(angle)) * cos(j * angle);
        }
        out->coefficients[j] = sum * (j ? 2 : 1) / n;
    }
    return true;
}

double es_gate_error(const es_gate *gate)
{
    double largest = 0;
    for (int i = -PLACES; i <= PLACES; i++) {
        const double x = gate->range * i / PLACES;
        const double error =
            es_gate_f64(gate, x) - es_gate_exact(gate->kind, x);
        largest = fmax(largest, fabs(error * x));
    }
    return largest;
}

double es_polynomial_gelu_error(int degree, double range)
{
    es_gate gate;
    if (degree % 2 == 0 ||
        !es_gate_make(&gate, ES_ACT_GELU_SIGMOID, degree, range / 1.702))
        return NAN;
    return es_gate_error(&gate);
}

/* --- PowerSoftmax --------------------------------------------------------- */

/* Returns the length L in the formula of PowerSoftmax for a row that sees n
 * keys. */
static double length_of(const es_power_form *form, int n)
{
    return form->length == ES_LENGTH_NONE      ? 1
           : form->length == ES_LENGTH_VISIBLE ? n
                                               : form->n_ctx;
}

/* Returns the constant that PowerSoftmax's denominator contains in addition to
   the sum of powers. */
static double constant_of(const es_power_form *form)
{
    return form->plain && form->epsilon > 0
               ? form->epsilon / pow(form->unit, form->power)
               : 0;
}

#define REAL float
#define NAME(name) name##_f32
#include "analyzer/polynomial/approximation.inc.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(name) name##_f64
#include "analyzer/polynomial/approximation.inc.h"

double es_power_denominator(const es_power_form *form, const float *scores,
                            int n)
{
    return prepare_f64(NULL, form, scores, n);
}

void es_power_weigh_exact(double *weights, const es_power_form *form,
                          const float *scores, int n)
{
    double largest = 0, sum = form->epsilon * length_of(form, n);
    for (int j = 0; j < n; j++)
        largest = fmax(largest, fabs((double)scores[j]));
    const double per = form->plain ? 1 : 1 / (largest + 1e-6);
    for (int j = 0; j < n; j++) {
        weights[j] = raise_f64((double)scores[j] * per, form->power);
        sum += weights[j];
    }
    const double inverse = sum > 0 && isfinite(sum) ? 1 / sum : (double)NAN;
    for (int j = 0; j < n; j++)
        weights[j] *= inverse;
}

double es_division_error(const es_division *how)
{
    const double width = how->in.high - how->in.low;
    double largest = 0;
    for (int i = 0; i <= PLACES; i++) {
        const double x = how->in.low + width * i / PLACES;
        largest = fmax(largest, fabs(es_divide_f64(how, x) - 1 / x));
    }
    return largest;
}

/* --- findings ------------------------------------------------------------- */

/* Returns the larger value; NaN if either value is NaN. */
static double pick_larger(double x, double y)
{
    return isnan(x) || x > y ? x : y;
}

es_findings es_findings_start(void)
{
    return (es_findings){.low = INFINITY, .high = -INFINITY};
}

void es_findings_add_input(es_findings *findings, double x,
                           const es_interval *interval)
{
    findings->n++;
    findings->n_outside +=
        interval ? !es_interval_has(interval, x) : !isfinite(x);
    if (!isfinite(x))
        return;
    findings->low = fmin(findings->low, x);
    findings->high = fmax(findings->high, x);
}

void es_findings_add_result(es_findings *findings, float f32, double f64,
                            double exact)
{
    findings->error = pick_larger(findings->error, fabs((double)f32 - exact));
    findings->rounding =
        pick_larger(findings->rounding, fabs((double)f32 - f64));
}

void es_findings_add_size(es_findings *findings, float x)
{
    findings->largest = pick_larger(findings->largest, fabs((double)x));
}

void es_findings_merge(es_findings *findings, const es_findings *more)
{
    findings->n += more->n;
    findings->n_outside += more->n_outside;
    findings->low = fmin(findings->low, more->low);
    findings->high = fmax(findings->high, more->high);
    findings->largest = pick_larger(findings->largest, more->largest);
    findings->error = pick_larger(findings->error, more->error);
    findings->rounding = pick_larger(findings->rounding, more->rounding);
}

/* --- choosing ------------------------------------------------------------- */

/* Sets the interval to the range of the inputs in `found`, widened by the
   margin. Returns false unless all inputs are positive. */
static bool widen_interval(es_interval *out, const es_findings *found,
                           double least, double margin)
{
    const double rounded = least * (1 - 4 * (double)FLT_EPSILON);
    *out =
        (es_interval){fmax(found->low / margin, rounded), found->high * margin};
    return found->low > 0 && found->high >= found->low && isfinite(out->high) &&
           out->low > 0;
}

bool es_division_choose(es_division *out, const es_approximation_choice *choice,
                        const es_findings *found, double least)
{
    es_interval *in = &out->in;
    if (!widen_interval(in, found, least, choice->margin))
        return false;
    const int needed =
        es_polynomial_inverse(in->high / in->low, choice->error).iterations;
    out->factors = choice->factors > 0 ? choice->factors
                   : needed < 0 || needed > ES_DIVISION_MOST_FACTORS
                       ? ES_DIVISION_MOST_FACTORS
                       : needed;
    return true;
}

bool es_inverse_root_choose(es_inverse_root *out,
                            const es_approximation_choice *choice,
                            const es_findings *found)
{
    es_interval *in = &out->in;
    if (!widen_interval(in, found, 0, choice->margin))
        return false;
    const int needed =
        es_polynomial_rsqrt(in->high / in->low, choice->error).iterations;
    out->steps = choice->steps > 0 ? choice->steps
                 : needed < 0 || needed > ES_POLYNOMIAL_MOST_ITERATIONS
                     ? ES_POLYNOMIAL_MOST_ITERATIONS
                     : needed;
    return true;
}

bool es_gate_choose(es_gate *out, const es_approximation_choice *choice,
                    const es_findings *found, es_activation kind)
{
    const double range =
        choice->margin * fmax(fabs(found->low), fabs(found->high));
    if (choice->degree > 0)
        return es_gate_make(out, kind, choice->degree, range);
    for (int degree = 7; degree <= ES_GATE_MOST_DEGREE; degree = 2 * degree + 1)
        if (!es_gate_make(out, kind, degree, range))
            return false;
        else if (es_gate_error(out) <= choice->error)
            break;
    return true;
}

/* --- depth ---------------------------------------------------------------- */

int es_attention_levels(int power, int factors)
{
    return factors + 4 + (int)ceil(log2(power));
}

int es_norm_levels(int steps)
{
    return 2 * steps + 3;
}

int es_activation_levels(int degree)
{
    return es_polynomial_levels(degree);
}
