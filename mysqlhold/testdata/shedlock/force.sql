UPDATE `shedlock` SET lock_until = UTC_TIMESTAMP(3), locked_by = ?, locked_at = locked_at
WHERE name = ? AND COALESCE(CAST(CONVERT(COALESCE(locked_by, '') USING utf8mb4) AS BINARY), CAST(COALESCE(locked_by, '') AS BINARY)) = ? AND TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', COALESCE(locked_at, TIMESTAMP '1970-01-01 00:00:00')) = ? AND lock_until > UTC_TIMESTAMP(3)
