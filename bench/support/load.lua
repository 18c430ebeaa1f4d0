-- A wrk script: wrk ... -s load.lua URL -- ORDER FROM COUNT PATH [BODY]
-- %A in the path is an account and %V nine digits of a version, of a number from ORDER: `turns` counts on from FROM, and
-- from 0 again at COUNT, `random` draws below COUNT.
-- At the end a line "RESULT {json}", times in microseconds.
local order, at, count = "turns", 0, 1
local head, tail, digits

function init(args)
  local path, body = args[4], args[5]
  order, at, count = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(at)
  -- One order for all runs, as clients have one: Lua's own differs from process to process, and each order has a hidden
  -- class of its own in V8.
  local lines = {
    (body and "POST " or "GET ") .. path .. " HTTP/1.1",
    "Host: " .. wrk.headers["Host"],
    "accept: application/json",
    "user-agent: ledger-ts-sdk/2.1.0",
    "x-node-client: ledger-ts-sdk/2.1.0",
  }
  if body then
    lines[#lines + 1] = "content-type: application/json"
    lines[#lines + 1] = "Content-Length: " .. #body
  end
  local text = table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
  local mark = path:match("%%[AV]")
  if not mark then
    request = function() return text end
    return
  end
  digits = mark == "%A" and "0x5a%062x" or "%09d"
  local from, to = text:find(mark, 1, true)
  head, tail = text:sub(1, from - 1), text:sub(to + 1)
  request = another
end

function another()
  if order == "random" then
    at = math.random(0, count - 1)
  else
    at = at + 1
    if at >= count then at = 0 end
  end
  return head .. digits:format(at) .. tail
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"bad":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
