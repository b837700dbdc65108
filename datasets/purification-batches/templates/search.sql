-- search(query): batches whose record contains the text, newest harvest first.
-- STRPOS, not LIKE: '%' and '_' in the argument are ordinary characters.
-- An empty text matches nothing; engines differ on the position of an empty string.
SELECT
  b.batch_id AS batch_id,
  b.product AS product,
  b.site AS site,
  b.site_timezone AS site_timezone,
  b.harvest_date AS harvest_date,
  b.completed_at AS completed_at,
  b.titre_g_l AS titre_g_l,
  b.recovery_pct AS recovery_pct,
  b.disposition AS disposition,
  b.title AS title,
  b.notes AS notes,
  COUNT(*) OVER () AS total_matches
FROM batch_record AS b
WHERE @query <> ''
  AND (
    STRPOS(LOWER(b.batch_id), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.product), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.modality), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.campaign), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.site), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.disposition), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.title), LOWER(@query)) > 0
    OR STRPOS(LOWER(b.notes), LOWER(@query)) > 0
  )
ORDER BY b.harvest_date DESC, b.batch_id
LIMIT 250
