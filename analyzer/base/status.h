/** Status codes, the one-line error message that goes with them, and the
 *  library's version. */
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
    ES_DONE = 1,       /* a cursor has nothing more; not an error */
    ES_OK = 0,         /* it worked */
    ES_EUSAGE = -1,    /* an option, verb, architecture or rule is wrong */
    ES_EARGUMENT = -2, /* a caller broke a function's contract */
    ES_EIO = -3,       /* the system refused an input or output */
    ES_EFORMAT = -4,   /* an input's content is not what it has to be */
    ES_EVERSION = -5,  /* an input is newer than this program */
    ES_ELOCKED = -6,   /* another process is writing the file */
    ES_ENOTFOUND = -7, /* no such run, series or step */
    ES_ENOMEM = -8,    /* out of memory, or a size overflows */
    ES_EFORK = -9,     /* a forked child used its parent's recorder */
    ES_EBROKEN = -10,  /* the recorder process is gone */
    ES_EFULL = -11,    /* the ring stayed full: the frame was dropped */
    ES_EINTERNAL = -12 /* a bug in entropy-scan */
} es_status;

/**
 * Sets this thread's error message and returns `code`.
 *
 *   code   a negative es_status
 *   fmt    printf format: lower case, no full stop; names the object and,
 *          where there is one, the remedy
 *
 * Control characters are replaced by '?', so the message is always one line
 * that is safe to print on a terminal. Cut at ES_MESSAGE_MAX - 1 bytes.
 * Called where an error is detected and nowhere else.
 */
ES_API es_status es_fail(es_status code, const char *fmt, ...) ES_PRINTF(2, 3);

#define ES_MESSAGE_MAX 1024

/**
 * The message of the last es_fail of this thread; "" before the first.
 * Borrowed; valid until this thread's next es_fail.
 */
ES_API const char *es_message(void);

/**
 * The version of this library, "0.1.0": that of `entropy-scan --version`. A
 * binding compares it with its own before it lays out a struct. Static.
 */
ES_API const char *es_version(void);

/**
 * Process exit code for a status: 0 for ES_OK and ES_DONE, 2 for ES_EUSAGE,
 * 3 for everything else.
 */
ES_API int es_exit_code(es_status status);

/** Exit code: some of several inputs failed, the rest was done. */
#define ES_EXIT_SOME_FAILED 4

#endif
