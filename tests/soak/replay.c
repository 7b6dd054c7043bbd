/* Runs the fuzz targets without libFuzzer: first with the inputs in
 * tests/fuzz/seeds and tests/fuzz/learned, then with random inputs, most of
 * which are variations of the first ones.
 *
 *     replay COUNT SEED TARGET...      e.g. replay 2000 1 reader scan
 *
 * When an input causes a failure, the program exits with 1. The bytes of the
 * input are left in $SOAK_BROKEN/TARGET-SEED-NUMBER; if the input is random,
 * the same command draws it again. Each target runs in a child process, whose
 * exit status the parent checks. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/chance.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_KEPT = 4096, MOST_BYTES = 1 << 16, SECONDS_MOST = 60 };

#define TARGETS(row)                                                           \
    row(arch) row(checkpoint) row(fragment) row(import) row(npy) row(reader)   \
        row(rules) row(safetensors) row(scan) row(settings) row(text)          \
            row(tokens)

/* The Makefile compiles the function of each target under a separate name. */
#define DECLARE(name) int fuzz_##name##_input(const uint8_t *bytes, size_t n);
TARGETS(DECLARE)

#define LIST(name) {#name, fuzz_##name##_input},
static const struct target {
    const char *name;
    int (*run)(const uint8_t *bytes, size_t n);
} targets[] = {TARGETS(LIST)};

typedef struct input {
    size_t n;
    uint8_t *bytes;
} input;

static input kept[MOST_KEPT];
static size_t n_kept, n_run;

/** The child's current input, which the parent reads after the child has
 *  ended. */
static struct shared {
    long number; /* -1 - k: stored input k */
    size_t n;
    uint8_t bytes[MOST_BYTES];
} * now;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "replay: %s\n", what);
    exit(2);
}

/* --- stored inputs ------------------------------------------------------- */

/** Reads up to `most` bytes from the file's current position and stores them as
 *  an input. */
static void keep(FILE *file, size_t most)
{
    input *next = &kept[n_kept];
    if (most > MOST_BYTES || n_kept == MOST_KEPT ||
        !(next->bytes = malloc(most + 1)))
        fail("the stored inputs are too many or too large");
    next->n = fread(next->bytes, 1, most, file);
    n_kept++;
}

static void keep_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    keep(file, MOST_BYTES);
    fclose(file);
}

/** Reads concatenated inputs as written by corpora.py. */
static void keep_learned(const char *name)
{
    char path[256];
    uint8_t n[4];
    snprintf(path, sizeof path, "tests/fuzz/learned/%s", name);
    FILE *file = fopen(path, "rb");
    while (file && fread(n, 1, sizeof n, file) == sizeof n)
        keep(file, n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16);
    if (file)
        fclose(file);
}

static void keep_all(const char *name)
{
    char folder[256], path[4400];
    struct dirent **entries;
    keep_learned(name);
    snprintf(folder, sizeof folder, "tests/fuzz/seeds/%s", name);
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            keep_file(path);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* --- random inputs ------------------------------------------------------- */

static void draw_bytes(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)chance_below(256);
}

/** Returns a random replacement for a byte: a digit for a digit, a flipped bit,
 *  the next value, a byte that has a meaning in text formats, or any byte. */
static uint8_t changed(uint8_t byte)
{
    static const char marks[] = "\0\1\177\200\377 \n\"'{}[],:.-+0123456789eEnN";
    if (byte >= '0' && byte <= '9' && chance_below(2))
        return (uint8_t)('0' + chance_below(10));
    switch (chance_below(4)) {
    case 0:
        return (uint8_t)(byte ^ 1U << chance_below(8));
    case 1:
        return (uint8_t)(byte + 1);
    case 2:
        return (uint8_t)marks[chance_below(sizeof marks - 1)];
    default:
        return (uint8_t)chance_below(256);
    }
}

/** Removes or repeats a part of the input. */
static void cut_or_double(struct shared *to)
{
    const size_t at = chance_below((uint32_t)to->n);
    size_t n = 1 + chance_below(chance_below(2) ? 8 : 200);
    n = n > to->n - at ? to->n - at : n;
    if (chance_below(2)) {
        memmove(to->bytes + at, to->bytes + at + n, to->n - at - n);
        to->n -= n;
    } else if (to->n + n <= MOST_BYTES) {
        memmove(to->bytes + at + n, to->bytes + at, to->n - at);
        to->n += n;
    }
}

static void mutate(struct shared *to)
{
    const input *from = &kept[chance_below((uint32_t)n_kept)];
    memcpy(to->bytes, from->bytes, from->n);
    to->n = from->n;
    for (uint32_t i = chance_below(4) + 1; i > 0 && to->n > 0; i--) {
        const uint32_t how = chance_below(32);
        if (how < 3)
            cut_or_double(to);
        else if (how == 3)
            to->n = chance_below((uint32_t)to->n) + 1;
        else {
            uint8_t *byte = &to->bytes[chance_below((uint32_t)to->n)];
            *byte = changed(*byte);
        }
    }
}

static void draw(struct shared *to, long seed, long number)
{
    chance_seed((uint64_t)seed << 32 ^ (uint64_t)number);
    chance_bits();
    if (n_kept && chance_below(8)) {
        mutate(to);
        return;
    }
    to->n = chance_below(chance_below(2) ? 64 : 600);
    draw_bytes(to->bytes, to->n);
}

/* --- running ---------------------------------------------------------------*/

/** Runs the target on a copy of exactly the input's size, so that a sanitizer
 *  detects reads beyond its end. */
static void run(const struct target *target)
{
    uint8_t *bytes = malloc(now->n ? now->n : 1);
    if (!bytes)
        fail("out of memory");
    memcpy(bytes, now->bytes, now->n);
    alarm(SECONDS_MOST);
    target->run(bytes, now->n);
    free(bytes);
}

static void run_all(const struct target *target, long count, long seed)
{
    for (size_t i = 0; i < n_kept; i++) {
        now->number = -1 - (long)i;
        now->n = kept[i].n;
        memcpy(now->bytes, kept[i].bytes, now->n);
        run(target);
    }
    for (long i = 0; i < count; i++) {
        now->number = i;
        draw(now, seed, i);
        run(target);
    }
}

static void report_broken(const char *name, long seed, int status)
{
    const char *folder = getenv("SOAK_BROKEN");
    char path[4400];
    printf("%s: input %ld of seed %ld, %zu bytes: ", name, now->number, seed,
           now->n);
    if (WIFSIGNALED(status))
        printf("signal %d (%s)\n", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    else
        printf("exit %d\n", WEXITSTATUS(status));
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s-%ld-%ld", folder, name, seed,
             now->number);
    FILE *file = fopen(path, "wb");
    if (file && fwrite(now->bytes, 1, now->n, file) == now->n)
        printf("%s: kept\n", path);
    if (file)
        fclose(file);
}

static bool replay(const struct target *target, long count, long seed)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        fail("cannot fork");
    if (child == 0) {
        run_all(target, count, seed);
        exit(0);
    }
    if (waitpid(child, &status, 0) != child)
        fail("the child process is lost");
    if (status)
        report_broken(target->name, seed, status);
    n_run += n_kept + (size_t)count;
    return status == 0;
}

static const struct target *find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    fail("no such target");
}

static void forget_kept(void)
{
    for (; n_kept > 0; n_kept--)
        free(kept[n_kept - 1].bytes);
}

int main(int argc, char **argv)
{
    bool good = argc > 3;
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (now == MAP_FAILED)
        fail("out of memory");
    if (!good)
        fail("usage: replay COUNT SEED TARGET...");
    for (int i = 3; i < argc; i++) {
        keep_all(argv[i]);
        good &= replay(find(argv[i]), strtol(argv[1], NULL, 10),
                       strtol(argv[2], NULL, 10));
        forget_kept();
    }
    printf("soak: %zu inputs\n", n_run);
    return good ? 0 : 1;
}
