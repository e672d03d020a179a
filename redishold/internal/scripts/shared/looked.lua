-- looked: let an answer pass that is about the type of a key: it may be anything.
--
-- Takes  the answer of a pcall
-- Reply  the same; another error is raised

local function looked(answer)
  if type(answer) == 'table' and answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true) then
    error(answer.err)
  end
  return answer
end
