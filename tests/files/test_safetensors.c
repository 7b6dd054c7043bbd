/* Tests safetensors files: written tensors are read back, and invalid files are
   refused. */
#include "hooks/trainer/files/safetensors.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

AUTO_OF(es_safetensors, es_safetensors_close)

/**
 * Writes a file that consists of the header's length, the header, and `n` bytes
 * of data.
 */
static void write_file(const char *header, const void *data, size_t n)
{
    uint64_t length = strlen(header);
    FILE *out = fopen(es_scratch_file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(&length, 1, 8, out), 8);
    assert_int_equal(fwrite(header, 1, length, out), length);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static es_safetensors *open_file(void)
{
    es_safetensors *opened;
    es_assert_ok(es_safetensors_open(&opened, es_scratch_file));
    return opened;
}

static void expect_refusal(es_status code, const char *word)
{
    es_safetensors *opened = (void *)es_scratch_file;
    assert_int_equal(es_safetensors_open(&opened, es_scratch_file), code);
    assert_null(opened);
    assert_ptr_equal(strstr(es_message(), es_scratch_file), es_message());
    if (!strstr(es_message(), word))
        fail_msg("\"%s\" does not contain \"%s\"", es_message(), word);
}

static const char twelve[12] = "abcdefghijkl";

static void refuse(const char *header, const char *word)
{
    write_file(header, twelve, sizeof twelve);
    expect_refusal(ES_EFORMAT, word);
}

/* --- write and read
   -------------------------------------------------------- */

/**
 * Returns value i of a test tensor. All values differ, and some are special
 * values such as NaN.
 */
static float value_of(size_t tensor, size_t i)
{
    if (tensor == 1 && i == 3)
        return NAN;
    return (float)(tensor + 1) * 0.3f - (float)i * 1e-3f;
}

static es_status fill(void *user, size_t index, float *out, size_t n)
{
    (*(int *)user)++;
    for (size_t i = 0; i < n; i++)
        out[i] = value_of(index, i);
    return ES_OK;
}

static es_status fill_none(void *user, size_t index, float *out, size_t n)
{
    (void)user, (void)index, (void)out, (void)n;
    return es_fail(ES_EFORMAT, "nothing to fill in");
}

static int n_fills;

#define N_OURS 4
static const es_tensor_source ours[N_OURS] = {
    {"one", 0, {0}, fill, &n_fills, 0},
    {"h.0.attn \"quoted\" \xc3\xa9", 2, {3, 700}, fill, &n_fills, 1},
    {"empty", 2, {5, 0}, fill, &n_fills, 2},
    {"last", 1, {1}, fill, &n_fills, 3}};

static void write_ours(void)
{
    const es_tensor_note notes[] = {{"step", "17"},
                                    {"text", "{\"a\": \"\\n\"}\n"}};
    n_fills = 0;
    es_assert_ok(es_safetensors_write(es_scratch_file, ours, N_OURS, notes, 2));
    assert_int_equal(n_fills, N_OURS);
}

TEST(written_tensors_are_read_back)
{
    float values[2100];
    write_ours();
    AUTO(es_safetensors) opened = open_file();
    assert_string_equal(opened->path, es_scratch_file);
    assert_int_equal(opened->n, N_OURS);
    for (size_t k = 0; k < N_OURS; k++) {
        const es_tensor *tensor = es_safetensors_find(opened, ours[k].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->type, ES_TENSOR_F32);
        assert_int_equal(tensor->n_dims, ours[k].n_dims);
        assert_memory_equal(tensor->dims, ours[k].dims, sizeof tensor->dims);
        es_assert_ok(es_safetensors_read(opened, tensor, values, 0, tensor->n));
        for (size_t i = 0; i < tensor->n; i++) {
            float want = value_of(k, i);
            assert_memory_equal(&values[i], &want, sizeof want);
        }
    }
    assert_null(es_safetensors_find(opened, "two"));
    assert_string_equal(es_safetensors_metadata(opened, "step"), "17");
    assert_string_equal(es_safetensors_metadata(opened, "text"),
                        "{\"a\": \"\\n\"}\n");
    assert_null(es_safetensors_metadata(opened, "steps"));
}

TEST(data_are_aligned)
{
    write_ours();
    AUTO(es_safetensors) opened = open_file();
    assert_int_equal(opened->tensors[0].offset % 8, 0);
    for (size_t i = 1; i < N_OURS; i++)
        assert_true(opened->tensors[i].offset >= opened->tensors[i - 1].offset);
}

TEST(parts_of_a_tensor_can_be_read)
{
    float values[4];
    write_ours();
    AUTO(es_safetensors) opened = open_file();
    const es_tensor *tensor = es_safetensors_find(opened, ours[1].name);
    es_assert_ok(es_safetensors_read(opened, tensor, values, 2096, 4));
    assert_true(values[0] == value_of(1, 2096));
    assert_true(values[3] == value_of(1, 2099));
    assert_int_equal(es_safetensors_read(opened, tensor, values, 2097, 4),
                     ES_EARGUMENT);
    assert_int_equal(es_safetensors_read(opened, tensor, values, 1, SIZE_MAX),
                     ES_EARGUMENT);
    assert_int_equal(es_safetensors_read(opened, tensor, values, SIZE_MAX, 2),
                     ES_EARGUMENT);
}

TEST(a_failed_write_keeps_the_old_file)
{
    struct stat before, after;
    es_tensor_source bad = {"bad", 1, {7}, fill_none, NULL, 0};
    write_ours();
    assert_int_equal(stat(es_scratch_file, &before), 0);
    assert_int_equal(es_safetensors_write(es_scratch_file, &bad, 1, NULL, 0),
                     ES_EFORMAT);
    assert_string_equal(es_message(), "nothing to fill in");
    assert_int_equal(stat(es_scratch_file, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    es_safetensors_close(open_file());
}

TEST(bad_sources_are_refused)
{
    const es_tensor_source twice[] = {ours[0], ours[3], ours[0]};
    es_tensor_source huge = ours[1], reserved = ours[0], latin = ours[0];
    es_tensor_note notes[] = {{"a", "b"}, {"a", "c"}};
    huge.dims[0] = huge.dims[1] = INT64_C(1) << 32;
    reserved.name = "__metadata__";
    latin.name = "caf\xe9";
    unlink(es_scratch_file);
    assert_int_equal(es_safetensors_write(es_scratch_file, twice, 3, NULL, 0),
                     ES_EARGUMENT);
    assert_int_equal(es_safetensors_write(es_scratch_file, &huge, 1, NULL, 0),
                     ES_EARGUMENT);
    assert_int_equal(
        es_safetensors_write(es_scratch_file, &reserved, 1, NULL, 0),
        ES_EARGUMENT);
    assert_int_equal(es_safetensors_write(es_scratch_file, &latin, 1, NULL, 0),
                     ES_EARGUMENT);
    assert_int_equal(es_safetensors_write(es_scratch_file, ours, 1, notes, 2),
                     ES_EARGUMENT);
    assert_int_equal(access(es_scratch_file, F_OK), -1);
}

/* --- files of other programs ---------------------------------------------- */

TEST(tensors_are_in_the_order_of_their_data)
{
    write_file(
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}"
        ",\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"U32\","
        "\"more\":1},\"__metadata__\":{\"format\":\"pt\"}}   ",
        twelve, 12);
    AUTO(es_safetensors) opened = open_file();
    float value;
    assert_int_equal(opened->n, 2);
    assert_string_equal(opened->tensors[0].name, "a");
    assert_int_equal(opened->tensors[0].type, ES_TENSOR_OTHER);
    assert_int_equal(
        es_safetensors_read(opened, &opened->tensors[0], &value, 0, 1),
        ES_EFORMAT);
    es_assert_ok(
        es_safetensors_read(opened, &opened->tensors[1], &value, 1, 1));
    assert_memory_equal(&value, "ijkl", 4);
    assert_string_equal(es_safetensors_metadata(opened, "format"), "pt");
}

TEST(a_file_without_tensors_is_read)
{
    write_file("{}", "", 0);
    AUTO(es_safetensors) opened = open_file();
    assert_int_equal(opened->n, 0);
    assert_null(es_safetensors_find(opened, "a"));
    assert_null(es_safetensors_metadata(opened, "a"));
}

static void read_all(float *out, const char *type, const void *data, size_t n,
                     size_t size)
{
    char header[200];
    snprintf(header, sizeof header,
             "{\"x\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,"
             "%zu]}}",
             type, n, n * size);
    write_file(header, data, n * size);
    AUTO(es_safetensors) opened = open_file();
    es_assert_ok(es_safetensors_read(opened, &opened->tensors[0], out, 0, n));
}

/* Values that float32 cannot represent, such as integers and doubles, are read
 * as bytes. */
TEST(bytes_are_read_unchanged)
{
    static const int32_t whole[3] = {INT32_MIN, 16777217, -1};
    static const double wide[2] = {0.1, 1e300};
    int32_t got[3];
    double got_wide[2];
    char data[28];
    float value;
    memcpy(data, wide, 16);
    memcpy(data + 16, whole, 12);
    write_file(
        "{\"i\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[16,28]},"
        "\"f\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}",
        data, sizeof data);
    AUTO(es_safetensors) opened = open_file();
    const es_tensor *i = es_safetensors_find(opened, "i");
    assert_int_equal(i->type, ES_TENSOR_I32);
    assert_int_equal(es_safetensors_read(opened, i, &value, 0, 1), ES_EFORMAT);
    es_assert_ok(es_safetensors_read_bytes(opened, i, got));
    assert_memory_equal(got, whole, sizeof got);
    const es_tensor *f = es_safetensors_find(opened, "f");
    es_assert_ok(es_safetensors_read_bytes(opened, f, got_wide));
    assert_memory_equal(got_wide, wide, sizeof got_wide);
    /* The file is truncated after it was opened, so reading must fail at its
       end. */
    assert_int_equal(truncate(es_scratch_file, 40), 0);
    assert_int_equal(es_safetensors_read_bytes(opened, f, got_wide), ES_EIO);
}

TEST(half_precision_is_exact)
{
    static uint16_t bits[65536];
    static float values[65536];
    for (int i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    read_all(values, "F16", bits, 65536, 2);
    for (int i = 0; i < 65536; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double size = exponent == 0 ? ldexp(fraction, -24)
                                    : ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31)
            size = fraction ? (double)NAN : (double)INFINITY;
        assert_true((double)fabsf(values[i]) == size ||
                    (isnan(values[i]) && isnan(size)));
        assert_int_equal(signbit(values[i]) != 0, i >> 15);
    }
    read_all(values, "BF16", bits, 65536, 2);
    for (int i = 0; i < 65536; i++) {
        uint32_t whole = (uint32_t)i << 16;
        assert_memory_equal(&values[i], &whole, 4);
    }
}

TEST(doubles_are_rounded)
{
    double in[1000];
    float out[1000];
    for (int i = 0; i < 1000; i++)
        in[i] = 0.1 * i - 3;
    in[7] = (double)NAN;
    read_all(out, "F64", in, 1000, 8);
    for (int i = 0; i < 1000; i++)
        assert_true(i == 7 ? isnan(out[i]) : out[i] == (float)in[i]);
}

/* --- damage -------------------------------------------------------------- */

#define F32_3 "\"dtype\":\"F32\",\"shape\":[3]"

TEST(malformed_headers_are_refused)
{
    refuse("", "not a safetensors file");
    refuse("[]", "not a safetensors file");
    refuse("{\"a\":", "malformed header");
    refuse("{\"a\":1}", "tensor a: its description is not a JSON object");
    refuse("{\"a\":{" F32_3 ",\"data_offsets\":[0,12]},"
           "\"a\":{" F32_3 ",\"data_offsets\":[0,12]}}",
           "duplicate object key");
    refuse("{\"a\":{" F32_3 ",\"data_offsets\":[0,12]}}{}", "end of file");
    refuse("{\"a\":{\"x\":[[1]]}}", "nested too deeply");
    refuse("{\"__metadata__\":[]}", "__metadata__ is not an object");
    refuse("{\"__metadata__\":{\"step\":4}}", "step is not a string");
    refuse("{\"a\":{\"shape\":[3],\"data_offsets\":[0,12]}}", "no dtype");
    refuse("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,12]}}", "no shape");
    refuse("{\"a\xff\":{}}", "malformed header");
    /* Brackets within names must be ignored, even if the names contain escaped
     * quotes and backslashes. */
    refuse("{\"[[[[\\\"[\":1}", "its description is not a JSON object");
}

TEST(wrong_shapes_are_refused)
{
    static const char *const shapes[][2] = {
        {"[-3]", "malformed shape"},
        {"[3.0]", "malformed shape"},
        {"[\"3\"]", "malformed shape"},
        {"[4294967296,4294967296]", "too large"},
        {"[4611686018427387904]", "too large"},
        {"[99999999999999999999]", "too big integer"},
        {"[1,1,1,1,1,1,1,1,3]", "9 dimensions"},
        {"[2]", "needs 8 bytes"},
        {"[]", "needs 4 bytes"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":%s,"
                 "\"data_offsets\":[0,12]}}",
                 shapes[i][0]);
        refuse(header, shapes[i][1]);
    }
}

TEST(wrong_offsets_are_refused)
{
    static const char *const offsets[][2] = {
        {"[0]", "malformed data_offsets"},
        {"[0,12,12]", "malformed data_offsets"},
        {"[12,0]", "malformed data_offsets"},
        {"[-12,0]", "malformed data_offsets"},
        {"null", "malformed data_offsets"},
        {"[4,16]", "4 bytes beyond the end of the file"},
        {"[9223372036854775795,9223372036854775807]",
         "beyond the end of the file"}};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{" F32_3 ",\"data_offsets\":%s}}", offsets[i][0]);
        refuse(header, offsets[i][1]);
    }
}

TEST(holes_and_overlaps_are_refused)
{
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[6,12]}}",
           "tensor b: overlaps");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[6,12]}}",
           "tensor b: the bytes before this tensor");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
           "8 unexpected bytes");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]}}",
           "tensor b: overlaps");
    refuse("{}", "12 unexpected bytes");
}

TEST(a_file_truncated_anywhere_is_refused)
{
    struct stat info;
    write_ours();
    assert_int_equal(stat(es_scratch_file, &info), 0);
    for (off_t size = info.st_size - 1; size >= 0;
         size -= size > 500 ? 211 : 1) {
        es_safetensors *opened;
        assert_int_equal(truncate(es_scratch_file, size), 0);
        assert_int_equal(es_safetensors_open(&opened, es_scratch_file),
                         ES_EFORMAT);
    }
    expect_refusal(ES_EFORMAT, "not a safetensors file");
}

TEST(a_huge_header_length_is_refused)
{
    static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX,
                                       ES_SAFETENSORS_HEADER_MAX + 1u,
                                       ES_SAFETENSORS_HEADER_MAX, 5};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        FILE *out = fopen(es_scratch_file, "wb");
        assert_int_equal(fwrite(&lengths[i], 1, 8, out), 8);
        assert_int_equal(fwrite("{}  ", 1, 4, out), 4);
        fclose(out);
        expect_refusal(ES_EFORMAT, "not a safetensors file, or");
    }
}

TEST(a_file_truncated_while_it_is_read_is_an_error)
{
    float values[2100];
    write_ours();
    AUTO(es_safetensors) opened = open_file();
    const es_tensor *tensor = es_safetensors_find(opened, ours[1].name);
    assert_int_equal(truncate(es_scratch_file, (off_t)tensor->offset + 100), 0);
    es_assert_ok(es_safetensors_read(opened, tensor, values, 0, 25));
    es_assert_status(ES_EIO, "was truncated",
                     es_safetensors_read(opened, tensor, values, 0, 26));
}

TEST(only_regular_files_are_read)
{
    es_scratch_no_file(expect_refusal);
}

TEST_GROUP(es_scratch_open, es_scratch_close)
