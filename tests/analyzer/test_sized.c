/* Tests analyzer/base/sized: copying structs between programs and libraries of
   different versions. */
#include "analyzer/base/sized.h"
#include "tests/support/test.h"

/* Three versions of the same struct: that of an older library, that of this
   library, and that of a newer one. */
typedef struct old_struct {
    size_t size;
    int64_t a;
} old_struct;

typedef struct our_struct {
    size_t size;
    int64_t a, b;
} our_struct;

typedef struct new_struct {
    size_t size;
    int64_t a, b, c;
} new_struct;

TEST(members_that_an_old_program_lacks_are_zero)
{
    our_struct ours = {7, 7, 7};
    const struct {
        old_struct given;
        int64_t of_somebody_else;
    } memory = {{sizeof(old_struct), 5}, 6};
    assert_int_equal(es_sized_take(&ours, sizeof ours, &memory.given, "es_x"),
                     ES_OK);
    assert_int_equal(ours.size, sizeof ours);
    assert_int_equal(ours.a, 5);
    assert_int_equal(ours.b, 0);
}

TEST(a_member_set_by_a_newer_program_is_refused)
{
    our_struct ours = {7, 7, 7};
    new_struct given = {sizeof given, 1, 2, 3};
    assert_int_equal(es_sized_take(&ours, sizeof ours, &given, "es_x"),
                     ES_EARGUMENT);
    assert_string_equal(es_message(),
                        "es_x: a member beyond the 24 bytes that this "
                        "library knows is set: install a newer library");
    assert_int_equal(ours.b, 7);
    given.c = 0;
    assert_int_equal(es_sized_take(&ours, sizeof ours, &given, "es_x"), ES_OK);
    assert_int_equal(ours.b, 2);
}

TEST(a_missing_struct_is_refused)
{
    our_struct ours = {sizeof ours, 7, 7};
    assert_int_equal(es_sized_take(&ours, sizeof ours, NULL, "es_x"),
                     ES_EARGUMENT);
    assert_string_equal(es_message(), "es_x: pointer is NULL: pass a struct");
    assert_int_equal(es_sized_give(NULL, &ours, sizeof ours, "es_x"),
                     ES_EARGUMENT);
    assert_int_equal(ours.a, 7);
}

TEST(a_struct_without_its_size_is_refused)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        our_struct ours = {7, 7, 7}, given = {sizes[i], 1, 2};
        assert_int_equal(es_sized_take(&ours, sizeof ours, &given, "es_x"),
                         ES_EARGUMENT);
        assert_non_null(strstr(es_message(), "set it to sizeof (es_x)"));
        assert_int_equal(ours.a, 7);
        assert_int_equal(es_sized_give(&given, &ours, sizeof ours, "es_x"),
                         ES_EARGUMENT);
        assert_int_equal(given.a, 1);
    }
}

TEST(an_old_program_gets_as_much_as_fits)
{
    const our_struct ours = {sizeof ours, 5, 6};
    struct {
        old_struct out;
        int64_t of_somebody_else;
    } memory = {{sizeof(old_struct), 1}, 2};
    assert_int_equal(es_sized_give(&memory.out, &ours, sizeof ours, "es_x"),
                     ES_OK);
    assert_int_equal(memory.out.size, sizeof(old_struct));
    assert_int_equal(memory.out.a, 5);
    assert_int_equal(memory.of_somebody_else, 2);
    new_struct larger = {sizeof larger, 1, 2, 3};
    assert_int_equal(es_sized_give(&larger, &ours, sizeof ours, "es_x"), ES_OK);
    /* The caller learns the size of the library's version of the struct. */
    assert_int_equal(larger.size, sizeof ours);
    assert_int_equal(larger.b, 6);
    assert_int_equal(larger.c, 3);
}
