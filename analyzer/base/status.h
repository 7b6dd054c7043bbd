/**
 * Status codes, the one-line error message that goes with them, and the
 * library's version.
 */
#ifndef ES_STATUS_H
#define ES_STATUS_H

#include <stddef.h>

#if defined(__GNUC__)
#define ES_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define ES_MUST_USE __attribute__((warn_unused_result))
#define ES_API __attribute__((visibility("default")))
#else
#define ES_PRINTF(fmt, first)
#define ES_MUST_USE
#define ES_API
#endif

typedef enum es_status {
    ES_DONE = 1,       /* a cursor has reached its end; not an error */
    ES_OK = 0,         /* success */
    ES_EUSAGE = -1,    /* wrong option, verb, architecture or rule */
    ES_EARGUMENT = -2, /* the caller broke the function's contract */
    ES_EIO = -3,       /* an input or output operation failed */
    ES_EFORMAT = -4,   /* the content of an input is malformed */
    ES_EVERSION = -5,  /* an input is newer than this program */
    ES_ELOCKED = -6,   /* another process is writing the file */
    ES_ENOTFOUND = -7, /* the run, series or step does not exist */
    ES_ENOMEM = -8,    /* out of memory, or a size overflows */
    ES_EFORK = -9,     /* a forked child used its parent's recorder */
    ES_EBROKEN = -10,  /* the recorder process is gone */
    ES_EFULL = -11, /* the ring buffer to the recorder stayed full, so the frame
                       was dropped */
    ES_EINTERNAL = -12 /* a bug in entropy-scan */
} es_status;

/**
 * Sets this thread's error message and returns `code`.
 *
 *   code   a negative es_status
 *   fmt    printf format: lower case, no full stop; names the object and a
 *          remedy, if one exists
 *
 * Control characters are replaced by '?', so the message is always one line
 * that is safe to print on a terminal. It is truncated at ES_MESSAGE_MAX - 1
 * bytes. Call it only where the error is detected.
 */
ES_API es_status es_fail(es_status code, const char *fmt, ...) ES_PRINTF(2, 3);

#define ES_MESSAGE_MAX 1024

/**
 * Returns the message of this thread's last es_fail; "" before the first
 * es_fail. Borrowed; valid until this thread's next es_fail.
 */
ES_API const char *es_message(void);

/**
 * Returns the version of this library, such as "0.1.0", as `entropy-scan
 * --version` prints it. A language binding compares this version with its own
 * version before it passes any struct. The string is static.
 */
ES_API const char *es_version(void);

/**
 * Returns the process exit code for a status: 0 for ES_OK and ES_DONE, 2 for
 * ES_EUSAGE, 3 for everything else.
 */
ES_API int es_exit_code(es_status status);

/** Exit code if some of several inputs failed and the others were processed. */
#define ES_EXIT_SOME_FAILED 4

#endif
