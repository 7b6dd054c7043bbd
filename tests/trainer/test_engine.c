/* Tests the note about the matrix library and the kernels that the CPU back-end
 * uses. */
#include "hooks/trainer/cpu/engine.h"
#include "hooks/trainer/cpu/products.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

/* A processor, the kernels that a library uses on it, the requested kernels
 * (NULL: no request), and the text that the note must contain (NULL: no
 * note). */
static const struct {
    const char *processor;
    es_vectors vectors;
    const char *kernels, *requested, *note;
} machines[] = {
    {"Nehalem", ES_VECTORS_PLAIN, "Nehalem", NULL, NULL},
    {"Ivy Bridge", ES_VECTORS_PLAIN, "Sandybridge", NULL, NULL},
    {"Haswell", ES_VECTORS_AVX2, "Haswell", NULL, NULL},
    {"Zen 2", ES_VECTORS_AVX2, "Zen", NULL, NULL},
    {"Skylake-SP", ES_VECTORS_AVX512, "SkylakeX", NULL, NULL},
    {"Sapphire Rapids", ES_VECTORS_AVX512, "Cooperlake", "", NULL},
    {"Sapphire Rapids, with its kernels requested", ES_VECTORS_AVX512,
     "SapphireRapids", "SapphireRapids", NULL},
    {"kernels of a newer processor", ES_VECTORS_AVX2, "SkylakeX", "SkylakeX",
     NULL},
    {"unknown kernels", ES_VECTORS_AVX512, "Zen9", NULL, NULL},
    {"another architecture", ES_VECTORS_PLAIN, "neoversen1", NULL, NULL},
    {"Sapphire Rapids, older kernels requested", ES_VECTORS_AVX512, "Haswell",
     "Haswell", "unset OPENBLAS_CORETYPE (Haswell)"},
    {"older kernels requested in small letters", ES_VECTORS_AVX512, "haswell",
     "haswell", "unset OPENBLAS_CORETYPE (haswell)"},
    {"Zen 4 with an older OpenBLAS", ES_VECTORS_AVX512, "Zen", NULL,
     "set OPENBLAS_CORETYPE=SkylakeX"},
    {"Alder Lake with an older OpenBLAS", ES_VECTORS_AVX2, "Nehalem", "",
     "set OPENBLAS_CORETYPE=Haswell"},
    {"Haswell, older kernels requested", ES_VECTORS_AVX2, "Prescott",
     "Prescott", "(not AVX2), but the processor has AVX2"},
    {"Sapphire Rapids with oneDNN", ES_VECTORS_AMX, "avx512_core_amx", NULL,
     NULL},
    {"Granite Rapids with a newer oneDNN", ES_VECTORS_AMX, "avx10_1_512_amx",
     NULL, NULL},
    {"Zen 4 with oneDNN", ES_VECTORS_AVX512, "avx512_core_bf16", NULL, NULL},
    {"Haswell with oneDNN", ES_VECTORS_AVX2, "avx2", NULL, NULL},
    {"Sapphire Rapids, older kernels of oneDNN requested", ES_VECTORS_AMX,
     "avx512_core", "AVX512_CORE",
     "oneDNN uses its kernels for avx512_core (AVX-512), but the "
     "processor has AMX: unset ONEDNN_MAX_CPU_ISA (AVX512_CORE)"},
    {"Zen 4 with older kernels of oneDNN", ES_VECTORS_AVX512, "avx2", NULL,
     "set ONEDNN_MAX_CPU_ISA=ALL"},
};

static void judge(char *note, size_t size, size_t i)
{
    /* the names of OpenBLAS kernels begin with capitals, unlike oneDNN's
     * "avx..." */
    const bool is_onednn = strncmp(machines[i].kernels, "avx", 3) == 0;
    const es_cpu_library library = {.name = is_onednn ? "oneDNN" : "OpenBLAS",
                                    .kernels = machines[i].kernels,
                                    .variable = is_onednn ? "ONEDNN_MAX_CPU_ISA"
                                                          : "OPENBLAS_CORETYPE",
                                    .requested = machines[i].requested};
    es_cpu_engine_judge(note, size, &library, machines[i].vectors);
}

TEST(kernels_below_the_processor_get_a_note)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        char note[256] = "before";
        judge(note, sizeof note, i);
        if (machines[i].note ? !strstr(note, machines[i].note) : note[0] != 0)
            fail_msg("%s: '%s'", machines[i].processor, note);
    }
}

TEST(a_note_without_space_is_cut)
{
    char note[16];
    size_t i = 0;
    while (!machines[i].note)
        i++;
    judge(note, sizeof note, i);
    assert_true(strlen(note) == sizeof note - 1);
}

TEST(libraries_and_kernels_are_named)
{
    static const struct {
        es_products_choice choice;
        const char *first, *second;
    } choices[] = {{ES_PRODUCTS_OPENBLAS, "OpenBLAS ", ""},
                   {ES_PRODUCTS_ONEDNN, "oneDNN 2.", ""},
                   {ES_PRODUCTS_AUTO, "OpenBLAS ", ", oneDNN 2."}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        es_products_choice choice = choices[i].choice;
        es_cpu_engine engine;
        if (es_products_use(&choice) != ES_OK || choice != choices[i].choice)
            continue; /* skip this library if oneDNN is not installed */
        es_cpu_engine_find(&engine);
        assert_memory_equal(engine.products, choices[i].first,
                            strlen(choices[i].first));
        assert_non_null(strstr(engine.products, choices[i].second));
        assert_int_equal(strchr(engine.products, ',') != NULL,
                         choices[i].second[0] != 0);
        const char *const ours =
            es_vectors_supported(ES_VECTORS_AVX512) ? "avx512"
            : es_vectors_supported(ES_VECTORS_AVX2) ? "avx2"
                                                    : "plain";
        assert_string_equal(engine.kernels, ours);
    }
}
