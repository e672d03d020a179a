-- list_marks: what the marks of some owners say. It writes nothing.
--
-- KEYS   1... marks
-- Reply  {mark, ...}, '' for one that there is not

local found = {}
for i, key in ipairs(KEYS) do
  found[i] = redis.call('GET', key) or ''
end
return found
