/**
 * Tests that alerts are formatted as text and JSON, read back from JSON, and
 * read from a recorder's events.
 */
#include "cli/alerts/alert.h"
#include "tests/support/test.h"

#define UUID "0f0f0f0f-1111-4222-8333-444444444444"

/* The JSON of an alert in ledgers of version 0.1.0. */
static const char stored[] =
    "{\"text\":\"/runs/\\u001b.db (SM): collapse L1,3-4 since step 4 "
    "(critical): 0.75, threshold 0.5\",\"path\":\"/runs/\\u001b.db\","
    "\"id\":\"" UUID "/alert:collapse@4:critical\",\"run\":\"" UUID "\","
    "\"name\":\"a\\\"b\\u000a\",\"arch\":null,\"kind\":\"collapse\","
    "\"severity\":\"critical\",\"onset\":4,\"step\":9007199254740993,"
    "\"value\":0.75,\"threshold\":null,\"layers\":[1,3,4]}";

TEST(stored_json_reads_back_as_the_same)
{
    es_alert alert;
    es_assert_ok(es_alert_read(&alert, stored));
    assert_string_equal(alert.path, "/runs/\x1b.db");
    assert_string_equal(alert.uuid, UUID);
    assert_string_equal(alert.name, "a\"b\n");
    assert_null(alert.arch);
    assert_string_equal(alert.title, "collapse");
    assert_int_equal(alert.severity, ES_SEVERITY_CRITICAL);
    assert_int_equal(alert.onset, 4);
    assert_true(alert.step == INT64_C(9007199254740993));
    assert_true(alert.value == 0.75 && isnan(alert.threshold));
    assert_int_equal(alert.n_layers, 3);
    assert_int_equal(alert.layers[2], 4);
    char *json = es_alert_json(&alert), *id = es_alert_id(&alert);
    assert_string_equal(id, UUID "/alert:collapse@4:critical");
    /* The line must be safe for a terminal even if the strings of the run file
     * are not. */
    AUTO_FREE char *line = es_alert_line(&alert);
    assert_string_equal(line,
                        "/runs/\\x1b.db (SM): collapse L1,3-4 since step 4 "
                        "(critical): 0.75, threshold 0.5");
    es_alert again;
    es_alert_free(&alert);
    es_assert_ok(es_alert_read(&again, json));
    AUTO_FREE char *twice = es_alert_json(&again);
    assert_string_equal(json, twice);
    assert_string_equal(strstr(json, "\"path\""), strstr(stored, "\"path\""));
    es_alert_free(&again);
    free(id);
    free(json);
}

TEST(a_value_is_printed_as_a_line)
{
    const es_alert alert = {.path = "/a\x1b[2J.db",
                            .uuid = UUID,
                            .name = "n",
                            .arch = "SM",
                            .title = "wide",
                            .severity = ES_SEVERITY_ERROR,
                            .onset = 130,
                            .step = ES_UNKNOWN,
                            .value = 1e19,
                            .threshold = 3,
                            .layers = {9, 10, 11, 14},
                            .n_layers = 4};
    char *line = es_alert_line(&alert), *json = es_alert_json(&alert);
    assert_string_equal(line, "/a\\x1b[2J.db (SM): wide L9-11,14 since step 130"
                              " (error): 1e19, threshold 3");
    assert_non_null(strstr(json, "\"step\":null,\"value\":1e19,"));
    free(json);
    free(line);
}

TEST(damaged_json_is_refused)
{
    static const char *const members[] = {"\"path\"", "\"run\"", "\"kind\"",
                                          "\"severity\""};
    es_alert alert;
    assert_int_equal(es_alert_read(&alert, ""), ES_EFORMAT);
    assert_int_equal(es_alert_read(&alert, "[]"), ES_EFORMAT);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char text[sizeof stored];
        memcpy(text, stored, sizeof text);
        strstr(text, members[i])[1] = 'x';
        assert_int_equal(es_alert_read(&alert, text), ES_EFORMAT);
        assert_null(alert.owner);
    }
}

TEST(events_of_a_recorder_are_alerts)
{
    static const struct {
        const char *dedupe, *data;
        bool found;
        double value;
        int n_layers;
    } cases[] = {
        {"alert:collapse@130:error", "{\"value\":0.75,\"layers\":[9,10]}", true,
         0.75, 2},
        {"alert:collapse@130:error", "{\"value\":99999999999999999999}", true,
         1e20, 0},
        {"alert:collapse@130:error",
         "{\"value\":99999999999999999999,\"layers\":[1,2,-3,4]}", true, 1e20,
         2},
        {"alert:collapse@130:error", "{\"value\":\"x\",\"layers\":5}", true,
         NAN, 0},
        {"alert:collapse@130:error", "{", true, NAN, 0},
        {"alert:collapse@130:error", NULL, true, NAN, 0},
        {"alert:collapse@-1:error", "{}", false, 0, 0},
        {"alert:collapse@0130:error", "{}", false, 0, 0},
        {"alert:collapse@130:critical", "{}", false, 0, 0},
        {"alert:unknown@130:error", "{}", false, 0, 0},
        {"alert:collapse", "{}", false, 0, 0},
        {NULL, "{}", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_alert alert;
        const es_event event = {.step = 140,
                                .severity = ES_SEVERITY_ERROR,
                                .dedupe = cases[i].dedupe,
                                .data = cases[i].data};
        const es_alert about = {.name = "SM", .is_written = true};
        assert_int_equal(es_alert_of_event(&alert, &event, &about),
                         cases[i].found);
        if (!cases[i].found)
            continue;
        assert_int_equal(alert.kind, ES_FLAG_COLLAPSE);
        assert_string_equal(alert.title, "collapse");
        assert_string_equal(alert.name, "SM");
        assert_true(alert.is_written);
        assert_int_equal(alert.onset, 130);
        assert_int_equal(alert.step, 140);
        assert_true(alert.value == cases[i].value ||
                    (isnan(alert.value) && isnan(cases[i].value)));
        assert_int_equal(alert.n_layers, cases[i].n_layers);
    }
}
