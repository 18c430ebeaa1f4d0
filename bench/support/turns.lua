-- Asks for 20,000 accounts by turns: %A in the path is the account.
local turn = 0
local path

init = function(args)
  path = args[1]
end

request = function()
  turn = (turn + 1) % 20000
  return wrk.format('GET', (path:gsub('%%A', string.format('0x5a%06x', turn))))
end
