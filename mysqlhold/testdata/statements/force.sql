UPDATE `holdfast_locks` SET forced_owner = owner, forced_reason = ?, expires = IF(waiters = '', '1970-01-01', UTC_TIMESTAMP(6)), owner = NULL
WHERE name = ? AND owner = ? AND token = ? AND expires > UTC_TIMESTAMP(6)
