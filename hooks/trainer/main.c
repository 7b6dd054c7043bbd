/* entropy-train: trains, verifies, measures its own speed. */
#include "hooks/trainer/bench.h"
#include "hooks/trainer/probe.h"
#include "hooks/trainer/progress.h"
#include "hooks/trainer/resume.h"
#include "hooks/trainer/train.h"
#include "hooks/trainer/verify.h"
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_RESULT = 1, EXIT_SIGNAL = 128 };

static volatile sig_atomic_t caught_signal;

/** The next signal, of either kind, does what it would do to any program. */
static void on_signal(int number)
{
    caught_signal = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/** The first signal ends the run in good order, a second one at once. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* Neither progress into a closed pipe nor a checkpoint beyond a limit on
       the size of files must end the training: both become errors. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static bool should_stop(void *user)
{
    (void)user;
    return caught_signal != 0;
}

static void print_failure(void)
{
    fprintf(stderr, "entropy-train: %s\n", es_message());
}

/** --help or --version was asked for and is printed. */
static bool print_information(const es_settings *settings, es_verb verb)
{
    if (settings->help)
        es_program_print_help(stdout, es_settings_program(),
                              es_settings_command(verb), 80);
    else if (settings->version)
        puts("entropy-train " ES_VERSION);
    return settings->help || settings->version;
}

/* --- train --------------------------------------------------------------- */

static const char *status_word(es_run_status status)
{
    if (status == ES_RUN_FAILED)
        return "failed";
    return status == ES_RUN_STOPPED ? "stopped" : "finished";
}

/** The result, one line on standard output. */
static void print_result(const es_settings *settings,
                         const es_train_result *result)
{
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &settings->model.arch);
    printf("%s %s after %" PRId64 " steps, loss %.9g", arch,
           status_word(result->status), result->n_steps,
           es_progress_number(result->last.loss));
    if (settings->eval_every > 0)
        printf(", held-out %.9g, perplexity %.6g",
               es_progress_number(result->eval.ce),
               es_progress_number(exp(result->eval.ce)));
    printf(", %.0f tokens/s\n", result->tokens_per_s);
}

static int exit_code(const es_train_result *result)
{
    if (caught_signal)
        return EXIT_SIGNAL + caught_signal;
    if (result->status == ES_RUN_FAILED)
        return EXIT_RESULT;
    return es_exit_code(result->recorded != ES_OK ? result->recorded
                                                  : result->saved);
}

static int report(const es_settings *settings, const es_train_result *result)
{
    char text[256];
    if (!settings->quiet)
        print_result(settings, result);
    if (result->saved_step >= 0 && !settings->quiet)
        fprintf(stderr,
                "checkpoint of step %" PRId64 ": go on with --resume %s\n",
                result->saved_step, settings->checkpoint);
    if (result->nan_step >= 0)
        fprintf(stderr, "entropy-train: %s\n",
                es_train_describe_nan(text, sizeof text, result));
    if (result->recorded != ES_OK)
        fprintf(stderr, "entropy-train: recording was not complete: %s\n",
                result->lost);
    if (result->saved != ES_OK)
        fprintf(stderr, "entropy-train: a checkpoint is missing: %s\n",
                result->unsaved);
    return exit_code(result);
}

static es_status train(const es_settings *settings, const es_checkpoint *from,
                       es_train_result *result)
{
    es_progress progress;
    es_train_watch watch = {es_progress_step, es_progress_eval,
                            es_progress_warning, should_stop, &progress};
    catch_signals();
    es_progress_begin(&progress, stderr, settings);
    es_status status = es_train(result, settings, from, &watch);
    es_progress_end(&progress);
    return status;
}

static es_status dry_run(es_settings *settings)
{
    es_status status = es_trainer_check(settings);
    if (status == ES_OK)
        es_settings_write(stdout, settings);
    return status;
}

static void print_warning(void *user, const char *message)
{
    (void)user;
    fprintf(stderr, "entropy-train: warning: %s\n", message);
}

static void print_resumed(const es_settings *settings,
                          const es_checkpoint *from)
{
    const int64_t step = es_checkpoint_state_of(from)->step;
    fprintf(stderr, "resuming %s at step %" PRId64 "%s\n",
            es_checkpoint_path(from), step,
            step == settings->train.steps
                ? ", its last: nothing left to do (--steps N goes on)"
                : "");
}

/** Settings of the command line, over those of the checkpoint it may name. */
static es_status read_settings(es_settings *settings, es_checkpoint **from,
                               int argc, char **argv)
{
    es_settings_default(settings, ES_VERB_TRAIN);
    es_status status =
        es_settings_parse(settings, ES_VERB_TRAIN, argc, argv, NULL, NULL);
    if (status != ES_OK || settings->help || settings->version)
        return status;
    if (settings->resume[0] && settings->init[0])
        return es_fail(ES_EUSAGE, "--resume and --init exclude each other");
    if (settings->resume[0]) {
        status =
            es_checkpoint_find(from, settings->resume, print_warning, NULL);
        if (status == ES_OK)
            status = es_resume_settings(settings, *from, argc, argv);
        if (status == ES_OK && !settings->quiet)
            print_resumed(settings, *from);
    }
    if (status == ES_OK)
        status = es_settings_check(settings);
    if (status == ES_OK && settings->init[0] && !*from)
        status = es_start_settings(settings);
    return status;
}

static int run_train(int argc, char **argv)
{
    es_settings settings;
    es_train_result result;
    es_checkpoint *from = NULL;
    es_status status = read_settings(&settings, &from, argc, argv);
    if (status == ES_OK && print_information(&settings, ES_VERB_TRAIN))
        return 0;
    if (status == ES_OK)
        status = settings.dry_run ? dry_run(&settings)
                                  : train(&settings, from, &result);
    es_checkpoint_close(from);
    if (status == ES_OK)
        return settings.dry_run ? 0 : report(&settings, &result);
    print_failure();
    return es_exit_code(status);
}

/* --- probe --------------------------------------------------------------- */

static es_status take_checkpoint(void *user, const char *argument)
{
    es_settings *settings = user;
    if (settings->init[0])
        return es_fail(ES_EUSAGE, "'%s': one checkpoint at a time", argument);
    if (strlen(argument) >= sizeof settings->init)
        return es_fail(ES_EUSAGE, "the checkpoint's path is too long");
    strcpy(settings->init, argument);
    return ES_OK;
}

static es_status probe(const es_settings *settings, es_probe_result *result)
{
    es_train_watch watch = {.on_warning = print_warning,
                            .should_stop = should_stop};
    if (!settings->init[0])
        return es_fail(ES_EUSAGE, "no checkpoint: name a safetensors file");
    es_status status = es_settings_check(settings);
    catch_signals();
    return status == ES_OK ? es_probe(result, settings, &watch) : status;
}

static int report_probe(const es_probe_result *result)
{
    if (result->n_batches > 0 && !result->settings.quiet)
        es_probe_print(stdout, result);
    if (result->recorded != ES_OK)
        fprintf(stderr, "entropy-train: recording was not complete: %s\n",
                result->lost);
    if (caught_signal)
        return EXIT_SIGNAL + caught_signal;
    if (!isfinite(result->ce.mean))
        return EXIT_RESULT;
    return es_exit_code(result->recorded);
}

static int run_probe(int argc, char **argv)
{
    es_settings settings;
    es_probe_result result = {0};
    es_settings_default(&settings, ES_VERB_PROBE);
    es_status status = es_settings_parse(&settings, ES_VERB_PROBE, argc, argv,
                                         take_checkpoint, &settings);
    if (status == ES_OK && print_information(&settings, ES_VERB_PROBE))
        return 0;
    if (status == ES_OK)
        status = probe(&settings, &result);
    if (status != ES_OK)
        print_failure();
    int code = status == ES_OK ? report_probe(&result) : es_exit_code(status);
    es_probe_free(&result);
    return code;
}

/* --- verify and bench ---------------------------------------------------- */

typedef struct words {
    const char **items; /* borrowed */
    size_t n;
} words;

static es_status take_argument(void *user, const char *argument)
{
    words *list = user;
    list->items[list->n++] = argument;
    return ES_OK;
}

static es_status verify(const es_settings *settings, const words *cases,
                        es_verify_counts *counts)
{
    if (cases->n == 0)
        return es_fail(ES_EUSAGE, "no cases: name one directory or more");
    const es_ops *ops;
    char note[ES_MESSAGE_MAX];
    es_status status = es_ops_choose(&ops, settings->backend,
                                     settings->precision, note, sizeof note);
    if (status == ES_OK && note[0])
        print_warning(NULL, note);
    return status == ES_OK
               ? es_verify(stdout, cases->items, cases->n, ops,
                           settings->precision, settings->threads, counts)
               : status;
}

static int run_verify(int argc, char **argv)
{
    es_settings settings;
    words cases = {.items = calloc((size_t)argc + 1, sizeof *cases.items)};
    es_verify_counts counts = {0};
    es_settings_default(&settings, ES_VERB_VERIFY);
    es_status status = es_fail(ES_ENOMEM, "out of memory");
    if (cases.items)
        status = es_settings_parse(&settings, ES_VERB_VERIFY, argc, argv,
                                   take_argument, &cases);
    if (status == ES_OK && !print_information(&settings, ES_VERB_VERIFY))
        status = verify(&settings, &cases, &counts);
    free(cases.items);
    if (status != ES_OK) {
        print_failure();
        return es_exit_code(status);
    }
    /* What could not be built has not been verified. */
    return counts.failed + counts.not_built > 0 ? EXIT_RESULT : 0;
}

static int run_bench(int argc, char **argv)
{
    es_settings settings;
    es_settings_default(&settings, ES_VERB_BENCH);
    es_status status =
        es_settings_parse(&settings, ES_VERB_BENCH, argc, argv, NULL, NULL);
    if (status == ES_OK && !print_information(&settings, ES_VERB_BENCH))
        status = es_bench(stdout, &settings);
    if (status != ES_OK)
        print_failure();
    return es_exit_code(status);
}

static int run_help(int argc, char **argv)
{
    es_status status =
        es_program_help(stdout, es_settings_program(),
                        &es_settings_help_command, argc, argv, 80);
    if (status != ES_OK)
        print_failure();
    return es_exit_code(status);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int, char **);
    } verbs[] = {{"train", run_train},
                 {"probe", run_probe},
                 {"verify", run_verify},
                 {"bench", run_bench},
                 {"help", run_help}};
    int code = -1;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs && code < 0; i++)
        if (argc > 1 && strcmp(argv[1], verbs[i].name) == 0)
            code = verbs[i].run(argc - 1, argv + 1);
    if (code < 0)
        code = run_train(argc, argv);
    if (fflush(stdout) != 0 && code == 0) {
        fprintf(stderr, "entropy-train: standard output: write error\n");
        code = 3;
    }
    return code;
}
