-- search(query): chromatography runs whose text contains the query, newest first.
-- STRPOS, not LIKE: '%' and '_' in the argument are ordinary characters.
-- An empty text matches nothing; engines differ on the position of an empty string.
SELECT
  r.run_id AS run_id,
  r.batch_id AS batch_id,
  r.step_name AS step_name,
  r.method AS method,
  r.fraction AS fraction,
  r.column_id AS column_id,
  r.cycle_no AS cycle_no,
  r.site AS site,
  r.site_timezone AS site_timezone,
  r.started_at AS started_at,
  r.pooling_decision AS pooling_decision,
  r.pool_start_cv AS pool_start_cv,
  r.pool_end_cv AS pool_end_cv,
  p.area_pct AS main_area_pct,
  p.resolution AS main_resolution,
  r.comment AS comment,
  COUNT(*) OVER () AS total_matches
FROM chromatography_run AS r
LEFT JOIN peak_table AS p ON p.run_id = r.run_id AND p.peak_name = 'main'
WHERE @query <> ''
  AND (
    STRPOS(LOWER(r.run_id), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.batch_id), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.step_name), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.method), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.column_id), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.site), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.pooling_decision), LOWER(@query)) > 0
    OR STRPOS(LOWER(r.comment), LOWER(@query)) > 0
  )
ORDER BY r.started_at DESC, r.run_id
LIMIT 500
