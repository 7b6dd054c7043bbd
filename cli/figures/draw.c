/*
 * Makes picture files from runs: selects the runs that a figure can show, draws
 * the figure, and writes it with notes.
 */
#include "cli/figures/drawing.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "render/cells.h"
#include "render/figures/axis.h"
#include "store/run_place.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum number of different values of m (the largest entropy) in a note. */
#define M_MOST 12

/* --- notes of the picture --------------------------------------------------*/

enum { NOTES_A_RUN = 3, NOTES_OF_ALL = 4, NOTE_MAX = 256 };

/* Adds a note, which is metadata stored in the picture file. Values from run
 * files are escaped, because programs print such metadata on terminals. */
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

/* Width of a page that every figure fits into, in points. A page for a narrower
 * terminal is drawn in this width and scaled. */
#define LEAST_TEXT_WIDTH 234.0

static bool fits_terminal(const es_figure_options *options)
{
    return options->medium == ES_MEDIUM_SCREEN && !(options->width > 0);
}

es_status es_figure_write(const es_picture *picture, FILE *out,
                          es_format format, const es_figure_options *options,
                          const es_picture_note *notes, size_t n_notes)
{
    if (format != ES_FORMAT_TEXT)
        return es_picture_write(picture, out, format, ES_PIXELS_A_POINT, notes,
                                n_notes);
    return es_cells_print(
        picture, out, fits_terminal(options) ? options->columns : 0,
        es_print_has_colour(out) ? options->depth : ES_DEPTH_ASCII);
}

/* Writes one picture, or n pictures as the pages of a PDF, together with the
 * notes (metadata) of a drawing. */
static es_status write_pictures(const char *path,
                                const es_picture *const *pictures, size_t n,
                                es_format format, es_drawing *drawing,
                                const es_figure_job *job)
{
    size_t most = drawing->n * NOTES_A_RUN + NOTES_OF_ALL;
    es_picture_note *notes;
    char(*texts)[NOTE_MAX];
    bool piped = strcmp(path, "-") == 0;
    es_output *output = NULL;
    FILE *stream;
    es_status status;
    if ((status = es_drawing_array(drawing, &notes, most)) < 0 ||
        (status = es_drawing_array(drawing, &texts, most)) < 0 ||
        (status = es_output_check_text(path, job->inputs, job->n_inputs)) < 0)
        return status;
    if (piped && isatty(STDOUT_FILENO) && format != ES_FORMAT_TEXT)
        return es_fail(ES_EUSAGE, "standard output is a terminal: a picture "
                                  "needs a file or a pipe");
    if ((status = es_output_open(&output, &stream, path)) < 0)
        return status;
    const size_t n_notes = make_notes(notes, texts, drawing);
    status = n > 1 ? es_pictures_write_pdf(pictures, n, stream, notes, n_notes)
                   : es_figure_write(pictures[0], stream, format, job->options,
                                     notes, n_notes);
    if (status < 0) {
        es_output_abandon(output);
        return es_fail(status, "%s: %s", path, es_message());
    }
    if ((status = es_output_close(output)) == ES_OK && !job->quiet && !piped)
        es_print_note("%s written", path);
    return status;
}

/* Makes the file name of a figure, such as "run-heatmap.png", in the requested
   folder if one is given. The name begins with the name of the run file, never
   with a run name stored inside the file. */
static es_status name_file(char out[PATH_MAX], const es_figure_job *job,
                           es_figure_kind kind)
{
    const char *input = job->inputs[0], *folder = job->options->folder;
    /* The query string of a database URL is not part of the database's name. */
    const bool is_url = es_path_is_url(input);
    const size_t n_input = is_url ? strcspn(input, "?") : strlen(input);
    const char *slash = memrchr(input, '/', n_input);
    const char *base = slash ? slash + 1 : input;
    const char *dot = is_url ? NULL : strrchr(base, '.');
    int n = (int)(dot && dot != base ? dot - base : input + n_input - base);
    bool composite = (int)kind == ES_FIGURE_COMPOSITE;
    const char *name =
        composite ? job->options->composite : es_figure_name(kind);
    size_t n_name = composite ? job->options->n_composite : strlen(name);
    int needed =
        snprintf(out, PATH_MAX, "%s%s%.*s-%.*s.%s", folder ? folder : "",
                 folder ? "/" : "", n, base, (int)n_name, name,
                 es_format_name(job->options->pictures[kind].format));
    if (needed >= PATH_MAX)
        return es_fail(ES_EUSAGE, "%.80s...: file name too long", out);
    if (folder && mkdir(folder, 0777) != 0 && errno != EEXIST)
        return es_fail(ES_EIO, "%s: cannot create the folder: %s", folder,
                       strerror(errno));
    return ES_OK;
}

/* A PDF document that contains several figures as pages. */
typedef struct document {
    const es_picture **pages; /* (n) owned */
    size_t n;
    es_drawing first; /* drawing of the first page, which provides the notes */
} document;

/*
 * Writes the picture to its file, or appends it to the PDF document if there is
 * one. The document then owns the picture, and *picture becomes NULL; with the
 * first page the document also becomes the owner of the drawing, and *drawing
 * becomes empty.
 */
static es_status put_picture(document *to, es_picture **picture,
                             es_drawing *drawing, const es_figure_job *job,
                             es_figure_kind kind)
{
    const es_picture_request *request = &job->options->pictures[kind];
    char name[PATH_MAX] = "";
    es_status status;
    if (request->file || !job->options->document) {
        if (!request->file && (status = name_file(name, job, kind)) < 0)
            return status;
        return write_pictures(request->file ? request->file : name,
                              &(const es_picture *){*picture}, 1,
                              request->format, drawing, job);
    }
    if ((status =
             es_grow(&to->pages, to->n + 1, sizeof(es_picture *), "pages")) < 0)
        return status;
    if (to->n == 0) {
        to->first = *drawing;
        *drawing = (es_drawing){.n = 0};
    }
    to->pages[to->n++] = *picture;
    *picture = NULL;
    return ES_OK;
}

/* --- the runs of a picture ------------------------------------------------*/

es_figure_style es_figures_style(const es_figure_options *options,
                                 es_format format)
{
    /* height of the text area of a paper in points (nine inches) */
    enum { TEXT = 648 };
    static const es_figure_style media[] = {
        [ES_MEDIUM_SCREEN] = {.width = 0},
        [ES_MEDIUM_COLUMN] = {.width = 234, .tallest = TEXT},
        [ES_MEDIUM_PAGE] = {.width = 486, .tallest = TEXT},
        [ES_MEDIUM_SLIDE] = {.width = 480, .height = 270, .zoom = 2},
        [ES_MEDIUM_ICML] = {.width = 234, .tallest = TEXT},
        [ES_MEDIUM_NEURIPS] = {.width = 396, .tallest = TEXT}};
    es_figure_style style = media[options->medium];
    const bool text = format == ES_FORMAT_TEXT;
    const double page =
        format == ES_FORMAT_PNG && !options->in_points ? ES_PIXELS_A_POINT : 1;
    double across = page, down = page; /* units per point in which the size is
                                          requested */
    if (text && !options->in_points) {
        across = 1 / ES_CELL_WIDTH;
        down = 1 / ES_CELL_HEIGHT;
    }
    if (text && fits_terminal(options))
        style.width = fmax(ES_CELL_WIDTH * options->columns, LEAST_TEXT_WIDTH);
    /* Set the zoom that gives letters of the requested size, and keep the page
     * size. */
    if (options->letters_size > 0) {
        const double before = style.zoom > 0 ? style.zoom : 1;
        style.zoom = options->letters_size / ES_LABEL_SIZE;
        style.width *= before / style.zoom;
        style.height *= before / style.zoom;
        style.tallest *= before / style.zoom;
    }
    const double zoom = style.zoom > 0 ? style.zoom : 1;
    style.title = options->title;
    style.colormap = options->colormap;
    style.theme =
        text && !options->theme_given ? ES_THEME_DARK : options->theme;
    style.letters = options->letters;
    if (options->width > 0) { /* divide by the zoom, so that the requested size
                                 stays the same */
        style.width = options->width / across / zoom;
        style.height = options->height / down / zoom;
    }
    return style;
}

/* The error messages printed so far, which are kept so that the problems of a
 * file are not reported again by every figure. */
typedef struct reports {
    char **messages;
    size_t n;
} reports;

/* Prints the current error message (es_message) unless the same message was
 * printed before. */
static void report(reports *printed)
{
    const char *message = es_message();
    for (size_t i = 0; i < printed->n; i++)
        if (strcmp(printed->messages[i], message) == 0)
            return;
    es_print_note("%s", message);
    /* If strdup fails, the message may appear twice, which is harmless. */
    char *copy = strdup(message);
    if (copy && es_grow(&printed->messages, printed->n + 1, sizeof copy,
                        "messages") == ES_OK)
        printed->messages[printed->n++] = copy;
    else
        free(copy);
}

static bool is_over_steps(es_figure_kind kind)
{
    return kind == ES_FIGURE_CURVES || kind == ES_FIGURE_NANS ||
           kind == ES_FIGURE_SLOPES || kind == ES_FIGURE_LOSS ||
           kind == ES_FIGURE_VALUES || kind == ES_FIGURE_RASTER ||
           kind == ES_FIGURE_TIMELINE;
}

/* Returns ES_OK if the figure can show the run; ES_ENOTFOUND if it cannot, or
 * if the run ends before the range of --steps. */
static es_status fit(es_figure_kind kind, const es_run_summary *run,
                     const es_step_range *steps)
{
    const int64_t first = steps->first;
    es_status status = es_figure_fit(kind, run);
    if (status == ES_OK && steps->given && is_over_steps(kind) &&
        run->last_step != ES_UNKNOWN && run->last_step < first)
        return es_fail(ES_ENOTFOUND,
                       "%s: the last step is %lld, but --steps begins at %lld",
                       run->path, (long long)run->last_step, (long long)first);
    return status;
}

/* Selects the runs that the figure can show, and reports each run that it
 * cannot show; if `printed` is NULL, returns the error of the first such run
 * instead and does not use `n_failed`. Under --all, runs that lack the figure's
 * series are left out silently. */
static es_status choose_runs(es_drawing *drawing, size_t *n_failed,
                             reports *printed, const es_figure_job *job,
                             es_figure_kind kind,
                             const es_picture_request *request)
{
    size_t n_left_out = 0;
    es_status status =
        es_drawing_alloc(drawing, &drawing->runs, job->n, sizeof(void *));
    if (status < 0)
        return status;
    for (size_t i = 0; i < job->n; i++) {
        status = fit(kind, job->runs[i], &job->options->steps);
        if (status == ES_OK) {
            drawing->runs[drawing->n++] = job->runs[i];
            continue;
        }
        if (++n_left_out == job->n)
            return status;
        if (status == ES_ENOTFOUND && !request->by_name)
            continue;
        if (!printed)
            return status;
        report(printed);
        ++*n_failed;
    }
    if (drawing->n && job->options->group == ES_GROUP_SEED &&
        es_figure_groups(kind) &&
        (status = es_drawing_group(drawing, job->runs, job->n)) < 0)
        return status;
    return drawing->n
               ? es_run_labels_make(&drawing->labels, drawing->runs, drawing->n)
               : es_fail(ES_EARGUMENT, "no runs to draw");
}

/* Selects the runs of a figure, and writes the note with m, the largest
 * entropy, at which bands and colours end. The caller must call end() on the
 * drawing, even after an error. */
static es_status begin(es_drawing *drawing, size_t *n_failed, reports *printed,
                       const es_figure_job *job, es_figure_kind kind,
                       const es_picture_request *request)
{
    *drawing =
        (es_drawing){.options = job->options,
                     .baseline = job->baseline,
                     .n_unread = job->n_unread,
                     .style = es_figures_style(job->options, request->format)};
    es_status status =
        choose_runs(drawing, n_failed, printed, job, kind, request);
    if (status < 0)
        return status;
    const es_run_summary *first = drawing->runs[0];
    bool same = true;
    for (size_t i = 1; i < drawing->n; i++)
        same = same && (drawing->runs[i]->m == first->m ||
                        (isnan(drawing->runs[i]->m) && isnan(first->m)));
    es_text to = es_text_begin(drawing->note, sizeof drawing->note);
    es_text_append(&to, "max = ");
    for (size_t i = 0; i < (same || drawing->n > M_MOST ? 1 : drawing->n);
         i++) {
        char m[32] = "unknown"; /* stays "unknown" if no value is finite */
        if (!isnan(drawing->runs[i]->m))
            snprintf(m, sizeof m, "%.4g", drawing->runs[i]->m);
        es_label_typeset(m, sizeof m);
        es_text_append(&to, "%s%s", i ? ", " : "", m);
    }
    es_text_append(&to, "%s (%s)", !same && drawing->n > M_MOST ? ", ..." : "",
                   es_max_name(first->max.policy));
    bool unit = first->unit && *first->unit;
    const char *symbol = es_symbol_of(first->series);
    snprintf(drawing->axis, sizeof drawing->axis, unit ? "%s (%s)" : "%s",
             symbol ? symbol : first->series, first->unit);
    return ES_OK;
}

static void end(es_drawing *drawing)
{
    es_drawing_clear(drawing);
    es_run_labels_free(&drawing->labels);
}

/* Draws the composite page, which contains several figures (--figure A+B). The
 * caller must call end() on all options->n_parts drawings, even after an
 * error. */
static es_status draw_composite(es_picture **out,
                                es_drawing drawings[ES_COMPOSITE_MOST],
                                size_t *n_failed, reports *printed,
                                const es_figure_job *job,
                                const es_picture_request *request)
{
    const es_figure_options *options = job->options;
    es_status status = ES_OK;
    for (size_t i = 0; i < options->n_parts && status == ES_OK; i++)
        status = begin(&drawings[i], n_failed, printed, job, options->parts[i],
                       request);
    return status == ES_OK
               ? es_composite_draw_runs(out, drawings, options->parts,
                                        options->n_parts)
               : status;
}

es_status es_figure_draw_runs(es_picture **out, es_figure_kind kind,
                              const es_figure_job *job, es_format format)
{
    const es_picture_request request = {.wanted = true, .format = format};
    es_drawing drawings[ES_COMPOSITE_MOST] = {{.n = 0}};
    es_status status;
    if ((int)kind == ES_FIGURE_COMPOSITE)
        status = draw_composite(out, drawings, NULL, NULL, job, &request);
    else if ((status = begin(&drawings[0], NULL, NULL, job, kind, &request)) ==
             ES_OK)
        status = es_figure_entries[kind].draw(out, &drawings[0]);
    for (size_t i = 0; i < ES_COMPOSITE_MOST; i++)
        end(&drawings[i]);
    return status;
}

static es_status make(document *to, size_t *n_failed, reports *printed,
                      const es_figure_job *job, es_figure_kind kind)
{
    const es_picture_request *request = &job->options->pictures[kind];
    es_picture *picture = NULL;
    es_drawing drawing;
    es_status status = begin(&drawing, n_failed, printed, job, kind, request);
    if (status == ES_OK &&
        (status = es_figure_entries[kind].draw(&picture, &drawing)) == ES_OK)
        status = put_picture(to, &picture, &drawing, job, kind);
    if (status == ES_ENOTFOUND && !request->by_name) {
        if (!job->quiet)
            es_print_note("%s not drawn: %s", es_figure_name(kind),
                          es_message());
        status = ES_OK;
    }
    es_picture_free(picture);
    end(&drawing);
    return status;
}

static es_status make_composite(document *to, size_t *n_failed,
                                reports *printed, const es_figure_job *job)
{
    const es_figure_options *options = job->options;
    const int kind = ES_FIGURE_COMPOSITE;
    es_picture *picture = NULL;
    es_drawing drawings[ES_COMPOSITE_MOST] = {{.n = 0}};
    es_status status = draw_composite(&picture, drawings, n_failed, printed,
                                      job, &options->pictures[kind]);
    if (status == ES_OK)
        status =
            put_picture(to, &picture, &drawings[0], job, (es_figure_kind)kind);
    es_picture_free(picture);
    for (size_t i = 0; i < options->n_parts; i++)
        end(&drawings[i]);
    return status;
}

static es_status end_document(document *to, const es_figure_job *job)
{
    es_status status = ES_OK;
    if (to->n)
        status = write_pictures(job->options->document, to->pages, to->n,
                                ES_FORMAT_PDF, &to->first, job);
    for (size_t i = 0; i < to->n; i++)
        es_picture_free((es_picture *)to->pages[i]);
    free(to->pages);
    end(&to->first);
    return status;
}

es_status es_figures_make(size_t *n_failed, const es_figure_job *job)
{
    es_status first = ES_OK;
    reports printed = {NULL, 0};
    document pages = {.n = 0};
    *n_failed = 0;
    for (int i = 0; i < ES_N_PICTURES && job->n; i++) {
        size_t n = 0;
        if (!job->options->pictures[i].wanted)
            continue;
        es_status status =
            i == ES_FIGURE_COMPOSITE
                ? make_composite(&pages, &n, &printed, job)
                : make(&pages, &n, &printed, job, (es_figure_kind)i);
        if (status == ES_OK) {
            *n_failed += n;
            continue;
        }
        report(&printed);
        first = first == ES_OK ? status : first;
    }
    const es_status status = end_document(&pages, job);
    if (status != ES_OK) {
        report(&printed);
        first = first == ES_OK ? status : first;
    }
    for (size_t i = 0; i < printed.n; i++)
        free(printed.messages[i]);
    free(printed.messages);
    return first;
}
