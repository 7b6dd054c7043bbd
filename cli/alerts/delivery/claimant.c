/* Identifies a process by its pid and the time it began, in one number, so
 * that a ledger can distinguish a claimant that was killed from a later process
 * of the same pid. Relies on /proc; without it a claimant counts as alive. */
#include "cli/alerts/delivery/claimant.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PID_BITS 22 /* the kernel's own bound is 2^22 */
#define PID_MASK (((int64_t)1 << PID_BITS) - 1)

/* When a process began, in ticks since the machine did. 0: not known; -1: it
   has ended, though nobody may have waited for it. */
static int64_t start_of(pid_t pid)
{
    char path[32], line[1024];
    long long start = 0;
    char state = '?';
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return kill(pid, 0) != 0 && errno == ESRCH ? -1 : 0;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    /* The name in parentheses may hold anything. */
    const char *field = strrchr(line, ')');
    if (!field || sscanf(field + 1,
                         " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                         "%*s %*s %*s %*s %*s %*s %lld",
                         &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? -1 : start;
}

static int64_t claimant_of(pid_t pid, int64_t start)
{
    return (start & (INT64_MAX >> PID_BITS)) << PID_BITS | (pid & PID_MASK);
}

int64_t es_claimant_self(void)
{
    int64_t start = start_of(getpid());
    return claimant_of(getpid(), start < 0 ? 0 : start);
}

bool es_claimant_is_gone(int64_t claimant)
{
    pid_t pid = (pid_t)(claimant & PID_MASK);
    int64_t start = start_of(pid);
    return start < 0 || (start > 0 && claimant >> PID_BITS > 0 &&
                         claimant_of(pid, start) != claimant);
}
