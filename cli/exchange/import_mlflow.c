/* Converts the folder of an MLflow run to an event file. The file
   RUN/metrics/NAME has a line "time value step" for each number; NAME may
   contain slashes. The files are read one after another, so the steps of the
   event file are not sorted, which the parser of event files allows. */
#include "cli/exchange/import_open.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"
#include "cli/exchange/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 16 };

typedef struct folder {
    const char *root; /* path of the folder "metrics" */
    FILE *out;
    es_event_builder event;
} folder;

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Reads a line such as "1700000000000 2.5 10", which has the time, the value
   and the step; older versions of MLflow omit the step. */
static bool read_line(double *time, float *value, int64_t *step, char *line)
{
    char *rest = NULL;
    const char *parts[3] = {NULL};
    size_t n = 0;
    for (char *part = strtok_r(line, " \n", &rest); part && n < 3;
         part = strtok_r(NULL, " \n", &rest))
        parts[n++] = part;
    int64_t milliseconds;
    *step = 0;
    if (n < 2 || es_int_parse(&milliseconds, parts[0], 0, INT64_MAX) != ES_OK ||
        es_float_parse(value, parts[1], strlen(parts[1])) != ES_OK ||
        (n == 3 && es_int_parse(step, parts[2], INT64_MIN, INT64_MAX) != ES_OK))
        return false;
    *time = (double)milliseconds / 1e3;
    return true;
}

static es_status add_file(folder *to, const char *path, const char *tag)
{
    char line[256];
    FILE *in;
    size_t number = 0;
    es_status status = es_infile_stream(&in, path);
    while (status == ES_OK && fgets(line, sizeof line, in)) {
        double time;
        float value;
        int64_t step;
        const bool is_whole = strchr(line, '\n') != NULL;
        number++;
        if (!read_line(&time, &value, &step, line)) {
            if (!is_whole && feof(in))
                break; /* The last line is incomplete, because the program that
                          wrote the file was interrupted. */
            status =
                es_fail(ES_EFORMAT,
                        "%s: line %zu: expected time, value and step of MLflow",
                        path, number);
        } else if (step >= 0) {
            es_event_put_scalar(&to->event, tag, value);
            status = es_event_write(&to->event, to->out, time, step);
        }
    }
    if (in)
        fclose(in);
    return status;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static es_status add_folder(folder *to, const char *path, int depth)
{
    struct dirent **entries = NULL;
    const int n = scandir(path, &entries, is_visible, alphasort);
    es_status status =
        n < 0 ? es_fail(ES_EIO, "%s: %s", path, strerror(errno)) : ES_OK;
    for (int i = 0; i < n; i++) {
        char below[PATH_MAX];
        if (status == ES_OK &&
            snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name) <
                (int)sizeof below) {
            if (!is_folder(below))
                status = add_file(to, below, below + strlen(to->root) + 1);
            else if (depth < DEPTH_MAX)
                status = add_folder(to, below, depth + 1);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

es_status es_import_mlflow(FILE **out, const char *path)
{
    char root[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const bool fits = snprintf(root, sizeof root, "%.*s/metrics", (int)n,
                               path) < (int)sizeof root;
    if (fits && !is_folder(root) && n >= 7 &&
        strncmp(path + n - 7, "metrics", 7) == 0)
        root[n] = '\0';
    *out = NULL;
    if (!fits || !is_folder(root))
        return es_fail(
            ES_EFORMAT,
            "%s: is a folder; for MLflow, name the folder of a run, "
            "mlruns/EXPERIMENT/RUN, which contains a folder metrics; for "
            "TensorBoard, run cat %s/*tfevents* | entropy-scan import - -o "
            "RUN.db",
            path, path);
    folder to = {.root = root, .out = tmpfile()};
    if (!to.out)
        return es_fail(ES_EIO, "%s: cannot make a temporary copy: %s", path,
                       strerror(errno));
    es_status status = es_event_write_version(to.out, 0);
    if (status == ES_OK)
        status = add_folder(&to, root, 0);
    if (status == ES_OK && (fflush(to.out) != 0 || ferror(to.out)))
        status = es_fail(ES_EIO, "%s: cannot write a temporary copy: %s", path,
                         strerror(errno));
    es_event_builder_free(&to.event);
    if (status < 0)
        fclose(to.out);
    else
        *out = to.out;
    return status;
}

es_status es_import_open(es_line_reader **out, const char **what,
                         const char *path)
{
    FILE *events;
    bool is_document;
    *what = NULL;
    if (is_folder(path)) {
        es_status status = es_import_mlflow(&events, path);
        *what = "an MLflow folder";
        return status < 0 ? status : es_line_reader_new(out, events, path);
    }
    es_status status = es_line_reader_open(out, path);
    if (status == ES_OK)
        status = es_import_unpack(&is_document, out);
    if (status == ES_OK && is_document)
        *what = "a JSON document";
    return status;
}
