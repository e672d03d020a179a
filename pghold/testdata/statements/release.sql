UPDATE "holdfast_locks" AS l SET
	owner = CASE
		WHEN NOT (l.owner IS NOT DISTINCT FROM u.owner AND l.expires > u.now) THEN l.owner
		WHEN u.us > 0 THEN u.owner || '.kept' END,
	expires = CASE
		WHEN NOT (l.owner IS NOT DISTINCT FROM u.owner AND l.expires > u.now) THEN l.expires
		WHEN u.us <= 0 AND l.waiters = '{}' THEN 'epoch'
		ELSE clock_timestamp() + u.us * interval '1 microsecond' END,
	waiters = array_remove(l.waiters, u.owner),
	wanted = l.wanted AND array_remove(l.waiters, u.owner) <> '{}'
FROM (SELECT $2::text AS owner, $3::bigint AS us, clock_timestamp() AS now) AS u
WHERE l.name = $1 AND ((l.owner IS NOT DISTINCT FROM u.owner AND l.expires > u.now) OR u.owner = ANY (l.waiters))
RETURNING l.name, u.owner, CASE WHEN l.wanted THEN pg_notify($4, l.waiters[1] || chr(10) || l.name)::text END
