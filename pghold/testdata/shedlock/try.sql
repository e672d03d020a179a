UPDATE "shedlock"
SET
	locked_at = CASE
		WHEN COALESCE(locked_by, '') COLLATE "C" = $1 AND lock_until > timezone('utc', clock_timestamp()) THEN locked_at
		ELSE timezone('utc', clock_timestamp()) END,
	lock_until = CASE
		WHEN COALESCE(locked_by, '') COLLATE "C" = $2 AND lock_until > timezone('utc', clock_timestamp()) THEN GREATEST(lock_until, (timezone('utc', clock_timestamp()) + $3 * interval '1 microsecond'))
		ELSE (timezone('utc', clock_timestamp()) + $4 * interval '1 microsecond') END,
	locked_by = $5
WHERE name = $6 AND name COLLATE "C" = $7 AND (lock_until IS NULL OR lock_until <= timezone('utc', clock_timestamp()) OR COALESCE(locked_by, '') COLLATE "C" = $8)
