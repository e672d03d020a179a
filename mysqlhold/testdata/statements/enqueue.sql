UPDATE `holdfast_locks` JOIN (SELECT name FROM `holdfast_locks` WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS unlocked USING (name) SET waiters = IF(waiters = '', ?, CONCAT(waiters, ',', ?))
WHERE FIND_IN_SET(?, waiters) = 0 AND IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', ''))) < 100
