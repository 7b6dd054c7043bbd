/* Tests the parsers of import with callbacks that record how they are called.
 */
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

static void test_import__a_matrix_is_one_step(void **state)
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

static void test_import__any_line_end_is_read(void **state)
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

/* The reader loads a file in blocks. If a CR ends one block and an LF begins
   the next, they form a single line end. */
static void test_import__a_cr_lf_on_a_block_border_is_one_line_end(void **state)
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

static void test_import__a_malformed_matrix_is_refused(void **state)
{
    (void)state;
    assert_refused("", "f: empty");
    assert_refused("\n  \n", "f: empty");
    assert_refused(
        "1,2,3\n4,5\n",
        "f: line 2, column 3: a number is missing: the rows above have 3");
    assert_refused("1,2\n\n3,4,5\n", "f: line 3, column 3: the row is too "
                                     "long: the rows above have 2 numbers");
    assert_refused("1,2\n3,4x\n", "f: line 2, column 2: '4x' is not a number");
    assert_refused("1.x,2\n", "f: line 1, column 1: '1.x' is not a number");
    assert_refused("1,1e39\n",
                   "f: line 1, column 2: '1e39' is too large for a float32");
    assert_refused("1,\"2\n",
                   "f: line 1, column 2: the closing quote is missing");
    assert_refused("1,\"2\"3\n",
                   "f: line 1, column 2: text after the closing quote");
    assert_refused(",0,1\n0,3,4\n",
                   "f: line 1, column 1: the first cell is empty: a matrix has "
                   "no header and no index (write NA for a missing number)");
    assert_refused("0,1,2\n3.5,2,1\n",
                   "f: the first line is 0, 1, 2, ...: remove the header, "
                   "which a matrix must not have");
    assert_refused("# ctx: many\n1,2\n",
                   "f: line 1: 'many' is not a whole number");
    assert_refused("# n_layer: 3\n1,2\n",
                   "f: 1 lines of 2 numbers, but L = 3, H = 2 were declared");
    assert_refused("# n_head: 1\n1,2\n", "f: has 2 heads, but 1 were declared");
    assert_refused("hello\nworld\n",
                   "f: unknown format: expected a matrix, a long CSV "
                   "(step,layer,head,...) or other table with steps, a log "
                   "(Step s - Layer l: v), a history ({...} lines) or an event "
                   "file: choose with --from");
    assert_refused("\xff\xfe"
                   "1",
                   "f: is UTF-16: save it as UTF-8");
}

static void test_import__files_that_are_not_text_are_refused(void **state)
{
    (void)state;
    assert_int_equal(calls_of_bytes("1,2\n3,\0004\n", 9), ES_EFORMAT);
    assert_string_equal(
        es_message(),
        "f: line 2, column 2: contains a NUL byte: not a text file");
    assert_int_equal(calls_of_bytes("SQLite format 3\0\1\2", 18), ES_EFORMAT);
    assert_non_null(strstr(es_message(), "is an SQLite file, not text"));
}

static void test_import__a_line_that_is_too_long_is_refused(void **state)
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
    /* In a log, lines without an entry may have any length. */
    strcpy(text + n, "\nStep 3 - Layer 1: 2.5\n");
    memset(text, 'x', n);
    assert_int_equal(calls_of_bytes(text, n + strlen(text + n)), ES_OK);
    assert_string_equal(calls_heard, "L2 H1 layer:train:entropy\n0@3 _ 2.5\n");
    assert_int_equal(calls_report.n_ignored, 1);
    free(text);
}

static void test_import__too_many_layers_or_heads_are_refused(void **state)
{
    (void)state;
    char *text = malloc(3 * (ES_MAX_HEADS + 8));
    size_t n = 0;
    assert_non_null(text);
    for (int i = 0; i <= ES_MAX_HEADS; i++)
        n += (size_t)sprintf(text + n, "3,");
    assert_int_equal(calls_of_bytes(text, n - 1), ES_EFORMAT);
    assert_string_equal(es_message(), "f: line 1, column 4097: more than 4096 "
                                      "heads, or 1048576 values in total");
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

static void test_import__a_long_csv_is_read(void **state)
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
    /* Series without values are omitted; indices may be written as floating-
       point numbers. */
    assert_calls("Step;Layer;Head;nothing;train:eval:x\n3.0;1.0;0.0;;4\n",
                 "L2 H1 head:train:eval:x\n0@3 _ 4\n");
    assert_calls("step,layer,head,\"a,\"\"b\"\n0,,,1\n",
                 "L1 H1 run:train:a,\"b\n0@0 1\n");
    assert_calls("# n_layer: 2\n# n_head: 2\n# series: head nats entropy\n"
                 "step,layer,head,entropy,a\\x0ab\n1,0,1,3,\n1,0,0,,4\n",
                 "L2 H2 head:train:entropy head:train:a\nb\n"
                 "0@1 _ 3 _ _\n1@1 4 _ _ _\n");
}

/* Other programs, such as spreadsheets, write decimal commas, semicolons
 * between columns, and column names with capital letters. */
static void test_import__a_long_csv_of_other_programs_is_read(void **state)
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

/* Wide tables have a step column and a column for each named number, as written
   by Lightning, W&B's charts and TensorBoard. */
static void test_import__a_wide_table_is_read(void **state)
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
    assert_refused("step,a\n1,2\n", "f: has no column 'epoch'");
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
                   "f: no row has a non-negative integer in column 'step': "
                   "name another column with --step-key");
    assert_refused(
        "step,a\n1,2,3\n",
        "f: line 2, column 3: the line is too long: the header has 2 columns");
    assert_refused("step,a\n1,x\n", "f: no number could be imported");
}

static void test_import__a_malformed_long_csv_is_refused(void **state)
{
    (void)state;
    const char *header = "step,layer,head,e,loss\n";
    static const struct {
        const char *rows, *message;
    } cases[] = {
        {"", "f: no value below the header"},
        {"5,0,0,,\n", "f: no value below the header"},
        {"5,0,0,1\n", "f: line 2, column 4: the line is too short: the header "
                      "has 5 columns"},
        {"5,0\n", "f: line 2, column 2: the line ends before the columns "
                  "step,layer,head are complete"},
        {"5,0,0,1,,\n",
         "f: line 2, column 6: the line is too long: the header has 5 columns"},
        {"5,0,0,1,\n5,0,1,l,\n", "f: line 3, column 4: 'l' is not a number"},
        {",0,0,1,\n", "f: line 2, column 1: '' is not a whole number"},
        {"1.5,0,0,1,\n", "f: line 2, column 1: '1.5' is not a whole number"},
        {"-1,0,0,1,\n",
         "f: line 2, column 1: -1 is not in 0..9223372036854775806"},
        {"99999999999999999999,0,0,1,\n",
         "f: line 2, column 1: 99999999999999999999 is not in "
         "0..9223372036854775806"},
        {"5,,0,1,\n", "f: line 2, column 3: the row has a head but no layer"},
        {"5,0,0,1,\n5,0,0,2,\n",
         "f: line 3, column 4: e already has a value here at step 5"},
        {"5,0,0,1,\n4,0,0,2,\n", "f: line 3, column 3: step 4 comes after step "
                                 "5: sort the rows by step"},
        {"5,0,0,1,\n5,0,,2,\n", "f: line 3, column 4: e: has a value for a "
                                "layer, but line 2 has a value for a head"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%s%s", header, cases[i].rows);
        assert_refused(text, cases[i].message);
    }
    assert_refused("step,layer,e\n",
                   "f: line 1, column 3: the header of a long CSV must begin "
                   "with step,layer,head");
    assert_refused("step,layer,head\n1,0,0\n",
                   "f: line 1: no series after step,layer,head");
    assert_refused("step,layer,head,e,e\n",
                   "f: line 1, column 5: 'e' is already column 4");
    assert_refused("step,layer,head,e,\n",
                   "f: line 1, column 5: a column has no name");
    assert_refused("# series: head - e\nstep,layer,head,e\n1,0,,3\n",
                   "f: line 3, column 4: e: has a value for a layer, but was "
                   "declared for a head");
    assert_refused("# n_layer: 1\nstep,layer,head,e\n1,1,0,3\n",
                   "f: has 2 layers, but 1 were declared");
}

/* The file is read twice, and a comment must have the same effect both
   times. */
static void test_import__comments_after_the_header_are_ignored(void **state)
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

static void test_import__a_log_is_read(void **state)
{
    (void)state;
    assert_calls("starting\nStep 10 - Layer 0: 2.5\nStep 10 - Layer 2: nan\n"
                 "loss 3\n 5%|#| step 20 - layer 1 : 1e-3, ok\n",
                 "L3 H1 layer:train:entropy\n0@10 2.5 _ NaN\n0@20 _ 1e-3 _\n");
    assert_int_equal(calls_report.n_ignored, 2);
    assert_int_equal(calls_report.n_samples, 2);
    /* If a step and layer occur twice, the later value is used. If the steps go
       back, training was restarted. */
    assert_calls("Step 1 - Layer 0: 1\nStep 1 - Layer 0: 2\n"
                 "Step 3 - Layer 0: 3\nStep 2 - Layer 0: 4\n",
                 "L1 H1 layer:train:entropy\n0@1 2\n0@3 3\nagain 2\n0@2 4\n");
    assert_int_equal(calls_report.n_replaced, 1);
    assert_int_equal(calls_report.n_again, 1);
}

static void test_import__a_malformed_log_is_refused(void **state)
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

/* --- robustness ----------------------------------------------------------- */

/* Replaces up to two bytes at a random position of `text` (n bytes) by a random
   word. Returns the new length. */
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
    m = m ? m : 1; /* an empty word stands for a NUL byte */
    cut = at + cut > n ? 0 : cut;
    memmove(text + at + m, text + at + cut, n - at - cut);
    memcpy(text + at, piece, m);
    return n + m - cut;
}

/* Parses random mutations of valid files, and files of random words. */
static void test_import__mutated_files_do_not_crash(void **state)
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
    /* The test is useful only if many texts are accepted and many are refused.
     */
    assert_true(n_ok > 500 && n_refused > 500);
}

/* --- limits
   ---------------------------------------------------------------- */

/* Parses a text that consists of the header `head` and n lines. Line i, from 0,
   is `fmt` with the number i. */
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

static void test_import__a_small_text_cannot_make_a_large_run(void **state)
{
    (void)state;
    const char *header = "step,layer,head,entropy\n";
    assert_too_large(
        "f: 1024 layers of 1024 heads, from line 2: the samples in 1 "
        "KiB of text would take more than 256 MiB",
        header, "%d,1023,1023,1.5\n", 65);
    assert_too_large("f: 4096 layers of 256 heads, from comments: ",
                     "# n_layer: 4096\n# n_head: 256\n"
                     "step,layer,head,entropy\n",
                     "%d,0,0,1.5\n", 65);
    assert_too_large(
        "f: 4096 layers of 1 heads, from line 1: ", "Step 0 - Layer 4095: 1\n",
        "Step %d - Layer 4095: 1\n", 20000);
    /* A file with a single head of a large model may have any number of steps,
       since the limit grows with the size of the text. */
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
    text = "1,900\n"; /* Without a context length, no ceiling is known. */
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
        cmocka_unit_test(test_import__a_matrix_is_one_step),
        cmocka_unit_test(test_import__any_line_end_is_read),
        cmocka_unit_test(
            test_import__a_cr_lf_on_a_block_border_is_one_line_end),
        cmocka_unit_test(test_import__a_malformed_matrix_is_refused),
        cmocka_unit_test(test_import__files_that_are_not_text_are_refused),
        cmocka_unit_test(test_import__a_line_that_is_too_long_is_refused),
        cmocka_unit_test(test_import__too_many_layers_or_heads_are_refused),
        cmocka_unit_test(test_import__a_long_csv_is_read),
        cmocka_unit_test(test_import__a_long_csv_of_other_programs_is_read),
        cmocka_unit_test(test_import__a_wide_table_is_read),
        cmocka_unit_test(test_import__a_malformed_long_csv_is_refused),
        cmocka_unit_test(test_import__comments_after_the_header_are_ignored),
        cmocka_unit_test(test_import__a_log_is_read),
        cmocka_unit_test(test_import__a_malformed_log_is_refused),
        cmocka_unit_test(test_import__a_small_text_cannot_make_a_large_run),
        cmocka_unit_test(test_import__entropies_above_the_ceiling_are_counted),
        cmocka_unit_test(test_import__mutated_files_do_not_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
