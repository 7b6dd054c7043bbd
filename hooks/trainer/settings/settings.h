/**
 * Every option of entropy-train: one table serves the command line, the
 * configuration file, --help and the configuration that a run keeps.
 */
#ifndef ES_SETTINGS_H
#define ES_SETTINGS_H

#include "analyzer/base/help.h"
#include "hooks/trainer/cpu/engine.h"
#include "hooks/trainer/cpu/products.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/settings/presets.h"
#include "store/run.h"
#include <stdio.h>

#define ES_PATH_SIZE 4096
#define ES_RUN_NAME_SIZE 256
#define ES_SETTINGS_FILE_MAX (1 << 20) /* a larger one is refused */

typedef enum es_verb {
    ES_VERB_TRAIN = 1,
    ES_VERB_VERIFY = 2,
    ES_VERB_BENCH = 4,
    ES_VERB_PROBE = 8
} es_verb;

typedef struct es_settings {
    es_model_config model; /* vocab 0: the token file's */
    es_train_config train;
    char data[ES_PATH_SIZE], out[ES_PATH_SIZE]; /* "": not given */
    char name[ES_RUN_NAME_SIZE];                /* "": not given */
    char checkpoint[ES_PATH_SIZE];              /* folder; "": none is kept */
    char resume[ES_PATH_SIZE];                  /* file or folder; "" */
    int64_t checkpoint_every;                   /* 0: at the end alone */
    int64_t keep;                               /* checkpoints; 0: all */
    char backend[16];                           /* cpu, cuda, auto */
    es_precision precision;
    es_products_choice products; /* of the CPU; as es_products_use left it */
    int world, rank;             /* of ranks/launch.h: as given, then settled */
    char rendezvous[ES_PATH_SIZE]; /* likewise */
    double rank_timeout;           /* s */
    bool fixed_order; /* sums by micro-batch, in the order of the data */
    int threads;      /* 0: as many as there are processors to run on */
    es_series_set record;
    es_store store;
    int64_t record_every;
    int64_t eval_every; /* 0: never */
    int64_t eval_batches;
    int64_t after_nan;
    int64_t log_every;      /* 0: about twenty lines */
    int64_t pairs;          /* of bench */
    int maps;               /* cells a side of attention maps; 0: none */
    bool map_heads;         /* of each head, too */
    int64_t map_count;      /* evaluations that record them */
    es_inference inference; /* of evaluations */
    es_approximation_choice polynomial; /* of --inference polynomial */
    int64_t poly_batches; /* micro-batches that it is chosen from */
    double ceiling; /* of heads that are not causal, nats; 0: that of causal */
    bool random;    /* probe: batches from places drawn from the seed */
    bool no_record, dry_run, quiet, help, version;
    char init[ES_PATH_SIZE]; /* file of weights to start from; "": none */
    char preset[ES_PRESET_NAME_SIZE]; /* "": none; "list" */
    es_verb verb;                     /* whose settings these are */
    char **cases;                     /* (n_cases) of verify; owned */
    size_t n_cases;
    bool given[ES_MAX_OPTIONS]; /* by row of es_settings_table: named by an
                                   option or a configuration file */
} es_settings;

/** The published settings at a small size; for bench L6 H8 d256, B8 T128. */
void es_settings_default(es_settings *out, es_verb verb);

/** Tags of rows beside the verbs that take them: part of the configuration that
 *  a run keeps; a probe takes it from the weights if it is not given. */
#define ES_SETTING_KEPT (1u << 8)
#define ES_SETTING_OF_WEIGHTS (1u << 9)

/** One table for all verbs. Rows without a name are no options: arguments, or
 *  unused ones at the end. */
#define ES_N_SETTINGS ES_MAX_OPTIONS
extern const es_option es_settings_table[ES_N_SETTINGS];

/** The defaults of the verb that the command is of; static, one thread. */
const void *es_settings_defaults(const es_command *command);

/** The members of a verb's es_command that this module has. */
#define ES_SETTINGS_OPTIONS(verb)                                              \
    .options = es_settings_table, .n_options = ES_N_SETTINGS, .takes = verb,   \
    .hides = (verb) == ES_VERB_PROBE ? ES_SETTING_OF_WEIGHTS : 0,              \
    .defaults = es_settings_defaults

/**
 * Reads argv[1..argc) over what `settings` holds, as its verb takes it. Later
 * options override earlier ones; those of a --config file count where it is
 * named; those of a --preset count where nothing else gives them, and of a
 * training that is resumed not at all.
 *
 * ES_OK; ES_EUSAGE (the message names the option, or file and line); ES_EIO
 * (no such configuration file); ES_ENOMEM.
 */
es_status es_settings_parse(es_settings *settings, int argc,
                            char **argv) ES_MUST_USE;

/**
 * Reads a configuration: lines `name = value` with the names of the options
 * ('_' may stand for '-'), a flag's value true or false. Blank lines and what
 * follows a '#' are skipped. The file is one for es_infile_load.
 *
 * ES_OK; ES_EUSAGE (file and line are named; larger than
 * ES_SETTINGS_FILE_MAX); ES_EIO; ES_ENOMEM.
 */
es_status es_settings_read(es_settings *settings, const char *path) ES_MUST_USE;

/** The run's name: as given, else the run file's without folder and ".db";
 *  "run" if there is none. */
void es_settings_run_name(char out[ES_RUN_NAME_SIZE],
                          const es_settings *settings);

/** ES_OK, or ES_EUSAGE: what train needs is missing, or excludes another. A
 *  dry run needs neither data nor output. */
es_status es_settings_check(const es_settings *settings) ES_MUST_USE;

/**
 * The resolved configuration as one JSON object, to be freed: every setting
 * that says what is trained and how, with '_' for '-' in its name. A text
 * that was not given is left out. "steps" is the planned number, which a probe
 * ("verb": "probe") has not; "tokens_checksum" (16 hexadecimal digits) names
 * the data. NULL when out of memory.
 */
char *es_settings_json(const es_settings *settings, uint64_t tokens_checksum);

/**
 * The same with what the run was made on: "slurm_job", if this process belongs
 * to a job of Slurm: "4711", or "4711_3" of an array, as scancel and squeue
 * take it; where `engine` is not NULL "products", the library of the matrix
 * products with its kernels, and "kernels", ours: cpu/engine.h.
 */
char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum,
                              const es_cpu_engine *engine);

/**
 * Puts what es_settings_json wrote over `settings`.
 *
 *   tokens_checksum  written
 *   where            what a message begins with: the file's path
 *
 * ES_OK; ES_EFORMAT; ES_EVERSION (a setting that this program lacks).
 */
es_status es_settings_read_json(es_settings *settings,
                                uint64_t *tokens_checksum, const char *json,
                                const char *where) ES_MUST_USE;

/** The same settings as lines that es_settings_read reads; a '#' in the path of
 *  the data alone would not come back. */
void es_settings_write(FILE *out, const es_settings *settings);

/* --- rows of the table, for those who go through them ------------------- */

#define ES_SETTING_TEXT_MAX (ES_PATH_SIZE + 1)

/** The row of that name; NULL if there is none. */
const es_option *es_setting_find(const char *name);

/** Part of the configuration that every run keeps, or a run of this verb. */
bool es_setting_is_kept(const es_option *setting, const es_settings *settings);

/** Part of what the model is. */
bool es_setting_is_of_model(const es_option *setting);

/** es_option_set, noted in settings->given. */
es_status es_setting_set(es_settings *settings, const es_option *setting,
                         const char *value, const char *where) ES_MUST_USE;

/**
 * Sets the kept setting that JSON calls `name`, with '_' for '-'.
 *
 *   value  read with JSON_DECODE_INT_AS_REAL; NULL: it is missing
 *   where  what a message begins with: the file's path
 *
 * ES_OK; ES_EFORMAT; ES_EVERSION: there is no such setting.
 */
struct json_t;
es_status es_setting_read_member(es_settings *settings, const char *name,
                                 const struct json_t *value,
                                 const char *where) ES_MUST_USE;

#endif
