-- run_totals(from_day, to_day, sites, per): chromatography runs in numbers, by day, site, step and method, or by
-- fewer of them. from_day is in the range, to_day is not. An empty list is every site.
-- pools counts the runs that were pooled, pooled_cv is their width in column volumes. What a narrower or coarser
-- call asks for follows from a stored result of a wider one (rollup of the descriptor, which this text must prove).
SELECT
  CASE WHEN @per = 'day' THEN r.run_date END AS run_date,
  CASE WHEN @per IN ('day', 'site_and_method', 'site') THEN r.site END AS site,
  CASE WHEN @per IN ('day', 'site_and_method', 'method') THEN r.step_name END AS step_name,
  CASE WHEN @per IN ('day', 'site_and_method', 'method') THEN r.method END AS method,
  COUNT(*) AS runs,
  COUNT(r.pool_end_cv - r.pool_start_cv) AS pools,
  SUM(r.pool_end_cv - r.pool_start_cv) AS pooled_cv,
  AVG(r.pool_end_cv - r.pool_start_cv) AS pool_mean_cv,
  MAX(r.cycle_no) AS most_cycles,
  MIN(r.started_at) AS first_started_at,
  MAX(r.started_at) AS last_started_at
FROM chromatography_run AS r
WHERE r.run_date >= @from_day AND r.run_date < @to_day
  AND (ARRAY_LENGTH(@sites) = 0 OR r.site IN UNNEST(@sites))
GROUP BY 1, 2, 3, 4
ORDER BY run_date, site, step_name, method
