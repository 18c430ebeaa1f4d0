-- A wrk script: wrk ... -s requests.lua URL -- FILE SEED [PAUSE]
-- FILE holds whole requests, a NUL after each. All connections draw from them at random, so kinds mix on each connection.
-- PAUSE: each connection waits 0 to so many milliseconds before each request, so that the load is paced.
-- At the end a line "RESULT {json}", times in microseconds, as load.lua writes it.
local requests = {}

function init(args)
  local file = assert(io.open(args[1], "rb"))
  for text in file:read("*a"):gmatch("(%Z+)%z") do requests[#requests + 1] = text end
  file:close()
  math.randomseed(tonumber(args[2]))
  local pause = tonumber(args[3])
  if pause then function delay() return math.random(0, pause) end end
end

function request()
  return requests[math.random(#requests)]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"bad":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
