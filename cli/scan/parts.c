/* Runs a scan as an array of Slurm tasks. Task k covers a range of the files,
   and writes its findings to a file, called part k, in the format in which the
   processes of es_gather exchange findings. The parts are joined one after
   another, so memory does not grow with the number of parts. A part appears
   complete or not at all. A task has succeeded if its part exists; the state
   that Slurm reports is only used in messages. */
#include "cli/scan/parts.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/outfile.h"
#include "analyzer/base/process.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/slurm/query.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define JOB_NAME "entropy-summarise"
/* Maximum size of the list of run files, in bytes. */
#define LIST_MOST ((size_t)1 << 30)
/* Maximum number of consecutive failures of squeue. */
#define TROUBLE_MOST 20
/* Maximum delay in ms until a file written on another node is visible. */
#define LATE_MS 3000

typedef struct work_file {
    char path[PATH_MAX];
} work_file;

static work_file file_of(const es_scan_options *options, const char *name)
{
    work_file file;
    if (snprintf(file.path, sizeof file.path, "%s/%s", options->work, name) >=
        (int)sizeof file.path)
        file.path[0] = '\0'; /* opening an empty path fails */
    return file;
}

static work_file part_of(const es_scan_options *options, size_t k)
{
    char name[32];
    snprintf(name, sizeof name, "part-%zu", k);
    return file_of(options, name);
}

static size_t n_parts(const es_scan_options *options)
{
    const size_t n = (size_t)options->n_tasks;
    return n < options->n_inputs ? n : options->n_inputs;
}

/* Returns the index of the first run file that Slurm task k reads. The last one
   is first_of(k + 1) - 1. */
static size_t first_of(const es_scan_options *options, size_t k)
{
    const size_t n = n_parts(options), each = options->n_inputs / n;
    const size_t more = options->n_inputs % n;
    return k * each + (k < more ? k : more);
}

static bool is_there(const es_scan_options *options, size_t k)
{
    return access(part_of(options, k).path, R_OK) == 0;
}

static size_t count_missing(const es_scan_options *options)
{
    size_t n = 0;
    for (size_t k = 0; k < n_parts(options); k++)
        n += !is_there(options, k);
    return n;
}

static void sleep_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* --- the folder of --work
   -------------------------------------------------- */

/* Writes `text` to the file `path`, unless the file already has this content.
   Sets *same to true if nothing had to be written. If `busy` is not NULL, a job
   is using the file; the function then fails with the message `busy` instead of
   changing the file. */
static es_status write_text(bool *same, const char *path, const char *text,
                            size_t n, const char *busy)
{
    const es_infile_limit limit = {.bytes = LIST_MOST, .kind = "a list"};
    es_outfile *file = NULL;
    FILE *stream = NULL;
    char *before = NULL;
    size_t n_before = 0;
    *same = access(path, F_OK) == 0 &&
            es_infile_load(&before, &n_before, path, &limit) == ES_OK &&
            n == n_before && memcmp(text, before, n) == 0;
    free(before);
    if (*same)
        return ES_OK;
    if (busy)
        return es_fail(ES_ELOCKED, "%s", busy);
    es_status status = es_outfile_open(&file, &stream, path);
    if (status < 0)
        return status;
    fwrite(text, 1, n, stream);
    return es_outfile_close(file);
}

/* Type of functions that print the content of a file in the work folder. */
typedef es_status printer(FILE *stream, const es_scan_options *options);

static es_status write_file(bool *same, const es_scan_options *options,
                            const char *name, printer *print, const char *busy)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for %s", name);
    es_status status = print(stream, options);
    if (fclose(stream) != 0 && status == ES_OK)
        status = es_fail(ES_ENOMEM, "out of memory for %s", name);
    if (status == ES_OK)
        status = write_text(same, file_of(options, name).path, text, n, busy);
    free(text);
    return status;
}

/* Prints the names of the run files. Each name ends with a NUL, because names
   may contain any other byte. */
static es_status print_list(FILE *stream, const es_scan_options *options)
{
    for (size_t i = 0; i < options->n_inputs; i++)
        fwrite(options->inputs[i], 1, strlen(options->inputs[i]) + 1, stream);
    return ES_OK;
}

static es_status find_places(char self[PATH_MAX], char here[PATH_MAX],
                             char work[PATH_MAX], const es_scan_options *to)
{
    if (!es_process_self(self))
        return es_fail(ES_EIO, "cannot find the path of this program: %s",
                       strerror(errno));
    if (!getcwd(here, PATH_MAX) || !realpath(to->work, work))
        return es_fail(ES_EIO, "%s: %s", to->work, strerror(errno));
    if (strpbrk(work, "\n\r\\") || strpbrk(here, "\n\r"))
        return es_fail(ES_EUSAGE,
                       "%s: a batch script cannot contain this path: choose "
                       "another --work",
                       work);
    return ES_OK;
}

/* Prints the batch script. The script repeats the command line in the current
   folder, so that each task uses the same options. */
static es_status print_script(FILE *stream, const es_scan_options *options)
{
    char self[PATH_MAX], here[PATH_MAX], work[PATH_MAX];
    es_status status = find_places(self, here, work, options);
    if (status < 0)
        return status;
    fputs("#!/bin/sh\n"
          "# Parts of a summary, one per task: written by entropy-scan "
          "summarise --slurm.\n"
          "#SBATCH --job-name=" JOB_NAME "\n"
          "#SBATCH --output=",
          stream);
    es_slurm_print_log(stream, work, "slurm-%A_%a.out");
    fputs("\ncd ", stream);
    es_slurm_print_word(stream, here);
    fputs(" || exit\nexec ", stream);
    es_slurm_print_word(stream, self);
    fputs(" summarise", stream);
    for (int i = 1; i < options->n_words; i++) {
        putc(' ', stream);
        es_slurm_print_word(stream, options->words[i]);
    }
    fputs(" --part \"$SLURM_ARRAY_TASK_ID\" --jobs "
          "\"${SLURM_CPUS_PER_TASK:-1}\"\n",
          stream);
    return ES_OK;
}

/* Creates the work folder, the list of run files and the batch script. If the
   list or the script has changed, removes the existing outputs of tasks
   (parts). `busy` is NULL, or the error message if the folder must not change
   because a job is using it. */
static es_status prepare_folder(const es_scan_options *options,
                                const char *busy)
{
    bool same_list = false, same_script = false;
    es_status status;
    if (mkdir(options->work, 0777) != 0 && errno != EEXIST)
        return es_fail(ES_EIO, "%s: %s: name another folder with --work",
                       options->work, strerror(errno));
    if ((status = write_file(&same_list, options, "list", print_list, busy)) <
            0 ||
        (status = write_file(&same_script, options, "task.sbatch", print_script,
                             busy)) < 0)
        return status;
    for (size_t k = 0; !(same_list && same_script) && k < ES_SCAN_TASKS_MOST;
         k++)
        unlink(part_of(options, k).path);
    return ES_OK;
}

/* Returns the number of the most recently submitted job; -1 if no job was
   submitted. */
static int64_t read_job(const es_scan_options *options)
{
    int64_t job = -1;
    FILE *file = fopen(file_of(options, "job").path, "re");
    if (file && fscanf(file, "%" SCNd64, &job) != 1)
        job = -1;
    if (file)
        fclose(file);
    return job;
}

void es_parts_remove(const es_scan_options *options)
{
    static const char *const names[] = {"list", "task.sbatch", "job"};
    const int64_t job = read_job(options);
    char name[64];
    for (size_t k = 0; k < ES_SCAN_TASKS_MOST; k++) {
        unlink(part_of(options, k).path);
        snprintf(name, sizeof name, "slurm-%" PRId64 "_%zu.out", job, k);
        unlink(file_of(options, name).path);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(file_of(options, names[i]).path);
    rmdir(options->work); /* fails if the folder contains logs of earlier
                             jobs */
}

/* --- the job --------------------------------------------------------------*/

/* State of a job. QUEUE_HAS means that Slurm's queue contains a task whose
   output (part) is missing. QUEUE_LEFT means that the queue contains no such
   task; tasks whose parts exist may still be in the queue, but will not write
   anything. QUEUE_UNKNOWN means that squeue did not answer. */
typedef enum queue { QUEUE_UNKNOWN, QUEUE_LEFT, QUEUE_HAS } queue;

static queue state_of(const char *lines, const es_scan_options *options)
{
    char *end;
    for (const char *at = lines; at[strspn(at, " \n")]; at = end) {
        const unsigned long k = strtoul(at, &end, 10);
        if (end == at || !is_there(options, k))
            return QUEUE_HAS;
    }
    return QUEUE_LEFT;
}

static queue look_into_queue(char *reason, size_t size,
                             const es_scan_options *options, int64_t job)
{
    char program[] = "squeue", expand[] = "-hr", format[] = "--format=%K",
         which[48];
    char *const argv[] = {program, expand, format, which, NULL};
    es_slurm_answer answer;
    queue state = QUEUE_UNKNOWN;
    snprintf(which, sizeof which, "--jobs=%" PRId64, job);
    if (es_slurm_query(&answer, argv, 20) < 0) {
        snprintf(reason, size, "%s", es_message());
        return state;
    }
    snprintf(reason, size, "squeue: %.200s", answer.trouble);
    if (answer.code == 0)
        state = state_of(answer.text, options);
    else if (strstr(answer.trouble, "Invalid job id"))
        state = QUEUE_LEFT; /* Slurm no longer knows the job, so it has ended */
    free(answer.text);
    return state;
}

/* Prints an option of sbatch, such as "--array=0,3,5", that lists the tasks
   whose output (part) is missing. */
static es_status print_array(char **out, const es_scan_options *options)
{
    size_t n = 0;
    const char *before = "--array=";
    FILE *stream = es_text_stream(out, &n);
    for (size_t k = 0; stream && k < n_parts(options); k++)
        if (!is_there(options, k)) {
            fprintf(stream, "%s%zu", before, k);
            before = ",";
        }
    return stream && fclose(stream) == 0
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for a job");
}

static es_status submit_job(int64_t *job, const es_scan_options *options)
{
    char program[] = "sbatch", parsable[] = "--parsable",
         name[] = "--job-name=" JOB_NAME;
    work_file script = file_of(options, "task.sbatch");
    char *array = NULL, **argv = NULL, number[32];
    size_t n = 0;
    bool same;
    const size_t n_missing = count_missing(options); /* counted before the
                                                        tasks write their
                                                        parts */
    es_status status = es_alloc(&argv, (size_t)options->n_slurm_words + 6,
                                sizeof *argv, "a command line");
    if (status < 0 || (status = print_array(&array, options)) < 0)
        goto done;
    argv[n++] = program;
    argv[n++] = parsable;
    argv[n++] = name;
    argv[n++] = array;
    for (int i = 0; i < options->n_slurm_words; i++)
        argv[n++] = options->slurm_words[i];
    argv[n] = script.path;
    if ((status = es_slurm_submit(job, argv, script.path)) < 0)
        goto done;
    snprintf(number, sizeof number, "%" PRId64 "\n", *job);
    status = write_text(&same, file_of(options, "job").path, number,
                        strlen(number), NULL);
    if (!options->quiet)
        es_print_note("%s: job %" PRId64
                      " of Slurm: %zu of %zu parts submitted",
                      options->work, *job, n_missing, n_parts(options));
done:
    free(array);
    free(argv);
    return status;
}

/* Waits until all parts (outputs of tasks) exist, or until Slurm's queue has no
   task that could write a missing part. */
static es_status wait_for(const es_scan_options *options, int64_t job)
{
    const size_t n = n_parts(options);
    char reason[256] = "";
    int n_troubles = 0;
    long pause = 200;
    es_progress_line_begin(options->quiet, "waiting for", options->work,
                           "parts", n);
    for (size_t missing; (missing = count_missing(options)) > 0;) {
        es_progress_line_set(n - missing);
        const queue state =
            look_into_queue(reason, sizeof reason, options, job);
        n_troubles = state == QUEUE_UNKNOWN ? n_troubles + 1 : 0;
        if (state == QUEUE_LEFT || n_troubles == TROUBLE_MOST)
            break;
        sleep_ms(pause);
        pause = pause < 5000 ? pause * 5 / 4 : pause;
    }
    es_progress_line_end();
    for (int ms = 0; count_missing(options) && ms < LATE_MS; ms += 100)
        sleep_ms(100);
    if (n_troubles == TROUBLE_MOST && count_missing(options))
        return es_fail(ES_EIO,
                       "%s: job %" PRId64
                       ": %s: repeat the command when Slurm answers",
                       options->work, job, reason);
    return ES_OK;
}

/* --- the state of a failed task ------------------------------------------ */

/* Reads the state of a task, such as "TIMEOUT", from scontrol. *out is empty if
   Slurm no longer knows the task. */
static void read_state(char out[32], int64_t job, size_t k)
{
    char program[] = "scontrol", verb[] = "show", kind[] = "job", line[] = "-o",
         task[64];
    char *const argv[] = {program, line, verb, kind, task, NULL};
    es_slurm_answer answer;
    *out = '\0';
    snprintf(task, sizeof task, "%" PRId64 "_%zu", job, k);
    if (es_slurm_query(&answer, argv, 20) < 0)
        return;
    const char *state = strstr(answer.text, "JobState=");
    if (answer.code == 0 && state)
        sscanf(state, "JobState=%31[A-Z_]", out);
    free(answer.text);
}

static const char *remedy_of(const char *state)
{
    if (strcmp(state, "TIMEOUT") == 0)
        return "give it more time (-- --time=...) or more --tasks, and repeat "
               "the command";
    if (strcmp(state, "OUT_OF_MEMORY") == 0)
        return "give it more memory (-- --mem=...), and repeat the command";
    return "repeat the command";
}

/* Prints a line for each missing part (output of a task), at most ten, and
 * returns the failure. */
static es_status report_missing(const es_scan_options *options, int64_t job)
{
    const size_t n = n_parts(options), missing = count_missing(options);
    for (size_t k = 0, said = 0; k < n && said < 10; k++) {
        char state[32], log[64];
        if (is_there(options, k))
            continue;
        said++;
        read_state(state, job, k);
        snprintf(log, sizeof log, "slurm-%" PRId64 "_%zu.out", job, k);
        const work_file file = file_of(options, log);
        if (access(file.path, R_OK) != 0) /* if the log does not exist, the task
                                             never began */
            es_print_note("task %" PRId64 "_%zu of Slurm left the queue before "
                          "it began: there is no %s: %s",
                          job, k, file.path, remedy_of(state));
        else
            es_print_note("task %" PRId64
                          "_%zu of Slurm wrote no part (%s); see %s: %s",
                          job, k, *state ? state : "Slurm no longer knows it",
                          file.path, remedy_of(state));
    }
    return es_fail(ES_EIO,
                   "%s: %zu of %zu parts are missing, so no output is written; "
                   "the other %zu parts are kept for the next attempt",
                   options->work, missing, n, n - missing);
}

es_status es_parts_submit(const es_scan_options *options)
{
    int64_t job = read_job(options);
    char reason[256], busy[PATH_MAX + 128] = "";
    es_status status;
    if (job >= 0 &&
        look_into_queue(reason, sizeof reason, options, job) == QUEUE_HAS)
        snprintf(busy, sizeof busy,
                 "%.*s: job %" PRId64
                 " is still running: wait until it ends, or scancel %" PRId64,
                 PATH_MAX, options->work, job, job);
    if ((status = prepare_folder(options, *busy ? busy : NULL)) < 0)
        return status;
    if (count_missing(options) == 0)
        return ES_OK;
    if (*busy)
        return es_fail(ES_ELOCKED, "%s", busy);
    if ((status = submit_job(&job, options)) < 0 ||
        (status = wait_for(options, job)) < 0)
        return status;
    return count_missing(options) ? report_missing(options, job) : ES_OK;
}

/* --- parts ----------------------------------------------------------------*/

/* Prints the first line of a part, the output file of one task. The line
   identifies the build, the part and the number of files, so that only the same
   build, with the same number of files, accepts the part. */
static void print_head(FILE *stream, const es_scan_options *options, size_t k)
{
    fprintf(stream, "%.90s%zu of %zu, %zu files\n", es_finding_head(), k,
            n_parts(options), options->n_inputs);
}

static es_status fail_part(const es_scan_options *options, size_t k)
{
    return es_fail(ES_EFORMAT,
                   "%s: belongs to another summary or version of entropy-scan: "
                   "remove it, and repeat the command",
                   part_of(options, k).path);
}

static es_status join_part(const es_scan_options *options,
                           const es_gather_job *job, size_t k)
{
    FILE *stream = NULL;
    char *head = NULL, *found = NULL;
    size_t n = 0;
    es_status status = es_infile_stream(&stream, part_of(options, k).path);
    if (status < 0)
        return status;
    FILE *expected = es_text_stream(&head, &n);
    if (expected) {
        print_head(expected, options, k);
        fclose(expected);
    }
    if (!head || es_alloc(&found, n + 1, 1, "a part") < 0)
        status = es_fail(ES_ENOMEM, "out of memory for a part");
    else if (fread(found, 1, n, stream) != n || memcmp(head, found, n) != 0)
        status = fail_part(options, k);
    for (size_t i = first_of(options, k);
         status == ES_OK && i < first_of(options, k + 1); i++) {
        status = es_gather_from(stream, job, i);
        if (status == ES_DONE || status == ES_EFORMAT)
            status = fail_part(options, k);
    }
    free(head);
    free(found);
    fclose(stream);
    return status;
}

es_status es_parts_join(const es_scan_options *options,
                        const es_gather_job *job)
{
    es_status status = ES_OK;
    for (size_t k = 0; k < n_parts(options) && status == ES_OK; k++)
        status = join_part(options, job, k);
    return status;
}

/* --- a task ---------------------------------------------------------------*/

/* Reads the list of file names. The names point into *text, which the caller
   frees. */
static es_status read_list(char **text, char ***names, size_t *n,
                           const es_scan_options *options)
{
    const es_infile_limit limit = {
        .bytes = LIST_MOST, .kind = "a list of files", .code = ES_EFORMAT};
    size_t size = 0, count = 0;
    es_status status =
        es_infile_load(text, &size, file_of(options, "list").path, &limit);
    if (status < 0)
        return status;
    for (size_t i = 0; i < size; i++)
        count += (*text)[i] == '\0';
    if ((status = es_alloc(names, count, sizeof **names, "files")) < 0)
        return status;
    for (char *at = *text; *n < count; at += strlen(at) + 1)
        (*names)[(*n)++] = at;
    return ES_OK;
}

es_status es_parts_run(const es_scan_options *options)
{
    es_scan_options all = *options;
    const size_t k = (size_t)options->part;
    char *text = NULL, **names = NULL;
    es_outfile *file = NULL;
    FILE *stream = NULL;
    all.n_inputs = 0;
    es_status status = read_list(&text, &names, &all.n_inputs, options);
    if (status == ES_OK && k >= n_parts(&all))
        status = es_fail(ES_EUSAGE, "--part %zu: %s has only %zu parts", k,
                         options->work, n_parts(&all));
    if (status == ES_OK)
        status = es_outfile_open(&file, &stream, part_of(options, k).path);
    if (status == ES_OK) {
        print_head(stream, &all, k);
        const es_gather_job job = {.inputs = names + first_of(&all, k),
                                   .n_inputs = first_of(&all, k + 1) -
                                               first_of(&all, k),
                                   .options = &options->summary,
                                   .settings = true,
                                   .n_processes = (size_t)options->n_processes,
                                   .sink = es_gather_to(stream)};
        es_gather(&job);
        status = es_outfile_close(file);
    }
    free(names);
    free(text);
    return status;
}
