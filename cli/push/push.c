/* Pushes run files into the database in rounds. Each round finds the files that
 * have changed, and pushes them in several threads, each with a separate
 * connection. Each thread takes one file after the other; small files are
 * collected and pushed in one transaction. */
#include "cli/push/push_internal.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/runs/damage.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* A file that was changed less than this number of seconds ago may change again
   without getting a new time stamp. The number exceeds the resolution of the
   time stamps of any file system. */
#define TICK 0.1
/* A group of small files is pushed once it has this size in bytes. */
#define GROUP_BYTES (8 << 20)

typedef struct push {
    es_pusher *pusher;
    const es_push_options *options;
    es_push_result *result;
    void *files;        /* tree (tsearch) of all known files, sorted by path */
    bool is_first;      /* true in the first round */
    es_push_file *todo; /* (n_todo) files of this round */
    size_t n_todo;
    pthread_mutex_t lock; /* held while the members below or `files` are used
                             and while a note or a damage report is printed */
    size_t next, n_ended;
    es_status status; /* failure that ends the round; ES_OK without a failure */
    char failure[ES_MESSAGE_MAX];
} push;

/* --- which files ---------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const es_push_known *)a)->path,
                  ((const es_push_known *)b)->path);
}

/* Returns the entry of a file, which is added if the path is new; NULL if
 * memory is short. */
static es_push_known *find_known(push *p, const char *path)
{
    const size_t size = strlen(path) + 1;
    es_push_known *file = calloc(1, sizeof *file + size);
    if (!file)
        return NULL;
    memcpy(file->path, path, size);
    es_push_known **found = tsearch(file, &p->files, by_path);
    if (!found || *found != file)
        free(file);
    return found ? *found : NULL;
}

/**
 * Lists the files to push in this round, which are new or have changed since
 * their last push.
 */
static es_status list_files(push *p, const es_paths *paths)
{
    p->n_todo = p->next = p->n_ended = 0;
    es_status status = es_alloc(&p->todo, paths->n, sizeof *p->todo, "files");
    for (size_t i = 0; i < paths->n && status == ES_OK; i++) {
        const char *path = paths->paths[i];
        es_push_known *known = find_known(p, path);
        const es_stamp stamp = es_stamp_of(path);
        if (!known)
            return es_fail(ES_ENOMEM, "%s: out of memory", path);
        if (known->is_done && es_stamp_same(&stamp, &known->stamp))
            continue;
        p->todo[p->n_todo++] =
            (es_push_file){.path = path, .stamp = stamp, .known = known};
    }
    return status;
}

/* --- a worker ------------------------------------------------------------- */

typedef struct worker {
    es_push_worker base;
    push *push;
    pthread_t thread;
    bool is_running;
    es_push_file *group[ES_PUSH_GROUP]; /* (n) open files that are pushed
                                           together */
    size_t n;
    off_t bytes;
} worker;

/**
 * Takes the next file from the list of the round. Returns NULL if no file
 * remains or a failure ends the round.
 */
static es_push_file *take_file(push *p)
{
    pthread_mutex_lock(&p->lock);
    es_push_file *file =
        p->status == ES_OK && p->next < p->n_todo ? &p->todo[p->next++] : NULL;
    pthread_mutex_unlock(&p->lock);
    return file;
}

static bool is_ending(push *p)
{
    pthread_mutex_lock(&p->lock);
    const bool ending = p->status < 0;
    pthread_mutex_unlock(&p->lock);
    return ending;
}

/* Records the result of pushing a file, and closes the file. */
static void settle_file(worker *w, es_push_file *file, es_status status)
{
    push *p = w->push;
    es_push_known *known = file->known;
    const bool ends =
        status == ES_ENOMEM || (status < 0 && !p->options->follow &&
                                es_pusher_is_blamed(w->base.pusher, status));
    pthread_mutex_lock(&p->lock);
    if (ends && p->status == ES_OK) {
        snprintf(p->failure, sizeof p->failure, "%s", es_message());
        p->status = status;
    } else if (status < 0 && !ends) {
        if (!known->is_reported)
            es_print_note("%s", es_message());
        p->result->failed++;
    }
    if (!file->is_rank)
        known->is_reported = status < 0 && !ends;
    known->stamp = file->stamp;
    known->is_done =
        p->status == ES_OK && !es_stamp_is_fresh(&file->stamp, TICK);
    if (!es_push_known_grows(known))
        es_push_known_forget(known);
    es_damage_close(file->reader);
    es_progress_line_set(++p->n_ended);
    pthread_mutex_unlock(&p->lock);
    free(file->place);
}

static void push_group(worker *w)
{
    if (w->n && !is_ending(w->push))
        es_push_file_group(&w->base, w->group, w->n);
    for (size_t i = 0; i < w->n; i++) {
        es_status status = ES_OK;
        if (!w->group[i]->is_pushed && !is_ending(w->push))
            status = es_push_file_runs(&w->base, w->group[i]);
        settle_file(w, w->group[i], status);
    }
    w->n = 0;
    w->bytes = 0;
}

static void *push_files(void *user)
{
    worker *w = user;
    es_push_file *file;
    while ((file = take_file(w->push))) {
        es_status status = es_push_file_open(file);
        if (status == ES_OK && es_push_file_is_small(file)) {
            w->group[w->n++] = file;
            w->bytes += file->stamp.size + file->stamp.log_size;
            if (w->n == ES_PUSH_GROUP || w->bytes > GROUP_BYTES)
                push_group(w);
            continue;
        }
        if (status == ES_OK)
            status = es_push_file_runs(&w->base, file);
        settle_file(w, file, status);
    }
    push_group(w);
    return NULL;
}

/* Runs a worker in a thread. If the thread cannot connect to the database, the
 * other threads push all files. */
static void *begin_work(void *user)
{
    worker *w = user;
    return es_pusher_open_another(&w->base.pusher, w->push->pusher) == ES_OK
               ? push_files(w)
               : NULL;
}

/* --- ranks ---------------------------------------------------------------- */

static es_status check_ranks(push *p)
{
    for (size_t i = 0; i < p->n_todo; i++) {
        es_push_file *file = &p->todo[i];
        if (!file->is_rank)
            continue;
        es_status status = es_push_file_check_rank(p->pusher, file);
        if (status < 0 && es_pusher_is_blamed(p->pusher, status))
            return status;
        if (status < 0) {
            if (!file->known->is_reported)
                es_print_note("%s", es_message());
            p->result->failed++;
        }
        file->known->is_reported = status < 0;
    }
    return ES_OK;
}

/* --- rounds --------------------------------------------------------------- */

/* Runs the workers of a round and waits until they end. The first worker runs
 * in the calling thread. */
static es_status push_all(push *p)
{
    worker *workers;
    const size_t most = (size_t)p->options->jobs;
    const size_t n = p->n_todo < most ? p->n_todo : most;
    es_status status = es_alloc(&workers, n, sizeof *workers, "a push");
    if (status < 0 || !n)
        return status;
    for (size_t i = 0; i < n; i++) {
        workers[i].base.options = p->options;
        workers[i].push = p;
        workers[i].is_running =
            i && pthread_create(&workers[i].thread, NULL, begin_work,
                                &workers[i]) == 0;
    }
    workers[0].base.pusher = p->pusher;
    push_files(&workers[0]);
    for (size_t i = 0; i < n; i++) {
        if (workers[i].is_running)
            pthread_join(workers[i].thread, NULL);
        if (i)
            es_pusher_close(workers[i].base.pusher);
        es_push_counts_add(&p->result->counts, &workers[i].base.result.counts);
        p->result->old += workers[i].base.result.old;
    }
    free(workers);
    return p->status < 0 ? es_fail(p->status, "%s", p->failure) : ES_OK;
}

static es_status push_round(push *p)
{
    es_paths paths = {0};
    size_t n_unreadable = 0;
    es_status status = es_paths_expand(
        &paths, &n_unreadable, p->options->inputs, p->options->n_inputs);
    if (status == ES_ENOTFOUND && p->options->follow && p->is_first)
        es_print_note("%s yet: waiting", es_message());
    if (p->options->follow && (status == ES_ENOTFOUND || !p->is_first))
        status = ES_OK; /* no error: files may appear later */
    p->result->files = paths.n;
    p->result->failed = n_unreadable;
    p->status = ES_OK;
    if (status == ES_OK)
        status = list_files(p, &paths);
    es_progress_line_begin(p->options->quiet || p->options->follow, "push",
                           NULL, "files", p->n_todo);
    if (status == ES_OK)
        status = push_all(p);
    es_progress_line_end();
    if (status == ES_OK)
        status = check_ranks(p);
    free(p->todo);
    p->todo = NULL;
    es_paths_free(&paths);
    if (status == ES_OK && p->options->keep > 0) {
        int64_t deleted = 0;
        status = es_push_keep(p->pusher, p->options->keep, &deleted);
        p->result->deleted += deleted;
    }
    return status;
}

static void free_known(void *node)
{
    es_push_known_forget(node);
    free(node);
}

es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options)
{
    push p = {.pusher = pusher,
              .options = options,
              .result = out,
              .is_first = true,
              .lock = PTHREAD_MUTEX_INITIALIZER};
    es_status status;
    bool is_reported = false;
    for (;;) {
        status = push_round(&p);
        if (!options->follow || (p.is_first && status < 0))
            break;
        p.is_first = false;
        if (status < 0 && !is_reported)
            es_print_note("%s", es_message());
        is_reported = status < 0;
        es_push_rest(options->poll);
    }
    tdestroy(p.files, free_known);
    return status;
}
