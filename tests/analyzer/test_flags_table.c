/** Tests the tables of flags and of their thresholds. */
#include "analyzer/flags/flags.h"
#include "tests/support/test.h"

/* Returns true if the sentence cites the source by its name, such as "Zhai
   2023". */
static bool is_cited(const char *source, const char *sentence)
{
    char name[64];
    const char *colon = strchr(source, ':');
    assert_non_null(colon);
    snprintf(name, sizeof name, "%.*s", (int)(colon - source), source);
    return strstr(sentence, name) != NULL;
}

static void assert_sentence(const es_flag_info *info, const char *sentence)
{
    bool cited = false;
    const size_t n = strlen(sentence);
    assert_true(n > 20 && sentence[n - 1] == '.');
    for (size_t i = 0; i < ES_FLAG_SOURCES_MOST && info->sources[i]; i++)
        cited = cited || is_cited(info->sources[i], sentence);
    assert_true(cited);
}

TEST(every_flag_has_advice_and_every_sentence_a_source)
{
    const es_flag_info *info;
    size_t n = 0;
    for (; (info = es_flag_info_at(n)); n++) {
        assert_true(info->mildest > ES_SEVERITY_NONE);
        assert_true(info->mildest <= info->severest);
        assert_true(strlen(info->meaning) > 20);
        assert_true(info->meaning[strlen(info->meaning) - 1] != '.');
        assert_sentence(info, info->causes);
        assert_sentence(info, info->remedies);
        for (size_t i = 0; i < ES_FLAG_SOURCES_MOST && info->sources[i]; i++)
            assert_true(is_cited(info->sources[i], info->causes) ||
                        is_cited(info->sources[i], info->remedies));
        assert_ptr_equal(es_flag_info_find(info->name), info);
    }
    assert_int_equal(n, ES_N_FLAG_KINDS);
    assert_null(es_flag_info_find("collapsed"));
    assert_null(es_flag_info_find(""));
}

TEST(each_kind_has_the_row_of_its_name)
{
    char text[ES_FLAG_NAMES_MAX], severities[ES_FLAG_SEVERITIES_MAX];
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        assert_string_equal(es_flag_name((es_flag_kind)kind),
                            es_flag_info_at((size_t)kind)->name);
    assert_string_equal(es_flag_names(text, 2), "nan, collapse");
    assert_true(strlen(es_flag_names(text, SIZE_MAX)) < sizeof text - 1);
    assert_string_equal(
        es_flag_severities(severities, es_flag_info_find("overload")),
        "warning or error");
    assert_string_equal(
        es_flag_severities(severities, es_flag_info_find("nan")), "critical");
}

/* A member of es_flag_rules without a row in the table would have the default
 * 0. */
TEST(every_threshold_has_one_row)
{
    es_flag_rules rules;
    size_t size = 0;
    es_flag_rules_default(&rules);
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *row = &es_flag_thresholds[i];
        size += row->range == ES_THRESHOLD_COUNT ? sizeof(int) : sizeof(double);
        assert_true(row->value > 0);
        assert_true(es_flag_threshold_get(&rules, row) == row->value);
        assert_true(i == 0 || row->kind >= row[-1].kind);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(row->offset, es_flag_thresholds[k].offset);
    }
    assert_true(size + sizeof(double) > sizeof rules && size <= sizeof rules);
}

TEST_EACH(NULL, NULL)
