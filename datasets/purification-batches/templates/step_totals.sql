-- step_totals(from_day, to_day, sites, per): product mass into and out of purification steps, over the batches
-- harvested from the first day on and before the second; by day, site and step, or by fewer of them.
-- An empty list is every site. batch_record is joined so that a row policy on batches also governs their steps.
-- What a narrower or coarser call asks for follows from a stored result of a wider one (rollup of the descriptor,
-- which this text must prove).
SELECT
  CASE WHEN @per = 'day' THEN b.harvest_date END AS harvest_date,
  CASE WHEN @per IN ('day', 'site_and_step', 'site') THEN b.site END AS site,
  CASE WHEN @per IN ('day', 'site_and_step', 'step') THEN s.step_no END AS step_no,
  CASE WHEN @per IN ('day', 'site_and_step', 'step') THEN s.step_name END AS step_name,
  COUNT(*) AS steps,
  SUM(s.load_mass_g) AS load_mass_g,
  COUNT(s.pool_mass_g) AS pools,
  SUM(s.pool_mass_g) AS pool_mass_g,
  AVG(s.pool_mass_g) AS pool_mean_g,
  MIN(s.pool_mass_g) AS smallest_pool_g,
  MAX(s.pool_mass_g) AS largest_pool_g,
  SUM(s.cycles) AS cycles,
  MAX(s.ended_at) AS last_ended_at
FROM step_condition AS s
JOIN batch_record AS b ON b.batch_id = s.batch_id
WHERE b.harvest_date >= @from_day AND b.harvest_date < @to_day
  AND (ARRAY_LENGTH(@sites) = 0 OR b.site IN UNNEST(@sites))
GROUP BY 1, 2, 3, 4
ORDER BY harvest_date, site, step_no, step_name
