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

/** The largest number of options in a table. */
#define ES_MAX_OPTIONS 96

typedef enum es_option_type {
    ES_OPTION_FLAG,   /* bool */
    ES_OPTION_INT,    /* an int, int64_t or uint64_t; the size of the field
                         distinguishes int from the other two */
    ES_OPTION_REAL,   /* double */
    ES_OPTION_TEXT,   /* const char *, borrowed from the command line */
    ES_OPTION_COPY,   /* char[size] */
    ES_OPTION_CHOICE, /* an enum, set to the index of the value in `choices` */
    ES_OPTION_SET,  /* an enum that is set to `least`; the option takes no value
                     */
    ES_OPTION_LIST, /* char **: array of borrowed strings, owned by the struct;
                       its length is in a second field */
    ES_OPTION_CALL, /* any type: the function `read` stores the value */
    ES_OPTION_END,  /* ends the parsing, like --help and --version */
} es_option_type;

typedef struct es_option es_option;

/**
 * Reads a value into `field`, the option's target.
 *
 *   value  NULL if the option was given without a value
 *   where  the start of every message: "--lr", "demo.conf:3: lr"
 *
 * A result other than ES_OK ends the parsing and becomes the result of the
 * parsing.
 */
typedef es_status es_option_reader(void *field, const es_option *option,
                                   const char *value, const char *where);

/** Prints the value of `field` in the form that the option's reader accepts. */
typedef void es_option_printer(char *out, size_t size, const void *field);

struct es_option {
    const char *name; /* name of the option without the dashes; NULL: the row
                         receives the positional arguments */
    char letter; /* letter of the option's short form; 0 without a short form */
    /* Name of the value in help texts: "FILE" if the value is required,
     * "[FILE]" if it is optional and given as --name=FILE; NULL if the option
     * takes no value. */
    const char *argument;
    const char *help; /* help text: one sentence, lower case, no full stop; the
                         default value is appended */
    es_option_type type;
    size_t offset, size; /* offset and size of the option's field */
    size_t count;        /* offset of the field that holds the length of a
                            list */
    int64_t least, most; /* range of an integer; for a list, `most` is the
                            largest length (0: no limit) */
    double low, high;    /* range of a floating-point value */
    const char *const *choices; /* names of the enum's values in order, ends
                                   with NULL */
    es_option_reader *read;
    /* Prints the value; NULL if the value cannot be printed. */
    es_option_printer *print;
    const char *expects; /* allowed values, "train or eval", for the
                            message about a wrong value; NULL: the
                            message is built from the other fields */
    const char *value;   /* default value, written as on the command
                            line; NULL: keep the value already in the
                            struct */
    unsigned tags;       /* bit set whose meaning the program defines */
};

/* Macros for the last part of a row of the table, one macro for each type of
 * option. They set the option's type, its limits, and the offset and size of
 * the struct's field. The compiler checks that the field has the C type of the
 * option. */
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
/**
 * Makes the option call `function` with the whole struct instead of one field.
 */
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
 * An entry of a list in a manual page: a word and its explanation. {NULL} ends
 * a list; a NULL pointer stands for an empty list.
 */
typedef struct es_named_text {
    const char *name, *text; /* a word and its explanation; `text` has no
                                full stop */
} es_named_text;

/** A program or one of its verbs, with its help texts and its options. */
typedef struct es_command {
    const char *name;     /* full name: "entropy-scan import" */
    const char *synopsis; /* usage: "FILE -o RUN.db [OPTION...]" */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs printed after the options in --help
                             and in the manual page; may be NULL */
    /* `further`: paragraphs printed only by `help VERB --all` and in the manual
     * page; `further_about`: their subject, such as "deliveries". Both may be
     * NULL. */
    const char *further, *further_about;
    const es_option *options;
    size_t n_options; /* at most ES_MAX_OPTIONS */
    unsigned takes;   /* bit set: this command has only the options with one of
                         these tags; 0: all options */
    unsigned hides;   /* bit set: help omits the default of options with one of
                         these tags */
    /* Bit set: options with one of these tags are accepted, but omitted from
     * help, manual page and completions. */
    unsigned old;
    /**
     * Returns a struct with the default values of options whose member `value`
     * is NULL, for the help text. If `defaults` is NULL, the help omits these
     * values.
     */
    const void *(*defaults)(const struct es_command *command);
    const es_named_text *examples; /* command lines, each with a description */
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
 * A program. commands[0] is the program called without a verb; the other
 * commands are its verbs, named "PROGRAM VERB".
 */
typedef struct es_program {
    const es_command *const *commands; /* (n) */
    size_t n;
    const es_named_text *exits, *environment, *files; /* sections of every
                                                         manual page */
    const es_topic *topic;                            /* additional topic of
                                                         "help"; may be NULL */
} es_program;

/**
 * Returns the verb in a command's name: "import" for "entropy-scan import"; ""
 * for the program itself.
 */
const char *es_command_verb(const es_command *command);

/**
 * Stores each option's default value, if it has one, in its field of the struct
 * `target`. Returns ES_OK, or the error that an option's reader returned.
 */
es_status es_options_default(void *target,
                             const es_command *command) ES_MUST_USE;

/**
 * Parses argv[1..argc) and stores the values in the fields of the struct
 * `target`, first the options and then the positional arguments. Not
 * thread-safe, because getopt uses globals.
 *
 *   target  the program's struct. Its lists must be initialised to NULL and 0;
 *           each gets capacity for all of argv, and the caller frees it
 *   given   (n_options) set to true for each option that was given, otherwise
 *           unchanged; may be NULL
 *
 * Returns ES_OK; ES_DONE if an option of type ES_OPTION_END was given;
 * ES_EUSAGE for an unknown or ambiguous option (the message suggests the
 * nearest one), a missing, superfluous or wrong value, or an argument that the
 * command does not take; ES_ENOMEM; or the error that an option's reader
 * returned.
 */
es_status es_options_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv) ES_MUST_USE;

/** Returns true if the option named `name` was given on the command line. */
bool es_options_has(const es_command *command, const bool *given,
                    const char *name);

/**
 * Stores the value of one option in its field of the struct `target`.
 *
 *   where  the start of every message: "--lr", "demo.conf:3: lr"
 *   value  the value as on the command line; NULL sets a flag
 *
 * Returns ES_OK, ES_EUSAGE, or the error of the option's reader.
 */
es_status es_option_set(void *target, const es_option *option,
                        const char *value, const char *where) ES_MUST_USE;

/**
 * Prints the option's value from its field of the struct `target`, in the form
 * that es_option_set accepts; "" if the type cannot be printed.
 */
void es_option_print(char *out, size_t size, const void *target,
                     const es_option *option);

/**
 * Returns the Levenshtein distance between the words a (n characters) and b:
 * the number of characters to insert, delete or replace. Returns 99 if either
 * word has more than 63 characters. A distance below 4 between names of four or
 * more characters suggests a misspelling.
 */
size_t es_word_distance(const char *a, size_t n, const char *b);

/**
 * Returns true if the command accepts this option; false for a row of the table
 * that describes positional arguments.
 */
bool es_command_takes(const es_command *command, const es_option *option);

/** Returns true if help, manual page and completions show this option. */
bool es_command_shows(const es_command *command, const es_option *option);

/**
 * Prints the names of an option, such as "-o, --output=FILE". An option without
 * a letter is indented by four blanks, so that the long names are aligned.
 */
void es_option_print_names(char *out, size_t size, const es_option *option);

/**
 * Prints the help sentence of an option, with its default unless the command
 * hides it.
 */
void es_option_print_sentence(char *out, size_t size, const es_command *command,
                              const es_option *option);

#endif
