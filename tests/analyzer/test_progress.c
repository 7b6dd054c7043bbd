/**
 * Tests the progress line: its text, its output on a terminal, and that nothing
 * is drawn on outputs that cannot redraw a line.
 */
#include "analyzer/base/kernel.h"
#include "analyzer/base/progress.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <math.h>
#include <sys/ioctl.h>
#include <termios.h>

TEST(the_line_shows_amount_rate_and_time_left)
{
    static const struct {
        const char *unit;
        uint64_t total, done;
        double seconds;
        const char *line;
    } cases[] = {
        {"files", 300, 0, 0, "x: 0 of 300 files"},
        {"files", 300, 0, 9, "x: 0 of 300 files"},
        {"files", 300, 30, 2, "x: 30 of 300 files, 15 files/s, 18s left"},
        {"files", 3, 1, 200, "x: 1 of 3 files, 0.005 files/s, 6m40s left"},
        {"files", 0, 30, 2, "x: 30 files, 15 files/s"},
        {"files", 300, 300, 2, "x: 300 of 300 files, 150 files/s, 0s left"},
        /* Files were added after the total was determined. */
        {"files", 300, 301, 2, "x: 301 of 300 files, 150 files/s"},
        {ES_PROGRESS_BYTES, 40000000, 12340000, 1.5,
         "x: 12.3 of 40.0 MB, 8.23 MB/s, 3s left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[128];
        es_progress progress = {
            .name = "x", .unit = cases[i].unit, .total = cases[i].total};
        assert_string_equal(es_progress_print(line, sizeof line, &progress,
                                              cases[i].done, cases[i].seconds),
                            cases[i].line);
    }
}

TEST(durations_are_printed_in_two_units)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0s"},        {59.4, "59s"},     {59.5, "1m00s"},
                 {185, "3m05s"},   {3600, "1h00m"},   {86399, "23h59m"},
                 {86400, "1d00h"}, {1e8, "1157d09h"}, {NAN, "-"},
                 {INFINITY, "-"},  {-1, "-"},         {1e300, "-"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[ES_DURATION_MAX];
        assert_string_equal(es_duration_print(text, cases[i].seconds),
                            cases[i].text);
    }
}

#define GREEK "\xce\xb1\xce\xb2" /* two letters */

/* Opens both ends of a raw pseudo-terminal of 30 columns, which does not change
   any byte. */
static FILE *open_terminal(int *screen)
{
    const struct winsize size = {.ws_col = 30, .ws_row = 10};
    struct termios raw;
    *screen = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(*screen >= 0);
    assert_int_equal(grantpt(*screen) | unlockpt(*screen), 0);
    int fd = open(ptsname(*screen), O_RDWR | O_NOCTTY);
    assert_true(fd >= 0);
    assert_int_equal(tcgetattr(fd, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    return fdopen(fd, "w");
}

/* Reads all output from the terminal, which the kernel may deliver in parts. */
static const char *read_screen(char *out, size_t size, int screen)
{
    size_t n = 0;
    for (ssize_t more; (more = read(screen, out + n, size - 1 - n)) > 0;)
        n += (size_t)more;
    out[n] = '\0';
    return out;
}

TEST(a_line_is_cut_to_the_terminal_and_removed)
{
    char text[256];
    int screen;
    es_progress progress;
    setenv("TERM", "xterm", 1);
    FILE *terminal = open_terminal(&screen);
    es_progress_begin(&progress, terminal, "a name of many letters", "files",
                      7);
    es_progress_show(&progress, 1);
    read_screen(text, sizeof text, screen);
    assert_memory_equal(text, "\ra name of many letters: 1 of ", 30);
    es_progress_draw(&progress, GREEK "34567890123456789012345678901234");
    assert_string_equal(read_screen(text, sizeof text, screen),
                        "\r" GREEK "345678901234567890123456789\033[K");
    es_progress_wipe(&progress);
    es_progress_wipe(&progress);
    assert_string_equal(read_screen(text, sizeof text, screen), "\r\033[K");
    es_progress_draw(&progress, "again");
    es_progress_end(&progress);
    es_progress_draw(&progress, "never");
    es_progress_show(&progress, 2);
    assert_string_equal(read_screen(text, sizeof text, screen),
                        "\ragain\033[K\r\033[K");
    fclose(terminal);
    close(screen);
}

TEST(the_line_is_drawn_at_most_ten_times_a_second)
{
    char text[4096];
    int screen, n_drawn = 0;
    es_progress progress;
    setenv("TERM", "xterm", 1);
    FILE *terminal = open_terminal(&screen);
    es_progress_begin(&progress, terminal, "x", "files", 9);
    es_progress_show(&progress, 1);
    read_screen(text, sizeof text, screen);
    assert_memory_equal(text, "\rx: 1 of 9", 10);
    /* Simulate that the line was drawn in the far future. */
    progress.shown += ES_FOR_EVER_MS;
    es_progress_show(&progress, 2);
    assert_false(es_progress_is_due(&progress));
    assert_string_equal(read_screen(text, sizeof text, screen), "");
    progress.shown = es_now_ms() - 100;
    es_progress_show(&progress, 3);
    read_screen(text, sizeof text, screen);
    assert_memory_equal(text, "\rx: 3 of 9", 10);
    for (int i = 0; i < 100; i++)
        es_progress_show(&progress, 4);
    read_screen(text, sizeof text, screen);
    for (const char *at = text; (at = strchr(at, '\r')); at++)
        n_drawn++;
    assert_true(n_drawn < 100); /* the line was drawn fewer times than
                                   es_progress_show was called */
    fclose(terminal);
    close(screen);
}

TEST(nothing_is_drawn_where_a_line_cannot_be_redrawn)
{
    char text[256];
    int screen;
    es_progress progress;
    FILE *terminal = open_terminal(&screen);
    FILE *file = tmpfile();
    setenv("TERM", "dumb", 1);
    assert_false(es_progress_suits(terminal));
    unsetenv("TERM");
    assert_false(es_progress_suits(terminal));
    setenv("TERM", "xterm", 1);
    assert_true(es_progress_suits(terminal));
    FILE *const outs[] = {file, NULL};
    for (int i = 0; i < 2; i++) {
        es_progress_begin(&progress, outs[i], "x", "files", 3);
        es_progress_show(&progress, 1);
        es_progress_draw(&progress, "text");
        es_progress_end(&progress);
    }
    assert_int_equal(ftell(file), 0);
    assert_string_equal(read_screen(text, sizeof text, screen), "");
    fclose(file);
    fclose(terminal);
    close(screen);
}
