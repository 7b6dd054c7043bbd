/* Tests the parsing of URLs and other names of PostgreSQL databases: the string
   for libpq, the string for messages, and refused names. Also compares our
   declarations of libpq with libpq-fe.h. */
#include "store/postgresql/postgres.h"
#include "tests/support/test.h"

#include <stddef.h>
#include <string.h>
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#define HAS_HEADER
#endif

static void need_libpq(void)
{
    if (es_libpq_load() < 0)
        es_skip("no libpq");
}

static const struct {
    const char *text, *conninfo, *shown, *where, *run;
} taken[] = {
    {"postgresql://", "postgresql://", "postgresql://", NULL, NULL},
    {"postgres://h/d", "postgres://h/d", "postgres://h/d", NULL, NULL},
    {"postgresql://me:pearl@h:5433/d", "postgresql://me:pearl@h:5433/d",
     "postgresql://me@h:5433/d", NULL, NULL},
    {"postgresql://me:@h", "postgresql://me:@h", "postgresql://me@h", NULL,
     NULL},
    {"postgresql://h/d?password=pearl&sslmode=require",
     "postgresql://h/d?password=pearl&sslmode=require",
     "postgresql://h/d?sslmode=require", NULL, NULL},
    {"postgresql://h/d?p%61ssword=pearl", "postgresql://h/d?p%61ssword=pearl",
     "postgresql://h/d", NULL, NULL},
    {"postgresql://h/d?where=arch%3DSM*%20seed%3C3&service=x",
     "postgresql://h/d?service=x",
     "postgresql://h/d?where=arch%3DSM*%20seed%3C3&service=x",
     "arch=SM* seed<3", NULL},
    {"postgresql://h/d?where=arch=SM&run=7", "postgresql://h/d",
     "postgresql://h/d?where=arch=SM&run=7", "arch=SM", "7"},
    {"host=h dbname=d password=pearl", "host=h dbname=d password=pearl",
     "postgresql://?dbname=d&host=h", NULL, NULL},
};

static void assert_text(const char *got, const char *want)
{
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

TEST(the_shown_name_of_a_database_has_no_password)
{
    need_libpq();
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        es_postgres_url url = {0};
        es_assert_ok(es_postgres_url_read(&url, taken[i].text));
        assert_text(url.conninfo, taken[i].conninfo);
        assert_text(url.shown, taken[i].shown);
        assert_text(url.where, taken[i].where);
        assert_text(url.run, taken[i].run);
        assert_null(strstr(url.base, "pearl"));
        assert_null(strstr(url.base, "where"));
        es_postgres_url_free(&url);
    }
}

static const struct {
    const char *text, *word;
} refused[] = {
    {"postgresql://me:pearl@x@h/d", "%40"},
    {"postgresql://me:pearl/x@h/d", "%40"},
    {"postgresql://h/d?colour=pearl", "not a URL"},
    {"postgresql://h:pearl]/%zz", "not a URL"},
    {"postgresql://h/d?where=", "without a value"},
    {"postgresql://h/d?run=1&run=2", "twice"},
    {"postgresql://h/d?where=%zz", "%25"},
    {"postgresql://h/d?where=%0", "%25"},
    {"postgresql://h/d?where=a%00b", "%25"},
    {"pearl", "KEYWORD=VALUE"},
};

TEST(an_invalid_url_is_refused_without_its_password)
{
    need_libpq();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        es_postgres_url url = {0};
        assert_int_equal(es_postgres_url_read(&url, refused[i].text),
                         ES_EUSAGE);
        assert_non_null(strstr(es_message(), refused[i].word));
        if (strstr(refused[i].text, "me:"))
            assert_null(strstr(es_message(), "pearl"));
        es_postgres_url_free(&url);
    }
}

TEST(only_postgresql_urls_are_recognised)
{
    assert_true(es_postgres_is_url("postgresql://h/d"));
    assert_false(es_postgres_is_url("runs/postgresql:/a.db"));
    assert_false(es_postgres_is_url("postgresql:a.db"));
    assert_false(es_postgres_is_url("host=h dbname=d"));
}

#ifdef HAS_HEADER
/* Returns true for functions whose declaration here differs from libpq's, but
   only in the name of a type. For these, the test compares the members of the
   types. */
static bool is_apart(const char *name)
{
    static const char *const apart[] = {"conninfoParse", "conninfoFree",
                                        "status", "resultStatus", "notifies"};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (strcmp(apart[i], name) == 0)
            return true;
    return false;
}

TEST(our_declarations_of_libpq_match_its_header)
{
#define SAME(returned, name, parameters)                                       \
    assert_true(is_apart(#name) ||                                             \
                __builtin_types_compatible_p(__typeof__(&PQ##name),            \
                                             __typeof__(es_pq.name)));
    ES_LIBPQ(SAME)
    assert_int_equal(sizeof(es_libpq_option), sizeof(PQconninfoOption));
    assert_int_equal(offsetof(es_libpq_option, val),
                     offsetof(PQconninfoOption, val));
    assert_int_equal(sizeof(es_libpq_notify), sizeof(PGnotify));
    assert_int_equal(offsetof(es_libpq_notify, extra),
                     offsetof(PGnotify, extra));
    assert_int_equal(ES_CONNECTION_OK, CONNECTION_OK);
    assert_int_equal(ES_PGRES_COMMAND_OK, PGRES_COMMAND_OK);
    assert_int_equal(ES_PGRES_TUPLES_OK, PGRES_TUPLES_OK);
    assert_int_equal(ES_PGRES_COPY_OUT, PGRES_COPY_OUT);
    assert_int_equal(ES_PGRES_COPY_IN, PGRES_COPY_IN);
    assert_int_equal(ES_PG_SQLSTATE, PG_DIAG_SQLSTATE);
    assert_int_equal(ES_PG_MESSAGE, PG_DIAG_MESSAGE_PRIMARY);
    assert_int_equal(ES_PG_DETAIL, PG_DIAG_MESSAGE_DETAIL);
}
#endif
