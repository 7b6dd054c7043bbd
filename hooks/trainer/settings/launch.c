/* Determines the rank and the number of ranks of this process from its options
 * or from the environment variables that launchers set. */
#include "hooks/trainer/settings/launch.h"

#include "analyzer/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The environment variables in which each launcher passes a process its rank
 * and the number of ranks. */
static const struct launcher {
    const char *name, *rank, *world;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS"},
};

/* Returns the number in an environment variable, -1 if the variable is not set,
 * or -2 if its value is not a number. */
static int number_in(const char *variable)
{
    const char *text = getenv(variable);
    if (!text)
        return -1;
    const size_t n = strlen(text);
    return n == 0 || n > 6 || strspn(text, "0123456789") != n ? -2 : atoi(text);
}

/* Returns the first launcher that has set both rank and world, or NULL. */
static const struct launcher *find_launcher(int *rank, int *world)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        *rank = number_in(launchers[i].rank);
        *world = number_in(launchers[i].world);
        if (*rank >= 0 && *world >= 1)
            return &launchers[i];
    }
    return NULL;
}

static es_status settle_numbers(es_settings *settings, char *note, size_t size)
{
    int rank = 0, world = 1;
    const struct launcher *by = find_launcher(&rank, &world);
    const bool chosen = settings->world != 1;
    if (!by && (settings->world == 0 || (chosen && settings->rank < 0)))
        return es_fail(ES_EUSAGE,
                       "no rank: give --world N --rank R to each process, or "
                       "start the processes with mpirun or srun");
    if (by && settings->world > 1 && settings->rank < 0 &&
        settings->world != world)
        return es_fail(ES_EUSAGE,
                       "--world %d: %s has started %d processes (%s=%d): give "
                       "--world 0",
                       settings->world, by->name, world, by->world, world);
    if (by && !chosen && world > 1 && settings->rank < 0)
        snprintf(note, size,
                 "%s has started %d processes, but each trains its own model: "
                 "give --world 0 to train one model together",
                 by->name, world);
    if (settings->world == 0)
        settings->world = world;
    if (settings->rank < 0)
        settings->rank = chosen ? rank : 0;
    if (settings->rank >= settings->world)
        return es_fail(ES_EUSAGE, "--rank %d: --world %d has ranks 0 to %d",
                       settings->rank, settings->world, settings->world - 1);
    return ES_OK;
}

es_status es_launch_settle(es_settings *settings, char *note, size_t size)
{
    char path[ES_PATH_SIZE];
    snprintf(note, size, "%s", "");
    es_status status = settle_numbers(settings, note, size);
    if (status != ES_OK || settings->world == 1 || settings->rendezvous[0])
        return status;
    if (!settings->out[0])
        return es_fail(ES_EUSAGE,
                       "no rendezvous: give --out FILE, or --rendezvous FILE "
                       "in a folder that all ranks can read");
    es_text text = es_text_begin(path, sizeof path);
    es_text_append(&text, "%s.ranks", settings->out);
    if (text.length >= sizeof path)
        return es_fail(ES_EUSAGE,
                       "the path of --out is too long for a rendezvous file "
                       "next to it: give --rendezvous");
    memcpy(settings->rendezvous, path, sizeof path);
    return ES_OK;
}
