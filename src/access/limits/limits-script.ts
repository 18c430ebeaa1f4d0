/**
 * Lua scripts for limits. Windows are those of `window.ts`, packed into one value: one command reads them, one writes
 * them. Requests in flight are leases in a sorted set, by their end: those of a dead replica end. Quotas are a hash for
 * each month: the totals of the month and its days. All names of an account share a hash tag, for one slot in a cluster.
 * For windows only the server's clock counts: replicas need not agree on the time. Days and months are named by replicas.
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
 * The totals of a quota. A process gives for each period what `PeriodUse` has: `known` makes a total good that the server
 * lost, `alone` what the process counted while the server was away. `alone` is repeated until it is confirmed, so that a
 * field `PERIOD:PROCESS` has the part that is counted already. A hash begins an epoch: totals known from an earlier one are
 * joined to a base by their maximum, and what is counted since is added to it, so that neither hides the other.
 */
const quotas = `
local function period(text)
  local name, limit, known, reported, alone, epoch, wait =
    string.match(text, '(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')
  return {
    name = name, limit = tonumber(limit), known = tonumber(known), reported = tonumber(reported),
    alone = tonumber(alone), epoch = epoch, wait = tonumber(wait),
  }
end

local function amountAt(key, field)
  return tonumber(redis.call('HGET', key, field) or '0') or 0
end

-- The epoch, and whether it is new.
local function epochOf(key, process)
  local epoch = redis.call('HGET', key, 'epoch')
  if epoch then return epoch, false end
  local time = redis.call('TIME')
  return process .. ':' .. time[1] .. '.' .. time[2], true
end

local function readTotal(key, process, epoch, it)
  it.stored = amountAt(key, it.name)
  local raised = 0
  if it.known > 0 and it.epoch == epoch then
    -- Lost by a server that took over from another one.
    raised = math.max(0, it.known - it.stored)
  elseif it.known > 0 then
    raised = math.max(0, it.known - amountAt(key, it.name .. ':base'))
    it.base = raised > 0 and it.known or nil
  end
  it.field = it.name .. ':' .. process
  it.counted = it.reported
  if it.alone > it.reported then it.counted = math.max(it.counted, amountAt(key, it.field)) end
  it.used = it.stored + raised + math.max(0, it.alone - it.counted)
end

local function textOf(amount)
  return string.format(amount % 1 == 0 and '%d' or '%.3f', amount)
end

local function writeTotals(key, epoch, isNew, keptMs, all)
  local isChanged = false
  for _, it in ipairs(all) do
    if it.used > it.stored then
      isChanged = true
      redis.call('HSET', key, it.name, textOf(it.used))
    end
    if it.base then redis.call('HSET', key, it.name .. ':base', textOf(it.base)) end
    if it.alone > it.counted then redis.call('HSET', key, it.field, textOf(it.alone)) end
  end
  if isNew and isChanged then
    redis.call('HSET', key, 'epoch', epoch)
    redis.call('PEXPIRE', key, keptMs)
  end
end
`;

/**
 * Admits a request. KEYS: windows, leases; then, with a quota or a bound of addresses, the quota's hash and the address's
 * window. ARGV: part's ms, limits of requests, cost, burst and concurrency (-1: none), cost, lease's name, lease's ms;
 * then '1' to count nothing, limit of the address (-1: none), its part's ms; then, with a quota, the process, units, ms
 * that the hash is kept, and for day and month one text: name, limit (-1: none), known, reported, alone, epoch, ms until its end.
 * Replies 1 or 0, the exceeded bound, ms until it is free; then for requests, cost, burst and address the amount in use
 * and the ms until some of it is free (-1: not bounded, or nothing used); then, with a quota, both totals and the epoch as texts.
 */
export const admission = script(`${windows}${quotas}
local bounds = {}
-- The first letter of its name is that of its window.
local function bound(name, state, limit, amount, part)
  bounds[#bounds + 1] = {
    name = name, kind = string.sub(name, 1, 1), state = state,
    limit = tonumber(limit), amount = tonumber(amount), part = tonumber(part),
  }
end
local state = read(KEYS[1])
local ofAddress = tonumber(ARGV[10] or '-1') >= 0 and read(KEYS[4]) or {}
bound('requests', state, ARGV[2], 1, ARGV[1])
bound('cost', state, ARGV[3], ARGV[6], ARGV[1])
bound('burst', state, ARGV[4], 1, ${partMsOf(burstMs)})
bound('address', ofAddress, ARGV[10] or '-1', 1, ARGV[11] or '1')
local most = tonumber(ARGV[5])
local periods, units, epoch, isNew = {}, 0, '', false
if ARGV[12] then
  epoch, isNew = epochOf(KEYS[3], ARGV[12])
  periods, units = { period(ARGV[15]), period(ARGV[16]) }, tonumber(ARGV[13])
  for _, it in ipairs(periods) do readTotal(KEYS[3], ARGV[12], epoch, it) end
end

local over, wait, longest, longestOfAddress = '', 0, 0, 0
for _, it in ipairs(bounds) do
  if it.limit >= 0 then
    local window = moved(it.state[it.kind], math.floor(now / it.part))
    it.state[it.kind], it.window, it.used = window, window, 0
    for slot = 2, kept + 1 do it.used = it.used + window[slot] end
    if it.kind == 'a' then longestOfAddress = (kept + 1) * it.part
    else longest = math.max(longest, (kept + 1) * it.part) end
    local left, enough = it.used, it.limit - math.min(it.amount, it.limit)
    local part = window[1] - spans
    while left > enough and part <= window[1] do
      left = left - window[part % kept + 2]
      part = part + 1
    end
    local free = (part + spans) * it.part - now
    if it.used > enough and free > wait then over, wait = it.name, free end
  end
end
for index, it in ipairs(periods) do
  if it.limit >= 0 and it.used > it.limit - math.min(units, it.limit) and it.wait > wait then
    over, wait = index == 1 and 'day' or 'month', it.wait
  end
end
if most >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if over == '' and redis.call('ZCARD', KEYS[2]) >= most then over = 'concurrency' end
end
local isCounted = over == '' and ARGV[9] ~= '1'
if isCounted then
  for _, it in ipairs(bounds) do
    if it.window then
      add(it.window, it.amount)
      it.used = it.used + it.amount
    end
  end
  if longest > 0 then redis.call('SET', KEYS[1], cmsgpack.pack(state), 'PX', longest) end
  if longestOfAddress > 0 then redis.call('SET', KEYS[4], cmsgpack.pack(ofAddress), 'PX', longestOfAddress) end
  if most >= 0 then
    redis.call('ZADD', KEYS[2], now + tonumber(ARGV[8]), ARGV[7])
    redis.call('PEXPIRE', KEYS[2], ARGV[8])
  end
  for _, it in ipairs(periods) do it.used = it.used + units end
end
if periods[1] then writeTotals(KEYS[3], epoch, isNew, ARGV[14], periods) end

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
for _, it in ipairs(periods) do answer[#answer + 1] = textOf(it.used) end
if periods[1] then answer[#answer + 1] = epoch end
return answer
`);

/**
 * Adds what one process counted by itself to a quota. KEYS: the quota's hash. ARGV: the process, ms that the hash is kept,
 * and for day and month as in `admission`. Replies both totals and the epoch as texts.
 */
export const quotaReport = script(`${quotas}
local epoch, isNew = epochOf(KEYS[1], ARGV[1])
local periods = { period(ARGV[3]), period(ARGV[4]) }
for _, it in ipairs(periods) do readTotal(KEYS[1], ARGV[1], epoch, it) end
writeTotals(KEYS[1], epoch, isNew, ARGV[2], periods)
return { textOf(periods[1].used), textOf(periods[2].used), epoch }
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
