/* Compares the rows, series, samples and events of two recorded runs bit for
   bit. */
#include "tests/support/same_run.h"
#include "tests/support/test.h"

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_string_equal(a, b);
}

void es_assert_same_info(es_reader *a, size_t i, es_reader *b, size_t j)
{
    es_run_info x, y;
    es_assert_ok(es_reader_run(a, i, &x));
    es_assert_ok(es_reader_run(b, j, &y));
    assert_same_text(x.uuid, y.uuid);
    assert_same_text(x.name, y.name);
    assert_same_text(x.arch, y.arch);
    assert_same_text(x.family, y.family);
    assert_same_text(x.config, y.config);
    assert_same_text(x.program, y.program);
    assert_same_text(x.host, y.host);
    assert_same_text(x.started_at, y.started_at);
    assert_true(x.n_layer == y.n_layer && x.n_head == y.n_head);
    assert_true(x.ctx == y.ctx && x.d_model == y.d_model);
    assert_true(x.vocab == y.vocab && x.batch == y.batch && x.seed == y.seed);
    assert_int_equal(x.status, y.status);
    assert_true(x.last_step == y.last_step);
}

size_t es_assert_same_samples(es_reader *a, size_t i, es_reader *b, size_t j)
{
    es_cursor *c = NULL, *d = NULL;
    size_t n = 0;
    assert_int_equal(es_reader_n_series(a, i), es_reader_n_series(b, j));
    es_assert_ok(es_cursor_open_run(&c, a, i));
    es_assert_ok(es_cursor_open_run(&d, b, j));
    for (;; n++) {
        const float *x, *y;
        int64_t step, other;
        es_series s, t;
        es_status status = es_cursor_next_of_run(c, &step, &x, &s);
        assert_int_equal(es_cursor_next_of_run(d, &other, &y, &t), status);
        if (status == ES_DONE)
            break;
        es_assert_ok(status);
        assert_true(step == other && s.phase == t.phase && s.shape == t.shape);
        assert_string_equal(s.name, t.name);
        assert_string_equal(s.unit, t.unit);
        es_assert_bits(x, y, s.n_values);
    }
    es_cursor_close(c);
    es_cursor_close(d);
    return n;
}

static void assert_same_events(es_reader *a, size_t i, es_reader *b, size_t j)
{
    const es_event *x, *y;
    size_t n, m;
    es_assert_ok(es_reader_events(a, i, &x, &n));
    es_assert_ok(es_reader_events(b, j, &y, &m));
    assert_int_equal(n, m);
    for (size_t k = 0; k < n; k++) {
        assert_true(x[k].step == y[k].step && x[k].layer == y[k].layer &&
                    x[k].head == y[k].head);
        assert_int_equal(x[k].severity, y[k].severity);
        assert_same_text(x[k].kind, y[k].kind);
        assert_same_text(x[k].message, y[k].message);
        assert_same_text(x[k].data, y[k].data);
        assert_same_text(x[k].dedupe, y[k].dedupe);
        assert_same_text(x[k].at, y[k].at);
    }
}

void es_assert_same_run(es_reader *a, size_t i, es_reader *b, size_t j)
{
    es_run_info x, y;
    es_assert_same_info(a, i, b, j);
    es_assert_ok(es_reader_run(a, i, &x));
    es_assert_ok(es_reader_run(b, j, &y));
    assert_same_text(x.ended_at, y.ended_at);
    es_assert_same_samples(a, i, b, j);
    assert_same_events(a, i, b, j);
}
