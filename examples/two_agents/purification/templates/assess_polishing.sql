-- assess_polishing(batch_id): what the polishing steps of a batch recovered, and how pure that was.
-- The mass balance is this dataset's own. `runs` are the chromatography runs that another dataset
-- agent supplied for this batch; it searched their text for the batch number, so a run of another
-- batch that merely mentions it is left out here.
--   step yield     Y = m_out / m_in
--   monomer yield  Y times the main peak's share of the pool (SEC-HPLC, area percent)
-- A step whose runs were not supplied (of a site, say, that the asker may not see) keeps its mass
-- balance and shows no purity.
WITH seen AS (
  SELECT
    r.step_name AS step_name,
    COUNT(*) AS runs,
    MIN(CASE WHEN STRPOS(r.method, 'preparative') > 0 THEN r.main_resolution END) AS lowest_resolution,
    COUNT(CASE WHEN r.fraction <> 'pool' AND (r.pooling_decision = 'rework' OR r.pooling_decision = 'discarded') THEN 1 END) AS set_aside,
    MAX(CASE WHEN r.fraction = 'pool' AND r.method = 'SEC-HPLC' THEN CAST(r.main_area_pct AS FLOAT64) END) AS monomer_pct,
    MAX(CASE WHEN STRPOS(r.method, 'preparative') > 0 THEN r.comment END) AS observation
  FROM runs AS r
  WHERE r.batch_id = @batch_id
  GROUP BY r.step_name
)
SELECT
  b.batch_id AS batch_id,
  b.site AS site,
  s.step_name AS step_name,
  s.load_mass_g AS load_mass_g,
  s.pool_mass_g AS pool_mass_g,
  ROUND(100.0 * SAFE_DIVIDE(CAST(s.pool_mass_g AS FLOAT64), CAST(s.load_mass_g AS FLOAT64)), 2) AS step_yield_pct,
  v.runs AS runs,
  ROUND(v.lowest_resolution, 2) AS lowest_resolution,
  v.set_aside AS fractions_set_aside,
  ROUND(v.monomer_pct, 2) AS pool_monomer_pct,
  ROUND(SAFE_DIVIDE(CAST(s.pool_mass_g AS FLOAT64), CAST(s.load_mass_g AS FLOAT64)) * v.monomer_pct, 2) AS monomer_yield_pct,
  v.observation AS observation
FROM batch_record AS b
JOIN step_condition AS s ON s.batch_id = b.batch_id
LEFT JOIN seen AS v ON v.step_name = s.step_name
WHERE b.batch_id = @batch_id
  AND (s.step_name = 'cex_polishing' OR s.step_name = 'aex_polishing')
ORDER BY s.step_no
LIMIT 4
