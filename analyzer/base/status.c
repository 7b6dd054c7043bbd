/* Keeps the one-line error message of each thread, for all modules. */
#include "analyzer/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The library's only mutable global variable. Each thread has its own copy. */
static _Thread_local char message[ES_MESSAGE_MAX];

/** Replaces control characters by '?': C0, DEL, and C1 in UTF-8 (c2 80..9f). */
static void keep_one_line(char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        if (c < 0x20 || c == 0x7f)
            *text = '?';
        else if (c == 0xc2 && next >= 0x80 && next <= 0x9f)
            text[0] = text[1] = '?';
    }
}

/** If the message is about too many open files, appends the remedy. */
static void add_remedy(char *text, size_t size)
{
    const char *reason = strerror(EMFILE);
    const size_t n = strlen(text), n_reason = strlen(reason);
    if (n >= n_reason && strcmp(text + n - n_reason, reason) == 0)
        snprintf(text + n, size - n, ": raise the limit: ulimit -n 256");
}

es_status es_fail(es_status code, const char *fmt, ...)
{
    /* Formats into a local buffer, because an argument may be the previous
       message. */
    char text[ES_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_remedy(text, sizeof text);
    keep_one_line(text);
    snprintf(message, sizeof message, "%s", text);
    return code;
}

const char *es_message(void)
{
    return message;
}

const char *es_version(void)
{
    return ES_VERSION;
}

int es_exit_code(es_status status)
{
    if (status >= ES_OK)
        return 0;
    return status == ES_EUSAGE ? 2 : 3;
}
