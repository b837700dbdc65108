-- compare_batches(batch_a, batch_b): one row per batch, recovery and step conditions in columns.
-- Overall recovery = mass in the last pool / mass loaded on the first step, in percent
-- (the mass balance of calculate_yield.sql). A batch the caller may not see has no row.
SELECT
  b.batch_id AS batch_id,
  b.product AS product,
  b.site AS site,
  b.scale_l AS scale_l,
  b.harvest_date AS harvest_date,
  b.titre_g_l AS titre_g_l,
  pa.load_mass_g AS load_mass_g,
  ud.pool_mass_g AS final_mass_g,
  ROUND(100.0 * SAFE_DIVIDE(CAST(ud.pool_mass_g AS FLOAT64), CAST(pa.load_mass_g AS FLOAT64)), 2) AS overall_recovery_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(pa.pool_mass_g AS FLOAT64), CAST(pa.load_mass_g AS FLOAT64)), 2) AS capture_yield_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(vi.pool_mass_g AS FLOAT64), CAST(vi.load_mass_g AS FLOAT64)), 2) AS viral_inactivation_yield_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(cx.pool_mass_g AS FLOAT64), CAST(cx.load_mass_g AS FLOAT64)), 2) AS cex_yield_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(ax.pool_mass_g AS FLOAT64), CAST(ax.load_mass_g AS FLOAT64)), 2) AS aex_yield_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(vf.pool_mass_g AS FLOAT64), CAST(vf.load_mass_g AS FLOAT64)), 2) AS viral_filtration_yield_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(ud.pool_mass_g AS FLOAT64), CAST(ud.load_mass_g AS FLOAT64)), 2) AS uf_df_yield_pct,
  pa.load_density_g_l AS capture_load_density_g_l,
  pa.operating_ph AS capture_elution_ph,
  vi.operating_ph AS hold_ph,
  vi.residence_min AS hold_min,
  cx.load_density_g_l AS cex_load_density_g_l,
  cx.conductivity_ms_cm AS cex_load_conductivity_ms_cm,
  ax.operating_ph AS aex_load_ph,
  ax.conductivity_ms_cm AS aex_load_conductivity_ms_cm,
  vf.membrane_load_g_m2 AS viral_filter_load_g_m2,
  b.disposition AS disposition
FROM batch_record AS b
LEFT JOIN step_condition AS pa ON pa.batch_id = b.batch_id AND pa.step_name = 'protein_a_capture'
LEFT JOIN step_condition AS vi ON vi.batch_id = b.batch_id AND vi.step_name = 'viral_inactivation'
LEFT JOIN step_condition AS cx ON cx.batch_id = b.batch_id AND cx.step_name = 'cex_polishing'
LEFT JOIN step_condition AS ax ON ax.batch_id = b.batch_id AND ax.step_name = 'aex_polishing'
LEFT JOIN step_condition AS vf ON vf.batch_id = b.batch_id AND vf.step_name = 'viral_filtration'
LEFT JOIN step_condition AS ud ON ud.batch_id = b.batch_id AND ud.step_name = 'uf_df'
WHERE b.batch_id = @batch_a OR b.batch_id = @batch_b
ORDER BY b.batch_id
LIMIT 2
