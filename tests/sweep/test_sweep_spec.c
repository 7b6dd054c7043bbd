/**
 * Tests which runs are made from the spec of a sweep, and the error messages
 * for invalid lines.
 */
#include "cli/alerts/delivery/words.h"
#include "cli/sweep/plan.h"
#include "cli/sweep/template.h"
#include "tests/support/test.h"

static int enter_folder(void **state)
{
    return es_folder_make(state) || chdir(*state);
}

/* Makes the plan of the spec in `text` (n bytes). */
static es_status plan_of(es_sweep_plan *plan, const char *text, size_t n)
{
    es_sweep_spec spec;
    *plan = (es_sweep_plan){.n = 0};
    es_file_write("s.ini", text, n);
    es_status status = es_sweep_spec_read(&spec, "s.ini", 0);
    if (status == ES_OK)
        status = es_sweep_plan_make(plan, &spec);
    es_sweep_spec_free(&spec);
    return status;
}

static void free_words(char ***words)
{
    es_words_free(*words);
}

/* Tests combinations, defaults, and names of runs. For all values, a run's name
 * must be a plain file name and not a path, an option or a hidden file. */
TEST(every_combination_is_a_run)
{
    static const char all[] = "# comment\n[sweep]\narch = SM+LN+G ; SM\n"
                              "    EReg(SM(t)+SNorm(QK,FFN))\n; comment\n\n"
                              "seed = 3, 1\ndata = my x.tok\nconfig=a.conf\r\n"
                              "[train]\nn_layer = 2\nslope-decay = true\n"
                              "quiet = false\n[grid]\nlr = 1e-3\t3e-4\n";
    static const char strange[] = "[sweep]\narch=../../$(x) 'y'; -rf; .z; ((\n";
    static const struct {
        const char *spec;
        size_t n_runs, run;
        const char *name, *command; /* expected name and command; not checked if
                                       NULL */
    } cases[] = {
        {all, 12, 0, "SM+LN+G_seed3_lr1e-3", NULL},
        {all, 12, 1, "SM+LN+G_seed3_lr3e-4", NULL},
        {all, 12, 2, "SM+LN+G_seed1_lr1e-3", NULL},
        {all, 12, 11, "EReg-SM-t-+SNorm-QK-FFN_seed1_lr3e-4", NULL},
        {all, 12, 4, "SM_seed3_lr1e-3",
         "entropy-train --config a.conf --data 'my x.tok' --n-layer 2"
         " --slope-decay --threads 1 --arch SM --seed 3 --lr 1e-3"
         " --name SM_seed3_lr1e-3 --out SM_seed3_lr1e-3.db"},
        {"[sweep]\narch=SM\n[grid]\nthreads=2", 1, 0, "SM_seed1_threads2",
         "entropy-train --arch SM --seed 1 --threads 2"
         " --name SM_seed1_threads2 --out SM_seed1_threads2.db"},
        {strange, 4, 0, "_.-..-x-y_seed1", NULL},
        {strange, 4, 1, "_rf_seed1", NULL},
        {strange, 4, 2, "_z_seed1", NULL},
        {strange, 4, 3, "_seed1", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
        es_assert_ok(plan_of(&plan, cases[i].spec, strlen(cases[i].spec)));
        assert_int_equal(plan.n, cases[i].n_runs);
        const es_sweep_run *run = &plan.runs[cases[i].run];
        AUTO_FREE char *command = es_sweep_command_line(run);
        assert_string_equal(run->name, cases[i].name);
        if (cases[i].command)
            assert_string_equal(command, cases[i].command);
    }
}

TEST(wrong_lines_are_named)
{
    static const struct {
        const char *text, *message;
    } all[] = {
        {"", "s.ini: no runs: expected arch = ... or command = ... in "
             "[sweep]"},
        {"arch = SM", "s.ini:1: 'arch = SM': expected [sweep] above it"},
        {"\n[swep]", "s.ini:2: '[swep]': expected [sweep], [train], [grid], "
                     "[random] or [slurm]"},
        {"[sweep]\nSM", "s.ini:2: 'SM': expected KEY = VALUE"},
        {"[sweep]\nlr = 1", "s.ini:2: 'lr': expected arch, seed, data, config, "
                            "program, command, n or random-seed"},
        {"[sweep]\narch = SM\narch = G", "s.ini:3: arch is already set"},
        {"[sweep]\narch = ;\n[grid]", "s.ini:2: arch: no value"},
        {"[sweep]\narch = SM\n[grid]\nlr =", "s.ini:4: lr: no value"},
        {"[train]\nlr = 1\n[grid]\nlr = 2", "s.ini:4: lr is already set"},
        {"[train]\nlr = 1\n 2",
         "s.ini:3: lr: expected one value; use [grid] for several"},
        {"[grid]\nseed = 1", "s.ini:2: seed belongs in [sweep]"},
        {"[grid]\nout = x", "s.ini:2: out cannot be set in a sweep"},
        {"[grid]\n--lr = 1", "s.ini:2: '--lr': expected an option of "
                             "entropy-train, without leading dashes"},
        {"[slurm]\narray = 1", "s.ini:2: array cannot be set in a sweep"},
        {"[slurm]\ntime = 1:00\n 2", "s.ini:3: time: expected one value"},
        {"[slurm]\nmem = 1G\n[train]\nlr = 1\n[slurm]\nmem = 2G",
         "s.ini:6: mem is already set"},
        {"[slurm]\n-p = x",
         "s.ini:2: '-p': expected an option of sbatch, without leading dashes"},
        {"[sweep]\narch = SM; SM",
         "s.ini: two runs would be called SM_seed1: a value appears twice, or "
         "two values differ only in special characters"},
        {"[sweep]\narch = LR(1); LR[1]",
         "s.ini: two runs would be called LR-1_seed1: a value appears twice, "
         "or two values differ only in special characters"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
        assert_int_equal(plan_of(&plan, all[i].text, strlen(all[i].text)),
                         ES_EUSAGE);
        assert_string_equal(es_message(), all[i].message);
    }
}

/* A value with blanks must stay one word, because the command is split into
 * words before values are inserted. */
TEST(a_command_gets_the_values_of_its_run)
{
    static const struct {
        const char *spec, *name, *command;
    } cases[] = {
        {"[sweep]\ncommand = python train.py --lr {lr} --seed={seed}\n"
         "    --n {name} --run '{run}'\nseed = 3\n[grid]\nlr = 1e-3\n",
         "seed3_lr1e-3",
         "ENTROPY_RUN_CONFIG='{\"seed\":3,\"lr\":1e-3}' python train.py --lr "
         "1e-3 --seed=3 --n seed3_lr1e-3 --run '{run}'"},
        {"[sweep]\ncommand = x {run}", "run",
         "ENTROPY_RUN_CONFIG='{}' x '{run}'"},
        /* the characters _ and - are equivalent in keys; if there is a command,
         * any key is accepted */
        {"[sweep]\ncommand = x {model.n_heads} {T-max} {run}\n"
         "[grid]\nmodel.n_heads=08\nT_max=big\n",
         "model.n_heads08_T_maxbig",
         "ENTROPY_RUN_CONFIG='{\"model.n_heads\":8,\"T_max\":\"big\"}' x 08 "
         "big "
         "'{run}'"},
        {"[sweep]\ncommand = x {arch} {run}\narch=a \"b\"; c\n", "a-b",
         "ENTROPY_RUN_CONFIG='{\"arch\":\"a \\\"b\\\"\"}' x 'a \"b\"' '{run}'"},
        /* braces in the command and in values are preserved */
        {"[sweep]\ncommand = x '{{\"a\":{a}}}' {run} }\n[grid]\na={run}\n",
         "a-run",
         "ENTROPY_RUN_CONFIG='{\"a\":\"{run}\"}' x '{{\"a\":{{run}}}}' '{run}' "
         "'}}'"},
        {"[sweep]\ncommand = x {data} {run}\n[grid]\ndata=true\n", "datatrue",
         "ENTROPY_RUN_CONFIG='{\"data\":true}' x true '{run}'"},
        /* values inserted into a shell script are quoted unless they are inside
         * of quotes */
        {"[sweep]\ncommand = /bin/sh -ec 'x {arch} \"{arch}\"; y > {run}'\n"
         "arch=$(a) \"b\"\n",
         "a-b",
         "ENTROPY_RUN_CONFIG='{\"arch\":\"$(a) \\\"b\\\"\"}' /bin/sh -ec "
         "'x '\\''$(a) \"b\"'\\'' \"\\$(a) \\\"b\\\"\"; y > {run}'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_BY(es_sweep_plan_free) es_sweep_plan plan, again;
        es_assert_ok(plan_of(&plan, cases[i].spec, strlen(cases[i].spec)));
        AUTO_FREE char *line = es_sweep_command_line(&plan.runs[0]);
        assert_string_equal(plan.runs[0].name, cases[i].name);
        assert_string_equal(line, cases[i].command);
        es_assert_ok(es_sweep_plan_of_line(&again, cases[i].name, line));
        AUTO_FREE char *repeated = es_sweep_command_line(&again.runs[0]);
        assert_string_equal(repeated, line);
    }
}

/* When a run starts, the path of its run file is inserted into the words of the
 * command. In a word that is a shell script, the path is quoted. */
TEST(the_run_file_is_inserted_last)
{
    static const char *const words[] = {"sh", "-c", "a '{run}' {run} # {{}}",
                                        "--x={run}", NULL};
    static const char *const filled[] = {
        "sh", "-c", "a 'it'\\''s' 'it'\\''s' # {}", "--x=it's"};
    AUTO_BY(free_words) char **out = NULL;
    es_assert_ok(es_sweep_template_fill(&out, (char *const *)words,
                                        &(es_sweep_value){"run", "it's"}, 1,
                                        false));
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(out[i], filled[i]);
    assert_null(out[4]);
}

TEST(commands_that_do_not_fit_their_keys_are_refused)
{
    static const struct {
        const char *text, *message;
    } all[] = {
        {"[sweep]\nseed = 1\ncommand = x {lrr} {run}\n[grid]\nlr=1",
         "s.ini:3: command: {lrr}: unknown placeholder: expected a key of "
         "the sweep, {run} or {name}"},
        {"[sweep]\ncommand = x {run}\n[grid]\nlr=1",
         "s.ini:2: command: {lr} is missing: the sweep varies this key"},
        {"[sweep]\ncommand = x {run}\nseed=1",
         "s.ini:2: command: {seed} is missing: the sweep varies this key"},
        {"[sweep]\ncommand = x {lr} {{run}}\n[grid]\nlr=1",
         "s.ini:2: command: {run}, the run file to write, is missing"},
        {"[sweep]\ncommand = x {run} {lr\n[grid]\nlr=1",
         "s.ini:2: command: {lr: a brace is not closed: write {{ for a brace"},
        {"[sweep]\ncommand = x {run} {}",
         "s.ini:2: command: {}: expected a key: write {{ for a brace"},
        {"[sweep]\ncommand = {name} {run}",
         "s.ini:2: command: {name}: the program must be the same in all runs"},
        {"[sweep]\ncommand = x 'y {run}",
         "s.ini:2: command: a quote is not closed"},
        {"[sweep]\ncommand =", "s.ini:2: command: no value"},
        {"[sweep]\ncommand = x {run}\ndata = y",
         "s.ini:3: data is for entropy-train: write it into the command"},
        {"[sweep]\ncommand = x {run}\n[train]\nlr = 1",
         "s.ini:4: lr is for entropy-train: write it into the command"},
        {"[sweep]\ncommand = x {run}\n[grid]\nrun = 1",
         "s.ini:4: run cannot be set in a sweep"},
        {"[sweep]\ncommand = x {run}\n[grid]\na b = 1",
         "s.ini:4: 'a b': expected the name of a placeholder"},
        {"[sweep]\ncommand = x {run}\n[grid]\nseed = 1",
         "s.ini:4: seed belongs in [sweep]"},
        {"[sweep]\ncommand = x {a} {run}\n[grid]\na_b = 1\na-b = 2",
         "s.ini:5: a-b is already set"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
        assert_int_equal(plan_of(&plan, all[i].text, strlen(all[i].text)),
                         ES_EUSAGE);
        assert_string_equal(es_message(), all[i].message);
    }
}

TEST(a_nul_byte_is_refused)
{
    static const char text[] = "[sweep]\narch = SM\0+G\n";
    es_sweep_plan plan;
    es_assert_status(ES_EUSAGE, "s.ini:2: expected text",
                     plan_of(&plan, text, sizeof text - 1));
}

TEST(sizes_are_bounded)
{
    static const struct {
        const char *before;
        size_t n;
        const char *between, *message;
    } cases[] = {
        {"[sweep]\narch=SM\nseed=", 1001, " ",
         "s.ini:3: seed: more than 1000 values"},
        {"[sweep]\narch=SM;LN;G;R;x;y;z;a;b;c;d\nseed=", 1000, " ",
         "s.ini: more than 10000 runs"},
        {"[sweep]\narch=x\n[train]\na", 65, "=1\na",
         "s.ini:68: more than 64 options"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_FREE char *text = NULL;
        size_t size = 0;
        AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        fputs(cases[i].before, out);
        for (size_t k = 0; k < cases[i].n; k++)
            fprintf(out, "%zu%s", k, cases[i].between);
        assert_int_equal(fclose(out), 0);
        es_assert_status(ES_EUSAGE, cases[i].message,
                         plan_of(&plan, text, size));
    }
}

TEST_GROUP(enter_folder, es_folder_remove)
