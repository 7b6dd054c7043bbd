/** Specs of sweeps: the runs they make, and the messages for wrong lines. */
#include "tests/support/cmocka_all.h"

#include "cli/sweep/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static es_status parse_bytes(es_sweep_spec *out, const char *text, size_t n)
{
    FILE *stream = tmpfile();
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, n, stream), n);
    rewind(stream);
    return es_sweep_spec_parse(out, stream, "s.ini");
}

static es_status plan_of(es_sweep_plan *plan, const char *text)
{
    es_sweep_spec spec;
    *plan = (es_sweep_plan){.n = 0};
    es_status status = parse_bytes(&spec, text, strlen(text));
    if (status == ES_OK)
        status = es_sweep_plan_make(plan, &spec);
    es_sweep_spec_free(&spec);
    return status;
}

static void assert_command(const es_sweep_run *run, const char *want)
{
    char *line = es_sweep_command_line(run);
    assert_non_null(line);
    assert_string_equal(line, want);
    free(line);
}

static void test_sweep_spec__every_combination(void **state)
{
    es_sweep_plan plan;
    (void)state;
    assert_int_equal(plan_of(&plan,
                             "# comment\n[sweep]\narch = SM+LN+G ; SM\n"
                             "    EReg(SM(t)+SNorm(QK,FFN))\n; comment\n\n"
                             "seed = 3, 1\ndata = my x.tok\nconfig=a.conf\r\n"
                             "[train]\nn_layer = 2\nslope-decay = true\n"
                             "quiet = false\n[grid]\nlr = 1e-3\t3e-4\n"),
                     ES_OK);
    assert_int_equal(plan.n, 3 * 2 * 2);
    assert_string_equal(plan.runs[0].name, "SM+LN+G_seed3_lr1e-3");
    assert_string_equal(plan.runs[1].name, "SM+LN+G_seed3_lr3e-4");
    assert_string_equal(plan.runs[2].name, "SM+LN+G_seed1_lr1e-3");
    assert_string_equal(plan.runs[11].name,
                        "EReg-SM-t-+SNorm-QK-FFN_seed1_lr3e-4");
    assert_command(&plan.runs[4],
                   "entropy-train --config a.conf --data 'my x.tok' --n-layer 2"
                   " --slope-decay --threads 1 --arch SM --seed 3 --lr 1e-3"
                   " --name SM_seed3_lr1e-3 --out SM_seed3_lr1e-3.db");
    es_sweep_plan_free(&plan);
}

static void test_sweep_spec__defaults(void **state)
{
    es_sweep_plan plan;
    (void)state;
    assert_int_equal(plan_of(&plan, "[sweep]\narch=SM\n[grid]\nthreads=2"),
                     ES_OK);
    assert_int_equal(plan.n, 1);
    assert_command(&plan.runs[0], "entropy-train --arch SM --seed 1 --threads 2"
                                  " --name SM_seed1_threads2"
                                  " --out SM_seed1_threads2.db");
    es_sweep_plan_free(&plan);
}

/* A name is a file's, whatever the value: no folder, no option, no hidden. */
static void test_sweep_spec__names_are_tame(void **state)
{
    es_sweep_plan plan;
    (void)state;
    assert_int_equal(
        plan_of(&plan, "[sweep]\narch=../../$(x) 'y'; -rf; .z; ((\n"), ES_OK);
    assert_int_equal(plan.n, 4);
    const char *const want[] = {"_.-..-x-y_seed1", "_rf_seed1", "_z_seed1",
                                "_seed1"};
    for (size_t i = 0; i < plan.n; i++)
        assert_string_equal(plan.runs[i].name, want[i]);
    es_sweep_plan_free(&plan);
}

typedef struct wrong {
    const char *text, *message;
} wrong;

static void test_sweep_spec__wrong_lines(void **state)
{
    static const wrong all[] = {
        {"", "s.ini: no runs: expected arch = ... in [sweep]"},
        {"arch = SM", "s.ini:1: 'arch = SM': expected [sweep] before"},
        {"\n[swep]", "s.ini:2: '[swep]': expected [sweep], [train], [grid] or "
                     "[slurm]"},
        {"[sweep]\nSM", "s.ini:2: 'SM': expected KEY = VALUE"},
        {"[sweep]\nlr = 1", "s.ini:2: 'lr': expected arch, seed, data, config "
                            "or program"},
        {"[sweep]\narch = SM\narch = G", "s.ini:3: arch is there already"},
        {"[sweep]\narch = ;\n[grid]", "s.ini:2: arch: no value"},
        {"[sweep]\narch = SM\n[grid]\nlr =", "s.ini:4: lr: no value"},
        {"[train]\nlr = 1\n[grid]\nlr = 2", "s.ini:4: lr is there already"},
        {"[train]\nlr = 1\n 2", "s.ini:3: lr: one value; several go into "
                                "[grid]"},
        {"[grid]\nseed = 1", "s.ini:2: seed belongs into [sweep]"},
        {"[grid]\nout = x", "s.ini:2: out is not for a sweep to set"},
        {"[grid]\n--lr = 1", "s.ini:2: '--lr': expected an option of "
                             "entropy-train, without dashes before it"},
        {"[slurm]\narray = 1", "s.ini:2: array is not for a sweep to set"},
        {"[slurm]\ntime = 1:00\n 2", "s.ini:3: time: one value"},
        {"[slurm]\nmem = 1G\n[train]\nlr = 1\n[slurm]\nmem = 2G",
         "s.ini:6: mem is there already"},
        {"[slurm]\n-p = x", "s.ini:2: '-p': expected an option of sbatch, "
                            "without dashes before it"},
        {"[sweep]\narch = SM; SM", "s.ini: two runs would be called SM_seed1: "
                                   "a value is there twice, or two differ in "
                                   "signs alone"},
        {"[sweep]\narch = LR(1); LR[1]",
         "s.ini: two runs would be called LR-1_seed1: a value is there twice, "
         "or two differ in signs alone"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        es_sweep_plan plan;
        assert_int_equal(plan_of(&plan, all[i].text), ES_EUSAGE);
        assert_string_equal(es_message(), all[i].message);
        es_sweep_plan_free(&plan);
    }
}

static void test_sweep_spec__bytes_that_are_no_text(void **state)
{
    static const char text[] = "[sweep]\narch = SM\0+G\n";
    es_sweep_spec spec;
    (void)state;
    assert_int_equal(parse_bytes(&spec, text, sizeof text - 1), ES_EUSAGE);
    assert_string_equal(es_message(), "s.ini:2: expected text");
    es_sweep_spec_free(&spec);
}

static char *many(const char *before, size_t n, const char *between)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fputs(before, out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%zu%s", i, between);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_sweep_spec__bounds(void **state)
{
    es_sweep_plan plan;
    (void)state;
    char *text = many("[sweep]\narch=SM\nseed=", 1001, " ");
    assert_int_equal(plan_of(&plan, text), ES_EUSAGE);
    assert_string_equal(es_message(), "s.ini:3: seed: more than 1000 values");
    es_sweep_plan_free(&plan);
    free(text);
    text = many("[sweep]\narch=SM;LN;G;R;x;y;z;a;b;c;d\nseed=", 1000, " ");
    assert_int_equal(plan_of(&plan, text), ES_EUSAGE);
    assert_string_equal(es_message(), "s.ini: more than 10000 runs");
    es_sweep_plan_free(&plan);
    free(text);
    text = many("[sweep]\narch=x", 100, "");
    assert_int_equal(plan_of(&plan, text), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "would be longer than 180 bytes"));
    es_sweep_plan_free(&plan);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep_spec__every_combination),
        cmocka_unit_test(test_sweep_spec__defaults),
        cmocka_unit_test(test_sweep_spec__names_are_tame),
        cmocka_unit_test(test_sweep_spec__wrong_lines),
        cmocka_unit_test(test_sweep_spec__bytes_that_are_no_text),
        cmocka_unit_test(test_sweep_spec__bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
