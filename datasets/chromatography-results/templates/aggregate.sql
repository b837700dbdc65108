-- aggregate(metric): statistics of one peak or column metric by step, method and peak.
-- Resolution and asymmetry are those of USP <621>; HETP and asymmetry of a column come from
-- tracer pulse tests. The median interpolates between the two middle values.
WITH observed AS (
  SELECT
    r.step_name AS step_name,
    r.method AS method,
    p.peak_name AS peak_name,
    r.run_id AS run_id,
    CASE
      WHEN @metric = 'resolution' THEN p.resolution
      WHEN @metric = 'asymmetry' THEN p.asymmetry
      WHEN @metric = 'area_pct' THEN CAST(p.area_pct AS FLOAT64)
      WHEN @metric = 'retention' THEN p.retention_min
      WHEN @metric = 'peak_width' THEN p.width_half_min
      WHEN @metric = 'signal_to_noise' THEN p.signal_to_noise
    END AS x
  FROM chromatography_run AS r
  JOIN peak_table AS p ON p.run_id = r.run_id
  UNION ALL
  SELECT
    c.step_name AS step_name,
    'column qualification' AS method,
    CAST(NULL AS STRING) AS peak_name,
    CONCAT(c.column_id, '/', CAST(c.cycle_no AS STRING)) AS run_id,
    CASE
      WHEN @metric = 'hetp' THEN c.hetp_cm
      WHEN @metric = 'pressure_drop' THEN c.pressure_drop_bar
    END AS x
  FROM column_performance AS c
),
ranked AS (
  SELECT
    o.step_name AS step_name,
    o.method AS method,
    o.peak_name AS peak_name,
    o.run_id AS run_id,
    o.x AS x,
    PERCENTILE_CONT(o.x, 0.5) OVER (PARTITION BY o.step_name, o.method, o.peak_name) AS middle
  FROM observed AS o
  WHERE o.x IS NOT NULL
)
SELECT
  g.step_name AS step_name,
  g.method AS method,
  g.peak_name AS peak_name,
  @metric AS metric,
  CASE
    WHEN @metric = 'area_pct' THEN '%'
    WHEN @metric = 'retention' OR @metric = 'peak_width' THEN 'min'
    WHEN @metric = 'hetp' THEN 'cm'
    WHEN @metric = 'pressure_drop' THEN 'bar'
    ELSE '1'
  END AS unit,
  COUNT(DISTINCT g.run_id) AS runs,
  ROUND(AVG(g.x), 4) AS mean,
  ROUND(STDDEV_SAMP(g.x), 4) AS standard_deviation,
  ROUND(MIN(g.x), 4) AS minimum,
  ROUND(MIN(g.middle), 4) AS median,
  ROUND(MAX(g.x), 4) AS maximum
FROM ranked AS g
GROUP BY g.step_name, g.method, g.peak_name
ORDER BY g.step_name, g.method, g.peak_name
LIMIT 100
