WITH u AS (
	SELECT l.name, c.owner, c.us, l.owner IS NOT DISTINCT FROM c.owner AND l.expires > clock_timestamp() AS held
	FROM "holdfast_locks" AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name
	WHERE l.owner = c.owner AND l.expires > clock_timestamp() OR c.owner = ANY (l.waiters) ORDER BY l.name FOR UPDATE OF l
)
UPDATE "holdfast_locks" AS l SET
	owner = CASE
		WHEN NOT u.held THEN l.owner
		WHEN u.us > 0 THEN u.owner || '.kept' END,
	expires = CASE
		WHEN NOT u.held THEN l.expires
		WHEN u.us <= 0 AND l.waiters = '{}' THEN 'epoch'
		ELSE clock_timestamp() + u.us * interval '1 microsecond' END,
	waiters = array_remove(l.waiters, u.owner),
	wanted = l.wanted AND array_remove(l.waiters, u.owner) <> '{}'
FROM u WHERE l.name = u.name
RETURNING l.name, u.owner, CASE WHEN l.wanted THEN pg_notify($4, l.waiters[1] || chr(10) || l.name)::text END
