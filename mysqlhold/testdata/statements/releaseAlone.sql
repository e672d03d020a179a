UPDATE `holdfast_locks` SET expires = '1970-01-01', owner = NULL
WHERE name = ? AND owner = ? AND expires > UTC_TIMESTAMP(6) AND waiters = ''
