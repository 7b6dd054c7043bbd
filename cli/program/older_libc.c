/* Defines arc4random_buf for glibc older than 2.36. The portable build (`make
 * portable-programs`) targets glibc 2.28, but links Debian's static libraries,
 * which call this function; entropy-scan itself does not call it. If libc has
 * the function, this file defines nothing. */
#include <features.h>
#include <stddef.h>

#if !__GLIBC_PREREQ(2, 36)
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *out, size_t n);

/* libexpat calls this function to seed its hash tables. As in glibc, the
 * program ends if the kernel returns no random bytes. */
__attribute__((visibility("default"))) void arc4random_buf(void *out, size_t n)
{
    unsigned char *bytes = out;
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom(bytes + done, n - done, 0);
        if (got < 0)
            abort();
        done += (size_t)got;
    }
}
#endif
