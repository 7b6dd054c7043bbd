/** Texts that follow the options in each verb's --help. */
#ifndef ES_TRAINER_HELP_H
#define ES_TRAINER_HELP_H

extern const char es_train_details[], es_verify_details[], es_bench_details[],
    es_probe_details[], es_fuse_details[];

#endif
