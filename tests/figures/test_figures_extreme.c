/*
 * Draws every figure from runs with extreme shapes, values or names. Pictures
 * of the default size are compared with golden pictures. In pictures of any
 * size, texts must not overlap and all coordinates must be finite.
 */
#include "cli/figures/drawing.h"
#include "render/cells.h"
#include "tests/support/pictures.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

/* Classes of extreme runs: extreme shapes, extreme values, extreme names. A
 * figure has golden pictures for the first class, the first two or all three,
 * depending on which runs can change it. All other checks use every extreme
 * run. */
typedef enum scope { SHAPES, VALUES, NAMES } scope;

static const struct {
    const char *name;
    size_t n_runs; /* number of runs shown */
    /* the figure has golden pictures for this class of extreme runs and all
     * earlier classes */
    scope goes_by;
} figures[] = {
    {"heatmap", 1, NAMES},   {"curves", 1, NAMES},      {"delta", 2, VALUES},
    {"bands", 2, NAMES},     {"thresholds", 1, VALUES}, {"nans", 1, VALUES},
    {"scales", 2, VALUES},   {"slopes", 1, VALUES},     {"loss", 2, NAMES},
    {"flops", 2, SHAPES},    {"pareto", 2, VALUES},     {"raster", 1, VALUES},
    {"timeline", 1, VALUES}, {"overview", 2, NAMES},    {"values", 2, VALUES},
};

enum { N_CHECKED = sizeof figures / sizeof *figures };

/* --- runs -----------------------------------------------------------------*/

/* A function that returns the value of head or layer i (of n) at a step. */
typedef float value_of(int64_t step, size_t i, size_t n);

typedef struct extreme {
    scope scope;       /* class of the run's extreme property */
    const char *label; /* part of the names of the golden pictures */
    int64_t n_layers, n_heads, n_steps;
    value_of *value;
    const char *name; /* name of the run; NULL: the figure shows the
                         architecture instead */
} extreme;

static float ordinary(int64_t step, size_t i, size_t n)
{
    double at = (double)i / (double)n;
    return (float)(0.3 + 2.5 * fabs(sin(7 * at + 1)) +
                   0.9 * exp(-(double)step / 20));
}

/* Returns a value of the second run in a figure. */
static float other(int64_t step, size_t i, size_t n)
{
    return ordinary(step, n - 1 - i, n);
}

static float all_nan(int64_t step, size_t i, size_t n)
{
    (void)step, (void)i, (void)n;
    return NAN;
}

static float one_nan(int64_t step, size_t i, size_t n)
{
    return step == 39 && i == n / 2 ? NAN : ordinary(step, i, n);
}

/* Returns a value of a long run, in which a single sample has a dip. */
static float long_run(int64_t step, size_t i, size_t n)
{
    if (step == 61234 && i == 0)
        return 0.01f;
    return ordinary(step / 500, i, n) +
           0.1f * (float)sin((double)(step * step));
}

static float constant(int64_t step, size_t i, size_t n)
{
    (void)step, (void)i, (void)n;
    return 1.75f;
}

static float huge(int64_t step, size_t i, size_t n)
{
    return (i + (size_t)step) % 2 ? FLT_MAX : -FLT_MAX / (float)(n + 1);
}

static float denormal(int64_t step, size_t i, size_t n)
{
    (void)n;
    return (float)(i + 1 + (size_t)step) * 1e-45f;
}

static float infinite(int64_t step, size_t i, size_t n)
{
    static const float kinds[] = {INFINITY, -INFINITY, NAN};
    if ((i + (size_t)step) % 5 == 3)
        return es_missing();
    return (i + (size_t)step) % 2 ? kinds[i % 3] : ordinary(step, i, n);
}

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN

static const extreme extremes[] = {
    {SHAPES, "1x1", 1, 1, 40, ordinary, NULL},
    {SHAPES, "1x128", 1, 128, 40, ordinary, NULL},
    {SHAPES, "96x1", 96, 1, 40, ordinary, NULL},
    {SHAPES, "96x128", 96, 128, 40, ordinary, NULL},
    {VALUES, "all_nan", 5, 7, 40, all_nan, NULL},
    {VALUES, "one_nan", 5, 7, 40, one_nan, NULL},
    {VALUES, "one_step", 5, 7, 1, ordinary, NULL},
    {VALUES, "long", 3, 2, 100000, long_run, NULL},
    {VALUES, "constant", 5, 7, 40, constant, NULL},
    {VALUES, "huge", 5, 7, 40, huge, NULL},
    {VALUES, "denormal", 5, 7, 40, denormal, NULL},
    {VALUES, "infinite", 5, 7, 40, infinite, NULL},
    {NAMES, "name_200", 2, 3, 40, ordinary, FIFTY FIFTY FIFTY FIFTY},
    {NAMES, "name_emoji", 2, 3, 40, ordinary,
     "\xf0\x9f\x94\xa5 hot \xf0\x9f\xa7\xa0\xf0\x9f\x91\xa9\xe2\x80\x8d"
     "\xf0\x9f\x92\xbb"},
    {NAMES, "name_right_to_left", 2, 3, 40, ordinary,
     "\xd8\xaa\xd8\xac\xd8\xb1\xd8\xa8\xd8\xa9 7 \xd7\xa9\xd7\x9c\xd7\x95"
     "\xd7\x9d"},
    {NAMES, "name_control", 2, 3, 40, ordinary,
     "a\x1b[31mred\x1b[0m\tb\nc\x7f\xc2\x9b"
     "1m\r\x01<b>&amp;"},
};

enum { N_EXTREMES = sizeof extremes / sizeof *extremes };

static void record(es_recorded *to, const extreme *e, const char *name,
                   int64_t step, size_t n)
{
    static float values[96 * 128];
    bool counts = strcmp(name, "nan_activations") == 0;
    for (size_t i = 0; i < n; i++) {
        values[i] = e->value(step, i, n);
        if (counts && fabsf(values[i]) < 1e6f)
            values[i] = roundf(1000 * values[i]);
    }
    es_record_sample(to, name, ES_PHASE_TRAIN, step, values, n);
    if (strcmp(name, "loss") == 0 && step % 10 == 0)
        es_record_sample(to, name, ES_PHASE_EVAL, step, values, n);
}

/* Records a run with every series that any figure reads. */
static void write_run(const char *path, const extreme *e, const char *name,
                      const char *arch)
{
    es_run_info info = es_run_of(e->n_layers, e->n_heads);
    size_t n_layers = (size_t)e->n_layers;
    size_t n_values = n_layers * (size_t)e->n_heads;
    info.name = name ? name : "a run";
    info.arch = arch;
    info.ctx = 128;
    /* Imported runs are judged for flags even if they are short. */
    info.program = "entropy-scan import 1";
    info.d_model = 64 * e->n_heads;
    es_recorded to = es_record(path, &info);
    es_assert_ok(es_writer_begin(to.writer));
    for (int64_t step = 0; step < e->n_steps; step++) {
        record(&to, e, "entropy", step, n_values);
        record(&to, e, "loss", step, 1);
        record(&to, e, "lr", step, 1);
        if (e->n_steps > 1000 && step % 100 != 0)
            continue;
        record(&to, e, "theta", step, n_values);
        record(&to, e, "alpha", step, n_layers);
        record(&to, e, "beta", step, n_layers);
        record(&to, e, "slope", step, n_layers);
        record(&to, e, "nan_activations", step, n_layers);
    }
    es_assert_ok(es_writer_commit(to.writer));
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
}

/* --- figures --------------------------------------------------------------*/

/* A run with an extreme property, and an ordinary run of the same shape. */
typedef struct pair {
    const extreme *extreme;
    es_run_summary *runs[2];
} pair;

static pair make_pair(void **state, const extreme *e)
{
    extreme second = *e;
    pair p = {.extreme = e};
    char name[64];
    second.value = other;
    second.n_steps = e->n_steps < 40 ? e->n_steps : 40;
    snprintf(name, sizeof name, "%s.db", e->label);
    write_run(es_folder_file(state, name), e, e->name,
              e->name ? NULL : "EReg(SM(t)+ScFuFFNi6)");
    p.runs[0] = es_loaded_run(es_folder_file(state, name), 0);
    snprintf(name, sizeof name, "%s-other.db", e->label);
    write_run(es_folder_file(state, name), &second, "an ordinary one",
              "SM+LN+G");
    p.runs[1] = es_loaded_run(es_folder_file(state, name), 0);
    double observed = es_peak_of(p.runs[0]->peak, p.runs[1]->peak);
    for (size_t i = 0; i < 2; i++)
        es_summary_set_max(p.runs[i], observed);
    return p;
}

static void free_pair(pair *p)
{
    es_summary_free(p->runs[0]);
    es_summary_free(p->runs[1]);
}

static const es_figure_entry *entry_of(const char *name)
{
    for (int kind = 0; kind < ES_N_FIGURES; kind++)
        if (strcmp(es_figure_name((es_figure_kind)kind), name) == 0)
            return &es_figure_entries[kind];
    return NULL;
}

static es_status draw(es_picture **out, const pair *p, size_t figure,
                      es_figure_style style)
{
    const es_figure_entry *entry = entry_of(figures[figure].name);
    const es_run_summary *runs[2] = {p->runs[0], p->runs[1]};
    es_figure_options options = {.width = 0};
    es_drawing drawing = {.options = &options,
                          .runs = runs,
                          .n = figures[figure].n_runs,
                          .style = style,
                          .note = "max = 3.87 (observed)",
                          .axis = "entropy (nats)"};
    assert_non_null(entry);
    for (size_t i = 0; i < drawing.n; i++) {
        es_status status = entry->fits(runs[i], entry);
        if (status != ES_OK)
            return status;
    }
    es_assert_ok(es_run_labels_make(&drawing.labels, runs, drawing.n));
    es_status status = entry->draw(out, &drawing);
    es_drawing_clear(&drawing);
    es_run_labels_free(&drawing.labels);
    return status;
}

static bool is_golden(es_picture *picture, const pair *p, size_t figure)
{
    char name[64];
    snprintf(name, sizeof name, "extreme_%s_%s", p->extreme->label,
             figures[figure].name);
    return picture && picture_is_golden(picture, name);
}

/* Draws the picture with characters, for every kind of terminal, both at its
 * natural width and 33 columns wide. Returns true if all drawings fit. */
static bool has_cells(const es_picture *picture)
{
    for (int depth = ES_DEPTH_ASCII; depth <= ES_DEPTH_TRUE; depth++)
        for (int columns = 0; columns < 40; columns += 33) {
            es_screen *screen = NULL;
            const es_status status =
                es_cells_draw(&screen, picture, columns, (es_depth)depth);
            const bool fits =
                status == ES_OK && (!columns || screen->width <= columns);
            es_screen_free(screen);
            if (!fits)
                return false;
        }
    return true;
}

/* Checks a figure of a pair of runs. Drawing the figure may fail only if the
 * page is too small or if the run lacks an architecture that the figure needs.
 * If `golden` is true, also compares the picture with the golden picture. */
static bool is_sound(const pair *p, size_t figure, es_figure_style style,
                     bool golden)
{
    es_picture *picture = NULL;
    es_status status = draw(&picture, p, figure, style);
    bool sound = status == ES_EUSAGE ||
                 (status == ES_ENOTFOUND && p->extreme->name) ||
                 (status == ES_OK && picture_is_finite(picture) &&
                  picture_texts_are_apart(picture) &&
                  (style.zoom > 0 || has_cells(picture)));
    if (!sound)
        fprintf(stderr, "%s of %s at %gx%g: %s\n", figures[figure].name,
                p->extreme->label, style.width, style.height,
                status == ES_OK ? "not sound" : es_message());
    if (golden)
        sound = is_golden(picture, p, figure) && sound;
    es_picture_free(picture);
    return sound;
}

TEST(extreme_runs_are_drawn_soundly)
{
    static const es_figure_style styles[] = {
        {.width = 0},
        {.width = 234},
        {.width = 486, .theme = ES_THEME_DARK},
        {.width = 480, .height = 270, .zoom = 2, .title = "A slide"},
    };
    bool good = true;
    for (size_t i = 0; i < N_EXTREMES; i++) {
        pair p = make_pair(state, &extremes[i]);
        for (size_t figure = 0; figure < N_CHECKED; figure++) {
            const bool golden = p.extreme->scope <= figures[figure].goes_by;
            for (size_t s = 0; s < sizeof styles / sizeof *styles; s++)
                if (!SANITIZED || s != 1)
                    good = is_sound(&p, figure, styles[s], golden && s == 0) &&
                           good;
        }
        free_pair(&p);
    }
    assert_true(good);
}

TEST_EACH(es_folder_make, es_folder_remove)
