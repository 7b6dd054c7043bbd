/* What the CPU back-end says that it computes with. */
#include "hooks/trainer/cpu/engine.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

/* Processors, the kernels that OpenBLAS chooses or is made to choose, and what
 * the note must name; NULL: no note. */
static const struct {
    const char *processor;
    es_vectors vectors;
    const char *core, *requested, *note;
} machines[] = {
    {"Nehalem", ES_VECTORS_PLAIN, "Nehalem", NULL, NULL},
    {"Ivy Bridge", ES_VECTORS_PLAIN, "Sandybridge", NULL, NULL},
    {"Haswell", ES_VECTORS_AVX2, "Haswell", NULL, NULL},
    {"Zen 2", ES_VECTORS_AVX2, "Zen", NULL, NULL},
    {"Skylake-SP", ES_VECTORS_AVX512, "SkylakeX", NULL, NULL},
    {"Sapphire Rapids", ES_VECTORS_AVX512, "Cooperlake", "", NULL},
    {"Sapphire Rapids, kept", ES_VECTORS_AVX512, "SapphireRapids",
     "SapphireRapids", NULL},
    {"more than it has", ES_VECTORS_AVX2, "SkylakeX", "SkylakeX", NULL},
    {"unknown kernels", ES_VECTORS_AVX512, "Zen9", NULL, NULL},
    {"another architecture", ES_VECTORS_PLAIN, "neoversen1", NULL, NULL},
    {"Sapphire Rapids, held back", ES_VECTORS_AVX512, "Haswell", "Haswell",
     "unset OPENBLAS_CORETYPE (Haswell)"},
    {"the same in small letters", ES_VECTORS_AVX512, "haswell", "haswell",
     "unset OPENBLAS_CORETYPE (haswell)"},
    {"Zen 4, an older library", ES_VECTORS_AVX512, "Zen", NULL,
     "set OPENBLAS_CORETYPE=SkylakeX"},
    {"Alder Lake, an older library", ES_VECTORS_AVX2, "Nehalem", "",
     "set OPENBLAS_CORETYPE=Haswell"},
    {"Haswell, held back", ES_VECTORS_AVX2, "Prescott", "Prescott",
     "(not AVX2), the processor has AVX2"},
};

TEST(kernels_below_the_processor_get_a_note)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        char note[256] = "before";
        es_cpu_engine_judge(note, sizeof note, machines[i].core,
                            machines[i].vectors, machines[i].requested);
        if (machines[i].note ? !strstr(note, machines[i].note) : note[0] != 0)
            fail_msg("%s: '%s'", machines[i].processor, note);
    }
}

TEST(a_note_without_space_is_cut)
{
    char note[16];
    es_cpu_engine_judge(note, sizeof note, "Haswell", ES_VECTORS_AVX512, NULL);
    assert_true(strlen(note) < sizeof note);
}

TEST(library_and_kernels_are_named)
{
    es_cpu_engine engine;
    es_cpu_engine_find(&engine);
    int major, minor;
    char core[32];
    assert_int_equal(
        sscanf(engine.products, "OpenBLAS %d.%d%*s %31s", &major, &minor, core),
        3);
    const char *const ours = es_vectors_supported(ES_VECTORS_AVX512) ? "avx512"
                             : es_vectors_supported(ES_VECTORS_AVX2) ? "avx2"
                                                                     : "plain";
    assert_string_equal(engine.kernels, ours);
}
