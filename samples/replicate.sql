-- What became of each run, from what entropy-scan printed of all of them:
-- train.json, eval.json, before.json. published(arch, figure) is there already.
-- Leaves: summary (a row a run), sizes, claim.

CREATE TEMP TABLE trained AS
SELECT value AS run, value->>'name' AS name
FROM json_each(readfile('train.json'), '$.runs');

CREATE TEMP TABLE flag AS
SELECT name, f.value->>'kind' AS kind, f.value->>'severity' AS severity,
    f.value->>'stands' AS stands, f.value->>'onset' AS onset,
    f.value->'layers' AS layers
FROM trained, json_each(run, '$.flags') f;

-- The heads: of the held-out data; of the last record where NaN hides those.
CREATE TEMP TABLE heads AS
SELECT value->>'name' AS name, value->>'step' AS step,
    value->'bands'->>'heads' AS n,
    value->'bands'->'counts'->>0 AS lowest,
    value->'bands'->'counts'->>3 AS highest,
    value->'bands'->>'balanced' AS balanced,
    value->'layers' AS layers
FROM (SELECT value FROM json_each(readfile('eval.json'), '$.runs')
      WHERE value->>'name' NOT IN (SELECT name FROM flag WHERE kind = 'nan')
      UNION ALL
      SELECT r.value FROM json_each(readfile('before.json')) file,
          json_each(file.value, '$.runs') r);

-- The first time that half of a layer's heads saw nothing but one token.
CREATE TEMP TABLE collapse AS
SELECT name, min(onset) AS onset,
    (SELECT avg(value) FROM json_each(flag.layers)) AS middle,
    (SELECT min(value) FROM json_each(flag.layers)) AS first,
    (SELECT max(value) FROM json_each(flag.layers)) AS last
FROM flag WHERE kind = 'collapse' AND severity = 'critical' GROUP BY name;

CREATE TABLE summary AS
SELECT t.name AS run, run->>'arch' AS arch, run->'config'->>'seed' AS seed,
    run->'config'->>'lr' AS lr, run->'config'->>'steps' AS steps,
    run->>'status' AS status, run->>'eval_ppl' AS perplexity,
    (SELECT min(onset) FROM flag f WHERE f.name = t.name AND kind = 'nan')
        AS nan_step,
    c.onset AS collapse_step, c.first AS collapse_first_layer,
    c.last AS collapse_last_layer, round(c.middle, 2) AS collapse_middle,
    (SELECT max(severity) FROM (
        SELECT CASE severity WHEN 'error' THEN 2 ELSE 1 END AS severity
        FROM flag f WHERE f.name = t.name AND kind = 'overload' AND stands))
        AS overload_at_end, -- 1 warning, 2 error
    (SELECT min(onset) FROM flag f
     WHERE f.name = t.name AND kind = 'logits' AND severity = 'error')
        AS logits_step,
    run->>'n_layer' AS layers, h.step AS heads_step, h.n AS heads,
    round(h.lowest * 1.0 / h.n, 4) AS lowest_quarter,
    round(h.balanced, 4) AS balanced,
    round(h.highest * 1.0 / h.n, 4) AS highest_quarter
FROM trained t LEFT JOIN heads h USING (name) LEFT JOIN collapse c USING (name)
ORDER BY lr, t.rowid;

CREATE TABLE sizes AS
SELECT DISTINCT printf('model: %s, L %d, H %d, d %d, T %d, %s tokens', c->>'family',
    c->>'n_layer', c->>'n_head', c->>'d_model', c->>'ctx',
    CASE WHEN c->>'vocab' = 256 THEN 'byte' ELSE c->>'vocab' END) AS line
FROM (SELECT run->'config' AS c FROM trained)
UNION ALL
SELECT DISTINCT printf('training: %d steps of %d sequences, %d tokens in all,'
    || ' rates %s with %g of warm-up, weight decay %g, clip %g', c->>'steps',
    (c->>'batch') * (c->>'accumulate'),
    (c->>'steps') * (c->>'batch') * (c->>'accumulate') * (c->>'ctx'),
    (SELECT group_concat(lr, ', ') FROM (SELECT DISTINCT lr FROM summary)),
    c->>'warm_up', c->>'weight_decay', c->>'clip')
FROM (SELECT run->'config' AS c FROM trained)
UNION ALL
SELECT DISTINCT printf('held-out: %d tokens, the same for all; data checksum %s',
    (c->>'eval_batches') * (c->>'batch') * (c->>'ctx'), c->>'tokens_checksum')
FROM (SELECT run->'config' AS c FROM trained)
UNION ALL
SELECT DISTINCT printf('EReg: lambda %g on the tokens of a micro-batch, gamma %g,'
    || ' temperatures from %g, thresholds from %g', c->>'lambda', c->>'gamma',
    c->>'t_init', c->>'theta_init')
FROM (SELECT run->'config' AS c FROM trained WHERE run->>'arch' LIKE 'EReg%');

-- --- claims -----------------------------------------------------------------

CREATE TABLE claim(text TEXT, lr REAL, rule TEXT, found TEXT, holds TEXT);

-- A perplexity that is not finite is worse than any that is. The heads just
-- before a NaN say nothing of how the model attends.
CREATE TEMP VIEW measure AS
SELECT arch, seed, lr, 'perplexity' AS what, coalesce(perplexity, 9e999) AS x
FROM summary
UNION ALL
SELECT arch, seed, lr, 'share of overloaded heads', highest_quarter
FROM summary WHERE nan_step IS NULL
UNION ALL
SELECT arch, seed, lr, 'share of balanced heads', balanced
FROM summary WHERE nan_step IS NULL;

-- Claims that one architecture is below another, seed by seed.
CREATE TEMP TABLE below(text TEXT, what TEXT, a TEXT, b TEXT);
INSERT INTO below VALUES
('SM+G overloads more than SM+R',
    'share of overloaded heads', 'SM+R', 'SM+G'),
('without LayerNorm ReLU is better than GELU', 'perplexity', 'SM+R', 'SM+G'),
('with LayerNorm GELU is better than ReLU', 'perplexity', 'SM+LN+G', 'SM+LN+R'),
('LayerNorm improves GELU', 'perplexity', 'SM+LN+G', 'SM+G'),
('LayerNorm improves ReLU', 'perplexity', 'SM+LN+R', 'SM+R'),
('without an activation LayerNorm does not help enough',
    'perplexity', 'SM+R', 'SM+LN'),
('the baseline is balanced, SM+G is not',
    'share of balanced heads', 'SM+G', 'SM+LN+G'),
('EReg lowers overload', 'share of overloaded heads',
    'EReg(SM(t)+ScFuFFN)', 'SM+ScFuFFN'),
('EReg lowers overload with 6 networks removed', 'share of overloaded heads',
    'EReg(SM(t)+ScFuFFNi6)', 'SM+ScFuFFNi6'),
('EReg lowers perplexity', 'perplexity', 'EReg(SM(t)+ScFuFFN)', 'SM+ScFuFFN'),
('EReg lowers perplexity with 6 networks removed', 'perplexity',
    'EReg(SM(t)+ScFuFFNi6)', 'SM+ScFuFFNi6'),
('WNorm is best on FFN alone (against QK)', 'perplexity',
    'SM+WNorm(FFN)', 'SM+WNorm(QK)'),
('WNorm is best on FFN alone (against all)', 'perplexity',
    'SM+WNorm(FFN)', 'SM+WNorm(QKVO,FFN)'),
('SNorm is best on FFN alone (against QK)', 'perplexity',
    'SM+SNorm(FFN)', 'SM+SNorm(QK)'),
('SNorm is best on FFN alone (against all)', 'perplexity',
    'SM+SNorm(FFN)', 'SM+SNorm(QKVO,FFN)'),
('ScFuFFN is better than WNorm(FFN)', 'perplexity', 'SM+ScFuFFN', 'SM+WNorm(FFN)'),
('ScFuFFN is better than SNorm(FFN)', 'perplexity', 'SM+ScFuFFN', 'SM+SNorm(FFN)');

INSERT INTO claim
SELECT text, lr,
    printf('%s of %s below that of %s with each seed%s', what, a, b,
        CASE what WHEN 'perplexity' THEN '' ELSE ' without NaN' END),
    printf('%d of %d; means %s and %s', sum(x < y), count(*),
        replace(printf('%.3g', avg(x)), 'Inf', 'NaN'),
        replace(printf('%.3g', avg(y)), 'Inf', 'NaN')),
    CASE WHEN sum(x < y) = count(*) THEN 'yes'
        WHEN sum(x > y) = count(*) THEN 'no, the reverse' ELSE 'no' END
FROM (SELECT below.rowid AS id, below.*, a.lr AS lr, a.x AS x, b.x AS y
      FROM below
      JOIN measure a ON a.arch = below.a AND a.what = below.what
      JOIN measure b ON b.arch = below.b AND b.what = below.what
          AND b.seed = a.seed AND b.lr = a.lr)
GROUP BY id, lr;

INSERT INTO claim
SELECT 'ScFuFFN equals ScFFN within noise', lr,
    'mean difference of perplexity over the seeds at most 2 of its standard errors',
    printf('difference %.3g, standard error %.3g', mean, error),
    CASE WHEN n < 2 THEN 'open' WHEN abs(mean) <= 2 * error THEN 'yes'
        ELSE 'no' END
FROM (SELECT lr, count(*) AS n, avg(d) AS mean,
          sqrt((avg(d * d) - avg(d) * avg(d)) / (count(*) - 1)) AS error
      FROM (SELECT a.lr AS lr, a.perplexity - b.perplexity AS d
            FROM summary a JOIN summary b USING (seed, lr)
            WHERE a.arch = 'SM+ScFuFFN' AND b.arch = 'SM+ScFFN')
      WHERE d IS NOT NULL GROUP BY lr);

-- When a run broke: its first collapse or NaN; its steps if it did not.
CREATE TEMP VIEW broken AS
SELECT arch, seed, lr, steps, collapse_step, nan_step, collapse_middle,
    collapse_middle > (layers - 1) / 2.0 AS deep,
    coalesce(collapse_step, nan_step) IS NOT NULL AS broke,
    min(coalesce(collapse_step, steps), coalesce(nan_step, steps)) AS at
FROM summary;

INSERT INTO claim
SELECT 'SM collapses', lr, 'each of its runs has a collapse or NaN',
    printf('%d of %d', sum(broke), count(*))
        || iif(sum(broke), printf(', from step %d', min(at)), ''),
    CASE WHEN sum(broke) = count(*) THEN 'yes' ELSE 'no' END
FROM broken WHERE arch = 'SM' GROUP BY lr;

INSERT INTO claim
SELECT 'and in its last layers', lr,
    'the layers of its first collapse lie on average in the deeper half',
    printf('%d of %d runs with a collapse; mean layer %.1f',
        sum(deep), count(*), avg(collapse_middle)),
    CASE WHEN sum(deep) = count(*) THEN 'yes' ELSE 'no' END
FROM broken WHERE arch = 'SM' AND collapse_step IS NOT NULL GROUP BY lr;

CREATE TEMP TABLE slope AS
SELECT lr, CAST(substr(arch, 7) AS REAL) AS slope, avg(at) AS at,
    sum(broke) AS broke, count(*) AS n
FROM broken WHERE arch LIKE 'SM+LR(0.%' GROUP BY lr, slope;

INSERT INTO claim
SELECT 'the larger the leaky slope, the earlier it collapses', lr,
    'the mean step of the first collapse or NaN falls or stays from slope to'
    || ' slope, and the largest breaks',
    group_concat(printf('%g: %d of %d, %.0f', slope, broke, n, at), '; '),
    CASE WHEN min(fell) AND max(slope * (broke > 0)) = max(slope) THEN 'yes'
        ELSE 'no' END
FROM (SELECT *, at <= lag(at, 1, 9e999) OVER (PARTITION BY lr ORDER BY slope)
          AS fell FROM slope)
GROUP BY lr;

INSERT INTO claim
SELECT arch || ' prevents the collapse', lr,
    'none of its runs has a collapse or NaN, and a run of SM has',
    printf('%d of %d break; SM: %d of %d', sum(broke), count(*),
        (SELECT sum(broke) FROM broken s WHERE s.arch = 'SM' AND s.lr = b.lr),
        (SELECT count(*) FROM broken s WHERE s.arch = 'SM' AND s.lr = b.lr)),
    CASE WHEN (SELECT sum(broke) FROM broken s
               WHERE s.arch = 'SM' AND s.lr = b.lr) = 0 THEN 'open'
        WHEN sum(broke) = 0 THEN 'yes' ELSE 'no' END
FROM broken b
WHERE arch IN ('SM+WNorm(FFN)', 'SM+SNorm(FFN)', 'SM+ScFFN', 'SM+ScFuFFN')
GROUP BY arch, lr ORDER BY lr, arch;

CREATE TEMP TABLE removed AS
SELECT lr, CAST(substr(arch, 12) AS INTEGER) AS x, avg(perplexity) AS perplexity,
    sum(broke) AS broke, count(*) AS n
FROM summary JOIN broken USING (arch, seed, lr)
WHERE arch LIKE 'SM+ScFuFFNi%' OR arch = 'SM+ScFuFFN' GROUP BY lr, x;

INSERT INTO claim
SELECT 'removing FFNs breaks the model beyond some x', lr,
    'from some x on most runs collapse or become NaN, before it few do',
    group_concat(printf('i%d: %s, %d of %d broke', x,
        coalesce(printf('%.3g', perplexity), 'NaN'), broke, n), '; '),
    CASE WHEN max(x * (2 * broke > n)) = max(x)
            AND sum(turned) = 1 THEN 'yes' ELSE 'no' END
FROM (SELECT *, (2 * broke > n) > lag(2 * broke > n, 1, 0)
          OVER (PARTITION BY lr ORDER BY x) AS turned FROM removed)
GROUP BY lr HAVING count(*) > 1;

INSERT INTO claim
SELECT 'learnable slopes go to about 0: ' || arch, lr,
    'at the end all of them are within 0.05, the smallest fixed slope that'
    || ' collapsed in the papers',
    printf('%d of %d; from %.3f to %.3f', sum(abs(slope) <= 0.05), count(*),
        min(slope), max(slope)),
    CASE WHEN sum(abs(slope) <= 0.05) = count(*) THEN 'yes' ELSE 'no' END
FROM (SELECT r.value->>'arch' AS arch, r.value->'config'->>'lr' AS lr,
          l.value->>'mean' AS slope
      FROM json_each(readfile('slopes.json'), '$.runs') r,
          json_each(r.value, '$.layers') l
      WHERE slope IS NOT NULL)
GROUP BY arch, lr;
