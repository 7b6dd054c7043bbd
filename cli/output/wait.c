#include "cli/output/wait.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

bool es_wait_ended(int *how, pid_t child, pid_t killed, double limit)
{
    int fd = pidfd_open(child, 0), n = 1;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    *how = 0;
    if (fd >= 0)
        while ((n = poll(&polled, 1, (int)(limit * 1000))) < 0 &&
               errno == EINTR)
            ;
    if (fd >= 0)
        close(fd);
    if (n == 0)
        kill(killed, SIGKILL);
    while (waitpid(child, how, 0) < 0 && errno == EINTR)
        ;
    return n != 0;
}
