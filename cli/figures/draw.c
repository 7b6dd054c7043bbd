#include "cli/figures/drawing.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output.h"
#include "cli/print.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#define PIXELS_A_POINT 2.0

static const char *const kind_names[ES_N_PICTURES] = {"heatmap", "curves"};
static const char *const endings[] = {"png", "svg", "pdf"};

char *es_drawing_step(char *out, const es_run_summary *run)
{
    snprintf(out, ES_CAPTION_MAX, "step %lld%s", (long long)run->step,
             run->phase == ES_PHASE_EVAL ? ", eval" : "");
    return out;
}

/* "run-heatmap.png" in the current directory, after the file's own name and
   never after a name inside it. */
static void name_file(char out[PATH_MAX], const char *input,
                      es_picture_kind kind, es_format format)
{
    const char *slash = strrchr(input, '/');
    const char *base = slash ? slash + 1 : input;
    const char *dot = strrchr(base, '.');
    int n = (int)(dot && dot != base ? (size_t)(dot - base) : strlen(base));
    snprintf(out, PATH_MAX, "%.*s-%s.%s", n, base, kind_names[kind],
             endings[format]);
}

/* --- what is said beside the picture --------------------------------------*/

static void print_max(char *out, size_t size, const es_drawing *drawing)
{
    const es_run_summary *first = drawing->runs[0];
    bool same = true;
    for (size_t i = 1; i < drawing->n; i++)
        same = same && (drawing->runs[i]->m == first->m);
    size_t n = (size_t)snprintf(out, size, "max = ");
    for (size_t i = 0; i < (same ? 1 : drawing->n) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%.4g", i ? ", " : "",
                              drawing->runs[i]->m);
    if (n < size)
        snprintf(out + n, size - n, " (%s)", es_max_name(first->max.policy));
}

static void print_axis(char *out, size_t size, const es_run_summary *run)
{
    bool unit = run->unit && *run->unit;
    snprintf(out, size, unit ? "%s (%s)" : "%s", run->series, run->unit);
}

enum { NOTES_A_RUN = 3, NOTES_OF_ALL = 4, NOTE_MAX = 256 };

/* Names come from the file: programs print such notes on terminals. */
static void add_note(es_picture_note *notes, char (*texts)[NOTE_MAX], size_t *n,
                     const char *key, const char *value)
{
    es_text_escape(texts[*n], NOTE_MAX, value, ES_ESCAPE_TERMINAL);
    notes[*n] = (es_picture_note){key, texts[*n]};
    ++*n;
}

static size_t make_notes(es_picture_note *notes, char (*texts)[NOTE_MAX],
                         const es_drawing *drawing)
{
    size_t n = 0;
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        char step[32];
        snprintf(step, sizeof step, "%lld", (long long)run->step);
        add_note(notes, texts, &n, "run", run->name);
        add_note(notes, texts, &n, "arch", run->arch ? run->arch : "unknown");
        add_note(notes, texts, &n, "step", step);
    }
    add_note(notes, texts, &n, "series", drawing->runs[0]->series);
    add_note(notes, texts, &n, "phase", es_phase_name(drawing->runs[0]->phase));
    add_note(notes, texts, &n, "max", drawing->note + strlen("max = "));
    add_note(notes, texts, &n, "program", "entropy-scan " ES_VERSION);
    return n;
}

/* --- writing --------------------------------------------------------------*/

static es_status write_to(const es_picture *picture, const char *path,
                          es_format format, const es_picture_note *notes,
                          size_t n_notes)
{
    es_output *output = NULL;
    FILE *stream;
    if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO))
        return es_fail(ES_EUSAGE, "standard output is a terminal: a picture "
                                  "needs a file or a pipe");
    es_status status = es_output_open(&output, &stream, path);
    if (status != ES_OK)
        return status;
    status = es_picture_write(picture, stream, format, PIXELS_A_POINT, notes,
                              n_notes);
    if (status == ES_OK)
        return es_output_close(output);
    es_output_abandon(output);
    return es_fail(status, "%s: %s", path, es_message()); /* it knows no path */
}

static es_status write_picture(const es_picture *picture,
                               const es_drawing *drawing, es_picture_kind kind)
{
    const es_picture_request *request = &drawing->options->pictures[kind];
    char name[PATH_MAX];
    size_t most = drawing->n * NOTES_A_RUN + NOTES_OF_ALL;
    es_picture_note *notes = es_resize(NULL, most, sizeof *notes);
    char(*texts)[NOTE_MAX] = es_resize(NULL, most, sizeof *texts);
    const char *path = request->file;
    if (!path) {
        name_file(name, drawing->options->inputs[0], kind, request->format);
        path = name;
    }
    es_status status = ES_OK;
    if (!notes || !texts)
        status = es_fail(ES_ENOMEM, "%s: out of memory", path);
    if (status == ES_OK)
        status = es_output_check_text(path, drawing->options->inputs,
                                      drawing->options->n_inputs);
    if (status == ES_OK)
        status = write_to(picture, path, request->format, notes,
                          make_notes(notes, texts, drawing));
    if (status == ES_OK && !drawing->options->quiet && strcmp(path, "-") != 0)
        es_print_note("%s written", path);
    free(notes);
    free(texts);
    return status;
}

/* --- the runs of a picture ------------------------------------------------*/

static es_figure_style style_of(const es_scan_options *options,
                                es_format format)
{
    double unit = format == ES_FORMAT_PNG ? PIXELS_A_POINT : 1;
    return (es_figure_style){.title = options->title,
                             .width = options->width / unit,
                             .height = options->height / unit,
                             .colormap = options->colormap};
}

/* Leaves out, and tells of, the runs that a heatmap cannot show. */
static es_status choose_runs(es_drawing *drawing, size_t *n_failed,
                             es_picture_kind kind,
                             const es_run_summary *const *runs, size_t n)
{
    drawing->runs = es_resize(NULL, n, sizeof(es_run_summary *));
    if (!drawing->runs)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", n);
    for (size_t i = 0; i < n; i++) {
        es_status status =
            kind == ES_PICTURE_HEATMAP ? es_heatmap_fits(runs[i]) : ES_OK;
        if (status == ES_OK) {
            drawing->runs[drawing->n++] = runs[i];
            continue;
        }
        if (++*n_failed == n)
            return status;
        es_print_note("%s", es_message());
    }
    return drawing->n ? ES_OK : es_fail(ES_EARGUMENT, "no run to draw");
}

es_status es_scan_draw(size_t *n_failed, const es_scan_options *options,
                       es_picture_kind kind, const es_run_summary *const *runs,
                       size_t n)
{
    char note[512], axis[256];
    es_picture *picture = NULL;
    es_drawing drawing = {
        .options = options,
        .style = style_of(options, options->pictures[kind].format)};
    *n_failed = 0;
    es_status status = choose_runs(&drawing, n_failed, kind, runs, n);
    if (status == ES_OK) {
        print_max(note, sizeof note, &drawing);
        print_axis(axis, sizeof axis, drawing.runs[0]);
        drawing.note = note;
        drawing.axis = axis;
        status = kind == ES_PICTURE_HEATMAP
                     ? es_scan_heatmap(&picture, &drawing)
                     : es_scan_curves(&picture, &drawing);
    }
    if (status == ES_OK)
        status = write_picture(picture, &drawing, kind);
    es_picture_free(picture);
    free(drawing.runs);
    return status;
}
