/* Tests that drawing fails with an error, and never crashes, if memory runs
 * out. */
#include "render/figures/curves.h"
#include "render/figures/heatmap.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void limit_memory(size_t more)
{
    size_t pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    if (!in || fscanf(in, "%zu", &pages) != 1)
        _exit(99);
    fclose(in);
    size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    const struct rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(99);
}

static es_status draw_heatmap(es_picture **out)
{
    static float values[48 * 64];
    for (int i = 0; i < 48 * 64; i++)
        values[i] = (float)i / 800.0f;
    values[7] = NAN;
    const es_heatmap_panel panel = {"SM+LN+G", "step 400", values, 48, 64};
    const es_heatmap figure = {.panels = &panel,
                               .n_panels = 1,
                               .high = 3.87,
                               .scale_text = "entropy (nats)",
                               .note = "a note"};
    return es_heatmap_draw(out, &figure);
}

static es_status draw_curves(es_picture **out)
{
    static int64_t steps[5000];
    static float values[5000];
    es_curve curves[24];
    for (int i = 0; i < 5000; i++) {
        steps[i] = i;
        values[i] = (float)(i * 31 % 97);
    }
    for (int i = 0; i < 24; i++)
        curves[i] = (es_curve){
            .label = "layer 1", .x = steps, .values = values, .n = 5000};
    const es_curves_panel panel = {"SM", NULL, curves, 24};
    const es_curves figure = {
        .panels = &panel, .n_panels = 1, .reference = 90, .line_text = "layer"};
    return es_curves_draw(out, &figure);
}

/* Draws in a child process whose memory is limited. Returns the exit code of
 * the child, which is its es_status. */
static int status_with(size_t more, es_status (*draw)(es_picture **),
                       es_format format)
{
    const es_picture_note note = {"Title", "h\xc3\xa9llo"};
    pid_t child = fork();
    if (child == 0) {
        FILE *out = fopen("/dev/null", "wb");
        es_picture *picture = NULL;
        /* Remove the handler of cmocka, so that a crash ends the child. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        limit_memory(more);
        es_status status = draw(&picture);
        if (status == ES_OK)
            status = es_picture_write(picture, out, format, 2, &note, 1);
        _exit(-(int)status);
    }
    int code = -1;
    waitpid(child, &code, 0);
    return WIFEXITED(code) ? -WEXITSTATUS(code) : 1000 + WTERMSIG(code);
}

static void check_limits(es_status (*draw)(es_picture **), es_format format)
{
    size_t n_failed = 0, n_drawn = 0;
    for (size_t more = 0; more < 16u << 20; more += more / 5 + 40000) {
        int status = status_with(more, draw, format);
        if (status != ES_OK && status != ES_ENOMEM)
            fprintf(
                stderr,
                "memory limit %zu bytes above usage, format %d: exit code %d\n",
                more, (int)format, status);
        assert_true(status == ES_OK || status == ES_ENOMEM);
        n_drawn += status == ES_OK;
        n_failed += status == ES_ENOMEM;
    }
    assert_true(n_drawn > 0 && n_failed > 5);
}

TEST(too_little_memory_is_an_error)
{
    if (SANITIZED)
        es_skip("the sanitizer's shadow memory exceeds any limit");
    for (int format = ES_FORMAT_PNG; format <= ES_FORMAT_TEXT; format++) {
        check_limits(draw_heatmap, (es_format)format);
        check_limits(draw_curves, (es_format)format);
    }
}

static bool is_scarce; /* true if draw_measured limits the memory */

static es_status draw_measured(es_picture **out)
{
    static char text[1 << 20];
    const es_color white = {255, 255, 255, 255};
    struct rlimit before, scarce;
    memset(text, 'x', sizeof text - 1);
    if (!(es_text_width("x", 10, ES_WEIGHT_NORMAL) > 0) ||
        getrlimit(RLIMIT_AS, &before) != 0)
        return ES_EINTERNAL;
    scarce = (struct rlimit){1, before.rlim_max};
    if (is_scarce && setrlimit(RLIMIT_AS, &scarce) != 0)
        return ES_EINTERNAL;
    const double width = es_text_width(text, 10, ES_WEIGHT_NORMAL);
    setrlimit(RLIMIT_AS, &before);
    if ((width > 0) == is_scarce)
        return ES_EINTERNAL;
    return es_picture_new(out, 100, 100, white);
}

TEST(a_width_measured_without_memory_fails_the_picture)
{
    if (SANITIZED)
        es_skip("the sanitizer's shadow memory exceeds any limit");
    is_scarce = false;
    assert_int_equal(status_with(64u << 20, draw_measured, ES_FORMAT_SVG),
                     ES_OK);
    is_scarce = true;
    assert_int_equal(status_with(64u << 20, draw_measured, ES_FORMAT_SVG),
                     ES_ENOMEM);
}
