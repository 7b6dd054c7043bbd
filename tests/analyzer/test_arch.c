/* Tests the notation of architectures: parsing, printing and error messages. */
#include "analyzer/arch/arch.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

static void expect_print(const char *text, const char *canonical)
{
    es_arch arch;
    char out[ES_ARCH_TEXT_MAX];
    if (es_arch_parse(&arch, text) < 0)
        fail_msg("%s: %s", text, es_message());
    assert_int_equal(es_arch_print(out, sizeof out, &arch), strlen(canonical));
    assert_string_equal(out, canonical);
}

static void expect_refusal(const char *text, const char *named)
{
    es_arch arch = {.power = 77};
    if (es_arch_parse(&arch, text) != ES_EUSAGE)
        fail_msg("'%s' was not refused", text);
    if (!strstr(es_message(), named))
        fail_msg("'%s': message '%s' does not contain '%s'", text, es_message(),
                 named);
    assert_int_equal(arch.power, 77);
}

TEST(each_part_sets_its_fields)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "EReg(SM(t)+ScFuFFNi6)"), ES_OK);
    assert_true(a.entropy_reg && a.temperature);
    assert_int_equal(a.attention, ES_SOFTMAX);
    assert_int_equal(a.ffn, ES_FFN_FUSED);
    assert_int_equal(a.n_removed, 6);
    assert_int_equal(a.activation, ES_ACT_LINEAR);
    assert_int_equal(es_arch_parse(&a, "PSM(4, 0.5)+LR(global,0.2)"), ES_OK);
    assert_false(a.entropy_reg || a.temperature || a.layer_norm);
    assert_int_equal(a.attention, ES_POWER_SOFTMAX);
    assert_int_equal(a.power, 4);
    assert_true(a.power_epsilon == 0.5 && a.slope == 0.2);
    assert_int_equal(a.activation, ES_ACT_LEAKY);
    assert_int_equal(a.slope_kind, ES_SLOPE_GLOBAL);
    assert_int_equal(a.ffn, ES_FFN_TWO);
    assert_int_equal(es_arch_parse(&a, "SM+WNorm(QKVO)+SNorm(FFN)"), ES_OK);
    assert_int_equal(a.weight_norm, ES_NORM_QK | ES_NORM_V | ES_NORM_O);
    assert_int_equal(a.spectral_norm, ES_NORM_FFN);
}

TEST(options_of_attention_come_in_any_order)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "SM(gate, clip 12.5, t)+LN"), ES_OK);
    assert_true(a.temperature && a.gate && a.clip == 12.5);
    assert_int_equal(es_arch_parse(&a, "SM+LN"), ES_OK);
    assert_true(!a.temperature && !a.gate && a.clip == 0);
    assert_int_equal(es_arch_parse(&a, "PSM(4, gate)"), ES_OK);
    assert_true(a.gate && a.power == 4 && a.power_epsilon == 1e-3);
    assert_int_equal(es_arch_parse(&a, "PSM(4,0.5,gate)"), ES_OK);
    assert_true(a.gate && a.power_epsilon == 0.5);
    expect_print("SM(gate,clip 100.0,t)+G", "SM(t,clip100,gate)+G");
    expect_print("EReg(SM(gate, direct, t))", "EReg(SM(t,direct,gate))");
    expect_print("SM(clip 1e2)", "SM(clip100)");
    expect_print("SM(gate)+ScFuFFN", "SM(gate)+ScFuFFN");
    expect_print("EReg(SM(gate,t))", "EReg(SM(t,gate))");
    expect_print("PSM(4,1e-3,gate)", "PSM(4,gate)");
    expect_print("PSM(2,0,gate)", "PSM(2,0,gate)");
    expect_print("SM(clip 30)+WNorm(QK)+SNorm(FFN)",
                 "SM(clip30)+WNorm(QK)+SNorm(FFN)");
    expect_refusal("SM(clip)", "'SM(clip)'");
    expect_refusal("SM(clip 0)", "above 0");
    expect_refusal("SM(clip -1)", "above 0");
    expect_refusal("SM(clip nan)", "'SM(clipnan)'");
    expect_refusal("SM(clip 1e300)", "above 0");
    expect_refusal("SM(clip 1e-300)", "above 0");
    expect_refusal("SM(clip 1,clip 2)", "once");
    expect_refusal("SM(t,t)", "once");
    expect_refusal("SM(gate,gate)", "once");
    expect_refusal("SM(t,)", "'SM(t,)'");
    expect_refusal("SM(,t)", "'SM(,t)'");
    expect_refusal("SM(gates)", "'SM(gates)'");
    expect_refusal("PSM(gate)", "'PSM(gate)'");
    expect_refusal("PSM(4,gate,gate)", "'PSM(4,gate,gate)'");
    expect_refusal("PSM(4,clip 100)", "clip is only for SM");
    expect_refusal("SM(clip 100)+SNorm(QK)", "SNorm of Q and K");
    expect_refusal("SM(clip 100)+SNorm(QKVO,FFN)", "SNorm of Q and K");
}

TEST(scfuffne_removes_the_first_ffns)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "SM+ScFuFFNe3"), ES_OK);
    assert_int_equal(a.ffn, ES_FFN_FUSED);
    assert_true(a.n_removed_first == 3 && a.n_removed == 0);
    for (int layer = 0; layer < 12; layer++)
        assert_int_equal(es_arch_has_ffn(&a, layer, 12), layer >= 3);
    expect_print("SM + ScFuFFN e03", "SM+ScFuFFNe3");
    expect_print("SM+ScFuFFNe0", "SM+ScFuFFN");
    expect_refusal("SM+ScFuFFNe", "ScFuFFNe");
    expect_refusal("SM+ScFuFFNe1+ScFuFFNi1", "ScFuFFNi1");
}

TEST(noffn_removes_the_ffns_of_any_layers)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "SM+LN+NoFFN[7]+G[0-8]+NoFFN[3-4]+R[9]"),
                     ES_OK);
    for (int layer = 0; layer < 12; layer++) {
        const bool is_removed = layer == 3 || layer == 4 || layer == 7;
        assert_int_equal(es_arch_has_ffn(&a, layer, 12), !is_removed);
        assert_int_equal(es_arch_parts(&a, layer).activation,
                         is_removed || layer > 9 ? ES_ACT_LINEAR
                         : layer == 9            ? ES_ACT_RELU
                                                 : ES_ACT_GELU);
        assert_true(es_arch_parts(&a, layer).norm);
    }
    expect_print("SM+LN+NoFFN[7]+G[0-8]+NoFFN[3-4]+R[9]",
                 "SM+LN+G[0-8]+R[9]+NoFFN[3-4]+NoFFN[7]");
    expect_print("SM+WNorm(QK,FFN)+NoFFN[3-3]+ScFuFFN",
                 "SM+ScFuFFN+NoFFN[3]+WNorm(QK,FFN)");
    expect_print("SM+NoFFN[0]+ScFuFFNi0", "SM+ScFuFFN+NoFFN[0]");
    assert_int_equal(es_arch_parse(&a, "SM+NoFFN+LN"), ES_OK);
    assert_false(es_arch_has_ffn(&a, 0, 1) || es_arch_has_ffn(&a, 9, 12));
    assert_int_equal(es_arch_next_change(&a, 0, 12), 12);
    expect_print("SM(t)+SNorm(QKVO)+NoFFN+LN", "SM(t)+LN+NoFFN+SNorm(QKVO)");
    expect_refusal("SM+NoFFN+NoFFN", "'NoFFN': a second NoFFN");
    expect_refusal("SM+NoFFN+NoFFN[1]", "'NoFFN[1]': a second NoFFN");
    expect_refusal("SM+NoFFN[1]+NoFFN[0-1]", "'NoFFN[0-1]': a layer in its");
    expect_refusal("SM+NoFFN(1)", "takes no argument");
    expect_refusal("SM+NoFFN2", "'NoFFN2': unknown");
    expect_refusal("SM+NoFFN[2-1]", "expected layers");
    expect_refusal("SM+NoFFN+G", "without a range, no layer has an FFN");
    expect_refusal("SM+R[1]+NoFFN", "without a range, no layer has an FFN");
    expect_refusal("SM+NoFFN+ScFFN", "without a range");
    expect_refusal("SM+ScFuFFN[0]+NoFFN", "without a range");
    expect_refusal("SM+NoFFN+WNorm(QK,FFN)", "norms of the FFN");
    expect_refusal("SM+SNorm(FFN)[0]+NoFFN", "norms of the FFN");
    expect_refusal("SM+NoFFN[0]+ScFuFFNi2", "write ScFuFFN, and NoFFN with");
    expect_refusal("SM+ScFuFFNe1+NoFFN", "write ScFuFFN, and NoFFN with");
}

TEST(an_activation_may_have_a_range_of_layers)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "SM+LN+R[6-10]+LR(0.5)[11]+G[0-4]"),
                     ES_OK);
    const struct {
        int layer;
        es_activation activation;
    } all[] = {{0, ES_ACT_GELU},    {4, ES_ACT_GELU},   {5, ES_ACT_LINEAR},
               {6, ES_ACT_RELU},    {10, ES_ACT_RELU},  {11, ES_ACT_LEAKY},
               {12, ES_ACT_LINEAR}, {99, ES_ACT_LINEAR}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(es_arch_parts(&a, all[i].layer).activation,
                         all[i].activation);
    assert_true(es_arch_parts(&a, 11).slope == 0.5);
    expect_print("SM+LN+R[6-10]+LR(0.5)[11]+G[0-4]",
                 "SM+LN+G[0-4]+R[6-10]+LR(0.5)[11]");
    expect_print("SM+G[3-3]", "SM+G[3]");
    expect_print("SM+GT[0-1]+LN+WNorm(FFN)", "SM+LN+GT[0-1]+WNorm(FFN)");
    expect_refusal("SM+G[0-5]+R[5-11]", "R[5-11]");
    expect_refusal("SM+G[0-5]+R", "R");
    expect_refusal("SM+G+R[0]", "R[0]");
    expect_refusal("SM+G[5-0]", "G[5-0]");
    expect_refusal("SM+G[-1]", "G[-1]");
    expect_refusal("SM+G[]", "G[]");
    expect_refusal("SM+G[0", "G[0");
    expect_refusal("SM+G0]", "G0]");
    expect_refusal("SM+G[0]x", "G[0]x");
    expect_refusal("SM+G[2147483648]", "G[2147483648]");
    expect_refusal("SM[0]+G", "SM[0]");
    expect_refusal("SM+G[0]+ScFFN", "ScFFN");
    expect_print("SM+G[4-5]+SwiGLU[0-3]+RN", "SM+RN+SwiGLU[0-3]+G[4-5]");
    expect_refusal("SM+SwiGLU[0-3]+G[3]", "G[3]");
    expect_refusal("SM+SwiGLU[0]+ScFFN[0]", "ScFFN[0]");
    expect_refusal("SM+G[0]+G[1]+G[2]+G[3]+G[4]+G[5]+G[6]+G[7]+G[8]+G[9]+"
                   "LN[0]+LN[1]+LN[2]+LN[3]+LN[4]+LN[5]+LN[6]",
                   "LN[6]");
}

static bool are_equal(const es_layer_parts *a, const es_layer_parts *b)
{
    return a->norm == b->norm && a->activation == b->activation &&
           a->slope_kind == b->slope_kind && a->slope == b->slope &&
           a->ffn == b->ffn && a->no_ffn == b->no_ffn &&
           a->weight_norm == b->weight_norm &&
           a->spectral_norm == b->spectral_norm;
}

/* Compares the parts of a layer with an architecture that has the same parts in
 * all layers. */
static void expect_parts(const es_arch *arch, int64_t layer, const char *whole)
{
    es_arch other;
    assert_int_equal(es_arch_parse(&other, whole), ES_OK);
    const es_layer_parts a = es_arch_parts(arch, layer);
    const es_layer_parts b = es_arch_parts(&other, 0);
    if (!are_equal(&a, &b))
        fail_msg("layer %d is not %s", (int)layer, whole);
}

TEST(every_part_may_have_a_range_of_layers)
{
    static const char text[] =
        "SM+SNorm(FFN)[0-1]+ScFuFFN[4]+LN[0-2]+ScFFN[2-3]+WNorm(QK)[1-4]+G";
    static const char *const layers[] = {
        "SM+LN+G+SNorm(FFN)",    "SM+LN+G+SNorm(FFN)+WNorm(QK)",
        "SM+LN+ScFFN+WNorm(QK)", "SM+ScFFN+WNorm(QK)",
        "SM+ScFuFFN+WNorm(QK)",  "SM+G"};
    es_arch a;
    assert_int_equal(es_arch_parse(&a, text), ES_OK);
    for (int layer = 0; layer < 6; layer++)
        expect_parts(&a, layer, layers[layer]);
    expect_parts(&a, INT64_MAX, "SM+G");
    expect_print(text, "SM+LN[0-2]+G+ScFFN[2-3]+ScFuFFN[4]+WNorm(QK)[1-4]+"
                       "SNorm(FFN)[0-1]");
    /* The norms in es_arch are those that occur in any layer; the activation
     * and the FFN are those of the first range of layers. */
    assert_true(a.layer_norm && !a.rms_norm);
    assert_int_equal(a.ffn, ES_FFN_SCALED);
    assert_int_equal(a.weight_norm, ES_NORM_QK);
    assert_int_equal(a.spectral_norm, ES_NORM_FFN);
    assert_int_equal(es_arch_parse(&a, "SM+LR(layer,0.2)[0]+LR(layer)[1]+R[2]"),
                     ES_OK);
    expect_parts(&a, 0, "SM+LR(layer,0.2)");
    expect_parts(&a, 1, "SM+LR(layer)");
    expect_parts(&a, 2, "SM+R");
    expect_print("SM+LR(global,0.5)[3]+LR(global,0.5)[0]",
                 "SM+LR(global,0.5)[0]+LR(global,0.5)[3]");
    expect_print("SM+RN[0-1]+SwiGLU", "SM+RN[0-1]+SwiGLU");
}

TEST(contradictory_ranges_are_refused)
{
    static const char *const texts[][2] = {
        {"SM+LN[0-2]+LN[2]", "LN[2]': a layer in its range already has"},
        {"SM+LN[0-2]+LN", "LN': a second LN or RN"},
        {"SM+LN+LN[0]", "LN[0]': a second LN or RN"},
        {"SM+LN[0]+RN[1]", "RN[1]': LN and RN may not be combined"},
        {"SM+G[0-3]+ScFFN[3-4]", "ScFFN[3-4]': a layer in its range has"},
        {"SM+ScFFN[3-4]+G[0-3]", "G[0-3]': a layer in its range has"},
        {"SM+ScFFN[0]+ScFuFFN", "ScFuFFN': a second Sc... FFN"},
        {"SM+ScFFN[0]+ScFuFFNi1", "ScFuFFNi1': a second Sc... FFN"},
        {"SM+ScFuFFNi1[0]", "ScFuFFNi1[0]': the number of removed FFNs"},
        {"SM+ScFFN+R[0]", "R[0]': a Sc... FFN is linear"},
        {"SM+WNorm(FFN)[0-3]+SNorm(QK,FFN)[3]", "SNorm(QK,FFN)[3]': WNorm and"},
        {"SM+WNorm(FFN)+SNorm(FFN)[7]", "SNorm(FFN)[7]': WNorm and SNorm may"},
        {"SM+SNorm(QKV)[5-6]+WNorm(QK)", "WNorm(QK)': WNorm and SNorm may"},
        {"SM+LR(layer)[0]+LR(global)[1]", "LR(global)[1]': another range has"},
        {"SM+LR(global)[0]+LR(global,1)[1]", "LR(global,1)[1]': another range"},
        {"SM(clip 9)+SNorm(QK)[1]", "SNorm of Q and K"},
        {"SM+ScFFN[0]+ScFFN[1-0]", "ScFFN[1-0]': expected layers"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_refusal(texts[i][0], texts[i][1]);
    expect_print("SM+WNorm(FFN)[0-2]+SNorm(FFN)[3]",
                 "SM+WNorm(FFN)[0-2]+SNorm(FFN)[3]");
}

/* es_arch_next_change returns the next layer whose parts may differ. All layers
 * before it must have the same parts. */
TEST(changes_divide_the_layers_into_equal_ones)
{
    static const char *const texts[] = {"SM",
                                        "SM+LN[0-2]+ScFFN[2-3]+SNorm(FFN)[5]+G",
                                        "SM+LN[1]+ScFuFFNi4",
                                        "SM+LN[9]+ScFuFFNe3",
                                        "SM+ScFuFFNi99",
                                        "SM+NoFFN[0]+G+NoFFN[3-4]",
                                        "SM+NoFFN"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        es_arch a;
        assert_int_equal(es_arch_parse(&a, texts[i]), ES_OK);
        int64_t next = 0;
        for (int64_t layer = 0; layer < 12; layer++) {
            const int64_t first = layer == next ? layer : layer - 1;
            next = layer == next ? es_arch_next_change(&a, layer, 12) : next;
            assert_true(next > layer && next <= 12);
            const es_layer_parts one = es_arch_parts(&a, first);
            const es_layer_parts two = es_arch_parts(&a, layer);
            assert_true(are_equal(&one, &two));
            assert_int_equal(es_arch_has_ffn(&a, first, 12),
                             es_arch_has_ffn(&a, layer, 12));
        }
        assert_int_equal(es_arch_next_change(&a, INT64_MAX - 1, INT64_MAX),
                         INT64_MAX);
    }
}

/* "R" is ReLU and "RN" is a norm, so the parser must compare whole names. */
TEST(parts_of_llama_are_parsed)
{
    es_arch a;
    assert_int_equal(es_arch_parse(&a, "SM+SwiGLU+RN"), ES_OK);
    assert_true(a.rms_norm && !a.layer_norm);
    assert_int_equal(a.activation, ES_ACT_SWIGLU);
    assert_int_equal(es_arch_parse(&a, "SM+LN+R"), ES_OK);
    assert_true(a.layer_norm && !a.rms_norm);
    assert_int_equal(a.activation, ES_ACT_RELU);
    expect_print("SM+SwiGLU+RN", "SM+RN+SwiGLU");
    expect_print("SM+R+RN", "SM+RN+R");
    expect_print("EReg(SM(t)+SwiGLU)", "EReg(SM(t)+SwiGLU)");
    expect_refusal("SM+LN+RN", "a second LN or RN");
    expect_refusal("SM+RN+LN", "a second LN or RN");
    expect_refusal("SM+SwiGLU+G", "a second activation");
    expect_refusal("SM+SwiGLU+ScFFN", "'ScFFN'");
    expect_refusal("SM+SwiGLU(2)", "takes no argument");
    expect_refusal("SM+swiglu", "'swiglu'");
    expect_refusal("SM+RN2", "'RN2'");
}

TEST(the_canonical_form_is_printed)
{
    expect_print("SM", "SM");
    expect_print("SM+LN+G", "SM+LN+G");
    expect_print("  S M +\tLN + GT ", "SM+LN+GT");
    expect_print("SM+G+LN", "SM+LN+G");
    expect_print("SM+SNorm(QK)+WNorm(FFN)+R+LN",
                 "SM+LN+R+WNorm(FFN)+SNorm(QK)");
    expect_print("SM+LR(0.050)", "SM+LR(0.05)");
    expect_print("SM+LR(-2e+0)", "SM+LR(-2)");
    expect_print("SM+LR(1e+30)+LN", "SM+LN+LR(1e30)");
    expect_print("SM+LR(layer)", "SM+LR(layer)");
    expect_print("SM+LR(layer,0.01)", "SM+LR(layer)");
    expect_print("SM+LR(global,.2)", "SM+LR(global,0.2)");
    expect_print("PSM(4,0.001)", "PSM(4)");
    expect_print("PSM(8,1e-2)+R", "PSM(8,0.01)+R");
    expect_print("PSM(2,0)", "PSM(2,0)");
    expect_print("PSM(4, plain)", "PSM(4,plain)");
    expect_print("PSM(4,plain,0)", "PSM(4,plain)");
    expect_print("PSM(4,plain,1e-3)", "PSM(4,1e-3,plain)");
    expect_print("PSM(4,1e-3,length)", "PSM(4,length)");
    expect_print("PSM(4,gate,length T,plain)", "PSM(4,plain,lengthT,gate)");
    expect_print("RA", "RA");
    expect_print("RA(T)+LN", "RA(T)+LN");
    expect_print("RA(gate, T)", "RA(T,gate)");
    expect_print("EReg(RA(gate)+G)", "EReg(RA(gate)+G)");
    expect_print("EReg(SM(t)+ScFuFFNi 6)", "EReg(SM(t)+ScFuFFNi6)");
    expect_print("SM+ScFuFFNi0", "SM+ScFuFFN");
    expect_print("SM+ScFFN+SNorm(QKVO,FFN)", "SM+ScFFN+SNorm(QKVO,FFN)");
}

TEST(an_invalid_architecture_is_refused)
{
    expect_refusal("", "empty part");
    expect_refusal("+SM", "empty part");
    expect_refusal("SM+", "empty part");
    expect_refusal("SM++LN", "empty part");
    expect_refusal("LN", "'LN'");
    expect_refusal("G+SM", "'G'");
    expect_refusal("sm", "'sm'");
    expect_refusal("SM+ln", "'ln'");
    expect_refusal("SM+SiLU", "'SiLU'");
    expect_refusal("SM+SM", "'SM'");
    expect_refusal("SM(t)+PSM(2)", "'PSM(2)'");
    expect_refusal("SM(x)", "'SM(x)'");
    expect_refusal("SM()", "'SM()'");
    expect_refusal("SM(direct)", "write SM(t,direct)");
    expect_refusal("SM(t,direct,direct)", "only once each");
    expect_refusal("SM+LN+LN", "'LN'");
    expect_refusal("SM+G+R", "'R'");
    expect_refusal("SM+LR(0.1)+GT", "'GT'");
    expect_refusal("SM+ScFFN+ScFuFFN", "'ScFuFFN'");
    expect_refusal("SM+R+ScFFN", "'ScFFN'");
    expect_refusal("SM+ScFuFFNi2+LR(layer)", "'LR(layer)'");
    expect_refusal("SM+WNorm(QK)+WNorm(FFN)", "'WNorm(FFN)'");
    expect_refusal("SM+WNorm(QK,FFN)+SNorm(FFN)", "'SNorm(FFN)'");
    expect_refusal("SM+SNorm(QKVO)+WNorm(QKV)", "'WNorm(QKV)'");
    expect_refusal("SM+WNorm(V)", "'WNorm(V)'");
    expect_refusal("SM+WNorm", "'WNorm'");
    expect_refusal("SM+LN(1)", "'LN(1)'");
    expect_refusal("SM+LR", "'LR'");
    expect_refusal("SM+LR()", "'LR()'");
    expect_refusal("SM+LR(0.1,0.2)", "'LR(0.1,0.2)'");
    expect_refusal("SM+LR(nan)", "'LR(nan)'");
    expect_refusal("SM+LR(1e999)", "'LR(1e999)'");
    expect_refusal("SM+LR(layer,)", "'LR(layer,)'");
    expect_refusal("SM+LR(head)", "'LR(head)'");
    expect_refusal("SM+ScFuFFNi", "'ScFuFFNi'");
    expect_refusal("SM+ScFuFFNi-1", "'ScFuFFNi-1'");
    expect_refusal("SM+ScFuFFNi99999999999", "'ScFuFFNi99999999999'");
    expect_refusal("SM+ScFuFFN6", "'ScFuFFN6'");
    expect_refusal("PSM", "'PSM'");
    expect_refusal("PSM(3)", "'PSM(3)'");
    expect_refusal("PSM(0)", "'PSM(0)'");
    expect_refusal("PSM(66)", "'PSM(66)'");
    expect_refusal("PSM(-2)", "'PSM(-2)'");
    expect_refusal("PSM(4,-1)", "'PSM(4,-1)'");
    expect_refusal("PSM(4,1e-3,1)", "'PSM(4,1e-3,1)'");
    expect_refusal("PSM(4,length,lengthT)", "once");
    expect_refusal("PSM(4,plain,plain)", "once");
    expect_refusal("PSM(plain)", "even number");
    expect_refusal("PSM(4,)", "'PSM(4,)'");
    expect_refusal("RA(4)", "'RA(4)'");
    expect_refusal("RA(T,T)", "once");
    expect_refusal("RA()", "'RA()'");
    expect_refusal("SM(length)", "'SM(length)'");
    expect_refusal("SM+LR(0.1", "'LR(0.1'");
    expect_refusal("SM+G)", "'G)'");
    expect_refusal("PSM(2)(4)", "'PSM(2)(4)'");
    expect_refusal("EReg(SM", "EReg(");
    expect_refusal("EReg(SM)+LN", "EReg(");
    expect_refusal("EReg(SM)+WNorm(FFN)", "parentheses");
    expect_refusal("EReg(EReg(SM))", "'EReg(SM)'");
    expect_refusal("EReg()", "empty part");
}

TEST(a_long_text_without_blanks_is_refused)
{
    char text[4 * ES_ARCH_TEXT_MAX];
    memset(text, ' ', sizeof text);
    memcpy(text, "SM", 2);
    text[sizeof text - 1] = 0;
    expect_print(text, "SM");
    memset(text, 'S', sizeof text - 1);
    expect_refusal(text, "longer than 255");
    /* A text of the maximum length that contains a single, very long number is
     * refused with a message, too. */
    memset(text, '0', sizeof text);
    memcpy(text, "SM+LR(", 6);
    strcpy(text + ES_ARCH_TEXT_MAX - 2, ")");
    expect_refusal(text, "'LR(0");
}

TEST(a_short_buffer_cuts_the_print)
{
    es_arch arch;
    char out[8] = "xxxxxxx";
    assert_int_equal(es_arch_parse(&arch, "SM+LN+GT"), ES_OK);
    assert_int_equal(es_arch_print(out, 5, &arch), 8);
    assert_string_equal(out, "SM+L");
    assert_int_equal(out[5], 'x');
    assert_int_equal(es_arch_print(NULL, 0, &arch), 8);
}

/* --- properties ----------------------------------------------------------- */

static unsigned draw_state;

static unsigned draw(unsigned below)
{
    return congruence_below(&draw_state, below);
}

static const char *pick(const char *const *from, unsigned n)
{
    return from[draw(n)];
}
#define PICK(...)                                                              \
    pick((const char *const[]){__VA_ARGS__},                                   \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void draw_activation(char out[64])
{
    char number[32];
    snprintf(number, sizeof number, "%.*g", (int)draw(17) + 1,
             ldexp((double)draw(1u << 20) - (1u << 19), (int)draw(60) - 40));
    switch (draw(4)) {
    case 0:
        snprintf(out, 64, "%s", PICK("", "G", "GT", "GS", "R", "SwiGLU"));
        break;
    case 1:
        snprintf(out, 64, "LR(%s)", number);
        break;
    case 2:
        snprintf(out, 64, "LR(%s)", PICK("layer", "global"));
        break;
    default:
        snprintf(out, 64, "LR(%s,%s)", PICK("layer", "global"), number);
    }
}

static void draw_ffn(char out[64])
{
    if (draw(3))
        snprintf(out, 64, "%s", PICK("ScFFN", "ScFuFFN"));
    else
        snprintf(out, 64, "ScFuFFNi%u", draw(1000));
}

/* Appends a random range of layers to `part` in half of the cases in which the
 * part may have a range. */
static void draw_range(char part[64])
{
    const unsigned first = draw(100);
    const size_t n = strlen(part);
    if (draw(2) || n == 0 || strncmp(part, "ScFuFFNi", 8) == 0)
        return;
    snprintf(part + n, 64 - n, "[%u-%u]", first, first + draw(3));
}

/* Writes a random valid architecture with its parts in random order. */
static void draw_arch(char out[ES_ARCH_TEXT_MAX])
{
    char parts[5][64] = {""};
    bool regularised = draw(2), spectral = draw(2);
    snprintf(parts[0], 64, "%s", PICK("", "LN", "RN"));
    if (draw(2))
        draw_activation(parts[1]);
    else
        draw_ffn(parts[1]);
    if (draw(2))
        snprintf(parts[2], 64, "WNorm(%s)",
                 spectral ? "FFN" : PICK("QKVO,FFN", "QK,FFN", "QKV"));
    if (spectral)
        snprintf(parts[3], 64, "SNorm(%s)", PICK("QK", "QKV", "QKVO"));
    for (unsigned i = 0; i < 4; i++)
        draw_range(parts[i]);
    if (draw(2) && !strstr(parts[1], "ScFuFFNi"))
        snprintf(parts[4], 64, "NoFFN[%u]", draw(9));
    int n = snprintf(out, ES_ARCH_TEXT_MAX, "%s%s", regularised ? "EReg(" : "",
                     PICK("SM", "SM(t)", "PSM(2)", "PSM(8, 1e-5)",
                          "PSM(4,plain)", "PSM(4,2,length T)", "RA", "RA(T)"));
    for (unsigned i = 0, first = draw(5); i < 5; i++)
        if (parts[(first + i) % 5][0])
            n += snprintf(out + n, (size_t)(ES_ARCH_TEXT_MAX - n), "%s+%s",
                          PICK("", " "), parts[(first + i) % 5]);
    snprintf(out + n, (size_t)(ES_ARCH_TEXT_MAX - n), "%s",
             regularised ? ")" : "");
}

TEST(a_canonical_form_prints_as_itself)
{
    for (unsigned seed = 1; seed <= 20000; seed++) {
        char text[ES_ARCH_TEXT_MAX] = "", one[ES_ARCH_TEXT_MAX],
             two[ES_ARCH_TEXT_MAX];
        es_arch arch, again;
        draw_state = seed;
        draw_arch(text);
        if (es_arch_parse(&arch, text) < 0)
            fail_msg("seed %u: %s: %s", seed, text, es_message());
        es_arch_print(one, sizeof one, &arch);
        assert_int_equal(es_arch_parse(&again, one), ES_OK);
        es_arch_print(two, sizeof two, &again);
        assert_string_equal(one, two);
        assert_true(arch.slope == again.slope && arch.power == again.power &&
                    arch.power_epsilon == again.power_epsilon &&
                    arch.power_plain == again.power_plain &&
                    arch.length == again.length &&
                    arch.attention == again.attention);
        assert_int_equal(arch.n_removed, again.n_removed);
        assert_int_equal(arch.n_removed_first, again.n_removed_first);
        assert_int_equal(arch.n_spans, again.n_spans);
        assert_memory_equal(arch.spans, again.spans, sizeof arch.spans);
        assert_int_equal(arch.weight_norm, again.weight_norm);
        assert_int_equal(arch.spectral_norm, again.spectral_norm);
        assert_int_equal(arch.activation, again.activation);
    }
}

/* Changes some characters of a text. The parser must then either refuse the
 * text with a message, or accept it and print a canonical form that reads back
 * unchanged. */
TEST(a_changed_text_is_refused_or_prints_back)
{
    static const char alphabet[] = "SMLNGTRWPEcFuoi()[]+,0159.-e t\x01\xff";
    unsigned n_refused = 0;
    for (unsigned seed = 1; seed <= 50000; seed++) {
        char text[ES_ARCH_TEXT_MAX] = "", one[ES_ARCH_TEXT_MAX],
             two[ES_ARCH_TEXT_MAX];
        es_arch arch;
        draw_state = seed;
        draw_arch(text);
        for (unsigned n = 1 + draw(4); n > 0; n--)
            text[draw((unsigned)strlen(text) + 1)] =
                alphabet[draw(sizeof alphabet)];
        text[ES_ARCH_TEXT_MAX - 1] = 0;
        es_status status = es_arch_parse(&arch, text);
        if (status != ES_OK) {
            assert_int_equal(status, ES_EUSAGE);
            assert_true(strlen(es_message()) > 0);
            n_refused++;
            continue;
        }
        assert_true(es_arch_print(one, sizeof one, &arch) < sizeof one);
        assert_int_equal(es_arch_parse(&arch, one), ES_OK);
        es_arch_print(two, sizeof two, &arch);
        assert_string_equal(one, two);
    }
    assert_in_range(n_refused, 25000, 49999);
}
