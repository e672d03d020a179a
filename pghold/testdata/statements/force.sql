WITH r AS (
	UPDATE "holdfast_locks" SET owner = NULL, expires = CASE WHEN waiters = '{}' THEN 'epoch' ELSE clock_timestamp() END, forced_owner = $2, forced_reason = $4
	WHERE name = $1 AND owner = $2 AND token = $3 AND expires > clock_timestamp()
	RETURNING name, wanted, waiters[1] AS next
)
SELECT CASE WHEN wanted THEN pg_notify($5, next || chr(10) || name)::text END FROM r
