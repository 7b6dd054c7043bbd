/**
 * Tests that valid rules files are read, and the error messages for invalid
 * files.
 */
#include "cli/alerts/rules/rules_file.h"
#include "tests/support/test.h"

static es_status parse(es_rules_file *out, const char *text)
{
    return es_rules_file_parse(out, "r.ini", text, strlen(text));
}

static es_rules_file good(const char *text)
{
    es_rules_file file;
    es_assert_ok(parse(&file, text));
    return file;
}

/* Returns the rules file printed as text; the caller frees the string. */
static char *printed(const es_rules_file *file, bool examples)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    es_rules_file_print(stream, file, examples);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static bool same_flags(const es_flag_rules *a, const es_flag_rules *b)
{
    return a->collapse_head == b->collapse_head &&
           a->collapse_share == b->collapse_share &&
           a->collapse_history == b->collapse_history &&
           a->collapse_samples == b->collapse_samples &&
           a->collapse_layers == b->collapse_layers &&
           a->overload_samples == b->overload_samples &&
           a->overload_steps == b->overload_steps &&
           a->overload_head == b->overload_head &&
           a->overload_warning == b->overload_warning &&
           a->overload_error == b->overload_error && a->warm_up == b->warm_up &&
           a->logits_warning == b->logits_warning &&
           a->logits_error == b->logits_error &&
           a->spike_deviations == b->spike_deviations &&
           a->spike_rise == b->spike_rise &&
           a->spike_samples == b->spike_samples;
}

static void assert_same_rule(const es_rule *a, const es_rule *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->series, b->series);
    assert_int_equal(a->eval, b->eval);
    assert_int_equal(a->aggregate, b->aggregate);
    assert_int_equal(a->comparison, b->comparison);
    assert_int_equal(a->reference, b->reference);
    assert_true(a->threshold == b->threshold);
    assert_true(a->share == b->share);
    assert_true(a->end == b->end || (isnan(a->end) && isnan(b->end)));
    assert_int_equal(a->samples, b->samples);
    assert_true(a->warm_up == b->warm_up);
    assert_int_equal(a->warm_up_end, b->warm_up_end);
    assert_int_equal(a->cool_down, b->cool_down);
    assert_int_equal(a->severity, b->severity);
    assert_int_equal(a->action, b->action);
}

static void assert_reads_back(const es_rules_file *file, bool examples)
{
    AUTO_FREE char *text = printed(file, examples);
    AUTO_BY(es_rules_file_free) es_rules_file back = good(text);
    assert_true(same_flags(&back.flags, &file->flags));
    assert_int_equal(back.n, file->n);
    for (size_t i = 0; i < file->n; i++)
        assert_same_rule(&back.rules[i], &file->rules[i]);
}

/* Sets each threshold separately, to a value with many decimals. */
TEST(every_threshold_is_set_and_printed)
{
    static const char *const cases[] = {"[collapse]\nhead=0.7000001",
                                        "[collapse]\nshare=0.7000001",
                                        "[collapse]\nhistory=0.7000001",
                                        "[collapse]\nsamples=7",
                                        "[collapse]\nlayers=7",
                                        "[overload]\nsamples=7",
                                        "[overload]\nhead=0.7000001",
                                        "[overload]\nwarning=0.1",
                                        "[overload]\nerror=0.7000001",
                                        "[overload]\nwarm_up=0.7000001",
                                        "[logits]\nwarning=0.1",
                                        "[logits]\nerror=123456.7",
                                        "[loss_spike]\ndeviations=8.500001",
                                        "[loss_spike]\nrise=0.7000001",
                                        "[loss_spike]\nsamples=7",
                                        "[overload]\nsteps=7"};
    es_rules_file seen;
    assert_int_equal(sizeof cases / sizeof *cases, ES_N_FLAG_THRESHOLDS);
    es_rules_file_default(&seen);
    assert_false(es_rules_file_is_set(&seen));
    assert_reads_back(&seen, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_rules_file file = good(cases[i]);
        assert_true(es_rules_file_is_set(&file));
        assert_false(same_flags(&file.flags, &seen.flags));
        assert_reads_back(&file, false);
        seen = file;
    }
}

/* The examples are printed as comments. The test removes the semicolons that
 * mark them as comments, and checks that there is a rule for each aggregate. */
TEST(examples_are_rules)
{
    es_rules_file defaults;
    bool seen[ES_N_RULE_AGGREGATES] = {false};
    es_rules_file_default(&defaults);
    AUTO_FREE char *text = printed(&defaults, true);
    for (char *at = text; (at = strstr(at, "\n;"));)
        at[1] = ' ';
    AUTO_BY(es_rules_file_free) es_rules_file file = good(text);
    assert_string_equal(file.baseline, "baseline.db");
    for (size_t i = 0; i < file.n; i++)
        seen[file.rules[i].aggregate] = true;
    for (int i = 0; i < ES_N_RULE_AGGREGATES; i++)
        assert_true(seen[i]);
    assert_reads_back(&file, false);
}

TEST(every_key_of_a_rule_is_read)
{
    AUTO_BY(es_rules_file_free)
    es_rules_file file = good("\xef\xbb\xbf# as some editors begin\r\n"
                              "[rule  a-1_b]  ; mine\r\n"
                              "  series : alpha\r\n"
                              "\tphase=eval\n"
                              "aggregate = share\n"
                              "at_most = -2.5e-3 history ; comment\n"
                              "share = 0.125\n"
                              "end = 0.1\n"
                              "samples = 12\n"
                              "warm_up = 0.03 500 steps\n"
                              "cool_down = 9\n"
                              "severity = critical\n"
                              "action = stop");
    const es_rule expected = {.name = "a-1_b",
                              .series = "alpha",
                              .eval = true,
                              .aggregate = ES_RULE_SHARE,
                              .comparison = ES_RULE_AT_MOST,
                              .reference = ES_RULE_HISTORY,
                              .threshold = -2.5e-3,
                              .share = 0.125,
                              .end = 0.1,
                              .samples = 12,
                              .warm_up = 0.03,
                              .warm_up_end = 500,
                              .cool_down = 9,
                              .severity = ES_SEVERITY_CRITICAL,
                              .action = ES_RULE_STOP};
    assert_int_equal(file.n, 1);
    assert_same_rule(&file.rules[0], &expected);
}

#define RULE "[rule a]\nseries = x\n"

TEST(wrong_lines_are_named)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"head = 1\n", "r.ini:1: 'head' before the first section"},
        {"\n[colapse]\n",
         "r.ini:2: unknown section [colapse]: expected nan, collapse"},
        {"[collapse]\nheads = 1\n", "r.ini:2: [collapse] has no key 'heads': "
                                    "expected head, share, history"},
        {"[nan]\nhead = 1\n",
         "r.ini:2: [nan] has no key 'head': expected no keys"},
        {"[collapse]\nhead = x\n",
         "r.ini:2: head = 'x': expected a number above 0"},
        {"[collapse]\nhead = nan\n",
         "r.ini:2: head = 'nan': expected a number above"},
        {"[collapse]\nhead = 0\n",
         "r.ini:2: head = '0': expected a number above 0"},
        {"[collapse]\nshare = 1.5\n",
         "share = '1.5': expected a share from 0 to 1"},
        {"[collapse]\nsamples = 1.5\n",
         "r.ini:2: samples = '1.5': expected a whole"},
        {"[collapse]\nsamples = 0\n",
         "r.ini:2: samples = '0': expected a whole"},
        {"[collapse]\nhead\n", "r.ini:2: expected KEY = VALUE or [SECTION]"},
        {"[collapse]\nfoo\nheads = 1\n", "r.ini:2: expected KEY = VALUE"},
        {"[collapse\n", "r.ini:1: '[collapse': expected a section"},
        {"[collapse] x\n", "r.ini:1: '[collapse] x"},
        {"[collapse]\n[nan]\n[collapse]\n",
         "r.ini:3: section [collapse] appears twice"},
        {"[collapse]\nhead=1\nhead=1\n",
         "r.ini:3: head: this key is already set above"},
        {"[overload]\nwarning = 0.5\n",
         "r.ini:2: [overload]: warning = 0.5 exceeds error"},
        {"[logits]\nwarning=5\nerror=4\n",
         "r.ini:3: [logits]: warning = 5 exceeds error = 4"},
        {"[rule]\n", "r.ini:1: unknown section [rule]"},
        {"[rule A]\n", "r.ini:1: rule 'A': expected a name of up to 40"},
        {"[rule 1a]\n", "expected a name of up to 40 lower-case letters"},
        {"[rule nan]\n", "r.ini:1: rule nan: a flag has this name"},
        {RULE "below = 1\n[rule a]\n",
         "r.ini:4: rule a: an earlier rule of the file has this name"},
        {"\n[rule a]\nbelow = 1\n", "r.ini:2: rule a: no series"},
        {RULE, "r.ini:1: rule a: no threshold: add one of above, below"},
        {RULE "below=1\nabove=1", "r.ini:4: rule a: more than one threshold"},
        {RULE "over = 1\n",
         "r.ini:3: a rule has no key 'over': expected series, phase"},
        {RULE "below = 1 m\n",
         "r.ini:3: below = '1 m': expected a number, alone or"},
        {RULE "below = inf\n",
         "r.ini:3: below = 'inf': expected a number, alone or"},
        {RULE "phase = x\n", "r.ini:3: phase = 'x': expected train or eval"},
        {RULE "aggregate = x\n",
         "r.ini:3: aggregate = 'x': expected head, layer_mean"},
        {RULE "severity = none\n",
         "r.ini:3: severity = 'none': expected info, warn"},
        {RULE "action = kill\n",
         "r.ini:3: action = 'kill': expected none or stop"},
        {RULE "samples = 0\n",
         "r.ini:3: samples = '0': expected a number from 1"},
        {RULE "cool_down = -1\n",
         "r.ini:3: cool_down = '-1': expected a number from 0"},
        {RULE "warm_up = 200\n",
         "r.ini:3: warm_up = '200': expected a share of the"},
        {RULE "warm_up = 2 step\n",
         "r.ini:3: warm_up = '2 step': expected a share of"},
        {RULE "end = low\n",
         "r.ini:3: end = 'low': expected a number alone, in the unit"},
        {RULE "above = 1\nshare = 0.5\n",
         "r.ini:4: rule a: share needs aggregate = share"},
        {RULE "above = 1\nend = 2\n", "r.ini:4: end = 2: expected at most 1"},
        {RULE "end = 1\nbelow = 2\n", "r.ini:3: end = 1: expected at least 2"},
        {RULE "below = 1 baseline\n", "r.ini:3: no baseline: add [baseline]"},
        {"[baseline]\n", "r.ini:1: [baseline]: no run: add run = RUN.db"},
        {"[baseline]\nfile = x\n", "r.ini:2: 'file': expected run = RUN.db"},
        {"[rule a]\nseries =\n",
         "r.ini:2: series = '': expected the name of a series"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(es_rules_file_free) es_rules_file file;
        es_assert_status(ES_EUSAGE, cases[i].words,
                         parse(&file, cases[i].text));
    }
}

TEST(large_or_missing_files_are_refused)
{
    char *path = es_folder_file(state, "large.ini");
    size_t n = ES_RULES_FILE_BYTES + 1;
    AUTO_FREE char *text = malloc(n);
    AUTO_BY(es_rules_file_free) es_rules_file file;
    assert_non_null(text);
    memset(text, '\n', n);
    es_file_write(path, text, n);
    es_assert_status(ES_EUSAGE, "larger than the 64 KiB",
                     es_rules_file_read(&file, path));
    es_file_write(path, text, n - 1);
    es_assert_ok(es_rules_file_read(&file, path));
    memset(text, 'x', 300);
    text[1] = '=';
    es_assert_status(ES_EUSAGE, "r.ini:1: the line is longer than 197 bytes",
                     es_rules_file_parse(&file, "r.ini", text, 300));
    es_assert_status(ES_EUSAGE, "r.ini:2: contains a NUL byte",
                     es_rules_file_parse(&file, "r.ini", "\n\0", 2));
    size_t used = 0;
    for (int i = 0; i <= ES_RULES_MOST; i++)
        used += (size_t)snprintf(text + used, n - used,
                                 "[rule r%d]\nseries=x\nbelow=1\n", i);
    es_assert_status(ES_EUSAGE, "r.ini:769: more than 256 rules",
                     es_rules_file_parse(&file, "r.ini", text, used));
    es_rules_file_free(&file);
    es_assert_status(
        ES_EIO, "none.ini: No such file",
        es_rules_file_read(&file, es_folder_file(state, "none.ini")));
    es_assert_status(ES_EIO, "Is a directory",
                     es_rules_file_read(&file, (const char *)*state));
}

TEST_GROUP(es_folder_make, es_folder_remove)
