/* Main program of entropy-scan. Runs the verb (subcommand) that the first word
 * of the command line names. Without a verb, scans the given run files. Each
 * module defines its verb as an es_command. */
#include "cli/output/output.h"
#include "cli/program/command.h"
#include "store/reader.h"
#include "store/run_place.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* Flushes standard output before the program ends, and reports a write error,
 * because the help and the version are printed without checking for errors.
 * Returns `code`, or the exit code of a write error if `code` is 0. */
static int check_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != 0)
        return code; /* the failure has been reported before */
    return es_command_exit(
        es_fail(ES_EIO, "standard output: cannot write: %s", strerror(errno)));
}

/* Removes the first n bytes of `text`, and fills the n bytes that become free
   at its end with zeros. */
static void cut_out(char *text, size_t n)
{
    const size_t left = strlen(text + n);
    memmove(text, text + n, left);
    memset(text + left, '\0', n);
}

/* Removes the password from an argument that this program does not parse as a
 * PostgreSQL URL. Such an argument may be a URL with another scheme, or a
 * connection string of libpq such as "host=... password=...". */
static void hide_other_password(char *text)
{
    char *user = strstr(text, "://"), *at = strrchr(text, '@');
    char *colon = user ? strchr(user + 1, ':') : NULL;
    if (colon && at && colon < at)
        cut_out(colon, (size_t)(at - colon));
    char *key = strstr(text, "password=");
    if (key && (key == text || key[-1] == ' ')) {
        char *value = key + strlen("password=");
        cut_out(value, *value == '\'' ? strlen(value) : strcspn(value, " "));
    }
}

/* Removes passwords from argv, where process listings would show them and
   messages would quote them. */
static es_status hide_passwords(int argc, char **argv)
{
    es_status status = ES_OK;
    for (int i = 1; i < argc && status == ES_OK; i++) {
        char *value = argv[i][0] == '-' ? strchr(argv[i], '=') : NULL;
        char *text = value ? value + 1 : argv[i];
        if (es_path_is_url(text))
            status = es_path_hide_password(text);
        else if (!value)
            hide_other_password(text);
    }
    return status;
}

int main(int argc, char **argv)
{
    es_output_catch_signals();
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails
                                 and is reported, instead of ending the
                                 process */
    es_reader_cap_memory((size_t)64 << 20);
    const es_status status = hide_passwords(argc, argv);
    if (status < 0)
        return es_command_exit(status);
    return check_stdout(es_program_run(&es_scan_program, argc, argv));
}
