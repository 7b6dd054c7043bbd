/** Compares table, JSON and CSV byte for byte with golden files, and parses
 *  JSON and CSV. */
#include "cli/output/output.h"
#include "cli/runs/json.h"
#include "cli/scan/table.h"
#include "tests/support/golden_text.h"
#include "tests/support/shown.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <sys/wait.h>

AUTO_OF(json_t, json_decref)

static const es_max observed = {.policy = ES_MAX_OBSERVED};
static es_shown shown; /* runs shown by a test */

static int make(void **state)
{
    shown = (es_shown){.max = observed, .observed = NAN};
    return es_folder_make(state);
}

static int clean(void **state)
{
    es_shown_free(&shown);
    return es_folder_remove(state);
}

/* Closes a memory stream and returns its text, which the caller frees. */
static char *close_page(FILE *stream, char **text)
{
    assert_false(ferror(stream));
    assert_int_equal(fclose(stream), 0);
    return *text;
}

static char *print_table(es_table_options options)
{
    es_table *table;
    char *text;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    es_assert_ok(es_table_new(&table, &options));
    for (size_t i = 0; i < shown.n; i++)
        es_assert_ok(es_table_add(table, shown.runs[i]));
    es_assert_ok(es_table_print(table, stream));
    es_table_free(table);
    return close_page(stream, &text);
}

static char *print_json(void)
{
    es_json json;
    char *text;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    es_json_begin(&json, stream, &shown.max, shown.observed);
    for (size_t i = 0; i < shown.n; i++)
        es_json_run(&json, shown.runs[i]);
    es_json_end(&json);
    return close_page(stream, &text);
}

static char *print_csv(void)
{
    char *text;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    es_csv_header(stream);
    for (size_t i = 0; i < shown.n; i++)
        es_assert_ok(es_csv_run(stream, shown.runs[i]));
    return close_page(stream, &text);
}

static void assert_golden(char *text, const char *name)
{
    assert_true(es_text_is_golden(text, name));
    free(text);
}

/* Compares table, JSON and CSV with their golden files. */
static void assert_all_golden(const char *runs)
{
    char table[64], json[64], csv[64];
    snprintf(table, sizeof table, "table_%s.txt", runs);
    snprintf(json, sizeof json, "runs_%s.json", runs);
    snprintf(csv, sizeof csv, "runs_%s.csv", runs);
    assert_golden(print_table((es_table_options){0}), table);
    assert_golden(print_json(), json);
    if (strcmp(runs, "ceiling") != 0)
        assert_golden(print_csv(), csv);
}

TEST(published_models_match_the_golden_files)
{
    es_shown_published(&shown, state, observed);
    assert_all_golden("published");
}

TEST(troubled_runs_match_the_golden_files)
{
    es_shown_troubled(&shown, state, observed);
    assert_all_golden("troubled");
}

TEST(each_run_may_have_its_own_max)
{
    es_shown_troubled(&shown, state, (es_max){ES_MAX_CEILING, 0});
    assert_all_golden("ceiling");
}

TEST(a_narrow_terminal_shortens_names)
{
    es_shown_troubled(&shown, state, observed);
    assert_golden(print_table((es_table_options){.width = 100, .colour = true}),
                  "table_narrow.txt");
}

/* The file column is shown if names do not distinguish the runs. */
TEST(files_are_shown_if_names_are_ambiguous)
{
    es_shown_troubled(&shown, state, observed);
    size_t n = shown.n;
    for (shown.n = 1; shown.n <= 2; shown.n++) {
        AUTO_FREE char *table = print_table((es_table_options){0});
        assert_int_equal(strstr(table, "hostile.db") != NULL, shown.n == 2);
    }
    shown.n = n;
}

/* Control characters in names must not reach a terminal, in any output. */
TEST(names_cannot_steer_a_terminal)
{
    es_shown_troubled(&shown, state, observed);
    char *texts[] = {print_table((es_table_options){.width = 40}),
                     print_table((es_table_options){0}), print_json(),
                     print_csv()};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_null(strchr(texts[i], 033));
        assert_null(strchr(texts[i], '\r'));
        free(texts[i]);
    }
}

/* Checks that each null has a state member next to it, unless the null replaces
   a list, a string or an object. Also checks that the bands count every
   head. */
static void assert_states(json_t *object)
{
    static const char *const others[] = {"arch", "config", "flags"};
    const char *name;
    json_t *member;
    size_t index;
    json_array_foreach(object, index, member) assert_states(member);
    json_object_foreach(object, name, member)
    {
        char state_name[64];
        bool is_other = false;
        snprintf(state_name, sizeof state_name, "%s_state", name);
        const char *said =
            json_string_value(json_object_get(object, state_name));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            is_other = is_other || strcmp(name, others[i]) == 0;
        assert_int_equal(json_is_null(member) && !is_other,
                         said && !json_is_array(member));
        assert_true(!said || !strcmp(said, "nan") || !strcmp(said, "inf") ||
                    !strcmp(said, "-inf") || !strcmp(said, "missing"));
        if (strcmp(name, "config") != 0)
            assert_states(member);
    }
    if ((member = json_object_get(object, "counts"))) {
        double n = json_number_value(json_object_get(object, "nonfinite"));
        for (size_t band = 0; band < 4; band++)
            n += json_number_value(json_array_get(member, band));
        assert_true(n == json_number_value(json_object_get(object, "heads")));
    }
}

static json_t *parse(char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        print_error("line %d: %s\n", error.line, error.text);
    assert_non_null(root);
    free(text);
    return root;
}

TEST(json_is_schema_2)
{
    for (int policy = 0; policy <= ES_MAX_NUMBER; policy++) {
        es_max max = {.policy = (es_max_policy)policy, .number = 1.5};
        es_shown_free(&shown);
        es_shown_troubled(&shown, state, max);
        AUTO(json_t) root = parse(print_json());
        json_t *runs = json_object_get(root, "runs");
        json_t *said = json_object_get(root, "max");
        assert_int_equal(json_integer_value(json_object_get(root, "schema")),
                         2);
        assert_string_equal(json_string_value(json_object_get(said, "policy")),
                            es_max_name(max.policy));
        assert_int_equal(json_array_size(runs), shown.n);
        assert_states(root);
    }
}

/* The configuration is printed as a JSON object. */
TEST(names_and_configurations_come_back_from_json)
{
    es_shown_troubled(&shown, state, observed);
    char *text = print_json();
    size_t index;
    assert_null(strstr(text, "\xc2\x9b")); /* CSI, which begins a control
                                              sequence on a terminal */
    assert_null(strchr(text, 0x7f));
    json_t *root = parse(text), *run;
    json_t *runs = json_object_get(root, "runs");
    json_array_foreach(runs, index, run)
        assert_string_equal(json_string_value(json_object_get(run, "name")),
                            shown.runs[index]->name);
    json_t *config = json_object_get(json_array_get(runs, 0), "config");
    assert_true(json_number_value(json_object_get(config, "lr")) == 1e-3);
    assert_string_equal(json_string_value(json_object_get(config, "name")),
                        "\"x\"\033[31m\xc2\x9b\x7f\xce\xb1");
    assert_true(
        json_is_null(json_object_get(json_array_get(runs, 1), "config")));
    json_decref(root);
}

TEST(json_without_runs_is_an_empty_list)
{
    AUTO_FREE char *table = print_table((es_table_options){0});
    assert_string_equal(table, "");
    AUTO(json_t) root = parse(print_json());
    assert_int_equal(json_array_size(json_object_get(root, "runs")), 0);
    AUTO_FREE char *csv = print_csv();
    assert_non_null(strchr(csv, '\n'));
    assert_int_equal(strchr(csv, '\n')[1], 0);
}

/* Every row must have as many cells as the header, with quotes taken into
   account. */
TEST(csv_is_rectangular)
{
    es_shown_troubled(&shown, state, observed);
    char *csv = print_csv();
    size_t lines = 0, commas = 0, header = 0;
    bool quoted = false;
    for (const char *at = csv; *at; at++) {
        quoted ^= *at == '"';
        commas += *at == ',' && !quoted;
        if (*at != '\n' || quoted)
            continue;
        if (lines++ == 0)
            header = commas;
        assert_int_equal(commas, header);
        commas = 0;
    }
    assert_int_equal(lines, shown.n + 1);
    assert_false(quoted);
    free(csv);
}

TEST(a_pipe_is_not_a_terminal)
{
    int ends[2];
    es_table_options options = {.width = 7, .colour = true};
    assert_int_equal(pipe(ends), 0);
    FILE *stream = fdopen(ends[1], "w");
    assert_non_null(stream);
    es_table_options_for(&options, stream);
    assert_int_equal(options.width, 0);
    assert_false(options.colour);
    fclose(stream);
    close(ends[0]);
}

TEST(a_terminal_has_colours_unless_no_color)
{
    es_table_options options;
    int primary = posix_openpt(O_RDWR | O_NOCTTY);
    if (primary < 0 || grantpt(primary) || unlockpt(primary))
        es_skip("no pseudo-terminal");
    FILE *stream = fopen(ptsname(primary), "w");
    if (!stream)
        es_skip("no pseudo-terminal");
    static const char *const cases[][2] = {
        {"xterm", ""}, {"xterm", "1"}, {"dumb", ""}};
    for (int i = 0; i < 3; i++) {
        setenv("TERM", cases[i][0], 1);
        setenv("NO_COLOR", cases[i][1], 1);
        es_table_options_for(&options, stream);
        assert_int_equal(options.colour, i == 0);
        assert_true(options.width > 0);
    }
    unsetenv("NO_COLOR");
    fclose(stream);
    close(primary);
}

/* Runs in a child process: writes a run file, whose -shm file another program
   truncates before the second write. */
static void write_truncated(const char *path)
{
    es_output *output;
    es_writer *writer;
    int64_t run;
    const es_run_info info = es_run_of(2, 3);
    es_output_catch_signals();
    if (es_output_open_run(&output, &writer, path) < 0 ||
        es_writer_run(writer, &run, &info, 0) < 0)
        _exit(100);
    char command[4096];
    snprintf(command, sizeof command, "truncate -s 0 $(dirname %s)/.*-shm",
             path);
    if (system(command) != 0)
        _exit(101);
    (void)!es_writer_run(writer, &run, &info, 0);
    _exit(102);
}

TEST(a_truncated_shm_file_is_reported_in_one_line)
{
    const char *path = es_folder_file(state, "whole.db");
    const char *said = es_folder_file(state, "said");
    char command[4096], line[512] = "";
    int status;
    es_write_run(path, "x", 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(said, O_WRONLY | O_CREAT, 0666);
        dup2(fd, STDERR_FILENO);
        write_truncated(path);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    FILE *file = fopen(said, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    assert_non_null(strstr(line, "because another program truncated"));
    snprintf(command, sizeof command, "ls -A %s | grep -q entropy-scan",
             (const char *)*state);
    assert_int_not_equal(system(command), 0); /* no temporary file is left */
    assert_string_equal(es_sqlite(path, "PRAGMA integrity_check"), "ok");
}

TEST_EACH(make, clean)
