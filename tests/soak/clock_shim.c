/*
 * Makes the time of day jump while a program runs, for fault_points.py.
 * LD_PRELOAD loads this library before libc.
 *
 *   ES_CLOCK=N,SECONDS  adds SECONDS, which may be negative, from the Nth
 *                       reading of the clock on
 *
 * Other clocks are unchanged, as when a user sets the time.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long n_reads;

static time_t jump(void)
{
    const char *text = getenv("ES_CLOCK");
    char *rest;
    if (!text)
        return 0;
    const long from = strtol(text, &rest, 10);
    return atomic_fetch_add(&n_reads, 1) + 1 < from ? 0 : atol(rest + 1);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (!failed && clock == CLOCK_REALTIME)
        out->tv_sec += jump();
    return failed;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
