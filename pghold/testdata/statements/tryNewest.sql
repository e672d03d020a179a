UPDATE "holdfast_locks" AS l SET
	owner = CASE
		WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) OR (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) THEN excluded.owner
		WHEN l.expires > excluded.since THEN l.owner END,
	note = CASE WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) OR (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) THEN excluded.note ELSE l.note END,
	token = CASE WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN greatest(l.token + $5, excluded.token) ELSE l.token END,
	tokens = CASE WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN excluded.tokens ELSE l.tokens END,
	since = CASE WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN clock_timestamp() ELSE l.since END,
	expires = CASE
		WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN excluded.expires
		WHEN (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) THEN greatest(l.expires, excluded.expires)
		ELSE l.expires END,
	waiters = CASE
		WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN l.waiters[coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)) + 2:]
		WHEN NOT (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) AND ($7 AND array_position(l.waiters, excluded.owner) IS NULL AND cardinality(l.waiters) < 100) THEN l.waiters || excluded.owner
		ELSE l.waiters END,
	wanted = CASE
		WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) THEN l.wanted AND coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)) + 1 < cardinality(l.waiters)
		ELSE l.wanted OR $6 AND NOT (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) END
FROM (SELECT $2::text AS owner, $3::text AS note, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5 - 1 AS token, $5::integer AS tokens,
	clock_timestamp() AS since, clock_timestamp() + $4 * interval '1 microsecond' AS expires) AS excluded
WHERE l.ctid = ANY (ARRAY[
		(SELECT ctid FROM "holdfast_locks" WHERE name >= $1 AND name <= $1 ORDER BY name DESC LIMIT 1),
		(SELECT ctid FROM "holdfast_locks" WHERE name >= $1 AND name <= $1 ORDER BY name DESC LIMIT 1 FOR NO KEY UPDATE)
	]) AND l.name = $1 AND CASE
	WHEN (l.expires + least(coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters)), 8) * interval '300 milliseconds' <= excluded.since) OR (l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since) OR ($7 AND array_position(l.waiters, excluded.owner) IS NULL AND cardinality(l.waiters) < 100) OR $6 AND NOT l.wanted THEN true
	ELSE set_config('synchronous_commit', 'off', true) IS NULL END
RETURNING l.name, coalesce(l.owner, ''), l.note, l.token, l.tokens,
	(extract(epoch FROM clock_timestamp() - l.since) * 1000000)::bigint,
	(extract(epoch FROM l.expires - clock_timestamp()) * 1000000)::bigint,
	coalesce(l.forced_owner, ''), coalesce(l.forced_reason, ''), array_to_string(l.waiters, ','),
	CASE WHEN l.owner IS DISTINCT FROM $2 THEN set_config('synchronous_commit', 'off', true) END, l.ctid
