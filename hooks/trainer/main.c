/* The program entropy-train: defines its verbs (train, verify, bench, probe,
 * fuse, help), handles signals and exit codes, and prints the progress of a
 * training run on standard error. */
#include "analyzer/base/colour.h"
#include "analyzer/base/kernel.h"
#include "analyzer/base/progress.h"
#include "analyzer/base/text.h"
#include "analyzer/heads/bands.h"
#include "hooks/trainer/bench.h"
#include "hooks/trainer/cpu/engine.h"
#include "hooks/trainer/dry_run.h"
#include "hooks/trainer/fuse.h"
#include "hooks/trainer/help.h"
#include "hooks/trainer/probe.h"
#include "hooks/trainer/ranks/transport.h"
#include "hooks/trainer/settings/launch.h"
#include "hooks/trainer/start.h"
#include "hooks/trainer/train.h"
#include "hooks/trainer/verify.h"
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_RESULT = 1, EXIT_SIGNAL = 128 };

static volatile sig_atomic_t caught_signal;

/** Signal handler: restores the default action, so that a second signal ends
 *  the program. */
static void on_signal(int number)
{
    caught_signal = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/** Installs the signal handlers: the first signal stops the run cleanly, a
 *  second signal ends the program at once. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A write to a closed standard error, or a checkpoint larger than the limit
     * on file sizes, must not end the training run. Ignore the signals SIGPIPE
     * and SIGXFSZ, so that the writes fail with an error instead. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static bool should_stop(void *user)
{
    (void)user;
    return caught_signal != 0;
}

/* These verbs are defined at the end of the file. */
static const es_command train_command, verify_command, bench_command,
    probe_command, fuse_command, help_command;
static const es_program program;

/** Returns the exit code of a status; prints the message of a failure. */
static int report_failure(es_status status)
{
    if (status < 0)
        fprintf(stderr, "%s %s\n",
                es_colour_suits(stderr) ? "\033[31mentropy-train:\033[0m"
                                        : "entropy-train:",
                es_message());
    return es_exit_code(status);
}

static void print_version(void)
{
    es_cpu_engine engine;
    es_cpu_engine_find(&engine);
    printf("entropy-train " ES_VERSION "\n"
           "products: %s\nown kernels: %s\n",
           engine.products, engine.kernels);
}

/** Prints the text of --help, --version or --preset list. Returns false if none
 *  of these options is given. */
static bool print_information(const es_settings *settings,
                              const es_command *command)
{
    if (settings->help)
        es_program_print_help(stdout, &program, command, 80, false);
    else if (settings->version)
        print_version();
    else if (strcmp(settings->preset, ES_PRESETS_LIST) == 0)
        es_presets_print(stdout);
    else
        return false;
    return true;
}

/* --- progress ------------------------------------------------------------- */

#define BAR 16 /* length of the bar in characters */

/* State of the progress display, which is a single line on a terminal or an
 * occasional line in a file. */
typedef struct progress {
    es_progress line; /* line on the terminal; prints nothing unless stderr is a
                         terminal */
    bool quiet;       /* true to print warnings but no progress */
    bool warns; /* true on the rank that prints the warnings of all ranks */
    int64_t n_steps, log_every;
    /* number of the first step that this process completes; -1 before that */
    int64_t first_step;
    int n_heads, ctx;
    double started;
    double eval_ce;      /* loss of the last evaluation; NaN before the first */
    char bands[BAR + 1]; /* bar that shows the heads' entropies in the last
                            measured step */
} progress;

static double seconds_now(void)
{
    return 1e-3 * (double)es_now_ms();
}

/**
 * Writes a bar that shows how the heads' entropies are distributed, from the
 * lowest entropy to the highest: '_' below a quarter of the ceiling, '-' below
 * half, '=' below three quarters, '#' above, '!' not finite.
 */
static void print_bar(char *out, const es_bands *bands)
{
    const char marks[ES_N_BANDS + 1] = {'_', '-', '=', '#', '!'};
    double shares = 0;
    int column = 0;
    for (int b = 0; b <= ES_N_BANDS; b++) {
        size_t n = b < ES_N_BANDS ? bands->counts[b] : bands->nonfinite;
        shares += (double)n / (double)bands->n_heads;
        while (column < (int)lround(shares * BAR))
            out[column++] = marks[b];
    }
    out[column] = 0;
}

static void print_line(progress *p, const es_step *step, double tokens_per_s)
{
    char left[ES_DURATION_MAX], line[256], eval[48] = "";
    int64_t done = step->step + 1;
    double seconds = (seconds_now() - p->started) *
                     (double)(p->n_steps - done) /
                     (double)(done - p->first_step);
    if (!isnan(p->eval_ce))
        snprintf(eval, sizeof eval, "  held-out %.4f", p->eval_ce);
    snprintf(line, sizeof line,
             "step %" PRId64 "/%" PRId64 "  loss %.4f%s%s%s  %.0f tokens/s"
             "  %s left%s",
             done, p->n_steps, es_unsigned_nan(step->losses.loss),
             p->bands[0] ? "  bands [" : "", p->bands, p->bands[0] ? "]" : "",
             tokens_per_s, es_duration_print(left, seconds), eval);
    if (p->line.out)
        es_progress_draw(&p->line, line);
    else
        fprintf(stderr, "%s\n", line);
}

static void show_step(void *user, const es_step *step, es_measure *measure,
                      double tokens_per_s)
{
    progress *p = user;
    if (p->quiet)
        return;
    if (p->first_step < 0)
        p->first_step = step->step;
    if (measure) {
        es_bands bands;
        es_bands_count(&bands, es_measure_heads(measure, ES_HEAD_ENTROPY),
                       (size_t)p->n_heads, es_ceiling(p->ctx));
        if (bands.n_heads > 0)
            print_bar(p->bands, &bands);
    }
    if (step->step + 1 == p->n_steps ||
        (p->line.out ? es_progress_is_due(&p->line)
                     : step->step % p->log_every == 0))
        print_line(p, step, tokens_per_s);
}

static void show_evaluation(void *user, int64_t step, const es_losses *losses)
{
    progress *p = user;
    (void)step;
    p->eval_ce = losses->ce;
}

static void show_warning(void *user, const char *message)
{
    progress *p = user;
    if (!p->warns)
        return;
    es_progress_wipe(&p->line);
    fprintf(stderr, "entropy-train: warning: %s\n", message);
}

/* --- train --------------------------------------------------------------- */

/** Prints the result of the training run as one line on standard output. */
static void print_result(const es_settings *settings,
                         const es_train_result *result)
{
    const char *ended = result->status == ES_RUN_FAILED    ? "failed"
                        : result->status == ES_RUN_STOPPED ? "stopped"
                                                           : "finished";
    char arch[ES_ARCH_TEXT_MAX], loss[ES_FLOAT_TEXT_MAX],
        perplexity[ES_FLOAT_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &settings->model.arch);
    printf("%s %s after %" PRId64 " steps, loss %s", arch, ended,
           result->n_steps, es_number_print(loss, result->last.loss, 9));
    if (settings->eval_every > 0)
        printf(", held-out %s, perplexity %s",
               es_number_print(loss, result->eval.ce, 9),
               es_number_print(perplexity, exp(result->eval.ce), 6));
    printf(", %.0f tokens/s\n", result->tokens_per_s);
}

static int report_training(const es_settings *settings,
                           const es_train_result *result)
{
    char text[256];
    if (!settings->quiet)
        print_result(settings, result);
    if (result->saved_step >= 0 && !settings->quiet)
        fprintf(stderr,
                "checkpoint of step %" PRId64 ": continue with --resume %s\n",
                result->saved_step, settings->checkpoint);
    if (result->nan_step >= 0 && settings->rank <= 0)
        fprintf(stderr, "entropy-train: %s\n",
                es_train_describe_nan(text, sizeof text, result));
    if (result->recorded != ES_OK)
        fprintf(stderr, "entropy-train: recording is incomplete: %s\n",
                result->lost);
    if (result->saved != ES_OK)
        fprintf(stderr, "entropy-train: a checkpoint is missing: %s\n",
                result->unsaved);
    if (caught_signal)
        return EXIT_SIGNAL + caught_signal;
    if (result->status == ES_RUN_FAILED)
        return EXIT_RESULT;
    return es_exit_code(result->recorded != ES_OK ? result->recorded
                                                  : result->saved);
}

static es_status train_model(const es_settings *settings,
                             const es_checkpoint *from, es_transport *transport,
                             es_train_result *result)
{
    progress p;
    es_train_watch watch = {show_step, show_evaluation, show_warning,
                            should_stop, &p};
    int64_t steps = settings->train.steps;
    p = (progress){.quiet = settings->quiet,
                   .warns = es_transport_rank(transport) == 0,
                   .n_steps = steps,
                   .first_step = -1,
                   .log_every = settings->log_every > 0 ? settings->log_every
                                                        : (steps + 19) / 20,
                   .n_heads = settings->model.n_layer * settings->model.n_head,
                   .ctx = settings->model.ctx,
                   .started = seconds_now(),
                   .eval_ce = NAN};
    es_progress_begin(&p.line, settings->quiet ? NULL : stderr, NULL, NULL, 0);
    es_status status = es_train(result, settings, from, transport, &watch);
    es_progress_end(&p.line);
    return status;
}

static void print_unchecked(const char *what)
{
    fprintf(stderr, "entropy-train: not checked: %s\n", what);
}

static es_status dry_run(es_settings *settings, const es_checkpoint *from)
{
    es_status status = es_dry_run(settings, from, print_unchecked);
    if (status == ES_OK)
        es_settings_write(stdout, settings);
    return status;
}

static void print_warning(void *user, const char *message)
{
    (void)user;
    fprintf(stderr, "entropy-train: warning: %s\n", message);
}

/** Replaces the settings by the settings of the checkpoint to resume from, then
 *  applies the command line again. */
static es_status take_checkpoint(es_settings *settings, es_checkpoint **from,
                                 int argc, char **argv)
{
    const int world = settings->world, rank = settings->rank;
    es_status status =
        es_checkpoint_find(from, settings->resume, print_warning, NULL);
    if (status == ES_OK)
        status = es_resume_settings(settings, *from, argc, argv);
    settings->world = world;
    settings->rank = rank;
    settings->quiet = settings->quiet || rank > 0;
    if (status == ES_OK && !settings->quiet)
        fprintf(stderr, "resuming %s at step %" PRId64 "%s\n",
                (*from)->file->path, (*from)->state.step,
                (*from)->state.step == settings->train.steps
                    ? ", the last step: nothing left to do; give more --steps"
                    : "");
    return status;
}

/** Adds the settings that a checkpoint or initial weights determine, and checks
 *  the result. */
static es_status complete_settings(es_settings *settings, es_checkpoint **from,
                                   int argc, char **argv)
{
    es_status status = ES_OK;
    if (settings->resume[0] && settings->init[0])
        return es_fail(ES_EUSAGE, "--resume and --init are mutually exclusive");
    if (settings->resume[0])
        status = take_checkpoint(settings, from, argc, argv);
    if (status == ES_OK)
        status = es_settings_check(settings);
    if (status == ES_OK && settings->init[0] && !*from)
        status = es_start_settings(settings);
    return status;
}

/** Connects to the other ranks, if there are any. Sets *reports to true if this
 *  process must print the message of a failure. */
static es_status meet_ranks(es_transport **out, bool *reports,
                            es_settings *settings)
{
    char note[ES_MESSAGE_MAX];
    es_status status = es_launch_settle(settings, note, sizeof note);
    *out = NULL;
    *reports = true;
    if (note[0])
        print_warning(NULL, note);
    if (status != ES_OK || settings->world == 1 || settings->dry_run)
        return status;
    const es_transport_options options = {.rank = settings->rank,
                                          .world = settings->world,
                                          .rendezvous = settings->rendezvous,
                                          .timeout_s = settings->rank_timeout,
                                          .should_stop = should_stop,
                                          .on_wait = print_warning};
    settings->quiet = settings->quiet || settings->rank > 0;
    status = es_transport_open(out, reports, &options);
    int n_local;
    char device[16];
    snprintf(device, sizeof device, "%d",
             es_transport_local_rank(*out, &n_local));
    if (status == ES_OK && n_local > 1) /* assign one CUDA device to each rank
                                         * on this host */
        (void)setenv("ENTROPY_TRAIN_DEVICE", device, 0);
    return status;
}

static int run_train(int argc, char **argv)
{
    es_settings settings;
    es_train_result result;
    es_checkpoint *from = NULL;
    es_transport *transport = NULL;
    bool reports = true;
    es_settings_default(&settings, ES_VERB_TRAIN);
    es_status status = es_settings_parse(&settings, argc, argv);
    if (status == ES_OK && print_information(&settings, &train_command))
        return 0;
    if (status == ES_OK) {
        catch_signals();
        status = meet_ranks(&transport, &reports, &settings);
    }
    if (status == ES_OK) {
        status = complete_settings(&settings, &from, argc, argv);
        if (status != ES_OK)
            status = es_transport_abort(transport, status);
    }
    if (status == ES_OK)
        status = settings.dry_run
                     ? dry_run(&settings, from)
                     : train_model(&settings, from, transport, &result);
    es_checkpoint_close(from);
    reports = reports && es_transport_reports(transport);
    es_transport_close(transport);
    if (status == ES_OK)
        return settings.dry_run ? 0 : report_training(&settings, &result);
    return reports ? report_failure(status) : es_exit_code(status);
}

/* --- probe --------------------------------------------------------------- */

static es_status probe_checkpoint(const es_settings *settings,
                                  es_probe_result *result)
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
        fprintf(stderr, "entropy-train: recording is incomplete: %s\n",
                result->lost);
    if (caught_signal)
        return EXIT_SIGNAL + caught_signal;
    if (es_model_config_has_loss(&result->settings.model) &&
        !isfinite(result->ce.mean))
        return EXIT_RESULT;
    return es_exit_code(result->recorded);
}

static int run_probe(int argc, char **argv)
{
    es_settings settings;
    es_probe_result result = {0};
    es_settings_default(&settings, ES_VERB_PROBE);
    es_status status = es_settings_parse(&settings, argc, argv);
    if (status == ES_OK && print_information(&settings, &probe_command))
        return 0;
    if (status == ES_OK)
        status = probe_checkpoint(&settings, &result);
    int code = status == ES_OK ? report_probe(&result) : report_failure(status);
    es_probe_free(&result);
    return code;
}

/* --- fuse ---------------------------------------------------------------- */

static es_status fuse_checkpoint(const es_settings *settings,
                                 es_fuse_result *result)
{
    es_train_watch watch = {.on_warning = print_warning,
                            .should_stop = should_stop};
    if (!settings->init[0] || !settings->fused[0])
        return es_fail(ES_EUSAGE, "name the weights to read and the checkpoint "
                                  "to write: entropy-train fuse IN OUT");
    if (!settings->data[0])
        return es_fail(ES_EUSAGE, "no data: give --data FILE, a token file "
                                  "made by entropy-corpus");
    catch_signals();
    return es_fuse(result, settings, &watch);
}

static int report_fuse(const es_settings *settings,
                       const es_fuse_result *result)
{
    if (result->layers && !settings->quiet)
        es_fuse_print(stdout, result);
    if (caught_signal && !result->is_written)
        return EXIT_SIGNAL + caught_signal;
    if (result->is_written)
        return 0;
    fprintf(stderr, "entropy-train: %s: not written, because %s\n",
            settings->fused,
            isfinite(result->loss_before.ce)
                ? "the results differ by more than rounding error"
                : "the loss of the weights is not finite");
    return EXIT_RESULT;
}

static int run_fuse(int argc, char **argv)
{
    es_settings settings;
    es_fuse_result result = {.n_layers = 0};
    es_settings_default(&settings, ES_VERB_FUSE);
    es_status status = es_settings_parse(&settings, argc, argv);
    if (status == ES_OK && print_information(&settings, &fuse_command))
        return 0;
    if (status == ES_OK)
        status = fuse_checkpoint(&settings, &result);
    int code = status == ES_OK ? report_fuse(&settings, &result)
                               : report_failure(status);
    es_fuse_free(&result);
    return code;
}

/* --- verify and bench ---------------------------------------------------- */

static es_status verify_cases(const es_settings *settings,
                              es_verify_counts *counts)
{
    const char *const *cases = (const char *const *)settings->cases;
    const es_ops *ops;
    char note[ES_MESSAGE_MAX];
    if (settings->n_cases == 0)
        return es_fail(ES_EUSAGE, "no cases: name at least one file or folder");
    es_status status = es_ops_choose(&ops, settings->backend,
                                     settings->precision, note, sizeof note);
    es_products_choice products = settings->products;
    if (status == ES_OK && strcmp(ops->name, es_cpu_ops.name) == 0)
        status = es_products_use(&products);
    if (status != ES_OK)
        return status;
    if (note[0])
        print_warning(NULL, note);
    return es_verify(stdout, cases, settings->n_cases, ops, settings->precision,
                     settings->threads, counts);
}

static int run_verify(int argc, char **argv)
{
    es_settings settings;
    es_verify_counts counts = {0};
    es_settings_default(&settings, ES_VERB_VERIFY);
    es_status status = es_settings_parse(&settings, argc, argv);
    if (status == ES_OK && !print_information(&settings, &verify_command))
        status = verify_cases(&settings, &counts);
    free(settings.cases);
    if (status != ES_OK)
        return report_failure(status);
    /* A case that could not be built has not been verified, so the exit code
     * reports a failure. */
    return counts.failed + counts.not_built > 0 ? EXIT_RESULT : 0;
}

static int run_bench(int argc, char **argv)
{
    es_settings settings;
    es_settings_default(&settings, ES_VERB_BENCH);
    es_status status = es_settings_parse(&settings, argc, argv);
    if (status == ES_OK && !print_information(&settings, &bench_command))
        status = es_bench(stdout, &settings);
    return report_failure(status);
}

static int run_help(int argc, char **argv)
{
    return report_failure(
        es_program_help(stdout, &program, &help_command, argc, argv, 80));
}

/* --- the verbs ----------------------------------------------------------- */

static const es_command train_command = {
    .name = "entropy-train",
    .synopsis = "[train] --arch ARCH --data FILE --out FILE [OPTION...]\n"
                "       entropy-train VERB [OPTION...]",
    .summary = "train a transformer and record its attention entropy",
    .details = es_train_details,
    ES_SETTINGS_OPTIONS(ES_VERB_TRAIN),
    .main = run_train,
};
static const es_command verify_command = {
    .name = "entropy-train verify",
    .synopsis = "[OPTION...] CASE...",
    .summary = "compare a back-end with reference cases",
    .details = es_verify_details,
    ES_SETTINGS_OPTIONS(ES_VERB_VERIFY),
    .main = run_verify,
};
static const es_command bench_command = {
    .name = "entropy-train bench",
    .synopsis = "[OPTION...]",
    .summary = "measure the speed of training and the cost of recording",
    .details = es_bench_details,
    ES_SETTINGS_OPTIONS(ES_VERB_BENCH),
    .main = run_bench,
};
static const es_command probe_command = {
    .name = "entropy-train probe",
    .synopsis = "CHECKPOINT --data FILE --out FILE [OPTION...]",
    .summary = "record the heads of an existing model",
    .details = es_probe_details,
    ES_SETTINGS_OPTIONS(ES_VERB_PROBE),
    .main = run_probe,
};
static const es_command fuse_command = {
    .name = "entropy-train fuse",
    .synopsis = "IN OUT --data FILE [--drop LAYERS] [OPTION...]",
    .summary = "simplify a trained model for private inference",
    .details = es_fuse_details,
    ES_SETTINGS_OPTIONS(ES_VERB_FUSE),
    .main = run_fuse,
};
static const es_command help_command = {
    .name = "entropy-train help",
    .synopsis = ES_HELP_SYNOPSIS,
    .summary = ES_HELP_SUMMARY,
    .options = es_help_options,
    .n_options = ES_N_HELP_OPTIONS,
    .main = run_help,
};
static const es_command *const commands[] = {&train_command, &verify_command,
                                             &bench_command, &probe_command,
                                             &fuse_command,  &help_command};
static const es_named_text exits[] = {
    {"0", "done, or stopped by RUN.db.stop"},
    {"1", "the loss was no longer finite; verify: a case fails; fuse: the "
          "results differ"},
    {"2", "the command line is wrong"},
    {"3", "an input or output failed"},
    {"128+N", "ended by signal N; the run is closed as stopped"},
    {NULL, NULL}};
static const es_named_text environment[] = {
    {"ENTROPY_RECORDER",
     "path of the recorder; by default it is in the program's folder"},
    {"ENTROPY_TRAIN_ONEDNN",
     "path of oneDNN's library instead of libdnnl.so.2"},
    {"ENTROPY_TRAIN_CUDA", "path of the CUDA back-end's library; by default "
                           "libentropytrain_cuda.so in the program's folder"},
    {"ENTROPY_TRAIN_TUNING", "path of the file that caches the fastest "
                             "algorithms of CUDA's matrix products; or off"},
    {"ENTROPY_TRAIN_PLANS",
     "path of a file that receives one line for each matrix product on CUDA: "
     "its sizes, and whether bias and GELU are fused into it"},
    {"ENTROPY_TRAIN_OVERLAP",
     "off: each CUDA kernel starts after the previous one has ended"},
    {"ENTROPY_TRAIN_DEVICE", "number of the device to try first; by default "
                             "each rank on a host uses a different device"},
    {"ENTROPY_TRAIN_NCCL", "path of NCCL's library instead of libnccl.so.2"},
    {"OMPI_COMM_WORLD_RANK, _SIZE; SLURM_PROCID, SLURM_NTASKS",
     "rank of this process and number of ranks, set by mpirun or srun: see "
     "--world"},
    {"OPENBLAS_CORETYPE", "name of the kernels that OpenBLAS uses; kernels for "
                          "an older processor cause a warning"},
    {"NO_COLOR, FORCE_COLOR",
     "NO_COLOR disables colours, FORCE_COLOR forces them"},
    {NULL, NULL}};
static const es_named_text files[] = {
    {"RUN.db", "the run file, which entropy-scan shows, even while it grows"},
    {"RUN.db.stop", "stops training cleanly"},
    {"RUN.db.ranks", "lets the ranks of a run find each other; removed "
                     "once they are connected"},
    {"DIR/NAME-STEP.safetensors", "the checkpoints of --checkpoint DIR"},
    {NULL, NULL}};
static const es_program program = {commands, sizeof commands / sizeof *commands,
                                   exits,    environment,
                                   files,    NULL};

int main(int argc, char **argv)
{
    const bool is_named = argc > 1 && strcmp(argv[1], "train") == 0;
    int code = is_named ? run_train(argc - 1, argv + 1)
                        : es_program_run(&program, argc, argv);
    if (fflush(stdout) != 0 && code == 0) {
        fprintf(stderr, "entropy-train: standard output: write error\n");
        code = 3;
    }
    return code;
}
