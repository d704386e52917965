package ledger

import "github.com/redis/go-redis/v9"

// The scripts of the two indexes. The hash …:of remembers under which keys an id is indexed, so that
// it can be taken out by its id alone; those keys are made inside the scripts, and have the
// index's hash tag, that is its cluster slot.

// admitScript: KEYS open, of, of the queue, of the tenant in the queue; ARGV id, delay ms, ttl ms, queue|tenant, most in
// the queue, most of the tenant (negative: any number).
var admitScript = redis.NewScript(luaClock + `
local tenants = redis.call('ZCARD', KEYS[4])
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {'ok', tenants - 1} end
local function full(what, key, count, limit)
	local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
	return {what, count, limit, ms(now - (tonumber(oldest[2] or '') or now))}
end
local most = tonumber(ARGV[6])
if most >= 0 and tenants >= most then return full('tenant', KEYS[4], tenants, ARGV[6]) end
most = tonumber(ARGV[5])
local jobs = redis.call('ZCARD', KEYS[3])
if most >= 0 and jobs >= most then return full('queue', KEYS[3], jobs, ARGV[5]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
redis.call('ZADD', KEYS[3], stamp, ARGV[1])
redis.call('ZADD', KEYS[4], stamp, ARGV[1])
redis.call('ZADD', KEYS[1], 'NX', ms(now + ARGV[2]), ARGV[1])
for i = 1, 4 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return {'ok', tenants}
`)

// newsScript: KEYS open, of; ARGV delay ms, how many of the ids were claimed, ids. The jobs that were claimed are to be looked at after
// the delay, if not before; the others have ended, and leave each index together.
var newsScript = redis.NewScript(luaClock + `
local soon, claimed = ms(now + ARGV[1]), tonumber(ARGV[2])
for i = 3, claimed + 2 do redis.call('ZADD', KEYS[1], 'XX', 'LT', soon, ARGV[i]) end
if #ARGV < claimed + 3 then return {'ok'} end
local ended = {unpack(ARGV, claimed + 3)}
redis.call('ZREM', KEYS[1], unpack(ended))
local leave = {}
for i, of in ipairs(redis.call('HMGET', KEYS[2], unpack(ended))) do
	if of then
		local queue, tenant = string.match(of, '^([^|]*)|(.*)$')
		for _, index in ipairs({'queue:' .. queue, 'tenant:' .. queue .. ':' .. tenant}) do
			leave[index] = leave[index] or {}
			table.insert(leave[index], ended[i])
		end
	end
end
redis.call('HDEL', KEYS[2], unpack(ended))
for index, ids in pairs(leave) do redis.call('ZREM', '{' .. KEYS[1] .. '}:' .. index, unpack(ids)) end
return {'ok'}
`)

// dueScript says when to look at a job that is in the index: ARGV id, delay ms.
var dueScript = redis.NewScript(luaClock + `
redis.call('ZADD', KEYS[1], 'XX', ms(now + ARGV[2]), ARGV[1])
return {'ok'}
`)

// takeScript returns the ids that are due and puts each off: ARGV limit, delay ms.
var takeScript = redis.NewScript(luaClock + `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', stamp, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], ms(now + ARGV[2]), id) end
return {stamp, ids}
`)

// luaExhume takes an id out of the index of dead letters.
const luaExhume = `
local function exhume(id)
	redis.call('ZREM', KEYS[1], id)
	local of = redis.call('HGET', KEYS[2], id)
	if not of then return end
	local class, tenant, queue = string.match(of, '^([^|]*)|([^|]*)|(.*)$')
	redis.call('HDEL', KEYS[2], id)
	redis.call('ZREM', '{' .. KEYS[1] .. '}:class:' .. class, id)
	redis.call('ZREM', '{' .. KEYS[1] .. '}:tenant:' .. tenant, id)
	redis.call('ZREM', '{' .. KEYS[1] .. '}:queue:' .. queue, id)
end
`

// buryScript: KEYS dlq, of, of the class, of the tenant, of the queue; ARGV id, buried ms, ttl ms,
// class|tenant|queue. What is too old leaves, a hundred at a time.
var buryScript = redis.NewScript(luaClock + luaExhume + `
exhume(ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
for _, i in ipairs({1, 3, 4, 5}) do redis.call('ZADD', KEYS[i], ARGV[2], ARGV[1]) end
for i = 1, 5 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(now - ARGV[3]), 'LIMIT', 0, 100)) do exhume(id) end
return {'ok'}
`)

// exhumeScript: KEYS dlq, of; ARGV id.
var exhumeScript = redis.NewScript(luaExhume + `
exhume(ARGV[1])
return {'ok'}
`)
