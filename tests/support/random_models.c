/* Creates random configurations and parameters of models, for tests of
   properties that must hold for all models. */
#include "tests/support/random_models.h"
#include "analyzer/base/text.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

/* --- choices -------------------------------------------------------------- */

static uint64_t *begin(uint64_t *state, uint64_t seed)
{
    *state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 8; i++)
        es_test_random(state);
    return state;
}

/* Returns a random integer in [low, high]. */
static int pick(uint64_t *state, int low, int high)
{
    const double share = (es_test_random(state) + 1) / 2;
    return low + (int)(share * (high - low + 1));
}

static bool happens(uint64_t *state, int percent)
{
    return pick(state, 1, 100) <= percent;
}

#define CHOOSE(state, list)                                                    \
    (list)[pick(state, 0, (int)(sizeof(list) / sizeof *(list)) - 1)]

/* --- the architecture ----------------------------------------------------- */

enum { MAX_PARTS = 16, PART_SIZE = 32 };

typedef struct parts {
    char text[MAX_PARTS][PART_SIZE];
    int n;
} parts;

static void add(parts *to, const char *text)
{
    snprintf(to->text[to->n++], PART_SIZE, "%s", text);
}

static const char *draw_attention(uint64_t *state)
{
    static const char *const attentions[] = {"SM",
                                             "SM",
                                             "SM",
                                             "SM(gate)",
                                             "SM(t)",
                                             "SM(t,gate)",
                                             "SM(t)",
                                             "PSM(2)",
                                             "PSM(4)",
                                             "PSM(8)",
                                             "PSM(6,1e-2)",
                                             "PSM(2, 0.05)",
                                             "RA",
                                             "PSM(4,length)",
                                             "PSM(2,0.1,plain)"};
    return CHOOSE(state, attentions);
}

static void draw_ffn(parts *to, int n_layer, uint64_t *state)
{
    static const char *const kinds[] = {"G",
                                        "GT",
                                        "R",
                                        "LR(0.05)",
                                        "LR(-0.3)",
                                        "LR(layer)",
                                        "LR(global)",
                                        "LR(layer,0.2)",
                                        "LR(global,1e-1)",
                                        "ScFFN",
                                        "ScFFN",
                                        "ScFuFFN",
                                        "GS"};
    char removed[PART_SIZE];
    /* Without an FFN part, a model has FFNs of two linear matrices. */
    if (happens(state, 15))
        return;
    if (happens(state, 15)) {
        snprintf(removed, sizeof removed, "ScFuFFNi%d",
                 pick(state, 0, n_layer));
        add(to, removed);
    } else {
        add(to, CHOOSE(state, kinds));
    }
}

/* Adds WNorm, SNorm, both or neither. They never apply to the same matrix. */
static void draw_norms(parts *to, uint64_t *state)
{
    static const char *const sets[] = {"FFN",    "QK",      "QKV",     "QKVO",
                                       "QK,FFN", "QKV,FFN", "QKVO,FFN"};
    const bool swapped = happens(state, 50);
    const char *first = swapped ? "SNorm" : "WNorm";
    const char *second = swapped ? "WNorm" : "SNorm";
    char text[PART_SIZE];
    if (happens(state, 40))
        return;
    const bool both = happens(state, 30);
    snprintf(text, sizeof text, "%s(%s)", first,
             both ? "FFN" : CHOOSE(state, sets));
    add(to, text);
    snprintf(text, sizeof text, "%s(%s)", second, sets[pick(state, 1, 3)]);
    if (both)
        add(to, text);
}

/* Adds an architecture part that applies to a single layer. */
static void add_to_layer(parts *to, const char *part, int layer)
{
    snprintf(to->text[to->n++], PART_SIZE, "%s[%d]", part, layer);
}

/* Draws architecture parts separately for each layer. */
static void draw_by_layer(parts *to, int n_layer, uint64_t *state)
{
    static const char *const kinds[] = {
        "G", "GT",    "R",       "LR(0.05)", "LR(layer,0.2)", "LR(layer)",
        "",  "ScFFN", "ScFuFFN", "ScFFN",    "ScFuFFN"};
    static const char *const norms[] = {
        "WNorm(FFN)",    "SNorm(FFN)",     "SNorm(QK,FFN)", "WNorm(QKV)",
        "WNorm(QK,FFN)", "SNorm(QKV,FFN)", "WNorm(QKVO)"};
    for (int layer = 0; layer < n_layer; layer++) {
        const char *kind = CHOOSE(state, kinds);
        if (kind[0])
            add_to_layer(to, kind, layer);
        if (happens(state, 50))
            add_to_layer(to, "LN", layer);
        if (happens(state, 60))
            add_to_layer(to, CHOOSE(state, norms), layer);
        if (happens(state, 25))
            add_to_layer(to, "NoFFN", layer);
    }
}

static void shuffle(parts *of, uint64_t *state)
{
    char kept[PART_SIZE];
    for (int i = of->n - 1; i > 0; i--) {
        const int other = pick(state, 0, i);
        memcpy(kept, of->text[i], PART_SIZE);
        memcpy(of->text[i], of->text[other], PART_SIZE);
        memcpy(of->text[other], kept, PART_SIZE);
    }
}

static void draw_arch(char *out, int n_layer, uint64_t *state)
{
    parts drawn = {.n = 0};
    const bool regularised = happens(state, 40);
    size_t n =
        (size_t)snprintf(out, ES_ARCH_TEXT_MAX, "%s%s",
                         regularised ? "EReg(" : "", draw_attention(state));
    if (happens(state, 25)) {
        draw_by_layer(&drawn, n_layer, state);
    } else {
        if (happens(state, 50))
            add(&drawn, "LN");
        draw_ffn(&drawn, n_layer, state);
        draw_norms(&drawn, state);
    }
    shuffle(&drawn, state);
    for (int i = 0; i < drawn.n; i++)
        n += (size_t)snprintf(out + n, ES_ARCH_TEXT_MAX - n, "%s%s",
                              happens(state, 20) ? " + " : "+", drawn.text[i]);
    snprintf(out + n, ES_ARCH_TEXT_MAX - n, "%s", regularised ? ")" : "");
}

/* --- sizes ---------------------------------------------------------------- */

static int draw_head_width(const es_model_config *config, uint64_t *state)
{
    /* With these head widths, more than two dimensions are rotated. */
    static const int wide[] = {11, 16, 17, 25};
    if (config->family == ES_FAMILY_PYTHIA && config->n_head < 3 &&
        happens(state, 40))
        return CHOOSE(state, wide);
    /* With one head, the width must be at least 3, because a LayerNorm of two
     * numbers always returns 1 and -1. */
    return pick(state, config->n_head == 1 ? 3 : 2, 6);
}

static void draw_config(es_model_config *out, char *arch, uint64_t *state)
{
    es_model_config_default(out);
    out->n_layer = pick(state, 1, 3);
    do
        out->n_head = pick(state, 1, 3);
    while (out->n_head == out->n_layer);
    draw_arch(arch, out->n_layer, state);
    es_assert_ok(es_arch_parse(&out->arch, arch));
    out->family = happens(state, 40) ? ES_FAMILY_PYTHIA : ES_FAMILY_GPT2;
    out->d_model = out->n_head * draw_head_width(out, state);
    out->ctx = pick(state, 1, 9);
    out->vocab = pick(state, 2, 12);
    out->batch = pick(state, 1, 3);
    out->mlp_mult = pick(state, 1, 3);
    out->bias = (es_bias)pick(state, 0, 2);
    out->final_norm = (es_final_norm)pick(state, 0, 2);
    out->ereg_reduce = (es_ereg_reduce)pick(state, 0, 1);
    out->gamma = happens(state, 15) ? 0 : 0.05 * pick(state, 1, 6);
    out->lambda =
        out->ereg_reduce == ES_EREG_MEAN ? 0.5 : 1.0 / (out->batch * out->ctx);
}

/* --- parameters ----------------------------------------------------------- */

static double draw_log_temperature(uint64_t *state)
{
    return happens(state, 10) ? log(1e-4) + es_test_random(state)
                              : 0.7 * es_test_random(state);
}

static double draw_entry(const es_ref_model *model, size_t index,
                         uint64_t *state)
{
    const char *name = model->names[index];
    const bool is_matrix = model->dims[index][1] != 0;
    if (es_text_ends(name, "attn.log_t"))
        return draw_log_temperature(state);
    const double x = es_test_random(state);
    if (es_text_ends(name, "attn.t"))
        return exp(0.7 * x);
    if (es_text_ends(name, "theta"))
        return 0.5 + 0.4 * x;
    if (es_text_ends(name, "slope") || es_text_ends(name, "bias"))
        return 0.3 * x;
    if (is_matrix && es_text_ends(name, "weight"))
        return x * 1.7 / sqrt(model->dims[index][0]);
    if (is_matrix || es_ref_is_state(name)) /* including embeddings */
        return x;
    return 1 + 0.5 * x; /* LayerNorm weights and the parameters g, alpha and
                           beta are near 1 */
}

/* Scales each row of a parameter array that holds SNorm's vectors u or v to
 * length 1. */
static void make_unit(es_ref_model *model, size_t index)
{
    const bool is_matrix = model->dims[index][1] != 0;
    const int n = model->dims[index][is_matrix ? 1 : 0];
    for (size_t first = 0; first < model->sizes[index]; first += (size_t)n) {
        double *row = model->values[index] + first, squares = 0;
        for (int i = 0; i < n; i++)
            squares += row[i] * row[i];
        for (int i = 0; i < n; i++)
            row[i] /= sqrt(squares);
    }
}

static void draw_numbers(es_ref_case *it, uint64_t seed)
{
    es_ref_model *model = it->model;
    const es_model_config *config = &model->config;
    uint64_t state;
    begin(&state, seed);
    for (size_t i = 0; i < model->n_arrays; i++) {
        for (size_t j = 0; j < model->sizes[i]; j++) {
            const bool is_zero = es_ref_model_is_frozen(model, i, j) &&
                                 !es_ref_is_state(model->names[i]);
            model->values[i][j] = is_zero ? 0 : draw_entry(model, i, &state);
        }
        if (es_ref_is_state(model->names[i]))
            make_unit(model, i);
    }
    es_ref_model_round(model);
    for (int i = 0; i < config->batch * config->ctx; i++) {
        it->tokens[i] = pick(&state, 0, config->vocab - 1);
        it->targets[i] = pick(&state, 0, config->vocab - 1);
    }
}

/* Returns true if the parameters are not near a kink of the model's function.
 * Changes SNorm's vectors u and v. */
static bool is_clear(es_ref_case *it)
{
    es_ref_result *result = es_ref_result_new(&it->model->config);
    es_ref_model_iterate(it->model);
    es_ref_model_run(it->model, result, it->tokens, it->targets);
    const bool clear = result->clearance >= 1e-4;
    es_ref_result_free(result);
    return clear;
}

es_ref_case es_random_case_of(const es_model_config *config, uint64_t seed)
{
    const size_t n = (size_t)(config->batch * config->ctx);
    es_ref_case it = {.model = es_ref_model_new(config),
                      .tokens = calloc(n, sizeof *it.tokens),
                      .targets = calloc(n, sizeof *it.targets)};
    for (uint64_t attempt = 0; attempt < 8192; attempt++) {
        const uint64_t own = (seed << 13) + attempt;
        draw_numbers(&it, own);
        if (is_clear(&it)) {
            draw_numbers(&it, own);
            return it;
        }
    }
    fail_msg("seed %llu: found no parameters that are away from all kinks",
             (unsigned long long)seed);
    return it;
}

es_ref_case es_random_case(char *arch, uint64_t seed)
{
    es_model_config config;
    uint64_t state;
    draw_config(&config, arch, begin(&state, seed));
    return es_random_case_of(&config, seed);
}
