/**
 * Every option of entropy-train. One table serves the command line, the
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
#define ES_SETTINGS_FILE_MAX (1 << 20) /* bytes; larger files are refused */

typedef enum es_verb {
    ES_VERB_TRAIN = 1,
    ES_VERB_VERIFY = 2,
    ES_VERB_BENCH = 4,
    ES_VERB_PROBE = 8
} es_verb;

typedef struct es_settings {
    es_model_config model; /* a vocab of 0 stands for the token file's */
    es_train_config train;
    char data[ES_PATH_SIZE], out[ES_PATH_SIZE]; /* "" if not given */
    char name[ES_RUN_NAME_SIZE];                /* "" if not given */
    char checkpoint[ES_PATH_SIZE];              /* folder; "": no checkpoints */
    char resume[ES_PATH_SIZE];                  /* file or folder; "": start
                                                   anew */
    int64_t checkpoint_every;                   /* steps; 0: only at the end */
    int64_t keep;                               /* number of checkpoints kept;
                                                   0: all */
    char backend[16];                           /* cpu, cuda, auto */
    es_precision precision;
    es_products_choice products;   /* on the CPU; es_products_use resolves
                                      "auto" */
    int world, rank;               /* see ranks/launch.h: first as given, then
                                      resolved */
    char rendezvous[ES_PATH_SIZE]; /* file, first as given, then resolved */
    double rank_timeout;           /* seconds */
    bool fixed_order; /* sum by micro-batch, in the order of the data */
    int threads;      /* 0: the number of available processors */
    es_series_set record;
    es_store store;
    int64_t record_every;
    int64_t eval_every; /* steps; 0: no evaluations */
    int64_t eval_batches;
    int64_t after_nan;
    int64_t log_every;      /* steps; 0: about twenty lines in all */
    int64_t pairs;          /* pairs of steps in bench */
    int maps;               /* cells per side of attention maps; 0: none */
    bool map_heads;         /* record maps of each head, too */
    int64_t map_count;      /* evaluations that record maps */
    es_inference inference; /* how evaluations compute */
    es_approximation_choice polynomial; /* parameters of --inference
                                           polynomial */
    int64_t poly_batches; /* micro-batches that calibrate the polynomials */
    double ceiling; /* entropy ceiling of heads that are not causal, nats; 0:
                       the causal ceiling */
    bool random;    /* probe: batches at random places given by the seed */
    bool no_record, dry_run, quiet, help, version;
    char init[ES_PATH_SIZE];          /* file of initial weights; "": none */
    char preset[ES_PRESET_NAME_SIZE]; /* "": none; "list": print them */
    es_verb verb;                     /* the verb that these settings belong
                                         to */
    char **cases;                     /* (n_cases) arguments of verify; owned */
    size_t n_cases;
    bool given[ES_MAX_OPTIONS]; /* indexed by row of es_settings_table: set by
                                   an option or a configuration file */
} es_settings;

/** Sets the published settings at a small size; for bench 6 layers, 8 heads,
 *  width 256, batch 8 and context 128. */
void es_settings_default(es_settings *out, es_verb verb);

/** Tags of a row, in addition to its verbs. KEPT: part of the configuration
 *  that a run keeps. OF_WEIGHTS: a probe takes the setting from the weights
 *  unless it is given. */
#define ES_SETTING_KEPT (1u << 8)
#define ES_SETTING_OF_WEIGHTS (1u << 9)

/** One table for all verbs. Rows without a name are arguments, or unused rows
 *  at the end. */
#define ES_N_SETTINGS ES_MAX_OPTIONS
extern const es_option es_settings_table[ES_N_SETTINGS];

/** Returns the defaults of the command's verb, in static memory; for one
 *  thread. */
const void *es_settings_defaults(const es_command *command);

/** The members of a verb's es_command that this module provides. */
#define ES_SETTINGS_OPTIONS(verb)                                              \
    .options = es_settings_table, .n_options = ES_N_SETTINGS, .takes = verb,   \
    .hides = (verb) == ES_VERB_PROBE ? ES_SETTING_OF_WEIGHTS : 0,              \
    .defaults = es_settings_defaults

/**
 * Reads argv[1..argc) into `settings`, according to the verb. Later options
 * override earlier ones. The options of a --config file count at the position
 * of --config. The options of a --preset only apply where no other source sets
 * them, and not at all if a training is resumed.
 *
 * ES_OK; ES_EUSAGE (the message names the option, or file and line); ES_EIO
 * (the configuration file cannot be read); ES_ENOMEM.
 */
es_status es_settings_parse(es_settings *settings, int argc,
                            char **argv) ES_MUST_USE;

/**
 * Reads a configuration file: lines `name = value` with the names of the
 * options ('_' may stand for '-'); a flag has the value true or false. Blank
 * lines and text after a '#' are skipped. The file is read by es_infile_load.
 *
 * ES_OK; ES_EUSAGE (the message names file and line; also if the file is larger
 * than ES_SETTINGS_FILE_MAX); ES_EIO; ES_ENOMEM.
 */
es_status es_settings_read(es_settings *settings, const char *path) ES_MUST_USE;

/** Writes the run's name: the given one, else the run file's name without
 *  folder and ".db", else "run". */
void es_settings_run_name(char out[ES_RUN_NAME_SIZE],
                          const es_settings *settings);

/** Checks that train has what it needs and that no options exclude each other.
 *  A dry run needs neither data nor output. ES_OK or ES_EUSAGE. */
es_status es_settings_check(const es_settings *settings) ES_MUST_USE;

/**
 * Returns the resolved configuration as one JSON object, which the caller
 * frees: every setting that determines what is trained and how, with '_' for
 * '-' in its name. Texts that were not given are left out. "steps" is the
 * planned number and is absent in a probe ("verb": "probe"); "tokens_checksum"
 * (16 hexadecimal digits) identifies the data. NULL if out of memory.
 */
char *es_settings_json(const es_settings *settings, uint64_t tokens_checksum);

/**
 * Like es_settings_json, with a description of the machine. "slurm_job" is
 * present if this process belongs to a job of Slurm: "4711", or "4711_3" in an
 * array, as scancel and squeue expect it. If `engine` is not NULL, "products"
 * names the library of the matrix products with its kernels, and "kernels"
 * those of this program (cpu/engine.h).
 */
char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum,
                              const es_cpu_engine *engine);

/**
 * Reads the output of es_settings_json into `settings`.
 *
 *   tokens_checksum  written
 *   where            how messages begin: the file's path
 *
 * ES_OK; ES_EFORMAT; ES_EVERSION (this program does not know a setting).
 */
es_status es_settings_read_json(es_settings *settings,
                                uint64_t *tokens_checksum, const char *json,
                                const char *where) ES_MUST_USE;

/** Writes the settings as lines for es_settings_read. Only a '#' in the path of
 *  the data does not survive the round trip. */
void es_settings_write(FILE *out, const es_settings *settings);

/* --- single rows of the table -------------------------------------------- */

#define ES_SETTING_TEXT_MAX (ES_PATH_SIZE + 1)

/** Returns the row of that name, or NULL. */
const es_option *es_setting_find(const char *name);

/** Returns true if the setting is part of the configuration that every run, or
 *  a run of this verb, keeps. */
bool es_setting_is_kept(const es_option *setting, const es_settings *settings);

/** Returns true if the setting describes the model. */
bool es_setting_is_of_model(const es_option *setting);

/** Like es_option_set, and marks the setting in settings->given. */
es_status es_setting_set(es_settings *settings, const es_option *setting,
                         const char *value, const char *where) ES_MUST_USE;

/**
 * Sets the kept setting that JSON calls `name`, with '_' for '-'.
 *
 *   value  read with JSON_DECODE_INT_AS_REAL; NULL: it is missing
 *   where  how messages begin: the file's path
 *
 * ES_OK; ES_EFORMAT; ES_EVERSION: there is no such setting.
 */
struct json_t;
es_status es_setting_read_member(es_settings *settings, const char *name,
                                 const struct json_t *value,
                                 const char *where) ES_MUST_USE;

#endif
