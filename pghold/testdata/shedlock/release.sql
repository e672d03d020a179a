UPDATE "shedlock" SET lock_until = (timezone('utc', clock_timestamp()) + $1 * interval '1 microsecond'), locked_by = $2, locked_at = locked_at
WHERE name = $3 AND COALESCE(locked_by, '') COLLATE "C" = $4 AND lock_until > timezone('utc', clock_timestamp())
