/*
 * What Debian's static libraries take from glibc 2.36 and older ones have not:
 * the portable build (`make portable-programs`) links them for glibc 2.28.
 * Nothing of ours calls it; where libc has it, this file is empty.
 */
#include <features.h>
#include <stddef.h>

#if !__GLIBC_PREREQ(2, 36)
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *out, size_t n);

/* libexpat's salt of hash tables. As glibc's: random, or the program ends. */
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
