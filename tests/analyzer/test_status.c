/** Tests the one-line error message that es_fail stores. */
#include "analyzer/base/status.h"
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>

TEST(message_is_one_safe_line)
{
    assert_int_equal(es_fail(ES_EIO, "%s: %d", "a\nb\x1b[31m\x7f", 7), ES_EIO);
    assert_string_equal(es_message(), "a?b?[31m?: 7");
    /* U+0085 and U+009B are control characters; U+00DC ends in the same byte
       as U+009C */
    es_fail(ES_EIO, "%s", "\xc2\x85\xc2\x9b[2J \xc3\x9c \xc2\xa9 \xc2");
    assert_string_equal(es_message(), "????[2J \xc3\x9c \xc2\xa9 \xc2");
}

TEST(message_may_name_the_one_before)
{
    es_fail(ES_EIO, "first");
    es_fail(ES_EFORMAT, "second, after %s", es_message());
    assert_string_equal(es_message(), "second, after first");
}

TEST(too_few_descriptors_have_a_remedy)
{
    es_fail(ES_EIO, "x.db: cannot open: %s", strerror(EMFILE));
    assert_string_equal(es_message(), "x.db: cannot open: Too many open files: "
                                      "raise the limit: ulimit -n 256");
}

TEST(long_messages_are_cut)
{
    char text[3 * ES_MESSAGE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    es_fail(ES_EIO, "%s", text);
    assert_int_equal(strlen(es_message()), ES_MESSAGE_MAX - 1);
}

static void *fail_elsewhere(void *user)
{
    (void)user;
    es_fail(ES_EIO, "elsewhere");
    return NULL;
}

TEST(each_thread_has_its_own_message)
{
    pthread_t thread;
    es_fail(ES_EIO, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(es_message(), "here");
}

TEST(each_status_has_its_exit_code)
{
    assert_int_equal(es_exit_code(ES_OK), 0);
    assert_int_equal(es_exit_code(ES_DONE), 0);
    assert_int_equal(es_exit_code(ES_EUSAGE), 2);
    assert_int_equal(es_exit_code(ES_EIO), 3);
    assert_int_equal(es_exit_code(ES_EINTERNAL), 3);
}
