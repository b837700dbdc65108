-- aggregate(metric): an endpoint by study, arm and visit across subjects; no subject leaves.
-- Groups of fewer than five subjects are left out: minimum_group of the descriptor, which adds the
-- condition to this one aggregation of one table. The metric is an enumeration and there is no free
-- range parameter, because ranges let a caller subtract one group from another. Whatever a policy
-- makes of subject_id, the condition counts stored subjects; the column subjects counts what is shown.
SELECT
  o.study_id AS study_id,
  o.arm AS arm,
  o.visit AS visit,
  o.visit_day AS visit_day,
  o.endpoint AS endpoint,
  o.unit AS unit,
  COUNT(DISTINCT o.subject_id) AS subjects,
  COUNT(o.value) AS observations,
  ROUND(AVG(CAST(o.value AS FLOAT64)), 3) AS mean,
  ROUND(AVG(CAST(o.change_from_baseline AS FLOAT64)), 3) AS mean_change_from_baseline
FROM subject_observation AS o
WHERE o.endpoint = @metric AND o.value IS NOT NULL
GROUP BY o.study_id, o.arm, o.visit, o.visit_day, o.endpoint, o.unit
ORDER BY o.study_id, o.arm, o.visit_day
LIMIT 100
