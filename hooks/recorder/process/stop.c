/* Reads a user's request to stop training. A user makes the request by creating
 * a file RUN.db.stop next to the run file. */
#include "hooks/recorder/process/session.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the first line of the file and replaces bytes that are not printable
 * ASCII. */
static void read_line(char *line, size_t size, int fd)
{
    ssize_t n = read(fd, line, size - 1);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    for (char *c = line; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
}

bool es_stop_requested(char *line, size_t size, const char *path)
{
    char file[PATH_MAX];
    int n = snprintf(file, sizeof file, "%s.stop", path);
    if (n < 0 || n >= (int)sizeof file)
        return false;
    int fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat status;
    bool requested = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (requested) {
        read_line(line, size, fd);
        unlink(file);
    }
    close(fd);
    return requested;
}
