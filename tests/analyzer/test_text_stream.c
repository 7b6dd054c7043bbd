/**
 * Tests streams that write text into memory: either the text is complete or the
 * stream reports an error.
 */
#include "analyzer/base/text_stream.h"
#include "tests/support/auto.h"
#include "tests/support/test.h"

#include <sys/resource.h>
#include <sys/wait.h>

TEST(the_text_is_complete_and_terminated)
{
    AUTO_FREE char *text = NULL;
    size_t size;
    FILE *stream = es_text_stream(&text, &size);
    for (int i = 0; i < 10000; i++)
        fprintf(stream, "%04d%c", i, i % 2 ? '\0' : '\n');
    assert_int_equal(ftell(stream), 50000);
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(size, 50000);
    for (int i = 0; i < 10000; i++) {
        char expected[6];
        snprintf(expected, sizeof expected, "%04d%c", i, i % 2 ? '\0' : '\n');
        assert_memory_equal(text + (size_t)i * 5, expected, 5);
    }
    assert_int_equal(text[size], 0);
}

TEST(a_stream_that_is_rewound_writes_from_the_start)
{
    AUTO_FREE char *text = NULL;
    size_t size;
    FILE *stream = es_text_stream(&text, &size);
    fputs("a long beginning", stream);
    assert_int_equal(fflush(stream), 0);
    assert_string_equal(text, "a long beginning");
    rewind(stream);
    fputs("an", stream);
    assert_int_equal(fflush(stream), 0);
    assert_int_equal(size, 2);
    assert_string_equal(text, "anlong beginning");
    assert_int_equal(fclose(stream), 0);
}

TEST(nothing_written_is_an_empty_text)
{
    AUTO_FREE char *text = NULL;
    size_t size = 1;
    FILE *stream = es_text_stream(&text, &size);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "");
    assert_int_equal(size, 0);
}

/* Runs in a child: writes 1 GiB under a memory limit of 64 MiB, then a little
   more. */
static int write_too_much(void)
{
    enum { CHUNK = 1 << 20, CHUNKS = 1024, MOST = 64 << 20 };
    char *text, *chunk = calloc(CHUNK, 1);
    size_t size;
    FILE *stream = es_text_stream(&text, &size);
    if (!chunk || setrlimit(RLIMIT_AS, &(struct rlimit){MOST, MOST}) != 0)
        return 1;
    for (int i = 0; i < CHUNKS; i++)
        fwrite(chunk, CHUNK, 1, stream);
    fputs("the end", stream);
    return fclose(stream) == 0 ? 2 : text ? 3 : 0;
}

TEST(a_text_without_memory_is_an_error_and_not_truncated)
{
#ifdef __SANITIZE_ADDRESS__
    es_skip("sanitizers do not work under a memory limit");
#endif
    const pid_t child = fork();
    if (child == 0)
        _exit(write_too_much());
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFEXITED(end));
    assert_int_equal(WEXITSTATUS(end), 0);
}

TEST_EACH(NULL, NULL)
