/* The import parsers: text in, calls out. */
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/import.h"
#include "tests/support/chance.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/import_calls.h"

#include <stdio.h>
#include <stdlib.h>

static es_status ignore_sample(void *user, size_t series, int64_t step,
                               const float *values, size_t n)
{
    (void)user;
    (void)series;
    (void)step;
    (void)values;
    (void)n;
    return ES_OK;
}

/* --- matrix ---------------------------------------------------------------*/

static void test_import__matrix(void **state)
{
    (void)state;
    assert_calls("2.5,0,1e-3\n-0,NaN,inf\n", "L2 H3 head:train:entropy\n"
                                             "0@0 2.5 0 1e-3 -0 NaN inf\n");
    assert_calls("7\n", "L1 H1 head:train:entropy\n0@0 7\n");
    assert_calls("1,2\n3,\n\n", "L2 H2 head:train:entropy\n0@0 1 2 3 _\n");
    assert_calls("NA,2", "L1 H2 head:train:entropy\n0@0 _ 2\n");
    assert_calls("1;2\n3;4\n", "L2 H2 head:train:entropy\n0@0 1 2 3 4\n");
    assert_calls("1\t2\n", "L1 H2 head:train:entropy\n0@0 1 2\n");
    assert_calls(" 1e0  2.50 \n 3 4\n",
                 "L2 H2 head:train:entropy\n0@0 1 2.5 3 4\n");
    assert_calls("\"1\", \"2\" \n3,4\n",
                 "L2 H2 head:train:entropy\n0@0 1 2 3 4\n");
    assert_calls("# name: a b\n# ctx: 128\n# hello\n1,2\n",
                 "L1 H2 name=a b ctx=128 head:train:entropy\n0@0 1 2\n");
}

static void test_import__line_ends(void **state)
{
    (void)state;
    const char *same = "L2 H2 head:train:entropy\n0@0 1 2 3 4\n";
    assert_calls("1,2\r\n3,4\r\n", same);
    assert_calls("1,2\r3,4", same);
    assert_calls("\xef\xbb\xbf"
                 "1,2\n3,4",
                 same);
    assert_calls("\n\n1,2\n\n3,4\n\n\n", same);
}

/* A CR LF that falls on the border of two blocks is one line end. */
static void test_import__border(void **state)
{
    (void)state;
    for (int shift = -2; shift <= 2; shift++) {
        static char text[70000];
        int n = 65536 + shift;
        memset(text, ' ', sizeof text);
        memcpy(text, "#", 1);
        strcpy(text + n - 1, "\r\n1,2\r\n3,x\r\n");
        assert_refused(text, "f: line 3, column 2: 'x' is not a number");
    }
}

static void test_import__matrix_refused(void **state)
{
    (void)state;
    assert_refused("", "f: empty");
    assert_refused("\n  \n", "f: empty");
    assert_refused("1,2,3\n4,5\n",
                   "f: line 2, column 3: no number, where the rows before have "
                   "3");
    assert_refused("1,2\n\n3,4,5\n",
                   "f: line 3, column 3: the rows before have 2 numbers");
    assert_refused("1,2\n3,4x\n", "f: line 2, column 2: '4x' is not a number");
    assert_refused("1.x,2\n", "f: line 1, column 1: '1.x' is not a number");
    assert_refused("1,1e39\n",
                   "f: line 1, column 2: '1e39' is too large for a float32");
    assert_refused("1,\"2\n", "f: line 1, column 2: a quote is left open");
    assert_refused("1,\"2\"3\n",
                   "f: line 1, column 2: text after the closing quote");
    assert_refused(",0,1\n0,3,4\n",
                   "f: line 1, column 1: an empty first cell: a matrix has no "
                   "header and no index (write NA for a missing number)");
    assert_refused("0,1,2\n3.5,2,1\n", "f: the first line counts 0, 1, 2: a "
                                       "header? a matrix has none");
    assert_refused("# ctx: many\n1,2\n",
                   "f: line 1: 'many' is not a whole number");
    assert_refused("# n_layer: 3\n1,2\n",
                   "f: 1 lines of 2 numbers, where L = 3, H = 2 was announced");
    assert_refused("# n_head: 1\n1,2\n",
                   "f: has 2 heads, where 1 were announced");
    assert_refused("hello\nworld\n",
                   "f: no matrix, no long CSV (step,layer,head,...) or other "
                   "table with a step, no log (Step s - Layer l: v), no "
                   "history ({...} lines), no event file: choose with --from");
    assert_refused("\xff\xfe"
                   "1",
                   "f: UTF-16: save it as UTF-8");
}

static void test_import__bytes_refused(void **state)
{
    (void)state;
    assert_int_equal(calls_of_bytes("1,2\n3,\0004\n", 9), ES_EFORMAT);
    assert_string_equal(es_message(),
                        "f: line 2, column 2: a NUL byte: this is no text");
    assert_int_equal(calls_of_bytes("SQLite format 3\0\1\2", 18), ES_EFORMAT);
    assert_non_null(strstr(es_message(), "a SQLite file, not text"));
}

static void test_import__long_lines(void **state)
{
    (void)state;
    size_t n = 10 << 20;
    char *text = malloc(n + 64);
    assert_non_null(text);
    memset(text, '1', n);
    strcpy(text, "1,2\n");
    text[4] = '3';
    assert_int_equal(calls_of_bytes(text, n), ES_EFORMAT);
    assert_string_equal(es_message(), "f: line 2 is longer than 1048576 bytes");
    /* A log may hold anything. */
    strcpy(text + n, "\nStep 3 - Layer 1: 2.5\n");
    memset(text, 'x', n);
    assert_int_equal(calls_of_bytes(text, n + strlen(text + n)), ES_OK);
    assert_string_equal(calls_heard, "L2 H1 layer:train:entropy\n0@3 _ 2.5\n");
    assert_int_equal(calls_report.n_ignored, 1);
    free(text);
}

static void test_import__too_many(void **state)
{
    (void)state;
    char *text = malloc(3 * (ES_MAX_HEADS + 8));
    size_t n = 0;
    assert_non_null(text);
    for (int i = 0; i <= ES_MAX_HEADS; i++)
        n += (size_t)sprintf(text + n, "3,");
    assert_int_equal(calls_of_bytes(text, n - 1), ES_EFORMAT);
    assert_string_equal(es_message(), "f: line 1, column 4097: more than 4096 "
                                      "heads, or 1048576 values in all");
    n = 0;
    for (int i = 0; i <= ES_MAX_LAYERS; i++)
        n += (size_t)sprintf(text + n, "3\n");
    assert_int_equal(calls_of_bytes(text, n), ES_EFORMAT);
    assert_string_equal(es_message(), "f: line 4097: more than 4096 layers");
    free(text);
    assert_refused("step,layer,head,e\n0,4096,0,1\n",
                   "f: line 2, column 2: 4096 is not in 0..4095");
    assert_refused("step,layer,head,e\n0,4095,4095,1\n",
                   "f: 4096 layers of 4096 heads: too many");
}

/* --- long -----------------------------------------------------------------*/

static void test_import__long(void **state)
{
    (void)state;
    assert_calls("step,layer,head,entropy,slope,loss,eval:loss\n"
                 "5,,,,,2.5,\n"
                 "5,1,0,0.25,,,\n"
                 "5,0,2,NaN,,,\n"
                 "5,1,,,-0,,\n"
                 "7,,,,,-inf,3\n"
                 "7,0,0,NA,,,\n",
                 "L2 H3 head:train:entropy layer:train:slope run:train:loss "
                 "run:eval:loss\n"
                 "0@5 _ _ NaN 0.25 _ _\n1@5 _ -0\n2@5 2.5\n"
                 "0@7 _ _ _ _ _ _\n2@7 -inf\n3@7 3\n");
    /* Series without a value are left out; indices may have been floats. */
    assert_calls("Step;Layer;Head;nothing;train:eval:x\n3.0;1.0;0.0;;4\n",
                 "L2 H1 head:train:eval:x\n0@3 _ 4\n");
    assert_calls("step,layer,head,\"a,\"\"b\"\n0,,,1\n",
                 "L1 H1 run:train:a,\"b\n0@0 1\n");
    assert_calls("# n_layer: 2\n# n_head: 2\n# series: head nats entropy\n"
                 "step,layer,head,entropy,a\\x0ab\n1,0,1,3,\n1,0,0,,4\n",
                 "L2 H2 head:train:entropy head:train:a\nb\n"
                 "0@1 _ 3 _ _\n1@1 4 _ _ _\n");
}

/* What spreadsheets of other countries and other programs' headers have. */
static void test_import__long_of_others(void **state)
{
    (void)state;
    assert_calls("step;layer;head;entropy\n0;0;0;1,5\n0;0;1;1,25\n",
                 "L1 H2 head:train:entropy\n0@0 1.5 1.25\n");
    assert_calls("Step,Layer,Head,Entropy,Own\n0,0,0,1.5,2\n",
                 "L1 H1 head:train:entropy head:train:Own\n"
                 "0@0 1.5\n1@0 2\n");
    assert_refused("step;layer;head;e\n0;0;0;1,5,2\n",
                   "f: line 2, column 4: '1,5,2' is not a number");
    assert_refused("step;layer;head;e\n0;0;0;1.000,5\n",
                   "f: line 2, column 4: '1.000,5' is not a number");
}

/* As Lightning, W&B's charts and TensorBoard write them. */
static void test_import__wide(void **state)
{
    (void)state;
    assert_calls("epoch,step,train_loss,attn/layer_0/head_0/entropy,"
                 "attn/layer_0/head_1/entropy\n"
                 "0,9,3.1,1.5,1.25\n0,19,3.0,NaN,1.2\n,,7,,\n1,19,,,\n",
                 "L1 H2 run:train:epoch run:train:train_loss "
                 "head:train:entropy\n"
                 "0@9 0\n1@9 3.1\n2@9 1.5 1.25\n"
                 "0@19 1\n1@19 3\n2@19 NaN 1.2\n");
    assert_int_equal(calls_report.n_ignored, 1);
    assert_calls("\"Step\";\"run - loss\"\n\"1\";\"2,5\"\n",
                 "L1 H1 run:train:run - loss\n0@1 2.5\n");
    assert_calls("Wall time,Step,Value\n1700000000.5,3,1\n",
                 "L1 H1 run:train:Value\n0@3 1\n");
    assert_calls("_step,_runtime,a\n3,2.5,1\n", "L1 H1 run:train:a\n0@3 1\n");
    calls_options.step_key = "epoch";
    assert_calls("epoch,step,a\n1,9,2\n",
                 "L1 H1 run:train:step run:train:a\n0@1 9\n1@1 2\n");
    assert_refused("step,a\n1,2\n", "f: no column is named 'epoch'");
    calls_options.step_key = NULL;
    assert_calls("step,a\n1,1\n2,2\n1,3\n", "L1 H1 run:train:a\n0@1 3\n");
    assert_int_equal(calls_report.n_again, 1);
    assert_calls("_step,trainer/global_step,x/L0H0,gpu\n"
                 "0,0,1,\n1,,,9\n2,10,2,9\n",
                 "L1 H1 head:train:x run:train:gpu\n0@0 1\n0@10 2\n1@10 9\n");
    assert_string_equal(calls_report.step_key, "trainer/global_step");
    assert_string_equal(calls_report.other_keys, "'_step'");
    assert_int_equal(calls_report.n_ignored, 1);
    assert_refused("step,a\n-1,2\nx,3\n",
                   "f: no row has a whole number from 0 on in column 'step': "
                   "name another with --step-key");
    assert_refused("step,a\n1,2,3\n",
                   "f: line 2, column 3: the header has 2 columns");
    assert_refused("step,a\n1,x\n", "f: no number that could be imported");
}

static void test_import__long_refused(void **state)
{
    (void)state;
    const char *header = "step,layer,head,e,loss\n";
    static const struct {
        const char *rows, *message;
    } cases[] = {
        {"", "f: no value under its header"},
        {"5,0,0,,\n", "f: no value under its header"},
        {"5,0,0,1\n", "f: line 2, column 4: the line ends: the header has 5 "
                      "columns"},
        {"5,0\n", "f: line 2, column 2: the line ends within step,layer,head"},
        {"5,0,0,1,,\n", "f: line 2, column 6: the header has 5 columns"},
        {"5,0,0,1,\n5,0,1,l,\n", "f: line 3, column 4: 'l' is not a number"},
        {",0,0,1,\n", "f: line 2, column 1: '' is not a whole number"},
        {"1.5,0,0,1,\n", "f: line 2, column 1: '1.5' is not a whole number"},
        {"-1,0,0,1,\n",
         "f: line 2, column 1: -1 is not in 0..9223372036854775806"},
        {"99999999999999999999,0,0,1,\n",
         "f: line 2, column 1: 99999999999999999999 is not in "
         "0..9223372036854775806"},
        {"5,,0,1,\n", "f: line 2, column 3: a head without its layer"},
        {"5,0,0,1,\n5,0,0,2,\n",
         "f: line 3, column 4: e has a value here already, at step 5"},
        {"5,0,0,1,\n4,0,0,2,\n", "f: line 3, column 3: step 4 comes after step "
                                 "5: sort the rows by step"},
        {"5,0,0,1,\n5,0,,2,\n",
         "f: line 3, column 4: e: a value of a layer, but line 2 has one of a "
         "head"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%s%s", header, cases[i].rows);
        assert_refused(text, cases[i].message);
    }
    assert_refused("step,layer,e\n", "f: line 1, column 3: the header of a "
                                     "long CSV begins with step,layer,head");
    assert_refused("step,layer,head\n1,0,0\n",
                   "f: line 1: no series after step,layer,head");
    assert_refused("step,layer,head,e,e\n",
                   "f: line 1, column 5: 'e' is column 4 already");
    assert_refused("step,layer,head,e,\n",
                   "f: line 1, column 5: a column without a name");
    assert_refused("# series: head - e\nstep,layer,head,e\n1,0,,3\n",
                   "f: line 3, column 4: e: a value of a layer, announced as "
                   "one of a head");
    assert_refused("# n_layer: 1\nstep,layer,head,e\n1,1,0,3\n",
                   "f: has 2 layers, where 1 were announced");
}

/* What comments say must hold in both readings of the file. */
static void test_import__comments_count_once(void **state)
{
    (void)state;
    assert_calls("# n_layer: 3\n# name: a\nstep,layer,head,e\n1,0,0,3\n"
                 "# n_layer: 1\n# name: b\n2,0,0,4\n",
                 "L1 H1 name=b head:train:e\n0@1 3\n0@2 4\n");
    char text[2048] = "";
    for (int i = 0; i < 50; i++)
        strcat(text, "# name: a\n");
    strcat(text, "step,layer,head,e\n1,0,0,3\n");
    assert_calls(text, "L1 H1 name=a head:train:e\n0@1 3\n");
}

/* --- log ------------------------------------------------------------------*/

static void test_import__log(void **state)
{
    (void)state;
    assert_calls("starting\nStep 10 - Layer 0: 2.5\nStep 10 - Layer 2: nan\n"
                 "loss 3\n 5%|#| step 20 - layer 1 : 1e-3, ok\n",
                 "L3 H1 layer:train:entropy\n0@10 2.5 _ NaN\n0@20 _ 1e-3 _\n");
    assert_int_equal(calls_report.n_ignored, 2);
    assert_int_equal(calls_report.n_samples, 2);
    /* Two processes print the same; a restart goes back. */
    assert_calls("Step 1 - Layer 0: 1\nStep 1 - Layer 0: 2\n"
                 "Step 3 - Layer 0: 3\nStep 2 - Layer 0: 4\n",
                 "L1 H1 layer:train:entropy\n0@1 2\n0@3 3\nagain 2\n0@2 4\n");
    assert_int_equal(calls_report.n_replaced, 1);
    assert_int_equal(calls_report.n_again, 1);
}

static void test_import__log_refused(void **state)
{
    (void)state;
    assert_refused("Step 1 - Layer 0: x\n",
                   "f: line 1, column 19: 'x' is not a number");
    assert_refused("\nStep 1 - Layer 0:\n",
                   "f: line 2, column 18: no number after 'Layer 0:'");
    assert_refused("Step 1 - Layer 4096: 1\n",
                   "f: line 1, column 16: 4096 is not in 0..4095");
    assert_refused("Step 99999999999999999999 - Layer 0: 1\n",
                   "f: line 1, column 6: 99999999999999999999 is not in "
                   "0..9223372036854775806");
}

/* --- nothing crashes ------------------------------------------------------*/

/* One of the words is put into text (n), over up to two bytes of it. Returns
   how long it is then. */
static size_t mutate(char *text, size_t n, uint32_t *random)
{
    static const char *const pieces[] = {
        ",",
        ";",
        "\n",
        "\r",
        "\"",
        "#",
        "# n_head: 9\n",
        "\t",
        "step",
        "Step 4",
        " - ",
        "Layer",
        "\\x00",
        "99999999999",
        "-",
        ".",
        "NaN(0x",
        "NA",
        "eval:",
        "\xff\xfe",
        "# series: head - e\n",
        "\0",
        ":",
        " ",
        "1e9",
        "4095",
        "# uuid: 1",
        "train:",
    };
    const char *piece = pieces[congruence_below(random, 28)];
    size_t at = congruence_below(random, (uint32_t)n), m = strlen(piece);
    size_t cut = congruence_below(random, 3);
    m = m ? m : 1; /* a NUL */
    cut = at + cut > n ? 0 : cut;
    memmove(text + at + m, text + at + cut, n - at - cut);
    memcpy(text + at, piece, m);
    return n + m - cut;
}

/* Mutations of good files, and words in any order. */
static void test_import__fuzz(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "2.5,0,1e-3\n-0,NaN,inf\n",
        ("# name: x\n# n_layer: 2\n# series: head nats e\n"
         "step,layer,head,e,eval:l\n1,0,0,2,\n1,1,2,3,\n2,,,,5\n"),
        "noise\nStep 1 - Layer 0: 2\rStep 1 - Layer 3: nan\n",
        "\"1\";\"2\"\n3;\"4\"\"\"\n",
    };
    uint32_t random = 20240711;
    size_t n_ok = 0, n_refused = 0;
    for (int round = 0; round < 4000; round++) {
        char text[512];
        const char *seed = seeds[congruence_below(&random, 4)];
        size_t n = strlen(seed);
        memcpy(text, seed, n);
        for (uint32_t i = congruence_below(&random, 4); i > 0; i--)
            n = mutate(text, n, &random);
        es_status status = calls_of_bytes(text, n);
        assert_true(status == ES_OK || status == ES_EFORMAT);
        n_ok += status == ES_OK;
        n_refused += status != ES_OK;
    }
    /* Both ways are worth having been taken. */
    assert_true(n_ok > 500 && n_refused > 500);
}

/* --- more than there is ----------------------------------------------------
 */

/* n samples of one series: every line is `fmt` with its number. */
static es_status parse_lines(const char *head, const char *fmt, int n)
{
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    fputs(head, stream);
    for (int i = 0; i < n; i++)
        fprintf(stream, fmt, i);
    fclose(stream);
    const es_import_sink before = calls_sink;
    calls_sink.sample = ignore_sample;
    es_status status = calls_of_bytes(text, size);
    calls_sink = before;
    free(text);
    return status;
}

static void assert_too_large(const char *words, const char *head,
                             const char *fmt, int n)
{
    assert_int_equal(parse_lines(head, fmt, n), ES_EFORMAT);
    if (!strstr(es_message(), words))
        fail_msg("no '%s' in: %s", words, es_message());
}

static void test_import__a_small_text_makes_no_large_run(void **state)
{
    (void)state;
    const char *header = "step,layer,head,entropy\n";
    assert_too_large("f: 1024 layers of 1024 heads, by line 2: 1 KiB of text "
                     "would take more than 256 MiB",
                     header, "%d,1023,1023,1.5\n", 65);
    assert_too_large("f: 4096 layers of 256 heads, by its comments: ",
                     "# n_layer: 4096\n# n_head: 256\n"
                     "step,layer,head,entropy\n",
                     "%d,0,0,1.5\n", 65);
    assert_too_large(
        "f: 4096 layers of 1 heads, by line 1: ", "Step 0 - Layer 4095: 1\n",
        "Step %d - Layer 4095: 1\n", 20000);
    /* One head of a model, exported for as long as it takes. */
    es_status status = parse_lines(header, "%d,47,47,1.5\n", 20000);
    assert_int_equal(status, ES_OK);
    assert_int_equal(calls_report.n_samples, 20000);
}

static void test_import__entropies_above_the_ceiling_are_counted(void **state)
{
    const char *text =
        "# ctx: 8\nstep,layer,head,entropy,entropy_max,loss\n"
        "1,0,0,2.0794415,2.1,\n1,0,1,NaN,NA,\n1,0,2,inf,3.5,\n1,,,,,9\n";
    (void)state;
    assert_int_equal(calls_of_bytes(text, strlen(text)), ES_OK);
    assert_int_equal(calls_report.n_above, 2);
    assert_true(calls_report.largest == 3.5F);
    assert_float_equal(calls_report.ceiling, 2.0794415416798357, 1e-12);
    text = "1,900\n"; /* of no context */
    assert_int_equal(calls_of_bytes(text, strlen(text)), ES_OK);
    assert_int_equal(calls_report.n_above, 0);
    text = "# ctx: 8\n# series: head bits train:entropy\n"
           "step,layer,head,entropy\n1,0,0,3\n";
    assert_int_equal(calls_of_bytes(text, strlen(text)), ES_OK);
    assert_int_equal(calls_report.n_above, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import__matrix),
        cmocka_unit_test(test_import__line_ends),
        cmocka_unit_test(test_import__border),
        cmocka_unit_test(test_import__matrix_refused),
        cmocka_unit_test(test_import__bytes_refused),
        cmocka_unit_test(test_import__long_lines),
        cmocka_unit_test(test_import__too_many),
        cmocka_unit_test(test_import__long),
        cmocka_unit_test(test_import__long_of_others),
        cmocka_unit_test(test_import__wide),
        cmocka_unit_test(test_import__long_refused),
        cmocka_unit_test(test_import__comments_count_once),
        cmocka_unit_test(test_import__log),
        cmocka_unit_test(test_import__log_refused),
        cmocka_unit_test(test_import__a_small_text_makes_no_large_run),
        cmocka_unit_test(test_import__entropies_above_the_ceiling_are_counted),
        cmocka_unit_test(test_import__fuzz),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
