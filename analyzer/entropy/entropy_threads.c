/* Threads of one call of attention entropy: POSIX threads that end with it. */
#include "analyzer/entropy/entropy_internal.h"

#include <pthread.h>

#define MOST 256

typedef struct job {
    void (*work)(void *argument);
    void *argument;
} job;

static void *run_job(void *argument)
{
    const job *j = argument;
    j->work(j->argument);
    return NULL;
}

void es_entropy_threads(void (*work)(void *argument), void *argument,
                        int n_threads)
{
    pthread_t threads[MOST];
    job j = {work, argument};
    int n = 0;
    while (n < n_threads - 1 &&
           pthread_create(&threads[n], NULL, run_job, &j) == 0)
        n++;
    work(argument);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}
