UPDATE "holdfast_locks" AS l SET expires = greatest(l.expires, clock_timestamp() + $3 * interval '1 microsecond')
WHERE l.ctid = ANY (ARRAY[
		(SELECT ctid FROM "holdfast_locks" WHERE name >= $1 AND name <= $1 ORDER BY name DESC LIMIT 1),
		(SELECT ctid FROM "holdfast_locks" WHERE name >= $1 AND name <= $1 ORDER BY name DESC LIMIT 1 FOR NO KEY UPDATE)
	]) AND l.name = $1 AND l.owner = $2 AND l.expires > clock_timestamp()
RETURNING l.name, l.owner
