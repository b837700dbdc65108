-- detect_outliers(metric): batches far from the history of their product.
--   modified z-score M = 0.6745 (x - median) / MAD, MAD = median(|x - median|), flagged where |M| > 3.5
--   (Iglewicz & Hoaglin, How to Detect and Handle Outliers, ASQC, 1993; NIST/SEMATECH e-Handbook 1.3.5.17).
-- The history is every batch of the same product that has the measurement and that the caller may
-- see. hcp and residual_dna are right-skewed and are scored on the natural logarithm. A product with
-- fewer than 8 batches, or with a MAD of zero, flags nothing.
WITH measured AS (
  SELECT
    b.batch_id AS batch_id,
    b.product AS product,
    b.site AS site,
    b.harvest_date AS harvest_date,
    CASE
      WHEN @metric = 'recovery' THEN CAST(b.recovery_pct AS FLOAT64)
      WHEN @metric = 'titre' THEN CAST(b.titre_g_l AS FLOAT64)
      WHEN @metric = 'capture_yield' THEN 100.0 * SAFE_DIVIDE(CAST(pa.pool_mass_g AS FLOAT64), CAST(pa.load_mass_g AS FLOAT64))
      WHEN @metric = 'cex_yield' THEN 100.0 * SAFE_DIVIDE(CAST(cx.pool_mass_g AS FLOAT64), CAST(cx.load_mass_g AS FLOAT64))
      WHEN @metric = 'hcp' THEN CAST(q.hcp_ppm AS FLOAT64)
      WHEN @metric = 'residual_dna' THEN CAST(q.dna_ppb AS FLOAT64)
      WHEN @metric = 'hmw' THEN CAST(q.hmw_pct AS FLOAT64)
      WHEN @metric = 'monomer' THEN CAST(q.monomer_pct AS FLOAT64)
    END AS observed
  FROM batch_record AS b
  LEFT JOIN step_condition AS pa ON pa.batch_id = b.batch_id AND pa.step_name = 'protein_a_capture'
  LEFT JOIN step_condition AS cx ON cx.batch_id = b.batch_id AND cx.step_name = 'cex_polishing'
  LEFT JOIN in_process_control AS q ON q.batch_id = b.batch_id AND q.step_name = 'uf_df'
),
scaled AS (
  SELECT
    m.batch_id AS batch_id,
    m.product AS product,
    m.site AS site,
    m.harvest_date AS harvest_date,
    m.observed AS observed,
    CASE WHEN @metric = 'hcp' OR @metric = 'residual_dna' THEN LN(m.observed) ELSE m.observed END AS x
  FROM measured AS m
  WHERE m.observed > 0
),
centred AS (
  SELECT
    v.batch_id AS batch_id,
    v.product AS product,
    v.site AS site,
    v.harvest_date AS harvest_date,
    v.observed AS observed,
    v.x AS x,
    PERCENTILE_CONT(v.x, 0.5) OVER (PARTITION BY v.product) AS centre,
    COUNT(*) OVER (PARTITION BY v.product) AS history
  FROM scaled AS v
),
spread AS (
  SELECT
    c.batch_id AS batch_id,
    c.product AS product,
    c.site AS site,
    c.harvest_date AS harvest_date,
    c.observed AS observed,
    c.x AS x,
    c.centre AS centre,
    c.history AS history,
    PERCENTILE_CONT(ABS(c.x - c.centre), 0.5) OVER (PARTITION BY c.product) AS mad
  FROM centred AS c
),
scored AS (
  SELECT
    d.batch_id AS batch_id,
    d.product AS product,
    d.site AS site,
    d.harvest_date AS harvest_date,
    d.observed AS observed,
    d.centre AS centre,
    d.history AS history,
    d.centre - 3.5 * d.mad / 0.6745 AS low,
    d.centre + 3.5 * d.mad / 0.6745 AS high,
    SAFE_DIVIDE(0.6745 * (d.x - d.centre), d.mad) AS score
  FROM spread AS d
)
SELECT
  z.batch_id AS batch_id,
  z.product AS product,
  z.site AS site,
  z.harvest_date AS harvest_date,
  @metric AS metric,
  CASE
    WHEN @metric = 'titre' THEN 'g/L'
    WHEN @metric = 'hcp' THEN 'ng/mg'
    WHEN @metric = 'residual_dna' THEN 'pg/mg'
    ELSE '%'
  END AS unit,
  ROUND(z.observed, 4) AS value,
  ROUND(CASE WHEN @metric = 'hcp' OR @metric = 'residual_dna' THEN EXP(z.centre) ELSE z.centre END, 4) AS median,
  ROUND(CASE WHEN @metric = 'hcp' OR @metric = 'residual_dna' THEN EXP(z.low) ELSE z.low END, 4) AS lower_limit,
  ROUND(CASE WHEN @metric = 'hcp' OR @metric = 'residual_dna' THEN EXP(z.high) ELSE z.high END, 4) AS upper_limit,
  ROUND(z.score, 3) AS modified_z_score,
  CASE WHEN z.score < 0 THEN 'low' ELSE 'high' END AS direction,
  z.history AS batches_compared
FROM scored AS z
WHERE z.history >= 8 AND ABS(z.score) > 3.5
ORDER BY ROUND(ABS(z.score), 3) DESC, z.batch_id
LIMIT 250
