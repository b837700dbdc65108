-- search(query): observations whose text contains the query, newest first.
-- subject_id is never searched, so a text cannot test who a subject is; policies mask the column.
-- STRPOS, not LIKE: '%' and '_' in the argument are ordinary characters.
-- An empty text matches nothing; engines differ on the position of an empty string.
SELECT
  o.observation_id AS observation_id,
  o.subject_id AS subject_id,
  o.study_id AS study_id,
  o.site AS site,
  o.site_timezone AS site_timezone,
  o.arm AS arm,
  o.visit AS visit,
  o.observed_on AS observed_on,
  o.observed_at AS observed_at,
  o.endpoint AS endpoint,
  o.value AS value,
  o.unit AS unit,
  o.comment AS comment,
  COUNT(*) OVER () AS total_matches
FROM subject_observation AS o
WHERE @query <> ''
  AND (
    STRPOS(LOWER(o.study_id), LOWER(@query)) > 0
    OR STRPOS(LOWER(o.site), LOWER(@query)) > 0
    OR STRPOS(LOWER(o.arm), LOWER(@query)) > 0
    OR STRPOS(LOWER(o.visit), LOWER(@query)) > 0
    OR STRPOS(LOWER(o.endpoint), LOWER(@query)) > 0
    OR STRPOS(LOWER(o.comment), LOWER(@query)) > 0
  )
ORDER BY o.observed_at DESC, o.observation_id
LIMIT 500
