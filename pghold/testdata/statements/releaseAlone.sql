UPDATE "holdfast_locks" AS l SET owner = NULL, expires = 'epoch'
WHERE l.name = $1 AND l.owner = $2 AND l.expires > clock_timestamp() AND l.waiters = '{}'
RETURNING true
