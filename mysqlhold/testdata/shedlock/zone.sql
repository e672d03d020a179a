SELECT IF(@@SESSION.time_zone = 'SYSTEM', @@system_time_zone, @@SESSION.time_zone) LIMIT 18446744073709551615
