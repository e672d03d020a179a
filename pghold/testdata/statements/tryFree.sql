UPDATE "holdfast_locks" AS l SET owner = $2, note = $3, token = greatest(l.token + $5, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5 - 1), tokens = $5,
	since = clock_timestamp(), expires = clock_timestamp() + $4 * interval '1 microsecond'
WHERE l.name = $1 AND l.expires <= clock_timestamp() AND l.waiters = '{}'
RETURNING l.token, l.ctid
