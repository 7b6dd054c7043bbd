/* Draws sparklines: assigns samples to columns, and draws each column as a bar.
 * The height of a bar represents the value that es_spark_value returns for the
 * column. */
#include "cli/terminal/spark.h"

#include "analyzer/base/value.h"

enum { LEVELS = 8, NEAR = 2 };

void es_spark_clear(es_spark_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        columns[i] = (es_spark_column){.low = NAN, .high = NAN};
}

size_t es_spark_column_of(int64_t step, int64_t from, int64_t to, size_t n)
{
    double share =
        ((double)step - (double)from) / ((double)to - (double)from + 1);
    size_t column = share > 0 ? (size_t)(share * (double)n) : 0;
    return column < n ? column : n - 1;
}

/* --- filling --------------------------------------------------------------*/

static void join_columns(es_spark_column *to, const es_spark_column *from)
{
    to->seen = to->seen || from->seen;
    to->broken = to->broken || from->broken;
    if (isfinite(from->low) && !(to->low <= from->low))
        to->low = from->low;
    if (isfinite(from->high) && !(to->high >= from->high))
        to->high = from->high;
}

static void add_value(es_spark_column *to, float value)
{
    const bool broken = !isfinite(value) && !es_is_missing(value);
    join_columns(to, &(es_spark_column){true, broken, value, value});
}

void es_spark_add(es_spark_column *columns, es_spark_column *line, size_t n,
                  int64_t from, int64_t to, const int64_t *steps,
                  const float *values, size_t n_values)
{
    size_t last = 0;
    es_spark_clear(line, n);
    for (size_t i = 0; i < n_values; i++) {
        size_t column = es_spark_column_of(steps[i], from, to, n);
        for (size_t gap = last + 1; gap < column && i > 0; gap++)
            add_value(&line[gap], values[i - 1]);
        add_value(&line[column], values[i]);
        last = column;
    }
    for (size_t rest = last + 1; rest < n && steps[n_values - 1] == to; rest++)
        add_value(&line[rest], values[n_values - 1]);
    for (size_t i = 0; i < n; i++)
        join_columns(&columns[i], &line[i]);
}

void es_spark_range(double *low, double *high, const es_spark_column *columns,
                    size_t n)
{
    *low = *high = NAN;
    for (size_t i = 0; i < n; i++) {
        *low = fmin(*low, (double)columns[i].low);
        *high = fmax(*high, (double)columns[i].high);
    }
}

/* --- choosing -------------------------------------------------------------*/

static double middle_of(const es_spark_column *column)
{
    return ((double)column->low + (double)column->high) / 2;
}

/* Returns the value that is expected in column i. This is the median over the
 * neighbouring columns that have values, each represented by the middle of its
 * range; without such neighbours, it is the middle of column i. */
static double expected_at(const es_spark_column *columns, size_t n, size_t i)
{
    double beside[2 * NEAR];
    size_t n_beside = 0, first = i > NEAR ? i - NEAR : 0;
    for (size_t k = first; k < n && k <= i + NEAR; k++) {
        double value = middle_of(&columns[k]);
        if (k == i || !isfinite(value))
            continue;
        size_t at = n_beside++;
        for (; at > 0 && beside[at - 1] > value; at--)
            beside[at] = beside[at - 1];
        beside[at] = value;
    }
    if (n_beside == 0)
        return middle_of(&columns[i]);
    return (beside[(n_beside - 1) / 2] + beside[n_beside / 2]) / 2;
}

double es_spark_value(const es_spark_column *columns, size_t n, size_t i,
                      double unit, es_spark_side side)
{
    double low = (double)columns[i].low, high = (double)columns[i].high;
    double expected = expected_at(columns, n, i);
    bool falls = expected - low > unit, peaks = high - expected > unit;
    if (falls && (side == ES_SPARK_FALLS || !peaks))
        return low;
    return peaks ? high : middle_of(&columns[i]);
}

/* --- drawing --------------------------------------------------------------*/

void es_spark_draw(es_screen *screen, int x, int y,
                   const es_spark_column *columns, size_t n,
                   const es_spark_scale *scale)
{
    static const char *const ascii[LEVELS] = {"_", ".", ",", "-",
                                              "=", "+", "*", "#"};
    static const char *const bars[LEVELS] = {"▁", "▂", "▃", "▄",
                                             "▅", "▆", "▇", "█"};
    const bool plain = screen->depth == ES_DEPTH_ASCII;
    const double height = scale->high - scale->low;
    for (size_t i = 0; i < n; i++) {
        double value =
            es_spark_value(columns, n, i, height / LEVELS, scale->side);
        if (columns[i].broken)
            es_mark_broken(screen, x + (int)i, y);
        if (columns[i].broken || !isfinite(value))
            continue;
        double share = height > 0 ? (value - scale->low) / height : 0.5;
        int level = share > 0 ? (int)(share * LEVELS) : 0;
        level = level < LEVELS ? level : LEVELS - 1;
        es_ink ink = scale->coloured
                         ? es_ink_of(es_colormap_at(scale->map, share))
                         : ES_INK_OWN;
        es_screen_write(screen, x + (int)i, y, 1,
                        plain ? ascii[level] : bars[level],
                        (es_style){.ink = ink});
    }
}
