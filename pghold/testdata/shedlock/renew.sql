UPDATE "shedlock" SET lock_until = GREATEST(lock_until, (timezone('utc', clock_timestamp()) + $1 * interval '1 microsecond')), locked_at = locked_at
WHERE name = $2 AND COALESCE(locked_by, '') COLLATE "C" = $3 AND lock_until > timezone('utc', clock_timestamp())
