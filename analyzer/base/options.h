/**
 * One table of options gives parsing, help, manual page and completions.
 *
 * An option is one row: its name and help, the type of its value, the field of
 * the program's own struct that receives it, the default. A row without a name
 * says where the arguments go that are no options. Parsing is getopt_long's:
 * options and arguments may be mixed, and "--" ends the options.
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
 *         {"quiet", 'q', NULL, "print errors alone",
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

/** The most rows of a table. */
#define ES_MAX_OPTIONS 96

typedef enum es_option_type {
    ES_OPTION_FLAG,   /* bool */
    ES_OPTION_INT,    /* int, or 64 bits with or without a sign */
    ES_OPTION_REAL,   /* double */
    ES_OPTION_TEXT,   /* const char *: borrowed from the command line */
    ES_OPTION_COPY,   /* char[size] */
    ES_OPTION_CHOICE, /* an enum: the value's place among the names */
    ES_OPTION_SET,    /* an enum: becomes `least`; takes no value */
    ES_OPTION_LIST,   /* char **, owned, of borrowed texts, and their count */
    ES_OPTION_CALL,   /* what a function makes of the value */
    ES_OPTION_END,    /* ends the parsing: --help, --version */
} es_option_type;

typedef struct es_option es_option;

/**
 * Reads a value into `field`, the option's target.
 *
 *   value  NULL: it has none
 *   where  what a message begins with: "--lr", "demo.conf:3: lr"
 *
 * Anything but ES_OK ends the parsing and is its result.
 */
typedef es_status es_option_reader(void *field, const es_option *option,
                                   const char *value, const char *where);

/** Prints a value as its reader reads it. */
typedef void es_option_printer(char *out, size_t size, const void *field);

struct es_option {
    const char *name;     /* without the dashes; NULL: arguments go here */
    char letter;          /* one-letter form, or 0 */
    const char *argument; /* NULL none; "FILE" required; "[FILE]" optional,
                             given as --name=FILE */
    const char *help;     /* one sentence, lower case, no full stop; the
                             default is added */
    es_option_type type;
    size_t offset, size; /* the target in the program's struct */
    size_t count;        /* offset of a list's number of texts */
    int64_t least, most; /* of an integer; most texts of a list, 0: any */
    double low, high;    /* of a real number */
    const char *const *choices; /* in the order of the enum, then NULL */
    es_option_reader *read;
    es_option_printer *print; /* NULL: the value is never printed */
    const char *expects;      /* "train or eval", for the message of a wrong
                                 value; NULL: one that is made of the row */
    const char *value;        /* the default, as it would be given; NULL: what
                                 the struct holds */
    unsigned tags;            /* bits, for the program's own use */
};

/* The rest of a row, by type: the struct, its field, and what else there is.
   The compiler checks that the field has the type of the option. */
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
/** The function gets the whole struct. */
#define ES_OPT_ALL(function) .type = ES_OPTION_CALL, .read = function

/** Defines an es_option_reader of a function (T *out, const char *value). */
#define ES_OPTION_READER(name, function)                                       \
    static es_status name(void *field, const es_option *option,                \
                          const char *value, const char *where)                \
    {                                                                          \
        (void)option, (void)where;                                             \
        return function(field, value);                                         \
    }

/** A row of a list in a manual page; a list ends with {NULL}, NULL is empty. */
typedef struct es_named_text {
    const char *name, *text; /* the text without a full stop */
} es_named_text;

/** A program or a verb, as its users see it. */
typedef struct es_command {
    const char *name;     /* "entropy-scan import" */
    const char *synopsis; /* "FILE -o RUN.db [OPTION...]" */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs for the man page; NULL for none */
    const es_option *options;
    size_t n_options; /* ES_MAX_OPTIONS at most */
    unsigned takes;   /* the rows that have one of these tags; 0: all */
    unsigned hides;   /* no default is shown for rows with one of these */
    /** A struct that holds the defaults of rows without a `value`, to be shown
     *  in the help; NULL: those rows show none. */
    const void *(*defaults)(const struct es_command *command);
    const es_named_text *examples; /* command lines, and what they do */
    /** Does it. argv[0] is the verb, or the program. Returns the exit code;
     *  messages have been printed. */
    int (*main)(int argc, char **argv);
} es_command;

/** What the verb help explains that is no verb. */
typedef struct es_topic {
    const char *name;
    /** man: as a manual page (roff). */
    void (*print)(FILE *out, bool man);
} es_topic;

/** A program: commands[0] is what it does without a verb, the others, named
 *  "PROGRAM VERB", are its verbs. */
typedef struct es_program {
    const es_command *const *commands; /* (n) */
    size_t n;
    const es_named_text *exits, *environment, *files; /* of all of them */
    const es_topic *topic;                            /* NULL: none */
} es_program;

/** A verb's own name: "import" of "entropy-scan import"; "" of the program. */
const char *es_command_verb(const es_command *command);

/** Sets the targets of the rows that have a default. ES_OK; what reading it
 *  returns. */
es_status es_options_default(void *target,
                             const es_command *command) ES_MUST_USE;

/**
 * Parses argv[1..argc) into the targets of the rows, in order, options before
 * arguments. Not thread-safe: getopt has globals.
 *
 *   target  the program's struct. A list in it begins as NULL and 0, has
 *           capacity for all of argv, and is freed by the caller
 *   given   (n_options) true for each row that was given, else unchanged; NULL
 *           if it does not matter
 *
 * ES_OK; ES_DONE, at an option of type ES_OPTION_END; ES_EUSAGE for an unknown
 * or ambiguous option (the message suggests the nearest one), a missing,
 * superfluous or wrong value, an argument where none goes; ES_ENOMEM; what a
 * reader returned.
 */
es_status es_options_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv) ES_MUST_USE;

/** True if the row of that name is among those given. */
bool es_options_has(const es_command *command, const bool *given,
                    const char *name);

/**
 * Sets the target of one row.
 *
 *   where  what a message begins with: "--lr", "demo.conf:3: lr"
 *   value  NULL: a flag is to be set
 *
 * ES_OK; ES_EUSAGE; what a reader returned.
 */
es_status es_option_set(void *target, const es_option *option,
                        const char *value, const char *where) ES_MUST_USE;

/** The value of one row as es_option_set reads it; "" if it has none. */
void es_option_print(char *out, size_t size, const void *target,
                     const es_option *option);

/** How many letters differ between a (n) and b; 99 where one has more than 63
 *  of them. Names of four and more that are alike differ in less than 4. */
size_t es_word_distance(const char *a, size_t n, const char *b);

/** True if the row is an option, and one of this command. */
bool es_command_takes(const es_command *command, const es_option *option);

/** "-o, --output=FILE", "    --heatmap[=FILE]". */
void es_option_print_names(char *out, size_t size, const es_option *option);

/** Its help with the default, as the command shows it. */
void es_option_print_sentence(char *out, size_t size, const es_command *command,
                              const es_option *option);

#endif
