/* Tests the texts of an alert: id, line and JSON. */
#include "cli/alerts/alert.h"
#include "tests/support/test.h"

#define UUID "0f0f0f0f-1111-4222-8333-444444444444"

/* The strings of a run file may contain any bytes. Nevertheless an alert's line
 * must be safe for a terminal, and its JSON must be valid. */
TEST(an_alert_has_an_id_a_line_and_json)
{
    es_alert alert = {.path = "/a\x1b[2J.db",
                      .uuid = UUID,
                      .name = "a\"b\n",
                      .arch = NULL,
                      .title = "collapse",
                      .severity = ES_SEVERITY_CRITICAL,
                      .onset = 130,
                      .step = INT64_C(9007199254740993),
                      .value = 0.75,
                      .threshold = 0.5,
                      .layers = {9, 10, 11, 14},
                      .n_layers = 4};
    AUTO_FREE char *id = es_alert_id(&alert);
    AUTO_FREE char *line = es_alert_line(&alert, ES_FLAG_COLLAPSE, NULL);
    assert_string_equal(id, UUID "/alert:collapse@130:critical");
    assert_string_equal(
        line, "/a\\x1b[2J.db (a\"b\\x0a): collapse L9-11,14 since step "
              "130 (critical): 0.75, threshold 0.5");
    alert.id = id;
    alert.text = line;
    AUTO_FREE char *json = es_alert_json(&alert);
    assert_string_equal(
        json,
        "{\"text\":\"/a\\\\x1b[2J.db (a\\\"b\\\\x0a): collapse L9-11,14 since "
        "step 130 (critical): 0.75, threshold 0.5\","
        "\"path\":\"/a\\u001b[2J.db\",\"id\":\"" UUID
        "/alert:collapse@130:critical\",\"run\":\"" UUID "\","
        "\"name\":\"a\\\"b\\u000a\",\"arch\":null,\"kind\":\"collapse\","
        "\"severity\":\"critical\",\"onset\":130,\"step\":9007199254740993,"
        "\"value\":0.75,\"threshold\":0.5,\"layers\":[9,10,11,14]}");
}

TEST(a_value_that_is_not_finite_is_null)
{
    es_alert alert = {.path = "/a.db",
                      .uuid = UUID,
                      .name = "n",
                      .arch = "SM",
                      .title = "logits",
                      .severity = ES_SEVERITY_ERROR,
                      .value = INFINITY,
                      .threshold = 1000};
    AUTO_FREE char *id = es_alert_id(&alert);
    AUTO_FREE char *line = es_alert_line(&alert, ES_FLAG_LOGITS, NULL);
    assert_string_equal(line, "/a.db (SM): logits since step 0 (error)");
    alert.id = id;
    alert.text = line;
    AUTO_FREE char *json = es_alert_json(&alert);
    assert_non_null(
        strstr(json, "\"value\":null,\"threshold\":1e3,\"layers\":[]}"));
}
