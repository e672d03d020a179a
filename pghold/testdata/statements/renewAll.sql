WITH u AS (
	SELECT l.name, l.owner, c.us
	FROM "holdfast_locks" AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name AND l.owner = c.owner
	WHERE l.expires > clock_timestamp() ORDER BY l.name FOR UPDATE OF l
)
UPDATE "holdfast_locks" AS l SET expires = greatest(l.expires, clock_timestamp() + u.us * interval '1 microsecond') FROM u WHERE l.name = u.name
RETURNING l.name, l.owner
