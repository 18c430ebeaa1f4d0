/**
 * Lua scripts for limits. Windows are those of `window.ts`, packed into one value: one command reads them, one writes
 * them. Requests in flight are leases in a sorted set, by their end: those of a dead replica end. Both names share a
 * hash tag, for one slot in a cluster. Only the server's clock counts: replicas need not agree on the time.
 */
import { script } from '../redis.ts';
import { burstMs } from './counter.ts';
import { partMsOf, partsOfSpan } from './window.ts';

const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** A window is the number of its newest part, then its amounts, with part n at index 2 + n modulo their number. */
const windows = `${clock}
local spans = ${partsOfSpan}
local kept = spans + 1

local function read(key)
  local text = redis.call('GET', key)
  local isRead, state = false, nil
  if text then isRead, state = pcall(cmsgpack.unpack, text) end
  return isRead and type(state) == 'table' and state or {}
end

-- A clock that goes back stands still; one that goes back by more than a span has made all of it meaningless.
local function moved(window, part)
  if type(window) ~= 'table' or #window ~= kept + 1 or window[1] - part > spans then
    window = { part }
    for slot = 1, kept do window[slot + 1] = 0 end
  end
  local newest = window[1]
  for step = 1, math.min(part - newest, kept) do window[(newest + step) % kept + 2] = 0 end
  window[1] = math.max(part, newest)
  return window
end

local function add(window, amount)
  local slot = window[1] % kept + 2
  window[slot] = window[slot] + amount
end
`;

/**
 * Admits a request. KEYS: windows, leases. ARGV: part's ms, limits of requests, cost, burst and concurrency (-1: none),
 * cost, lease's name, lease's ms. Replies 1 or 0, the exceeded bound, ms until it is free; then for requests, cost and
 * burst the amount in use and the ms until some of it is free (-1: not bounded, or nothing used).
 */
export const admission = script(`${windows}
local bounds = {}
local function bound(kind, limit, amount, part)
  bounds[#bounds + 1] = { kind = kind, limit = tonumber(limit), amount = tonumber(amount), part = tonumber(part) }
end
bound('r', ARGV[2], 1, ARGV[1])
bound('c', ARGV[3], ARGV[6], ARGV[1])
bound('b', ARGV[4], 1, ${partMsOf(burstMs)})
local most = tonumber(ARGV[5])
local state = read(KEYS[1])

local over, wait, longest = '', 0, 0
for _, it in ipairs(bounds) do
  if it.limit >= 0 then
    local window = moved(state[it.kind], math.floor(now / it.part))
    state[it.kind], it.window, it.used = window, window, 0
    for slot = 2, kept + 1 do it.used = it.used + window[slot] end
    longest = math.max(longest, (kept + 1) * it.part)
    local left, enough = it.used, it.limit - math.min(it.amount, it.limit)
    local part = window[1] - spans
    while left > enough and part <= window[1] do
      left = left - window[part % kept + 2]
      part = part + 1
    end
    local free = (part + spans) * it.part - now
    if it.used > enough and free > wait then over, wait = it.kind, free end
  end
end
if most >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if over == '' and redis.call('ZCARD', KEYS[2]) >= most then over = 'l' end
end
if over == '' then
  for _, it in ipairs(bounds) do
    if it.window then
      add(it.window, it.amount)
      it.used = it.used + it.amount
    end
  end
  if longest > 0 then redis.call('SET', KEYS[1], cmsgpack.pack(state), 'PX', longest) end
  if most >= 0 then
    redis.call('ZADD', KEYS[2], now + tonumber(ARGV[8]), ARGV[7])
    redis.call('PEXPIRE', KEYS[2], ARGV[8])
  end
end

local answer = { over == '' and 1 or 0, over, wait }
for _, it in ipairs(bounds) do
  local free = -1
  if it.window and it.used > 0 then
    local part = it.window[1] - spans
    while it.window[part % kept + 2] <= 0 and part < it.window[1] do part = part + 1 end
    free = (part + kept) * it.part - now
  end
  answer[#answer + 1] = it.window and math.ceil(it.used) or -1
  answer[#answer + 1] = free
end
return answer
`);

/** Settles requests. KEYS: windows, leases. ARGV: part's ms, cost beyond the charges ('0': none), leases that end. */
export const settlement = script(`${windows}
local part, cost = tonumber(ARGV[1]), tonumber(ARGV[2])
if cost > 0 then
  local state = read(KEYS[1])
  state.c = moved(state.c, math.floor(now / part))
  add(state.c, cost)
  local longest = math.max((kept + 1) * part, (kept + 1) * ${partMsOf(burstMs)})
  redis.call('SET', KEYS[1], cmsgpack.pack(state), 'PX', longest)
end
for at = 3, #ARGV do redis.call('ZREM', KEYS[2], ARGV[at]) end
return 1
`);

/** Renews leases. KEYS: leases. ARGV: lease's ms, the leases' names. */
export const renewal = script(`${clock}
local ends = now + tonumber(ARGV[1])
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[at]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
`);
