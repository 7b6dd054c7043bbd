/* Names of the library and kernels of the CPU back-end, for --version, bench,
 * the run's configuration and one warning. */
#include "hooks/trainer/cpu/engine.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/cpu/kernels.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VARIABLE "OPENBLAS_CORETYPE"

static const char *const vector_names[] = {[ES_VECTORS_PLAIN] = "not AVX2",
                                           [ES_VECTORS_AVX2] = "AVX2",
                                           [ES_VECTORS_AVX512] = "AVX-512"};

/* OpenBLAS' names for its x86-64 kernels, up to 0.3.30. What is not here is of
 * another architecture or newer, and not judged. */
static const struct {
    const char *core;
    es_vectors vectors;
} cores[] = {
    {"Prescott", ES_VECTORS_PLAIN},     {"Core2", ES_VECTORS_PLAIN},
    {"Penryn", ES_VECTORS_PLAIN},       {"Dunnington", ES_VECTORS_PLAIN},
    {"Nehalem", ES_VECTORS_PLAIN},      {"Atom", ES_VECTORS_PLAIN},
    {"Athlon", ES_VECTORS_PLAIN},       {"Opteron", ES_VECTORS_PLAIN},
    {"Opteron_SSE3", ES_VECTORS_PLAIN}, {"Barcelona", ES_VECTORS_PLAIN},
    {"Bobcat", ES_VECTORS_PLAIN},       {"Nano", ES_VECTORS_PLAIN},
    {"Sandybridge", ES_VECTORS_PLAIN},  {"Bulldozer", ES_VECTORS_PLAIN},
    {"Piledriver", ES_VECTORS_PLAIN},   {"Steamroller", ES_VECTORS_PLAIN},
    {"Haswell", ES_VECTORS_AVX2},       {"Zen", ES_VECTORS_AVX2},
    {"Excavator", ES_VECTORS_AVX2},     {"SkylakeX", ES_VECTORS_AVX512},
    {"Cooperlake", ES_VECTORS_AVX512},  {"SapphireRapids", ES_VECTORS_AVX512},
};

void es_cpu_engine_judge(char *note, size_t size, const char *core,
                         es_vectors processor, const char *requested)
{
    const size_t n = sizeof cores / sizeof *cores;
    size_t i = 0;
    snprintf(note, size, "%s", "");
    while (i < n && strcasecmp(cores[i].core, core) != 0)
        i++;
    if (i == n || cores[i].vectors >= processor)
        return;
    es_text text = es_text_begin(note, size);
    es_text_append(&text,
                   "OpenBLAS multiplies with its kernels for %s (%s), the "
                   "processor has %s: ",
                   core, vector_names[cores[i].vectors],
                   vector_names[processor]);
    if (requested && *requested)
        es_text_append(&text, "unset " VARIABLE " (%s)", requested);
    else
        es_text_append(&text, "install a newer one, or set " VARIABLE "=%s",
                       processor == ES_VECTORS_AVX512 ? "SkylakeX" : "Haswell");
}

/** "OpenBLAS 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": its
 *  length. */
static size_t length_of_version(const char *configuration)
{
    const size_t name = strcspn(configuration, " ");
    const size_t space = strspn(configuration + name, " ");
    return name + space + strcspn(configuration + name + space, " ");
}

void es_cpu_engine_find(es_cpu_engine *out)
{
    const char *configuration = openblas_get_config();
    const char *core = openblas_get_corename();
    es_vectors processor = ES_VECTORS_AVX512;
    while (!es_vectors_supported(processor))
        processor--;
    snprintf(out->products, sizeof out->products, "%.*s %s",
             (int)length_of_version(configuration), configuration, core);
    out->kernels = es_cpu_kernels_choose()->name;
    es_cpu_engine_judge(out->note, sizeof out->note, core, processor,
                        getenv(VARIABLE));
}
