UPDATE `holdfast_locks` SET
	expires = IF(owner <=> ? AND expires > UTC_TIMESTAMP(6), IF(? <= 0 AND waiters = '', '1970-01-01', UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND), expires),
	owner = IF(owner <=> ?, IF(? > 0, CONCAT(owner, '.kept'), NULL), owner),
	waiters = TRIM(BOTH ',' FROM REPLACE(CONCAT(',', waiters, ','), CONCAT(',', ?, ','), ','))
WHERE name = ? AND (owner = ? AND expires > UTC_TIMESTAMP(6) OR FIND_IN_SET(?, waiters) > 0)
