/* Waits for a condition, with a time limit. See await.h. */
#include "tests/support/await.h"
#include "analyzer/base/kernel.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The process and the thread that run the test. In another process or thread, a
 * wait cannot fail the test. */
static pid_t process, first_thread;

__attribute__((constructor)) static void remember(void)
{
    process = getpid();
    first_thread = gettid();
}

void es_await_nap(int64_t *until, const char *what, const char *file, int line)
{
    const int64_t now = es_now_ms();
    if (*until == 0)
        *until = now + ES_PATIENCE_MS;
    if (now < *until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return;
    }
    print_error("waited %d s for: %s\n", ES_PATIENCE_S, what);
    if (getpid() != process || gettid() != first_thread)
        _exit(1);
    _fail(file, line);
}

bool es_is_asleep(pid_t id, pid_t thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)id, (int)thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* Format: "PID (NAME) STATE ...". The name may contain parentheses. */
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'S';
}
