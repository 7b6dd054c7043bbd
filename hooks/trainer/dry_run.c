/* Implements --dry-run, which makes the same checks as a training run, in the
 * same order, but does not train. es_trainer_try checks settings, back-end and
 * data with the code of es_trainer_new; this file checks weights, checkpoints
 * and the run file. */
#include "hooks/trainer/dry_run.h"

#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/files/checkpoint_folder.h"
#include "hooks/trainer/start.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Checks the weights of --init by loading them into a forward-only model on
 *  the CPU, with the smallest micro-batch. */
static es_status try_weights(es_trainer *trainer)
{
    es_model_config config = trainer->settings.model;
    es_start start;
    config.forward_only = true;
    config.batch = 1;
    config.record = ES_SERIES_CORE;
    config.vocab = config.vocab > 0 ? config.vocab : 1;
    es_status status = es_model_new(&trainer->model, &config, &es_cpu_ops,
                                    trainer->settings.threads);
    return status == ES_OK ? es_start_load(&start, trainer) : status;
}

/* --- output places -------------------------------------------------------- */

/** Writes to `out` the folder that contains `path`, or "." if the path is a
 *  bare name. */
static void find_parent(char out[ES_PATH_SIZE], const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* remove final '/' */
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    snprintf(out, ES_PATH_SIZE, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
}

static es_status try_to_make(const char *path)
{
    char parent[ES_PATH_SIZE];
    find_parent(parent, path);
    if (access(parent, W_OK | X_OK) != 0)
        return es_fail(ES_EIO, "%s: cannot be created in %s: %s", path, parent,
                       strerror(errno));
    return ES_OK;
}

/** Checks that the run file can be created or extended. A file at `path` is
 *  accepted only if it is a run file, to which the new run would be added. */
static es_status try_run_file(const char *path)
{
    static const char sqlite[] = "SQLite format 3", ours[] = "ENTR";
    /* length of SQLite's file header in bytes, and offset of the application ID
     * in the header */
    enum { HEADER = 100, ID = 68 };
    char head[HEADER];
    uint64_t size;
    int fd;
    struct stat file;
    if (stat(path, &file) != 0)
        return try_to_make(path);
    es_status status = es_infile_open(&fd, &size, path);
    if (status == ES_OK && access(path, W_OK) != 0)
        status = es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    if (status == ES_OK && size >= sizeof head)
        status = es_infile_read(fd, head, sizeof head, 0, path);
    if (status == ES_OK && size > 0 &&
        (size < sizeof head || memcmp(head, sqlite, sizeof sqlite) != 0 ||
         memcmp(head + ID, ours, strlen(ours)) != 0))
        status = es_fail(ES_EFORMAT, "%s: exists and is not a run file", path);
    if (fd >= 0)
        close(fd);
    return status;
}

static es_status try_recording(const es_settings *settings)
{
    const int64_t layers = settings->model.n_layer,
                  heads = settings->model.n_head;
    if (layers > ES_MAX_LAYERS || heads > ES_MAX_HEADS ||
        layers * heads > ES_MAX_VALUES)
        return es_fail(ES_EARGUMENT,
                       "%s: %lld layers of %lld heads are too many: at most %d "
                       "layers, %d heads per layer and %d heads in all",
                       settings->out, (long long)layers, (long long)heads,
                       ES_MAX_LAYERS, ES_MAX_HEADS, ES_MAX_VALUES);
    return try_run_file(settings->out);
}

/** Checks an existing checkpoint folder by opening it as a training run does;
 *  opening writes nothing. */
static es_status try_checkpoints(const es_trainer *trainer)
{
    const es_settings *settings = &trainer->settings;
    es_checkpoint_folder *folder = NULL;
    char name[ES_RUN_NAME_SIZE];
    struct stat file;
    es_settings_run_name(name, settings);
    if (stat(settings->checkpoint, &file) != 0)
        return try_to_make(settings->checkpoint);
    es_status status = es_checkpoint_folder_open(
        &folder, settings->checkpoint, name, trainer->uuid, trainer->first_step,
        settings->keep);
    es_checkpoint_folder_close(folder);
    return status;
}

/* --- all checks ----------------------------------------------------------- */

static void report_unchecked(const es_settings *settings,
                             const char *of_back_end,
                             void (*unchecked)(const char *what))
{
    char text[ES_MESSAGE_MAX];
    snprintf(text, sizeof text, "back-end %s: %.900s", settings->backend,
             of_back_end);
    if (of_back_end[0])
        unchecked(text);
    const bool lacks_out = !settings->out[0] && !settings->no_record;
    if (!settings->data[0])
        unchecked(lacks_out
                      ? "data and run file: --data and --out are not given"
                      : "data: --data is not given");
    else if (lacks_out)
        unchecked("run file: --out is not given");
    if (settings->out[0] && access(settings->out, F_OK) == 0)
        unchecked(
            "run file: the file exists, and adding the run to it may fail");
    if (settings->world > 1)
        unchecked("the other ranks");
}

es_status es_dry_run(es_settings *settings, const es_checkpoint *from,
                     void (*unchecked)(const char *what))
{
    es_trainer *trainer = NULL;
    char of_back_end[ES_MESSAGE_MAX];
    es_status status = es_trainer_try(&trainer, settings, from, of_back_end,
                                      sizeof of_back_end);
    if (status != ES_OK)
        return status;
    if (trainer->tokens)
        settings->model.vocab = trainer->settings.model.vocab;
    if (!from && settings->init[0])
        status = try_weights(trainer);
    if (status == ES_OK && settings->checkpoint[0])
        status = try_checkpoints(trainer);
    if (status == ES_OK && settings->out[0])
        status = try_recording(settings);
    if (status == ES_OK)
        report_unchecked(settings, of_back_end, unchecked);
    es_trainer_free(trainer);
    return status;
}
