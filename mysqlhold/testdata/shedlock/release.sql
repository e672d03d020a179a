UPDATE `shedlock` SET lock_until = (UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND), locked_by = ?, locked_at = locked_at
WHERE name = ? AND COALESCE(CAST(CONVERT(COALESCE(locked_by, '') USING utf8mb4) AS BINARY), CAST(COALESCE(locked_by, '') AS BINARY)) = ? AND lock_until > UTC_TIMESTAMP(3)
