-- calculate_yield(batch_id): the mass balance of a batch, step by step.
--   step yield          Y_i = m_out,i / m_in,i
--   transfer loss       L_i = 1 - m_in,i / m_out,i-1     (samples, line and vessel hold-up)
--   cumulative recovery R_i = m_out,i / m_in,1 = product of Y_j over j <= i
--                             times the product of (1 - L_j) over 2 <= j <= i
-- m is product mass (concentration times volume). With no transfer loss R_i is the plain product
-- of step yields. A mass that was not measured gives NULL, never a guess. Sources: ../../README.md.
-- batch_record is joined so that a row policy on batches (by site, say) also governs their steps.
SELECT
  b.batch_id AS batch_id,
  s.step_no AS step_no,
  s.step_name AS step_name,
  s.medium AS medium,
  s.started_at AS started_at,
  b.site_timezone AS site_timezone,
  s.load_mass_g AS load_mass_g,
  s.pool_mass_g AS pool_mass_g,
  ROUND(100.0 * SAFE_DIVIDE(CAST(s.pool_mass_g AS FLOAT64), CAST(s.load_mass_g AS FLOAT64)), 2) AS step_yield_pct,
  ROUND(100.0 - 100.0 * SAFE_DIVIDE(CAST(s.load_mass_g AS FLOAT64), CAST(prev.pool_mass_g AS FLOAT64)), 2) AS transfer_loss_pct,
  ROUND(100.0 * SAFE_DIVIDE(CAST(s.pool_mass_g AS FLOAT64), CAST(f.load_mass_g AS FLOAT64)), 2) AS cumulative_recovery_pct
FROM batch_record AS b
JOIN step_condition AS s ON s.batch_id = b.batch_id
LEFT JOIN step_condition AS prev ON prev.batch_id = s.batch_id AND prev.step_no = s.step_no - 1
LEFT JOIN step_condition AS f ON f.batch_id = s.batch_id AND f.step_no = 1
WHERE b.batch_id = @batch_id
ORDER BY s.step_no
LIMIT 20
