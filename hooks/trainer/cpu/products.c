/* Chooses the library of matrix products: the library that --products names, or
 * with `auto` the faster library for each shape. */
#include "hooks/trainer/cpu/products.h"

/* true if oneDNN's kernels support bf16; a oneDNN without bf16 kernels is
 * slower than OpenBLAS even in float32 */
static bool has_bf16;

/* Returns true if oneDNN is faster than OpenBLAS for this product. The rule
 * comes from bench_products on a processor with AVX-512. In float32, oneDNN is
 * 10 to 20 % faster if C has few columns, and OpenBLAS is faster if C has many.
 * If A is transposed, both libraries must copy A; oneDNN is then also faster
 * for more columns if C has few rows, but not for very few columns. */
static bool is_for_onednn(const es_product *p)
{
    const int widest = p->a_transposed && p->m <= 256 ? 1024 : 256;
    const int narrowest = p->a_transposed ? 64 : 0;
    return p->in == ES_NUMBER_BF16 ? has_bf16
                                   : p->n > narrowest && p->n <= widest;
}

static void multiply(const es_product_call *call)
{
    if (is_for_onednn(&call->shape))
        es_products_onednn.multiply(call);
    else
        es_products_openblas.multiply(call);
}

static es_status open_both(void)
{
    const es_status status = es_products_onednn.open();
    if (status != ES_OK)
        return status;
    const char *kernels_name = es_products_onednn.kernels();
    has_bf16 = strstr(kernels_name, "bf16") || strstr(kernels_name, "amx");
    return ES_OK;
}

static void version(char *out, size_t size)
{
    es_products_onednn.version(out, size);
}

static const char *kernels(void)
{
    return es_products_onednn.kernels();
}

static es_status status_of(void)
{
    return es_products_onednn.status();
}

const es_products es_products_by_shape = {.name = "auto",
                                          .open = open_both,
                                          .version = version,
                                          .kernels = kernels,
                                          .multiply = multiply,
                                          .status = status_of};

/* --- the choice ------------------------------------------------------------*/

static const es_products *used; /* NULL until a library is chosen */
static es_products_choice chosen;

es_status es_products_use(es_products_choice *choice)
{
    static const es_products *const libraries[ES_N_PRODUCTS] = {
        [ES_PRODUCTS_AUTO] = &es_products_by_shape,
        [ES_PRODUCTS_OPENBLAS] = &es_products_openblas,
        [ES_PRODUCTS_ONEDNN] = &es_products_onednn};
    const es_products *onednn = &es_products_onednn;
    if (*choice == ES_PRODUCTS_AUTO &&
        (onednn->open() != ES_OK || !strstr(onednn->kernels(), "avx512")))
        *choice = ES_PRODUCTS_OPENBLAS;
    const es_status status = libraries[*choice]->open();
    if (status != ES_OK)
        return status;
    used = libraries[*choice];
    chosen = *choice;
    return ES_OK;
}

const es_products *es_products_used(es_products_choice *choice)
{
    es_products_choice first = ES_PRODUCTS_AUTO;
    if (!used && es_products_use(&first) != ES_OK)
        used = &es_products_openblas;
    *choice = chosen;
    return used;
}
