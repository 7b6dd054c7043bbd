/* Tests the reader of .npy files, which reads the supported kinds of files and
   refuses all others. */
#include "hooks/trainer/files/npy.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

/** The parts of a .npy file. Tests damage one part at a time. */
typedef struct parts {
    int major, minor;
    const char *header; /* header text, without the length field that precedes
                           it */
    const void *data;
    size_t n_data;
} parts;

/** Writes the parts into `bytes` and returns the number of bytes. */
static size_t assemble(unsigned char bytes[4096], const parts *from)
{
    size_t n_header = strlen(from->header);
    size_t at = 8, n_length = from->major == 1 ? 2 : 4;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)from->major;
    bytes[7] = (unsigned char)from->minor;
    for (size_t i = 0; i < n_length; i++)
        bytes[at++] = (unsigned char)(n_header >> 8 * i);
    assert_true(at + n_header + from->n_data <= 4096);
    memcpy(bytes + at, from->header, n_header);
    memcpy(bytes + at + n_header, from->data, from->n_data);
    return at + n_header + from->n_data;
}

static void write_parts(const parts *from)
{
    unsigned char bytes[4096];
    es_scratch_write(bytes, assemble(bytes, from));
}

static void expect_refusal(es_status code, const char *word)
{
    es_npy array = {.n = 77};
    assert_int_equal(es_npy_read(&array, es_scratch_file), code);
    assert_int_equal(array.n, 77); /* not changed */
    assert_ptr_equal(strstr(es_message(), es_scratch_file), es_message());
    if (!strstr(es_message(), word))
        fail_msg("\"%s\" does not contain \"%s\"", es_message(), word);
}

static const float six[] = {1.5f, -2, 3e-40f, 0.1f, 5, -0.0f};
#define F4_2X3 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n"
static const parts good = {1, 0, F4_2X3, six, sizeof six};

TEST(float32_is_read)
{
    for (int major = 1; major <= 2; major++) {
        parts from = good;
        AUTO_BY(es_npy_free) es_npy array;
        from.major = major;
        write_parts(&from);
        es_assert_ok(es_npy_read(&array, es_scratch_file));
        es_assert_ok(es_npy_expect(&array, es_scratch_file, ES_NPY_F4, 2,
                                   (size_t[]){2, 3}));
        assert_int_equal(array.n, 6);
        assert_memory_equal(array.data, six, sizeof six);
        assert_true(es_npy_at(&array, 3) == (double)0.1f);
        es_npy_free(&array);
        assert_null(array.data);
    }
    es_npy_free(NULL);
}

TEST(float64_and_int32_are_read)
{
    const double doubles[] = {0.1, 1e300};
    const int32_t ints[] = {INT32_MIN, 7, INT32_MAX};
    AUTO_BY(es_npy_free) es_npy array;
    write_parts(&(parts){1, 0,
                         "{\"shape\":(2,),\"fortran_order\":False,"
                         "\"descr\":\"<f8\"}",
                         doubles, sizeof doubles});
    es_assert_ok(es_npy_read(&array, es_scratch_file));
    assert_int_equal(array.type, ES_NPY_F8);
    assert_true(es_npy_at(&array, 0) == 0.1 && es_npy_at(&array, 1) == 1e300);
    es_npy_free(&array);
    write_parts(&(parts){1, 0,
                         "{'descr': '<i4', 'fortran_order': False, "
                         "'shape': (1, 3, 1), }\n",
                         ints, sizeof ints});
    es_assert_ok(es_npy_read(&array, es_scratch_file));
    assert_int_equal(array.type, ES_NPY_I4);
    assert_int_equal(array.n_dims, 3);
    assert_true(es_npy_at(&array, 0) == INT32_MIN);
    assert_true(es_npy_at(&array, 2) == INT32_MAX);
}

TEST(a_scalar_and_an_empty_array_are_read)
{
    AUTO_BY(es_npy_free) es_npy array;
    write_parts(&(parts){1, 0,
                         "{'descr': '<f4', 'fortran_order': False, "
                         "'shape': (), }",
                         six, 4});
    es_assert_ok(es_npy_read(&array, es_scratch_file));
    assert_int_equal(array.n_dims, 0);
    assert_int_equal(array.n, 1);
    assert_true(es_npy_at(&array, 0) == 1.5);
    es_npy_free(&array);
    write_parts(&(parts){1, 0,
                         "{'descr': '<f4', 'fortran_order': False, "
                         "'shape': (5, 0), }",
                         six, 0});
    es_assert_ok(es_npy_read(&array, es_scratch_file));
    assert_int_equal(array.n, 0);
    assert_non_null(array.data);
}

/**
 * A valid file is refused if it is truncated at any byte or has an additional
 * byte.
 */
TEST(a_truncated_file_is_refused)
{
    unsigned char bytes[4096];
    for (int major = 1; major <= 2; major++) {
        parts from = good;
        from.major = major;
        size_t n = assemble(bytes, &from);
        for (size_t cut = 0; cut < n; cut++) {
            es_scratch_write(bytes, cut);
            expect_refusal(ES_EFORMAT, cut < 8 ? "not a .npy" : "cut off");
        }
        bytes[n] = 0;
        es_scratch_write(bytes, n + 1);
        expect_refusal(ES_EFORMAT, "1 unexpected bytes");
    }
}

TEST(files_of_other_programs_are_refused)
{
    parts from = good;
    es_scratch_write("step,layer,head\n", 16);
    expect_refusal(ES_EFORMAT, "not a .npy");
    from.major = 3;
    write_parts(&from);
    expect_refusal(ES_EVERSION, "3.0");
    from.major = 1, from.minor = 1;
    write_parts(&from);
    expect_refusal(ES_EVERSION, "1.1");
}

TEST(malformed_headers_are_refused)
{
    static const struct {
        const char *header, *word;
    } cases[] = {
        {"", "malformed"},
        {"{}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "mal"},
        {"{'descr': '<f4', 'fortran_order': False 'shape': (2, 3)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False}", "malformed"},
        {"{'descr': '<f4', 'shape': (2, 3)}", "malformed"},
        {"{'fortran_order': False, 'shape': (2, 3)}", "malformed"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
         "'shape': (2, 3)}",
         "malformed"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "mal"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (1,1,1,1,1,1,1,1,6)}",
         "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (99999999999999999999,)}",
         "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (4294967296, 4294967296)}",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (4611686018427387904,)}",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372,)}",
         "cut off"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", ">f4"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3)}", "<f2"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
         "is not a number type"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
         "ascontiguousarray"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_parts(&(parts){1, 0, cases[i].header, six, sizeof six});
        expect_refusal(ES_EFORMAT, cases[i].word);
    }
}

/**
 * The length field of the header may have any value in a damaged or crafted
 * file.
 */
TEST(a_long_header_is_refused)
{
    static unsigned char bytes[40000];
    memcpy(bytes, "\x93NUMPY\x02\x00\x00\x80\x00\x00", 12);
    es_scratch_write(bytes, sizeof bytes);
    expect_refusal(ES_EFORMAT, "too long");
}

TEST(only_regular_files_are_read)
{
    es_scratch_no_file(expect_refusal);
}

TEST(another_type_or_shape_is_refused)
{
    AUTO_BY(es_npy_free) es_npy array;
    write_parts(&good);
    es_assert_ok(es_npy_read(&array, es_scratch_file));
    assert_int_equal(
        es_npy_expect(&array, "q.npy", ES_NPY_I4, 2, (size_t[]){2, 3}),
        ES_EFORMAT);
    assert_string_equal(es_message(),
                        "q.npy: element type float32, expected int32");
    assert_int_equal(
        es_npy_expect(&array, "q.npy", ES_NPY_F4, 2, (size_t[]){3, 2}),
        ES_EFORMAT);
    assert_string_equal(es_message(), "q.npy: shape (2, 3), expected (3, 2)");
    assert_int_equal(
        es_npy_expect(&array, "q.npy", ES_NPY_F4, 3, (size_t[]){2, 3, 1}),
        ES_EFORMAT);
}

TEST_GROUP(es_scratch_open, es_scratch_close)
