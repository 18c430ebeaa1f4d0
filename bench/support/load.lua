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
  wrk.headers["accept"] = "application/json"
  wrk.headers["user-agent"] = "ledger-ts-sdk/2.1.0"
  wrk.headers["x-node-client"] = "ledger-ts-sdk/2.1.0"
  if body then
    wrk.method, wrk.body = "POST", body
    wrk.headers["content-type"] = "application/json"
  end
  local mark = path:match("%%[AV]")
  wrk.path = path
  -- Without a mark every request is the same, and wrk asks for it once.
  if not mark then return end
  digits = mark == "%A" and "0x5a%062x" or "%09d"
  local text = wrk.format(wrk.method, path, wrk.headers, body)
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
