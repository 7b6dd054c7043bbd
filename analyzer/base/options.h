/**
 * One table of options drives parsing, help, manual pages and completions.
 *
 * Each row of the table is one option: its name, its help, the type of its
 * value, the field of the program's own struct that receives the value, and
 * the default. A row without a name receives the positional arguments. Parsing
 * follows getopt_long: options and arguments may be mixed, and "--" ends the
 * options.
 *
 *     typedef struct arguments {
 *         const char *input;
 *         int64_t n_jobs;
 *         bool quiet;
 *     } arguments;
 *
 *     static const es_option options[] = {
 *         {.name = NULL, ES_OPT_TEXT(arguments, input)},
 *         {"jobs", 'j', "N", "jobs at a time",
 *          ES_OPT_INT(arguments, n_jobs, 1, 64), .value = "4"},
 *         {"quiet", 'q', NULL, "print only errors",
 *          ES_OPT_FLAG(arguments, quiet)},
 *     };
 */
#ifndef ES_OPTIONS_H
#define ES_OPTIONS_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The largest number of rows in a table. */
#define ES_MAX_OPTIONS 96

typedef enum es_option_type {
    ES_OPTION_FLAG,   /* bool */
    ES_OPTION_INT,    /* int, int64_t or uint64_t */
    ES_OPTION_REAL,   /* double */
    ES_OPTION_TEXT,   /* const char *, borrowed from the command line */
    ES_OPTION_COPY,   /* char[size] */
    ES_OPTION_CHOICE, /* an enum: the index of the value in `choices` */
    ES_OPTION_SET,    /* an enum: set to `least`; the option takes no value */
    ES_OPTION_LIST,   /* char **: owned array of borrowed texts, and its
                         length */
    ES_OPTION_CALL,   /* any type: the `read` function stores the value */
    ES_OPTION_END,    /* ends the parsing, as --help and --version do */
} es_option_type;

typedef struct es_option es_option;

/**
 * Reads a value into `field`, the option's target.
 *
 *   value  NULL if the option was given without a value
 *   where  the start of every message: "--lr", "demo.conf:3: lr"
 *
 * Any result other than ES_OK ends the parsing and becomes its result.
 */
typedef es_status es_option_reader(void *field, const es_option *option,
                                   const char *value, const char *where);

/** Prints the value of `field` in the form that the option's reader accepts. */
typedef void es_option_printer(char *out, size_t size, const void *field);

struct es_option {
    const char *name;     /* without the dashes; NULL: row of the positional
                             arguments */
    char letter;          /* the one-letter form, or 0 */
    const char *argument; /* NULL: takes no value; "FILE": requires one;
                             "[FILE]": optional, given as --name=FILE */
    const char *help;     /* one sentence, lower case, no full stop; the
                             default is appended */
    es_option_type type;
    size_t offset, size; /* position and size of the target in the struct */
    size_t count;        /* offset of the field that counts a list's texts */
    int64_t least, most; /* range of an integer; `most` limits a list's length,
                            0: no limit */
    double low, high;    /* range of a real number */
    const char *const *choices; /* in the order of the enum; ends with NULL */
    es_option_reader *read;
    es_option_printer *print; /* NULL: the value is never printed */
    const char *expects;      /* "train or eval", for the message about a wrong
                                 value; NULL: the message is built from the
                                 other fields */
    const char *value;        /* the default, as on the command line; NULL: the
                                 value that the struct already holds */
    unsigned tags;            /* bits that the program defines */
};

/* The remaining fields of a row, by type: the struct, its field, and the
   type's limits. The compiler checks that the field has the type of the
   option. */
#define ES_OPT_FIELD(record, field)                                            \
    .offset = offsetof(record, field), .size = sizeof(((record *)0)->field)
#define ES_OPT_CHECKED(record, field, expected)                                \
    .offset = offsetof(record, field),                                         \
    .size = sizeof(*(1 ? &((record *)0)->field : (expected *)0))
#define ES_OPT_FLAG(record, field)                                             \
    .type = ES_OPTION_FLAG, ES_OPT_CHECKED(record, field, bool)
#define ES_OPT_INT(record, field, from, to)                                    \
    .type = ES_OPTION_INT, .least = from, .most = to,                          \
    ES_OPT_FIELD(record, field)
#define ES_OPT_REAL(record, field, from, to)                                   \
    .type = ES_OPTION_REAL, .low = from, .high = to,                           \
    ES_OPT_CHECKED(record, field, double)
#define ES_OPT_TEXT(record, field)                                             \
    .type = ES_OPTION_TEXT, ES_OPT_CHECKED(record, field, const char *)
#define ES_OPT_COPY(record, field)                                             \
    .type = ES_OPTION_COPY, ES_OPT_FIELD(record, field)
#define ES_OPT_CHOICE(record, field, names)                                    \
    .type = ES_OPTION_CHOICE, .choices = names, ES_OPT_FIELD(record, field)
#define ES_OPT_SET(record, field, constant)                                    \
    .type = ES_OPTION_SET, .least = constant, ES_OPT_FIELD(record, field)
#define ES_OPT_LIST(record, field, number)                                     \
    .type = ES_OPTION_LIST, .count = offsetof(record, number),                 \
    ES_OPT_FIELD(record, field)
#define ES_OPT_CALL(record, field, function)                                   \
    .type = ES_OPTION_CALL, .read = function, ES_OPT_FIELD(record, field)
/** `function` receives the whole struct instead of one field. */
#define ES_OPT_ALL(function) .type = ES_OPTION_CALL, .read = function

/**
 * Defines an es_option_reader that calls function(T *out, const char *value).
 */
#define ES_OPTION_READER(name, function)                                       \
    static es_status name(void *field, const es_option *option,                \
                          const char *value, const char *where)                \
    {                                                                          \
        (void)option, (void)where;                                             \
        return function(field, value);                                         \
    }

/**
 * A row of a list in a manual page. The list ends with {NULL}; NULL is an
 * empty list.
 */
typedef struct es_named_text {
    const char *name, *text; /* `text` has no full stop */
} es_named_text;

/** A program or one of its verbs, as its users see it. */
typedef struct es_command {
    const char *name;     /* "entropy-scan import" */
    const char *synopsis; /* "FILE -o RUN.db [OPTION...]" */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs after the options and in the manual
                             page; may be NULL */
    const es_option *options;
    size_t n_options; /* at most ES_MAX_OPTIONS */
    unsigned takes;   /* only rows with one of these tags are options of this
                         command; 0: all rows are */
    unsigned hides;   /* rows with one of these tags are shown without a
                         default */
    /**
     * Returns a struct with the defaults of the rows that have no `value`, for
     * the help text. NULL: these rows are shown without a default.
     */
    const void *(*defaults)(const struct es_command *command);
    const es_named_text *examples; /* command lines and what they do */
    /**
     * Runs the command. argv[0] is the verb, or the program. Prints its own
     * messages and returns the exit code.
     */
    int (*main)(int argc, char **argv);
} es_command;

/** A topic that the verb "help" explains although it is not a verb. */
typedef struct es_topic {
    const char *name;
    /** Prints the topic; as a manual page (roff) if `man` is true. */
    void (*print)(FILE *out, bool man);
} es_topic;

/**
 * A program. commands[0] describes the program without a verb; the others are
 * its verbs and are named "PROGRAM VERB".
 */
typedef struct es_program {
    const es_command *const *commands; /* (n) */
    size_t n;
    const es_named_text *exits, *environment, *files; /* of all commands */
    const es_topic *topic;                            /* may be NULL */
} es_program;

/**
 * Returns the verb in a command's name: "import" for "entropy-scan import"; ""
 * for the program itself.
 */
const char *es_command_verb(const es_command *command);

/**
 * Sets the target of each row that has a default. Returns ES_OK, or the error
 * of the option's reader.
 */
es_status es_options_default(void *target,
                             const es_command *command) ES_MUST_USE;

/**
 * Parses argv[1..argc) into the targets of the rows, first the options and
 * then the arguments. Not thread-safe, because getopt uses globals.
 *
 *   target  the program's struct. A list in it must begin as NULL and 0; it
 *           gets capacity for all of argv, and the caller frees it
 *   given   (n_options) set to true for each row that was given, otherwise
 *           unchanged; may be NULL
 *
 * Returns ES_OK; ES_DONE at an option of type ES_OPTION_END; ES_EUSAGE for an
 * unknown or ambiguous option (the message suggests the nearest one), a
 * missing, superfluous or wrong value, or an argument that the command does
 * not take; ES_ENOMEM; or the error of a reader.
 */
es_status es_options_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv) ES_MUST_USE;

/** Returns true if the option of that name was given. */
bool es_options_has(const es_command *command, const bool *given,
                    const char *name);

/**
 * Sets the target of one row.
 *
 *   where  the start of every message: "--lr", "demo.conf:3: lr"
 *   value  NULL sets a flag
 *
 * Returns ES_OK, ES_EUSAGE, or the error of a reader.
 */
es_status es_option_set(void *target, const es_option *option,
                        const char *value, const char *where) ES_MUST_USE;

/**
 * Prints the row's value in the form that es_option_set accepts; "" if the
 * type cannot be printed.
 */
void es_option_print(char *out, size_t size, const void *target,
                     const es_option *option);

/**
 * Returns the number of letters that differ between a (n letters) and b, by
 * Levenshtein's distance; 99 if either has more than 63. A distance below 4
 * between names of four or more letters suggests a misspelling.
 */
size_t es_word_distance(const char *a, size_t n, const char *b);

/**
 * Returns true if the row is an option, not an argument, and belongs to the
 * command.
 */
bool es_command_takes(const es_command *command, const es_option *option);

/**
 * Prints the names of an option: "-o, --output=FILE", "    --heatmap[=FILE]".
 */
void es_option_print_names(char *out, size_t size, const es_option *option);

/**
 * Prints the help of an option, followed by its default if the command shows
 * it.
 */
void es_option_print_sentence(char *out, size_t size, const es_command *command,
                              const es_option *option);

#endif
