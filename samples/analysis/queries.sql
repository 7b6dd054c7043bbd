-- Numbers of runs and of entropies, missing ones and NaN included
SELECT count(DISTINCT file) AS runs, count(*) FILTER (series = 'entropy') AS entropies,
       count(*) FILTER (value IS NULL) AS missing, count(*) FILTER (isnan(value)) AS nan
FROM sample;

-- Settings: runs in which a head collapses (final entropy below 0.05 of the ceiling) or ends in NaN
WITH last AS (
    SELECT file, max_by(value, step) AS value, layer, head
    FROM sample WHERE series = 'entropy' GROUP BY file, layer, head)
SELECT arch, lr, count(DISTINCT file) AS runs,
       count(DISTINCT file) FILTER (NOT isnan(value) AND value < 0.05 * ceiling) AS collapsed,
       count(DISTINCT file) FILTER (isnan(value)) AS nan,
       round(avg(value / ceiling) FILTER (NOT isnan(value)), 3) AS mean_of_ceiling
FROM last JOIN run USING (file) GROUP BY arch, lr ORDER BY arch, lr;

-- Heads: the ten that end below 0.05 of the ceiling in the most runs
WITH last AS (
    SELECT file, max_by(value, step) AS value, layer, head
    FROM sample WHERE series = 'entropy' GROUP BY file, layer, head)
SELECT arch, layer, head, count(*) AS runs,
       count(*) FILTER (NOT isnan(value) AND value < 0.05 * ceiling) AS low,
       round(median(value) FILTER (NOT isnan(value)), 3) AS median_nats
FROM last JOIN run USING (file) GROUP BY arch, layer, head
ORDER BY low DESC, median_nats, arch, layer, head LIMIT 10;

-- Time: the step at which the first head falls below 0.05 of the ceiling, if one does
WITH first AS (
    SELECT file, min(step) AS step FROM sample JOIN run USING (file)
    WHERE series = 'entropy' AND NOT isnan(value) AND value < 0.05 * ceiling GROUP BY file)
SELECT arch, lr, count(*) AS runs, min(step) AS earliest, median(step) AS middle
FROM first JOIN run USING (file) GROUP BY arch, lr ORDER BY arch, lr;

-- Loss: correlation of the mean entropy in the first quarter of the steps with the final loss
WITH early AS (
    SELECT file, avg(value / ceiling) AS entropy FROM sample JOIN run USING (file)
    WHERE series = 'entropy' AND step <= last_step / 4 AND NOT isnan(value) GROUP BY file),
final AS (
    SELECT file, max_by(value, step) AS loss FROM sample WHERE series = 'loss' GROUP BY file)
SELECT arch, count(*) AS runs, round(corr(entropy, loss), 3) AS correlation
FROM early JOIN final USING (file) JOIN run USING (file)
WHERE NOT isnan(loss) GROUP BY arch ORDER BY arch;
