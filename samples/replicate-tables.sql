-- The report's tables, as Markdown.
.mode markdown --wrap 0

.print ## Architectures
.print
.print Means over the seeds; in brackets the smallest and the largest. Heads are those of
.print the held-out data at the end, or of the last record before NaN: overloaded above
.print three quarters of the ceiling ln(T!)/T, low below a quarter, balanced between.
.print

SELECT arch AS architecture, lr AS rate, count(*) AS seeds, figure AS published,
    CASE count(perplexity) WHEN 0 THEN 'NaN'
        WHEN 1 THEN printf('%.2f', max(perplexity))
        ELSE printf('%.2f (%.2f to %.2f)', avg(perplexity), min(perplexity),
            max(perplexity)) END AS perplexity,
    printf('%.0f %%', 100 * avg(highest_quarter)) AS overloaded,
    printf('%.0f %%', 100 * avg(balanced)) AS balanced,
    printf('%.0f %%', 100 * avg(lowest_quarter)) AS low,
    CASE sum(nan_step IS NOT NULL) WHEN 0 THEN '' ELSE
        printf('%d of %d, from %d', sum(nan_step IS NOT NULL), count(*),
            min(nan_step)) END AS NaN,
    CASE sum(collapse_step IS NOT NULL) WHEN 0 THEN '' ELSE
        printf('%d of %d, from %d, layers %d to %d',
            sum(collapse_step IS NOT NULL), count(*), min(collapse_step),
            min(collapse_first_layer), max(collapse_last_layer))
        END AS collapse,
    CASE sum(overload_at_end IS NOT NULL) WHEN 0 THEN '' ELSE
        printf('%d of %d%s', sum(overload_at_end IS NOT NULL), count(*),
            CASE WHEN max(overload_at_end) = 2 THEN '' ELSE ', mild' END)
        END AS "overload flag"
FROM summary LEFT JOIN published USING (arch)
GROUP BY lr, arch ORDER BY lr, coalesce(published.rowid, 1000), arch;

.print
.print ## Claims
.print
SELECT text AS claim, lr AS rate, rule, found, holds FROM claim ORDER BY rowid;
