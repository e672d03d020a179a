UPDATE "holdfast_locks" AS l SET expires = greatest(l.expires, clock_timestamp() + $3 * interval '1 microsecond')
WHERE l.name = $1 AND l.owner = $2 AND l.expires > clock_timestamp()
RETURNING l.name, l.owner
