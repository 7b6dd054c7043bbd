/* Computes weight and spectral normalisation in double. */
#include "tests/support/reference_internal.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of a matrix that are normalised together: q, k or v in c_attn, or all
 * columns of any other matrix. */
typedef struct block {
    double *w; /* first column of the block in the matrix, whose shape is
                  (n_in,stride) */
    /* numbers of rows, of columns in the block, and of columns in the whole
     * matrix */
    int n_in, n_out, stride;
    double *g, *u, *v; /* gain (out), u (out), v (in); NULL if not used */
    /* is_weight: weight normalisation applies; is_power: spectral
     * normalisation, by power iteration, applies */
    bool is_weight, is_power;
} block;

static int n_blocks(const char *module)
{
    return strcmp(module, "attn.c_attn") == 0 ? 3 : 1;
}

static unsigned set_of(const char *module, int which)
{
    if (n_blocks(module) == 3)
        return which < 2 ? ES_NORM_QK : ES_NORM_V;
    if (strcmp(module, "attn.c_gate") == 0)
        return 0;
    return strcmp(module, "attn.c_proj") == 0 ? ES_NORM_O : ES_NORM_FFN;
}

static double *vector(const es_ref_model *ref, int layer, const char *module,
                      char letter)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%c", module, letter);
    return es_ref_of_layer(ref, layer, name);
}

static double *raw_weight(const es_ref_model *ref, int layer,
                          const char *module, int *dims)
{
    char name[96];
    snprintf(name, sizeof name, "h.%d.%s.weight", layer, module);
    for (size_t i = 0; i < ref->n_arrays; i++)
        if (strcmp(ref->names[i], name) == 0) {
            memcpy(dims, ref->dims[i], sizeof ref->dims[i]);
            return ref->values[i];
        }
    return NULL;
}

/* Returns block number `which` of the matrix w, whose shape is dims. */
static block block_of(const es_ref_model *ref, int layer, const char *module,
                      double *w, const int *dims, int which)
{
    const es_layer_parts parts = es_arch_parts(&ref->config.arch, layer);
    const int n_in = dims[0];
    const int n_out = dims[1] / n_blocks(module);
    block b = {.w = w + which * n_out,
               .n_in = n_in,
               .n_out = n_out,
               .stride = dims[1],
               .is_weight = parts.weight_norm & set_of(module, which),
               .is_power = parts.spectral_norm & set_of(module, which)};
    if (b.is_weight)
        b.g = vector(ref, layer, module, 'g') + which * n_out;
    if (b.is_power) {
        b.u = vector(ref, layer, module, 'u') + which * n_out;
        b.v = vector(ref, layer, module, 'v') + which * n_in;
    }
    return b;
}

/* Returns a copy of the block's columns, (in,out); the caller frees it. */
static double *cut(const block *b)
{
    double *out = es_ref_doubles(b->n_in * b->n_out);
    for (int i = 0; i < b->n_in * b->n_out; i++)
        out[i] = b->w[i / b->n_out * b->stride + i % b->n_out];
    return out;
}

static void normalise(const block *b)
{
    double *m = cut(b), *made = es_ref_doubles(b->n_in * b->n_out);
    if (b->is_weight)
        es_ref_weight_norm(made, m, b->g, b->n_in, b->n_out);
    else
        es_ref_spectral_norm(made, m, b->u, b->v, b->n_in, b->n_out);
    for (int i = 0; i < b->n_in * b->n_out; i++)
        b->w[i / b->n_out * b->stride + i % b->n_out] = made[i];
    free(m);
    free(made);
}

double *es_ref_weight(const es_ref_model *ref, int layer, const char *module)
{
    int dims[2];
    const double *raw = raw_weight(ref, layer, module, dims);
    double *w = es_ref_doubles(dims[0] * dims[1]);
    memcpy(w, raw, (size_t)(dims[0] * dims[1]) * sizeof *w);
    for (int which = 0; which < n_blocks(module); which++) {
        const block b = block_of(ref, layer, module, w, dims, which);
        if (b.is_weight || b.is_power)
            normalise(&b);
    }
    return w;
}

void es_ref_model_iterate(es_ref_model *ref)
{
    static const char *const modules[] = {"attn.c_attn", "attn.c_proj",
                                          "mlp.c_fc", "mlp.c_proj", "mlp.w"};
    for (int layer = 0; layer < ref->config.n_layer; layer++)
        for (int m = 0; m < 5; m++) {
            int dims[2];
            double *w = raw_weight(ref, layer, modules[m], dims);
            for (int which = 0; w && which < n_blocks(modules[m]); which++) {
                const block b =
                    block_of(ref, layer, modules[m], w, dims, which);
                double *columns = cut(&b);
                if (b.is_power)
                    es_ref_power_iteration(b.u, b.v, columns, b.n_in, b.n_out);
                free(columns);
            }
        }
}
