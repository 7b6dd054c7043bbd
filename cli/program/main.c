/*
 * entropy-scan: the verb that the first word names, or a scan of the run files
 * that are named. What each does is in the es_command of its module.
 */
#include "cli/output/output.h"
#include "cli/program/command.h"
#include "store/postgresql/postgres.h"
#include "store/reader.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* Help and version go to standard output without further care. */
static int check_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != 0)
        return code; /* and reported already */
    return es_command_exit(
        es_fail(ES_EIO, "standard output: cannot write: %s", strerror(errno)));
}

/* Takes text[0..n) out of the text that it begins. */
static void cut_out(char *text, size_t n)
{
    const size_t left = strlen(text + n);
    memmove(text, text + n, left);
    memset(text + left, '\0', n);
}

/* What is no URL of ours may have a password, too: another scheme's, or
   PostgreSQL's "host=... password=...". */
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

/* A password on the command line is seen by everybody who may list processes,
   and would be in messages: from here on it is neither. */
static es_status hide_passwords(int argc, char **argv)
{
    es_status status = ES_OK;
    for (int i = 1; i < argc && status == ES_OK; i++) {
        char *value = argv[i][0] == '-' ? strchr(argv[i], '=') : NULL;
        char *text = value ? value + 1 : argv[i];
        if (es_postgres_is_url(text))
            status = es_postgres_hide_password(text);
        else if (!value)
            hide_other_password(text);
    }
    return status;
}

int main(int argc, char **argv)
{
    es_output_catch_signals();
    signal(SIGXFSZ, SIG_IGN); /* a write fails instead, and is reported */
    es_reader_cap_memory((size_t)64 << 20);
    const es_status status = hide_passwords(argc, argv);
    if (status < 0)
        return es_command_exit(status);
    return check_stdout(es_program_run(&es_scan_program, argc, argv));
}
