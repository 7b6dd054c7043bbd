/* Tests the import of named numbers from tags of other tools, JSON lines and
   event files. Checks which names are recognised, which input is refused, and
   which position the error message reports. */
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/event_file.h"
#include "cli/exchange/import.h"
#include "cli/exchange/tag_guess.h"
#include "cli/exchange/tags.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/import_calls.h"

#include <stdio.h>
#include <stdlib.h>

/* --- tags ------------------------------------------------------------------*/

static void test_tags__of_other_tools_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *tag, *pattern, *series;
        es_shape shape;
        es_phase phase;
        int64_t layer, head;
    } cases[] = {
        {"attn.3.head.11.entropy", NULL, "entropy", ES_SHAPE_HEAD, 0, 3, 11},
        {"entropy/layer_02/head_07", NULL, "entropy", ES_SHAPE_HEAD, 0, 2, 7},
        {"eval/x/layer_2", NULL, "x", ES_SHAPE_LAYER, 1, 2, 0},
        {"val/loss", NULL, "loss", ES_SHAPE_RUN, 1, 0, 0},
        {"train/loss", NULL, "loss", ES_SHAPE_RUN, 0, 0, 0},
        {"h5-1", "h{layer}-{head}", "entropy", ES_SHAPE_HEAD, 0, 5, 1},
        {"h5-1", "{series}{layer}-{head}", "h", ES_SHAPE_HEAD, 0, 5, 1},
        {"h5-1x", "h{layer}-{head}", "h5-1x", ES_SHAPE_RUN, 0, 0, 0},
        {"qk_stats/layer_4/entropy_avg", NULL, "entropy", ES_SHAPE_LAYER, 0, 4,
         0},
        {"qk_stats/layer_4/max", NULL, "max_logit", ES_SHAPE_LAYER, 0, 4, 0},
        {"qk_stats/layer_4/entropy_min", NULL, "qk_stats/entropy_min",
         ES_SHAPE_LAYER, 0, 4, 0},
        {"qk_stats/layer_4/swa_entropy_avg", NULL, "entropy", ES_SHAPE_LAYER, 0,
         4, 0},
        {"qk_stats/layer_4/mla_max", NULL, "max_logit", ES_SHAPE_LAYER, 0, 4,
         0},
        {"entropy/L0H11", NULL, "entropy", ES_SHAPE_HEAD, 0, 0, 11},
        {"entropy[2][3]", NULL, "entropy", ES_SHAPE_HEAD, 0, 2, 3},
        {"train/attn/layer_0/head_1/sink", NULL, "sink", ES_SHAPE_HEAD, 0, 0,
         1},
        {"entropy/layer_00_head_04", NULL, "entropy", ES_SHAPE_HEAD, 0, 0, 4},
        {"entropy/layers.5.self_attn.head_2", NULL, "entropy", ES_SHAPE_HEAD, 0,
         5, 2},
        {"entropy/Layer 1 Head 2", NULL, "entropy", ES_SHAPE_HEAD, 0, 1, 2},
        {"entropy/_orig_mod.layers.5.self_attn.head_2", NULL, "entropy",
         ES_SHAPE_HEAD, 0, 5, 2},
        {"module.layers.5._orig_mod.self_attn.head_2.entropy", NULL, "entropy",
         ES_SHAPE_HEAD, 0, 5, 2},
        {"eval/module._orig_mod.h5-1", "h{layer}-{head}", "entropy",
         ES_SHAPE_HEAD, 1, 5, 1},
        {"_orig_mod.h5-1", "_orig_mod.h{layer}-{head}", "entropy",
         ES_SHAPE_HEAD, 0, 5, 1},
        {"norm/_orig_mod.wte", NULL, "norm/_orig_mod.wte", ES_SHAPE_RUN, 0, 0,
         0},
        {"moe_health/layer_4/max", NULL, "moe_health/max", ES_SHAPE_LAYER, 0, 4,
         0},
        {"qk_stats/global_max", NULL, "qk_stats/global_max", ES_SHAPE_RUN, 0, 0,
         0},
        {"attn.x.head.1.entropy", NULL, "attn.x.head.1.entropy", ES_SHAPE_RUN,
         0, 0, 0},
        {"100%25", NULL, "100%25", ES_SHAPE_RUN, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_tag tag;
        const es_tag_rules rules = {cases[i].pattern, "entropy", false};
        assert_true(es_tag_parse(&tag, cases[i].tag, &rules));
        assert_string_equal(tag.series, cases[i].series);
        assert_int_equal(tag.shape, cases[i].shape);
        assert_int_equal(tag.phase, cases[i].phase);
        assert_int_equal(tag.layer, cases[i].layer);
        assert_int_equal(tag.head, cases[i].head);
    }
}

static void test_tags__that_no_series_can_have_are_skipped(void **state)
{
    (void)state;
    char longest[ES_TAG_MAX + 1];
    es_tag tag;
    const es_tag_rules any = {NULL, "entropy", false};
    const es_tag_rules ours = {NULL, "entropy", true};
    memset(longest, 'x', ES_TAG_MAX);
    longest[ES_TAG_MAX] = '\0';
    assert_false(es_tag_parse(&tag, longest, &any));
    assert_false(es_tag_parse(&tag, "attn.4096.head.0.x", &any));
    assert_false(es_tag_parse(&tag, "x/layer_0/head_4096", &any));
    assert_true(es_tag_parse(&tag, "x/layer_4095/head_4095", &any));
    assert_false(es_tag_parse(&tag, "entropy/layer_03/mean", &ours));
    assert_true(es_tag_parse(&tag, "attn.1.head.2.x", &ours));
    assert_int_equal(tag.shape, ES_SHAPE_RUN);
}

static void test_tags__wrong_patterns_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x",      "{head}",    "{layer}{layer}",
                                        "{layer", "a}{layer}", "{step}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(es_tag_pattern_check(wrong[i]), ES_EUSAGE);
    assert_int_equal(es_tag_pattern_check("{series}.{layer}.{head}"), ES_OK);
    assert_int_equal(es_tag_pattern_check("{series}"), ES_OK);
}

/* If the spelling of the names is unknown, import suggests a pattern that
 * matches them. */
static void test_tags__a_pattern_is_guessed_for_unknown_names(void **state)
{
    (void)state;
    static const struct {
        const char *tags[3], *pattern; /* "": no suggestion */
    } cases[] = {
        {{"attn_ent_b0_1", "attn_ent_b1_0"}, "attn_ent_b{layer}_{head}"},
        {{"h.1.attn.entropy.0", "h.0.attn.entropy.1"},
         "h.{layer}.attn.entropy.{head}"},
        {{"eval/Entropy head 3 layer 0"}, "Entropy head {head} layer {layer}"},
        {{"r0/b1/entropy/h1", "r0/b1/entropy/h2", "r0/b2/entropy/h1"},
         "r0/b{layer}/entropy/h{head}"},
        {{"entropy_12", "entropy", "loss/1/2"}, "entropy_{layer}"},
        {{"policy_entropy", "loss_1_2", "clients_1_2"}, ""},
        {{"entropy_{1}_2", "it's_entropy_1_2"}, ""},
        {{"entropy_1234567890_1"}, ""},
        {{"entropy 1 2 3 4 5 6 7 8 9"}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pattern[ES_TAG_MAX];
        const char *tag;
        const bool found = es_tag_guess(pattern, &tag, cases[i].tags, 3);
        assert_int_equal(found, *cases[i].pattern != '\0');
        if (found)
            assert_string_equal(pattern, cases[i].pattern);
    }
}

/* --- histories -------------------------------------------------------------*/

static void
test_history__numbers_of_heads_layers_and_the_run_are_read(void **state)
{
    (void)state;
    assert_calls("{\"_step\":5,\"_runtime\":2.5,\"loss\":3.25,"
                 "\"attn.0.head.2.entropy\":1.5,\"attn.1.head.0.entropy\":0,"
                 "\"a\":{\"b\":-7},\"list\":[1],\"text\":\"x\",\"yes\":true}\n"
                 "\n{\"_step\":6.0,\"s/layer_1\":2,\"eval/loss\":4}\n",
                 "L2 H3 run:train:loss head:train:entropy run:train:a.b "
                 "layer:train:s run:eval:loss\n"
                 "0@5 3.25\n1@5 _ _ 1.5 0 _ _\n2@5 -7\n3@6 _ 2\n4@6 4\n");
    assert_int_equal(
        calls_report.n_cut + calls_report.n_ignored + calls_report.n_again, 0);
}

static void test_history__nan_missing_and_infinite_are_distinct(void **state)
{
    (void)state;
    assert_calls("{\"step\": 1, \"a\": NaN, \"b\": null, \"c\": -Infinity, "
                 "\"d\": Infinity, \"e\": \"NaN\", \"f\": 0, "
                 "\"g \\\" NaN\": 1e-45}",
                 "L1 H1 run:train:a run:train:b run:train:c run:train:d "
                 "run:train:e run:train:f run:train:g \" NaN\n"
                 "0@1 NaN\n1@1 _\n2@1 -inf\n3@1 inf\n4@1 NaN\n5@1 0\n"
                 "6@1 1e-45\n");
}

/* A diverging perplexity or a 64-bit hash must not prevent an import. */
static void test_history__numbers_beyond_float32_are_infinite(void **state)
{
    (void)state;
    assert_calls("{\"step\":1,\"a\":1e39,\"b\":-1e300,\"c\":3.4028235e38}\n"
                 "{\"step\":2,\"a\":18446744073709551616}\n"
                 "{\"step\":9007199254740993,\"a\":1e-60}",
                 "L1 H1 run:train:a run:train:b run:train:c\n"
                 "0@1 inf\n1@1 -inf\n2@1 3.4028235e38\n"
                 "0@2 1.8446744e19\n0@9007199254740993 0\n");
}

static void test_history__later_numbers_replace_earlier_ones(void **state)
{
    (void)state;
    assert_calls("{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":2}\n"
                 "{\"step\":2,\"a\":3,\"b\":1}\n{\"step\":3,\"a\":4}\n"
                 "{\"step\":2,\"a\":5}\n",
                 "L1 H1 run:train:a run:train:b\n0@1 1\n0@2 5\n");
    assert_int_equal(calls_report.n_replaced, 1);
    assert_int_equal(calls_report.n_again, 1);
}

static void test_history__files_of_llm_internal_medicine_are_read(void **state)
{
    (void)state;
    assert_calls("{\"global_step\": 50, \"qk_stats/global_max\": 9.5, "
                 "\"qk_stats/layer_0/entropy_avg\": 1.25, "
                 "\"qk_stats/layer_2/entropy_avg\": NaN, "
                 "\"moe_health/layer_1/router_entropy\": 0.5, "
                 "\"qk_stats/layer_1_mtp/max\": 2}\n",
                 "L4 H1 {\"layers\":[{},{},{},{\"name\":\"layer_3_mtp\"}]} "
                 "run:train:qk_stats/global_max layer:train:entropy "
                 "layer:train:moe_health/router_entropy "
                 "layer:train:max_logit\n"
                 "0@50 9.5\n1@50 1.25 _ NaN _\n2@50 _ 0.5 _ _\n"
                 "3@50 _ _ _ 2\n");
}

/* A prefix of the name, such as swa_, determines the kind of the layer's
   attention. Multi-token prediction (MTP) layers are numbered after the
   decoder's layers, and are renumbered if necessary. */
static void test_history__kinds_of_attention_are_kept(void **state)
{
    (void)state;
    assert_calls("{\"step\":1,\"qk_stats/layer_0/swa_entropy_avg\":1,"
                 "\"qk_stats/layer_1/full_entropy_avg\":2,"
                 "\"qk_stats/layer_2/mla_entropy_avg\":3,"
                 "\"qk_stats/layer_3/hca_entropy_avg\":4,"
                 "\"qk_stats/layer_3/hca_entropy_min\":5,"
                 "\"qk_stats/layer_4_mtp/window_entropy_avg\":6}\n",
                 "L5 H1 {\"layers\":[{\"kind\":\"window\"},{\"kind\":\"full\"},"
                 "{\"kind\":\"full\"},{\"kind\":\"sparse\"},"
                 "{\"name\":\"layer_4_mtp\",\"kind\":\"window\"}]} "
                 "layer:train:entropy layer:train:qk_stats/entropy_min\n"
                 "0@1 1 2 3 4 6\n1@1 _ _ _ 5 _\n");
    assert_calls("{\"step\":1,\"qk_stats/layer_0_mtp/entropy_avg\":9,"
                 "\"qk_stats/layer_0/entropy_avg\":1,"
                 "\"qk_stats/layer_1/entropy_avg\":2}\n",
                 "L3 H1 {\"layers\":[{},{},{\"name\":\"layer_2_mtp\"}]} "
                 "layer:train:entropy\n0@1 1 2 9\n");
    assert_refused("{\"step\":1,\"qk_stats/layer_4095_mtp/max\":9,"
                   "\"qk_stats/layer_4095/max\":9}",
                   "f: more than 4096 layers");
}

static void test_history__a_name_of_two_shapes_is_two_series(void **state)
{
    (void)state;
    assert_calls("{\"step\":0,\"entropy\":7,\"attn.0.head.0.entropy\":2}",
                 "L1 H1 run:train:entropy (run) head:train:entropy\n"
                 "0@0 7\n1@0 2\n");
}

static void test_history__a_given_pattern_and_step_key_are_used(void **state)
{
    (void)state;
    calls_options.tags = "H{head}L{layer}";
    calls_options.step_key = "it";
    assert_calls("{\"it\":3,\"step\":9,\"H1L0\":2,\"H0L2\":3}\n{\"step\":4}\n",
                 "L3 H2 run:train:step head:train:entropy\n"
                 "0@3 9\n1@3 _ 2 _ _ 3 _\n");
    assert_int_equal(calls_report.n_ignored, 1);
    calls_options.tags = calls_options.step_key = NULL;
}

/* With the suggested pattern, import reads the numbers as values of heads. */
static void test_history__a_pattern_is_suggested_for_unknown_names(void **state)
{
    (void)state;
    const char *text = "{\"step\":1,\"b0.entropy.1\":1,\"b1.entropy.0\":2}";
    char pattern[ES_TAG_MAX];
    assert_calls(text, "L1 H1 run:train:b0.entropy.1 run:train:b1.entropy.0\n"
                       "0@1 1\n1@1 2\n");
    assert_string_equal(calls_report.tag, "b0.entropy.1");
    memcpy(pattern, calls_report.tags, sizeof pattern);
    calls_options.tags = pattern;
    assert_calls(text, "L2 H2 head:train:entropy\n0@1 _ 1 2 _\n");
    assert_string_equal(calls_report.tags, "");
    calls_options.tags = NULL;
    assert_calls("{\"step\":1,\"attn/layer_0/head3_entropy\":1}",
                 "L1 H1 layer:train:attn/head3_entropy\n0@1 1\n");
    assert_string_equal(calls_report.tags,
                        "attn/layer_{layer}/head{head}_entropy");
    assert_calls("{\"step\":1,\"entropy/L0H0\":1,\"entropy_1_2\":1}",
                 "L1 H1 head:train:entropy run:train:entropy_1_2\n"
                 "0@1 1\n1@1 1\n");
    assert_string_equal(calls_report.tags, "");
    FILE *stream = tmpfile();
    assert_non_null(stream);
    fputs("{\"step\":1", stream);
    for (int i = 0; i <= ES_MAX_TEXT_SERIES; i++)
        fprintf(stream, ",\"b%d.entropy.%d\":1", i / 64, i % 64);
    fputs("}\n", stream);
    assert_int_equal(calls_of_stream(stream), ES_EFORMAT);
    assert_string_equal(
        es_message(),
        "f: more than 4096 series: names such as 'b0.entropy.0' need --tags "
        "'b{layer}.entropy.{head}'");
}

/** Names with impossible layers or heads are counted, not silently skipped. */
static void test_history__skipped_names_are_counted(void **state)
{
    (void)state;
    assert_calls("{\"step\":1,\"attn.4096.head.0.x\":1,\"x/layer_5000\":2,"
                 "\"a\":3}\n{\"step\":2,\"x/layer_5000\":2,\"a\":4}",
                 "L1 H1 run:train:a\n0@1 3\n0@2 4\n");
    assert_int_equal(calls_report.n_names, 2);
    assert_refused("{\"step\":1,\"x/layer_5000\":2}",
                   "f: no number could be imported: layers and heads must not "
                   "exceed 4095");
}

/* Import skips a row with a number that overflows, and rows whose step is
   negative, missing or not an integer. Loggers write such rows for other
   metrics. */
static void test_history__rows_without_a_step_are_skipped(void **state)
{
    (void)state;
    assert_calls("{\"step\":-1,\"a\":9}\n{\"step\":0,\"a\":1}\n"
                 "{\"step\":null,\"gpu\":0.9}\n{\"step\":NaN,\"a\":9}\n"
                 "{\"step\":1.5,\"a\":9}\n{\"step\":\"1\",\"a\":9}\n"
                 "{\"step\":1,\"a\":1e999}\n{\"step\":2,\"a\":3}\n",
                 "L1 H1 run:train:a\n0@0 1\n0@2 3\n");
    assert_int_equal(calls_report.n_ignored, 6);
}

/* A single counter provides the steps of the complete file. Import chooses the
   counter whose rows contain the most values of heads. If several counters have
   equally many, the counter of the training loop takes precedence over the
   logger's. */
static void test_history__one_of_several_counters_is_chosen(void **state)
{
    (void)state;
    assert_calls("{\"_step\":0,\"trainer/global_step\":0,"
                 "\"attn.0.head.0.entropy\":1}\n"
                 "{\"_step\":1,\"gpu\":9}\n"
                 "{\"_step\":2,\"trainer/global_step\":10,\"epoch\":1,"
                 "\"attn.0.head.0.entropy\":2}\n",
                 "L1 H1 head:train:entropy run:train:epoch\n"
                 "0@0 1\n0@10 2\n1@10 1\n");
    assert_string_equal(calls_report.step_key, "trainer/global_step");
    assert_string_equal(calls_report.other_keys, "'_step'");
    assert_int_equal(calls_report.n_ignored, 1);
    assert_calls("{\"global_step\":7,\"loss\":1}\n"
                 "{\"global_step\":8,\"loss\":1}\n"
                 "{\"_step\":3,\"attn.0.head.0.entropy\":2}\n",
                 "L1 H1 head:train:entropy\n0@3 2\n");
    assert_string_equal(calls_report.step_key, "_step");
    assert_calls("{\"step\":1,\"loss\":1}\n{\"global_step\":2,\"loss\":2}\n"
                 "{\"step\":3,\"loss\":3}\n",
                 "L1 H1 run:train:loss\n0@1 1\n0@3 3\n");
    assert_string_equal(calls_report.other_keys, "'global_step'");
    assert_int_equal(calls_report.n_ignored, 1);
    assert_calls("{\"Step\":4,\"loss\":1}\n", "L1 H1 run:train:loss\n0@4 1\n");
    assert_string_equal(calls_report.step_key, "");
}

static void test_history__a_list_of_lists_is_read_as_heads(void **state)
{
    (void)state;
    assert_calls("{\"step\":3,\"entropy\":[[1.5,1.4,null],[1.3,NaN,1]],"
                 "\"histogram\":[1,2],\"e\":{\"x\":[[7]]}}\n",
                 "L2 H3 head:train:entropy head:train:e.x\n"
                 "0@3 1.5 1.4 _ 1.3 NaN 1\n1@3 7 _ _ _ _ _\n");
}

static void test_history__a_truncated_last_line_is_skipped(void **state)
{
    (void)state;
    assert_calls("{\"step\":1,\"a\":2.5}\n{\"step\":2,\"a\":",
                 "L1 H1 run:train:a\n0@1 2.5\n");
    assert_int_equal(calls_report.n_cut, 1);
}

static void test_history__errors_name_the_line(void **state)
{
    (void)state;
    assert_refused("{\"step\":1,\"a\":2}\n{\"step\":\n{\"step\":3,\"a\":2}\n",
                   "f: line 2: not JSON: unexpected token near end of file");
    assert_refused("{\"step\":-1,\"a\":2}",
                   "f: no line has a step (_step, global_step or step): name "
                   "the member with --step-key");
    assert_refused("{\"a\":2}", "f: no line has a step (_step, global_step or "
                                "step): name the member with --step-key");
    assert_refused("{\"step\":1,\"a\":\"x\"}",
                   "f: no number could be imported");
    assert_refused("{\"step\":1,\"a\":1}\n[2]\n{\"step\":2,\"a\":1}",
                   "f: line 2: not a JSON object");
    assert_refused(
        "{\"run\":{},\"series\":[]}\n",
        "f: line 1: is a JSON line that export wrote, but import "
        "reads only export's CSV: use entropy-scan export --format csv");
}

/* Two heads with distant numbers imply samples that are much larger than the
   text. */
static void test_history__a_few_bytes_cannot_make_gigabytes(void **state)
{
    (void)state;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    for (int i = 0; i < 200; i++)
        fprintf(stream,
                "{\"step\":%d,\"attn.1000.head.900.x\":1,"
                "\"attn.0.head.0.x\":2}\n",
                i);
    assert_int_equal(calls_of_stream(stream), ES_EFORMAT);
    assert_non_null(strstr(es_message(), "would take more than 256 MiB"));
}

/* --- event files -----------------------------------------------------------*/

static long events_size; /* size of the complete file in bytes */

/* Parses the first n bytes of an event file with three steps, after flipping a
   bit of the byte at `changed`. */
static es_status parse_events(long n, long changed)
{
    char *bytes = NULL;
    size_t size;
    FILE *out = open_memstream(&bytes, &size);
    es_event_builder event = {0};
    assert_non_null(out);
    assert_int_equal(es_event_write_version(out, 1.5), ES_OK);
    for (int64_t step = 0; step < 3; step++) {
        es_event_put_scalar(&event, "attn.0.head.1.entropy", (float)step);
        es_event_put_scalar(&event, "attn.1.head.0.entropy", NAN);
        es_event_put_text(&event, "note", "attn.9.head.9.x");
        es_event_put_scalar(&event, "loss", 2.5f);
        assert_int_equal(es_event_write(&event, out, 2.5, step * 300), ES_OK);
    }
    assert_int_equal(fclose(out), 0);
    events_size = (long)size;
    assert_true(n <= events_size && changed < events_size);
    if (changed >= 0)
        bytes[changed] = (char)(bytes[changed] ^ 4);
    es_status status = calls_of_bytes(bytes, n < 0 ? size : (size_t)n);
    free(bytes);
    return status;
}

static const char events_whole[] =
    "L2 H2 head:train:entropy run:train:loss\n0@0 _ 0 NaN _\n1@0 2.5\n"
    "0@300 _ 1 NaN _\n1@300 2.5\n0@600 _ 2 NaN _\n1@600 2.5\n";

static void test_events__scalars_of_each_step_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse_events(-1, -1), ES_OK);
    assert_string_equal(calls_heard, events_whole);
    assert_int_equal(calls_report.n_cut, 0);
}

/* Wherever the file is cut, the complete records are imported. */
static void test_events__a_truncated_file_is_read_up_to_its_end(void **state)
{
    (void)state;
    size_t n_cut = 0;
    assert_int_equal(parse_events(-1, -1), ES_OK);
    for (long n = 200; n < events_size; n++)
        if (parse_events(n, -1) == ES_OK) {
            assert_memory_equal(calls_heard, events_whole, 40);
            n_cut += calls_report.n_cut;
        }
    assert_true(n_cut > 200);
}

/* All records except the damaged one are imported. */
static void test_events__a_flipped_bit_costs_a_record(void **state)
{
    (void)state;
    for (long i = 60; i < 400; i += 7) {
        assert_int_equal(parse_events(-1, i), ES_OK);
        assert_int_equal(calls_report.n_damaged, 1);
        int n_steps = 0;
        for (int step = 0; step < 3; step++) {
            char line[40];
            snprintf(line, sizeof line, "0@%d _ %d NaN _\n", step * 300, step);
            n_steps += strstr(calls_heard, line) != NULL;
        }
        assert_int_equal(n_steps, 2);
    }
}

static void test_events__bytes_between_records_are_skipped(void **state)
{
    (void)state;
    static char bytes[3 << 12];
    char *events;
    size_t size;
    FILE *out = open_memstream(&events, &size);
    es_event_builder event = {0};
    assert_int_equal(es_event_write_version(out, 1.5), ES_OK);
    for (int64_t step = 0; step < 2; step++) {
        es_event_put_scalar(&event, "loss", (float)step);
        assert_int_equal(es_event_write(&event, out, 2.5, step), ES_OK);
        fwrite(bytes, 1, 4096, out); /* zeros, as a crash may leave them */
        fputs("some text", out);
    }
    assert_int_equal(fclose(out), 0);
    assert_int_equal(calls_of_bytes(events, size), ES_OK);
    assert_string_equal(calls_heard, "L1 H1 run:train:loss\n0@0 0\n0@1 1\n");
    assert_int_equal(calls_report.n_damaged, 2);
    assert_int_equal(calls_report.n_cut, 0);
    free(events);
}

static uint32_t masked(const void *bytes, size_t n);

/* Parses a file of records with the given bodies and correct checksums. */
static es_status parse_records(const char *const *records, const size_t *sizes,
                               size_t n)
{
    FILE *stream = tmpfile();
    assert_non_null(stream);
    for (size_t i = 0; i < n; i++) {
        uint64_t size = sizes[i];
        uint32_t crc = masked(&size, 8);
        fwrite(&size, 8, 1, stream);
        fwrite(&crc, 4, 1, stream);
        fwrite(records[i], 1, sizes[i], stream);
        crc = masked(records[i], sizes[i]);
        fwrite(&crc, 4, 1, stream);
    }
    return calls_of_stream(stream);
}

/* Computes the masked CRC-32C of TFRecord, bit by bit. */
static uint32_t masked(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* TensorFlow 2 writes a scalar as a tensor. Its value may be in tensor_content
   or in float_val (packed or not), or it may be a double. The step may precede
   or follow the summary. */
static void test_events__scalars_in_tensors_are_read(void **state)
{
    (void)state;
    static const char *const records[] = {
        "\x10\x07*\r\n\x0b\n\x01"
        "aB\x06\x08\x01*\x02\x00\x00",
        "\x10\x07*\x0f\n\r\n\x01"
        "aB\x08\x08\x01\"\x04\x00\x00 @",
        "*\x0f\n\r\n\x01"
        "bB\x08\x08\x01*\x04\x00\x00 @\x10\x08",
        "\x10\x09*\x0e\n\x0c\n\x01"
        "cB\x07\x08\x01-\x00\x00 @",
        "\x10\x09*\x13\n\x11\n\x01"
        "dB\x0c\x08\x02\"\x08\x00\x00\x00\x00\x00\x00\x04@",
        /* -1e300, which is beyond the range of float32 */
        "\x10\x0a*\x13\n\x11\n\x01"
        "dB\x0c\x08\x02\"\x08\x9cu\x00\x88<\xe4\x37\xfe",
    };
    static const size_t sizes[] = {17, 19, 19, 18, 23, 23};
    es_status status = parse_records(records, sizes, 6);
    if (status != ES_OK)
        print_message("# %s\n", es_message());
    assert_int_equal(status, ES_OK);
    assert_string_equal(calls_heard,
                        "L1 H1 run:train:a run:train:b run:train:c "
                        "run:train:d\n0@7 2.5\n1@8 2.5\n2@9 2.5\n"
                        "3@9 2.5\n3@10 -inf\n");
}

static void test_events__a_restart_removes_later_samples(void **state)
{
    (void)state;
    static const char *const records[] = {
        "\x1a\x0d"
        "brain.Event:2",
        "\x10\x05*\n\n\x08\n\x01"
        "a\x15\x00\x00 @",
        "\x10\x06*\n\n\x08\n\x01"
        "a\x15\x00\x00 @",
        "\x10\x06:\x02\x08\x01",
        "\x10\x07*\n\n\x08\n\x01"
        "a\x15\x00\x00 @",
    };
    static const size_t sizes[] = {15, 14, 14, 6, 14};
    assert_int_equal(parse_records(records, sizes, 5), ES_OK);
    assert_string_equal(calls_heard, "L1 H1 run:train:a\n0@5 2.5\n0@7 2.5\n");
    assert_int_equal(calls_report.n_again, 1);
}

static void test_events__an_empty_record_is_skipped(void **state)
{
    (void)state;
    static const char *const records[] = {"", "\x10\x06*\n\n\x08\n\x01"
                                              "a\x15\x00\x00 @"};
    static const size_t sizes[] = {0, 14};
    assert_int_equal(parse_records(records, sizes, 2), ES_OK);
    assert_string_equal(calls_heard, "L1 H1 run:train:a\n0@6 2.5\n");
}

static void test_events__malformed_messages_are_skipped(void **state)
{
    (void)state;
    static const char sound[] = "\x10\x06*\n\n\x08\n\x01"
                                "a\x15\x00\x00 @";
    static const struct {
        const char *bytes;
        size_t n;
    } broken[] = {
        {"*\x7f", 2},       /* a length beyond the end of the record */
        {"\xff", 1},        /* an incomplete key */
        {"\x09\x00", 2},    /* an incomplete double */
        {"\x0b", 1},        /* a group */
        {"*\x02\n\x7f", 4}, /* a length beyond the end of the summary */
        {"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01*\n\n\x08\n\x01"
         "a\x15\x00\x00 @",
         23}, /* step -1 */
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const char *const records[] = {broken[i].bytes, sound};
        const size_t sizes[] = {broken[i].n, 14};
        assert_int_equal(parse_records(records, sizes, 2), ES_OK);
        assert_string_equal(calls_heard, "L1 H1 run:train:a\n0@6 2.5\n");
        assert_int_equal(calls_report.n_damaged, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags__of_other_tools_are_recognised),
        cmocka_unit_test(test_tags__that_no_series_can_have_are_skipped),
        cmocka_unit_test(test_tags__wrong_patterns_are_refused),
        cmocka_unit_test(test_tags__a_pattern_is_guessed_for_unknown_names),
        cmocka_unit_test(
            test_history__numbers_of_heads_layers_and_the_run_are_read),
        cmocka_unit_test(test_history__nan_missing_and_infinite_are_distinct),
        cmocka_unit_test(test_history__numbers_beyond_float32_are_infinite),
        cmocka_unit_test(test_history__later_numbers_replace_earlier_ones),
        cmocka_unit_test(test_history__files_of_llm_internal_medicine_are_read),
        cmocka_unit_test(test_history__kinds_of_attention_are_kept),
        cmocka_unit_test(test_history__a_name_of_two_shapes_is_two_series),
        cmocka_unit_test(test_history__a_given_pattern_and_step_key_are_used),
        cmocka_unit_test(
            test_history__a_pattern_is_suggested_for_unknown_names),
        cmocka_unit_test(test_history__skipped_names_are_counted),
        cmocka_unit_test(test_history__rows_without_a_step_are_skipped),
        cmocka_unit_test(test_history__one_of_several_counters_is_chosen),
        cmocka_unit_test(test_history__a_list_of_lists_is_read_as_heads),
        cmocka_unit_test(test_history__a_truncated_last_line_is_skipped),
        cmocka_unit_test(test_history__errors_name_the_line),
        cmocka_unit_test(test_history__a_few_bytes_cannot_make_gigabytes),
        cmocka_unit_test(test_events__scalars_of_each_step_are_read),
        cmocka_unit_test(test_events__a_truncated_file_is_read_up_to_its_end),
        cmocka_unit_test(test_events__a_flipped_bit_costs_a_record),
        cmocka_unit_test(test_events__bytes_between_records_are_skipped),
        cmocka_unit_test(test_events__scalars_in_tensors_are_read),
        cmocka_unit_test(test_events__a_restart_removes_later_samples),
        cmocka_unit_test(test_events__an_empty_record_is_skipped),
        cmocka_unit_test(test_events__malformed_messages_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
