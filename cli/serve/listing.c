/* Stores the list of runs as JSON text, and writes the changes since a given
   version. */
#include "cli/serve/listing.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

/* Maximum number of keys in an event. */
enum { KEYS_MOST = 1000 };

void es_serve_listing_begin(es_serve_listing *listing)
{
    uint64_t boot = 0;
    *listing = (es_serve_listing){.version = 1};
    if (getrandom(&boot, sizeof boot, 0) != (ssize_t)sizeof boot)
        boot = (uintptr_t)listing;
    snprintf(listing->boot, sizeof listing->boot, "%016" PRIx64, boot);
}

static void clear_run(es_serve_listed *run)
{
    free(run->path);
    free(run->json);
}

void es_serve_listing_free(es_serve_listing *listing)
{
    for (size_t i = 0; i < listing->n_runs; i++)
        clear_run(&listing->runs[i]);
    free(listing->runs);
    free(listing->lost);
    free(listing->head);
}

/* Returns the index of the run `key`; if it is not listed, the index at which
   it would be inserted. */
static size_t place_of(const es_serve_listing *listing, const char *key)
{
    size_t low = 0, high = listing->n_runs;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memcmp(listing->runs[middle].key, key, ES_SERVE_KEY) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static es_serve_listed *find_run(const es_serve_listing *listing,
                                 const char *key)
{
    const size_t at = place_of(listing, key);
    return at < listing->n_runs &&
                   memcmp(listing->runs[at].key, key, ES_SERVE_KEY) == 0
               ? &listing->runs[at]
               : NULL;
}

const es_serve_listed *es_serve_listing_find(const es_serve_listing *listing,
                                             const char *key, size_t n)
{
    return n == ES_SERVE_KEY ? find_run(listing, key) : NULL;
}

static es_status add_run(es_serve_listed **out, es_serve_listing *listing,
                         const char *key)
{
    if ((*out = find_run(listing, key)))
        return ES_OK;
    const size_t at = place_of(listing, key);
    es_status status = es_grow(&listing->runs, listing->n_runs + 1,
                               sizeof *listing->runs, "runs");
    if (status < 0)
        return status;
    memmove(&listing->runs[at + 1], &listing->runs[at],
            (listing->n_runs - at) * sizeof *listing->runs);
    listing->n_runs++;
    *out = &listing->runs[at];
    **out = (es_serve_listed){.path = NULL};
    memcpy((*out)->key, key, ES_SERVE_KEY);
    return ES_OK;
}

static es_status take_run(es_serve_listing *listing, const char *bytes,
                          size_t n)
{
    es_serve_run_head head;
    es_serve_listed *run;
    char *path, *json;
    if (n < sizeof head)
        return es_fail(ES_EFORMAT, "a message about a run is too short");
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    n -= sizeof head;
    if (head.n_path > n)
        return es_fail(ES_EFORMAT, "a message about a run is too short");
    path = strndup(bytes, head.n_path);
    json = malloc(n - head.n_path + 1);
    if (!path || !json || add_run(&run, listing, head.key) < 0) {
        free(path);
        free(json);
        return es_fail(ES_ENOMEM, "out of memory for the list of runs");
    }
    clear_run(run);
    memcpy(json, bytes + head.n_path, n - head.n_path);
    run->path = path;
    run->json = json;
    run->n = n - head.n_path;
    run->number = head.number;
    run->phase = (int)head.phase;
    run->version = listing->version + 1;
    return ES_OK;
}

/* Adds a run to the list of removed runs. If the list is full, its oldest entry
   is dropped. */
static es_status note_lost(es_serve_listing *listing, const char *key)
{
    if (!listing->lost) {
        es_status status = es_alloc(&listing->lost, ES_SERVE_LOST_MOST,
                                    sizeof *listing->lost, "removed runs");
        if (status < 0)
            return status;
    }
    if (listing->n_lost == ES_SERVE_LOST_MOST) {
        listing->since = listing->lost[0].version;
        memmove(listing->lost, listing->lost + 1,
                --listing->n_lost * sizeof *listing->lost);
    }
    es_serve_lost *lost = &listing->lost[listing->n_lost++];
    memcpy(lost->key, key, ES_SERVE_KEY);
    lost->version = listing->version + 1;
    return ES_OK;
}

static es_status remove_run(es_serve_listing *listing, es_serve_listed *run)
{
    const size_t at = (size_t)(run - listing->runs);
    es_status status = note_lost(listing, run->key);
    if (status < 0)
        return status;
    clear_run(run);
    memmove(run, run + 1, (--listing->n_runs - at) * sizeof *run);
    listing->changed = true;
    return ES_OK;
}

es_status es_serve_listing_take(es_serve_listing *listing, es_serve_kind kind,
                                const char *bytes, size_t n)
{
    char *head;
    es_status status = ES_OK;
    if (kind == ES_SERVE_GONE) {
        es_serve_listed *run =
            n == ES_SERVE_KEY ? find_run(listing, bytes) : NULL;
        return run ? remove_run(listing, run) : ES_OK;
    }
    if (kind == ES_SERVE_RUN) {
        status = take_run(listing, bytes, n);
    } else if (kind == ES_SERVE_HEAD) {
        if (!(head = malloc(n + 1)))
            return es_fail(ES_ENOMEM, "out of memory for the list of runs");
        memcpy(head, bytes, n);
        free(listing->head);
        listing->head = head;
        listing->n_head = n;
    }
    listing->changed = true;
    return status;
}

void es_serve_listing_forget(es_serve_listing *listing, uint64_t version)
{
    for (size_t i = listing->n_runs; i-- > 0;)
        if (listing->runs[i].version <= version &&
            remove_run(listing, &listing->runs[i]) < 0)
            return;
}

void es_serve_listing_version(char out[40], const es_serve_listing *listing)
{
    snprintf(out, 40, "%s.%" PRIu64, listing->boot, listing->version);
}

static void put_key(es_json_writer *json, const char *name, const char *key)
{
    es_json_write_format(json, name, "%.*s", ES_SERVE_KEY, key);
}

/* Writes the member "gone" with the runs that were removed after `version` and
 * have not been added again. */
static void put_lost(es_json_writer *json, const es_serve_listing *listing,
                     uint64_t version)
{
    es_json_write_array(json, "gone");
    for (size_t i = 0; i < listing->n_lost; i++)
        if (listing->lost[i].version > version &&
            !find_run(listing, listing->lost[i].key))
            put_key(json, NULL, listing->lost[i].key);
    es_json_write_end(json, "]");
}

static void put_event(FILE *stream, const es_serve_listing *listing,
                      bool changes)
{
    char version[40];
    size_t n = 0;
    es_json_writer json = {.stream = stream};
    es_serve_listing_version(version, listing);
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "version", version);
    es_json_write_size(&json, "n", listing->n_runs);
    for (size_t i = 0; i < listing->n_runs; i++)
        n += listing->runs[i].version == listing->version;
    if (changes && n > KEYS_MOST) {
        es_json_write_null(&json, "changed");
    } else {
        es_json_write_array(&json, "changed");
        for (size_t i = 0; changes && i < listing->n_runs; i++)
            if (listing->runs[i].version == listing->version)
                put_key(&json, NULL, listing->runs[i].key);
        es_json_write_end(&json, "]");
    }
    put_lost(&json, listing, listing->version - changes);
    es_json_write_end(&json, "}");
}

char *es_serve_listing_event(const es_serve_listing *listing, bool changes)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return NULL;
    put_event(stream, listing, changes);
    if (fclose(stream) != 0)
        return NULL;
    return text;
}

bool es_serve_listing_close(es_serve_listing *listing)
{
    if (!listing->changed)
        return false;
    listing->changed = false;
    listing->version++;
    return true;
}

/* Sets *out to the version in `text` and returns true, if this process knows
 * all changes since that version. */
static bool read_version(uint64_t *out, const es_serve_listing *listing,
                         const char *text)
{
    const size_t n = strlen(listing->boot);
    char *end;
    if (!text || strncmp(text, listing->boot, n) != 0 || text[n] != '.')
        return false;
    *out = strtoull(text + n + 1, &end, 10);
    return *end == '\0' && *out >= listing->since && *out <= listing->version;
}

void es_serve_listing_write(FILE *stream, const es_serve_listing *listing,
                            const char *since)
{
    char version[40];
    uint64_t from = 0;
    const bool complete = !read_version(&from, listing, since);
    es_json_writer json = {.stream = stream};
    es_serve_listing_version(version, listing);
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "version", version);
    es_json_write_bool(&json, "complete", complete);
    es_json_write_size(&json, "n", listing->n_runs);
    if (listing->n_head) {
        fputc(',', stream);
        fwrite(listing->head, 1, listing->n_head, stream);
    }
    es_json_write_array(&json, "runs");
    bool comma = false;
    for (size_t i = 0; i < listing->n_runs; i++) {
        const es_serve_listed *run = &listing->runs[i];
        if (!complete && run->version <= from)
            continue;
        fputs(comma ? ",\n{" : "\n{", stream);
        fwrite(run->json, 1, run->n, stream);
        fputc('}', stream);
        comma = true;
    }
    es_json_write_end(&json, "]");
    put_lost(&json, listing, complete ? listing->version : from);
    es_json_write_end(&json, "}");
}
