/**
 * Changes of keys in Redis, each in one script: no other writer is in between, and a change reaches all replicas or none.
 * Each script publishes the SHA-256 of the changed key. Its Redis keys: the hash of keys, and the hash of their names, which
 * has the SHA-256 of each key that the gateway made. A user without the right to publish changes keys, too: replicas read
 * them at their next poll.
 */
import { script } from '../redis.ts';

/** Answers of the scripts. `lost`: the hash of keys has disappeared, and a new one would revoke all others. */
export type KeysScriptAnswer = 'done' | 'exists' | 'full' | 'lost' | 'changed';

/** ARGV: channel, SHA-256, record, name, most keys, 1: keys are known here. */
export const additionScript = script(`
if ARGV[6] == '1' and redis.call('HLEN', KEYS[1]) == 0 then return 'lost' end
local taken = redis.call('HGET', KEYS[2], ARGV[4])
if taken and redis.call('HGET', KEYS[1], taken) then return 'exists' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return 'full' end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[4], ARGV[2])
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);

/** ARGV: channel, SHA-256, record before, record after. */
export const changeScript = script(`
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);

/** ARGV: channel, SHA-256, name, the field of an empty hash, which a lost one lacks. */
export const removalScript = script(`
if redis.call('HLEN', KEYS[1]) == 0 then return 'lost' end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], ARGV[4], '') end
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 'done'`);
