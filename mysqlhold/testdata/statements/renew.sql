UPDATE `holdfast_locks` SET expires = GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
WHERE name IN ({names}) AND owner IN ({names}) AND expires > UTC_TIMESTAMP(6)
