/* Describes the product library and the kernels of the CPU back-end for
 * --version, for bench and for the run's configuration, and writes a warning if
 * the library is slower than necessary. */
#include "hooks/trainer/cpu/engine.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/cpu/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OPENBLAS "OPENBLAS_CORETYPE"
#define ONEDNN "ONEDNN_MAX_CPU_ISA"

static const char *const vector_names[] = {[ES_VECTORS_PLAIN] = "not AVX2",
                                           [ES_VECTORS_AVX2] = "AVX2",
                                           [ES_VECTORS_AVX512] = "AVX-512",
                                           [ES_VECTORS_AMX] = "AMX"};

/* Names that OpenBLAS (up to 0.3.30) and oneDNN give their x86-64 kernels, with
 * the vectors that the kernels use. Names that are missing here belong to
 * another architecture or are newer; they cause no warning. */
static const struct {
    const char *kernels;
    es_vectors vectors;
} known[] = {
    {"Prescott", ES_VECTORS_PLAIN},
    {"Core2", ES_VECTORS_PLAIN},
    {"Penryn", ES_VECTORS_PLAIN},
    {"Dunnington", ES_VECTORS_PLAIN},
    {"Nehalem", ES_VECTORS_PLAIN},
    {"Atom", ES_VECTORS_PLAIN},
    {"Athlon", ES_VECTORS_PLAIN},
    {"Opteron", ES_VECTORS_PLAIN},
    {"Opteron_SSE3", ES_VECTORS_PLAIN},
    {"Barcelona", ES_VECTORS_PLAIN},
    {"Bobcat", ES_VECTORS_PLAIN},
    {"Nano", ES_VECTORS_PLAIN},
    {"Sandybridge", ES_VECTORS_PLAIN},
    {"Bulldozer", ES_VECTORS_PLAIN},
    {"Piledriver", ES_VECTORS_PLAIN},
    {"Steamroller", ES_VECTORS_PLAIN},
    {"Haswell", ES_VECTORS_AVX2},
    {"Zen", ES_VECTORS_AVX2},
    {"Excavator", ES_VECTORS_AVX2},
    {"SkylakeX", ES_VECTORS_AVX512},
    {"Cooperlake", ES_VECTORS_AVX512},
    {"SapphireRapids", ES_VECTORS_AVX512},
    {"sse41", ES_VECTORS_PLAIN},
    {"avx", ES_VECTORS_PLAIN},
    {"avx2", ES_VECTORS_AVX2},
    {"avx2_vnni", ES_VECTORS_AVX2},
    {"avx512_core", ES_VECTORS_AVX512},
    {"avx512_core_vnni", ES_VECTORS_AVX512},
    {"avx512_core_bf16", ES_VECTORS_AVX512},
    {"avx512_core_amx", ES_VECTORS_AMX},
};

/* Returns the value of the environment variable `variable` that makes the
 * library use kernels for `vectors`. */
static const char *setting_for(const char *variable, es_vectors vectors)
{
    if (strcmp(variable, OPENBLAS) == 0)
        return vectors >= ES_VECTORS_AVX512 ? "SkylakeX" : "Haswell";
    return "ALL";
}

void es_cpu_engine_judge(char *note, size_t size, const es_cpu_library *library,
                         es_vectors processor)
{
    const size_t n = sizeof known / sizeof *known;
    const char *requested = library->requested;
    size_t i = 0;
    snprintf(note, size, "%s", "");
    while (i < n && strcasecmp(known[i].kernels, library->kernels) != 0)
        i++;
    if (i == n || known[i].vectors >= processor)
        return;
    es_text text = es_text_begin(note, size);
    es_text_append(
        &text, "%s uses its kernels for %s (%s), but the processor has %s: ",
        library->name, known[i].kernels, vector_names[known[i].vectors],
        vector_names[processor]);
    if (requested && *requested)
        es_text_append(&text, "unset %s (%s)", library->variable, requested);
    else
        es_text_append(&text, "install a newer version, or set %s=%s",
                       library->variable,
                       setting_for(library->variable, processor));
}

static es_vectors widest_supported(es_vectors from)
{
    while (!es_vectors_supported(from))
        from--;
    return from;
}

/* Appends the library's name to out->products. Stores the warning about the
 * library in out->note unless out->note already holds one. */
static void add_library(es_cpu_engine *out, const es_products *products,
                        es_cpu_library library, es_vectors processor)
{
    char version[32], note[sizeof out->note];
    const size_t n = strlen(out->products);
    products->version(version, sizeof version);
    library.kernels = products->kernels();
    library.requested = getenv(library.variable);
    snprintf(out->products + n, sizeof out->products - n, "%s%s %s",
             n ? ", " : "", version, library.kernels);
    es_cpu_engine_judge(note, sizeof note, &library, processor);
    if (!out->note[0])
        snprintf(out->note, sizeof out->note, "%s", note);
}

void es_cpu_engine_find(es_cpu_engine *out)
{
    es_products_choice choice;
    es_products_used(&choice);
    *out = (es_cpu_engine){.kernels = es_cpu_kernels_choose()->name};
    if (choice != ES_PRODUCTS_ONEDNN)
        add_library(out, &es_products_openblas,
                    (es_cpu_library){.name = "OpenBLAS", .variable = OPENBLAS},
                    widest_supported(ES_VECTORS_AVX512));
    if (choice != ES_PRODUCTS_OPENBLAS)
        add_library(out, &es_products_onednn,
                    (es_cpu_library){.name = "oneDNN", .variable = ONEDNN},
                    widest_supported(ES_VECTORS_AMX));
}
