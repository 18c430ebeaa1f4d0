/**
 * What Redis runs. Windows are those of `window.ts`, in a hash: the field `r87` is the number of requests in part 87 of
 * its clock (`c`: cost, `b`: burst). Requests under way are leases in a sorted set, by when they end: a replica that
 * dies holds none for ever. Both have one hash tag, so that a cluster keeps them together. Only the server's clock
 * counts, so that no two replicas have to agree on the time.
 */
import { burstMs } from './account.ts';
import { script } from './store.ts';
import { partMsOf, partsOfSpan } from './window.ts';

const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/**
 * KEYS: hash, leases. ARGV: part's ms, limits of requests, cost, burst and concurrency (-1: none), cost, lease's name,
 * lease's ms. Answers 1 or 0, the bound that is over, ms until it is free, then of requests, cost and burst what is
 * used and the ms until some of it is free (-1: not bounded, or nothing used).
 */
export const admission = script(`${clock}
local spans = ${partsOfSpan}
local kinds = { 'r', 'c', 'b' }
local part = { r = tonumber(ARGV[1]), c = tonumber(ARGV[1]), b = ${partMsOf(burstMs)} }
local limit = { r = tonumber(ARGV[2]), c = tonumber(ARGV[3]), b = tonumber(ARGV[4]) }
local most = tonumber(ARGV[5])
local amount = { r = 1, c = tonumber(ARGV[6]), b = 1 }
local used = { r = 0, c = 0, b = 0 }
local held = { r = {}, c = {}, b = {} }
local old = {}
local fields = redis.call('HGETALL', KEYS[1])
for at = 1, #fields, 2 do
  local kind = string.sub(fields[at], 1, 1)
  local index = tonumber(string.sub(fields[at], 2))
  local value = tonumber(fields[at + 1])
  local age = part[kind] and index and value and math.floor(now / part[kind]) - index
  -- A clock that went back leaves parts of the future: those of one span count, others are of no meaning any more.
  if not age or age > spans or age < -spans then
    old[#old + 1] = fields[at]
  else
    used[kind] = used[kind] + value
    table.insert(held[kind], { index, value })
  end
end
if #old > 0 then redis.call('HDEL', KEYS[1], unpack(old)) end

local function freeIn(kind, enough)
  local left = used[kind]
  if left <= enough then return 0 end
  table.sort(held[kind], function(one, other) return one[1] < other[1] end)
  local last = 0
  for _, entry in ipairs(held[kind]) do
    left = left - entry[2]
    last = (entry[1] + spans + 1) * part[kind] - now
    if left <= enough then return last end
  end
  return last
end

local over, wait = '', 0
for _, kind in ipairs(kinds) do
  if limit[kind] >= 0 then
    local free = freeIn(kind, limit[kind] - math.min(amount[kind], limit[kind]))
    if free > wait then over, wait = kind, free end
  end
end
if most >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if over == '' and redis.call('ZCARD', KEYS[2]) >= most then over = 'l' end
end
if over == '' then
  local longest = 0
  for _, kind in ipairs(kinds) do
    if limit[kind] >= 0 then
      local index = math.floor(now / part[kind])
      local field = kind .. string.format('%.0f', index)
      redis.call('HINCRBYFLOAT', KEYS[1], field, amount[kind])
      used[kind] = used[kind] + amount[kind]
      table.insert(held[kind], { index, amount[kind] })
      longest = math.max(longest, (spans + 2) * part[kind])
    end
  end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) end
  if most >= 0 then
    redis.call('ZADD', KEYS[2], now + tonumber(ARGV[8]), ARGV[7])
    redis.call('PEXPIRE', KEYS[2], ARGV[8])
  end
end

local answer = { over == '' and 1 or 0, over, wait }
for _, kind in ipairs(kinds) do
  local bounded = limit[kind] >= 0
  answer[#answer + 1] = bounded and math.ceil(used[kind]) or -1
  answer[#answer + 1] = -1
  if bounded and used[kind] > 0 then
    local first = held[kind][1][1]
    for _, entry in ipairs(held[kind]) do first = math.min(first, entry[1]) end
    answer[#answer] = (first + spans + 1) * part[kind] - now
  end
end
return answer
`);

/** KEYS: hash, leases. ARGV: part's ms, cost beyond the charges ('0': none), leases that end. */
export const settlement = script(`${clock}
local part = tonumber(ARGV[1])
if tonumber(ARGV[2]) > 0 then
  redis.call('HINCRBYFLOAT', KEYS[1], 'c' .. string.format('%.0f', math.floor(now / part)), ARGV[2])
  local longest = math.max(${partsOfSpan + 2} * part, ${(partsOfSpan + 2) * partMsOf(burstMs)})
  redis.call('PEXPIRE', KEYS[1], longest)
end
for at = 3, #ARGV do redis.call('ZREM', KEYS[2], ARGV[at]) end
return 1
`);

/** KEYS: leases. ARGV: lease's ms, leases that go on. */
export const renewal = script(`${clock}
local ends = now + tonumber(ARGV[1])
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[at]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
`);
