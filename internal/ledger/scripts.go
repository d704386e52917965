package ledger

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The scripts. Each touches the keys of one job, or one index, only: one
// cluster slot. They use nothing that miniredis lacks. A script that stores a document
// does so in its first write, because Redis checks its memory limit only there: afterwards a full
// Redis would let the rest pass.
//
// Each answers with an array whose first element is a code.

// luaClock sets now, in milliseconds of the clock of Redis, and stamp, the same as a string. Numbers become strings by ms
// only: tostring would write a time as 1.7e+12.
const luaClock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function ms(n) return string.format('%.0f', n) end
local stamp = ms(now)
`

// luaHeld refuses a claim that is not the newest, or not running. ARGV[1] is the fence.
const luaHeld = `
local held = redis.call('HMGET', KEYS[1], 'state', 'fence', 'worker', 'claimed', 'cancel')
if not held[1] then return {'missing'} end
if held[1] ~= 'running' or held[2] ~= ARGV[1] then return {'fenced', held[1]} end
`

// luaEntry reads the entry as a list of entryFields, or an error when it is no hash. few reads only what a claim needs.
func luaEntry() string {
	read := func(name string, fields []string) string {
		return "local function " + name + "() return redis.pcall('HMGET', KEYS[1], '" + strings.Join(fields, "', '") + "') end\n"
	}
	return read("entry", entryFields) + read("few", entryFields[:claimFields])
}

// withFields makes $state and the like in a script the elements of h, which entry has returned.
func withFields(script string) string {
	for i, name := range entryFields {
		script = strings.ReplaceAll(script, "$"+name, fmt.Sprintf("h[%d]", i+1))
	}
	return script
}

// luaHistory appends one ended attempt: fence, start, end, worker, class. The attempt that ended the job for good is not
// among them: its entry tells all that.
const luaHistory = `
local function history(fence, from, to, worker, class, ttl)
	redis.call('RPUSH', KEYS[4], (fence or 0) .. ' ' .. (from or 0) .. ' ' .. to .. ' ' .. (worker or '-') .. ' ' .. class)
	redis.call('LTRIM', KEYS[4], -20, -1)
	redis.call('PEXPIRE', KEYS[4], ttl)
end
`

// luaRevive makes a dead letter a queued job again. Its history and its fence go on; its attempts
// and its losses start anew.
const luaRevive = `
local function revive(ttl)
	local d = redis.call('HMGET', KEYS[1], 'fence', 'ended', 'claimed', 'finished', 'worker', 'class')
	if d[2] then history(d[2], d[3], d[4] or stamp, d[5], d[6] or '-', ttl) end
	history(d[1], stamp, stamp, '-', 'requeued', ttl)
	redis.call('DEL', KEYS[3])
	redis.call('HSET', KEYS[1], 'state', 'queued', 'since', stamp)
	redis.call('HINCRBY', KEYS[1], 'requeues', 1)
	redis.call('HDEL', KEYS[1], 'status', 'class', 'message', 'finished', 'ended', 'attempts', 'lost', 'cancel', 'released', 'shelved')
	for _, i in ipairs({1, 2, 4}) do redis.call('PEXPIRE', KEYS[i], ttl) end
end
`

// requeueScript: ARGV ttl, ahead.
var requeueScript = redis.NewScript(luaClock + luaEntry() + luaHistory + luaRevive + `
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return {'missing'} end
if state ~= 'dead' then return {'state', state} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'no input'} end
redis.call('HSET', KEYS[1], 'ahead', ARGV[2])
revive(ARGV[1])
return {'ok', entry()}
`)

// purgeScript removes a dead letter.
var purgeScript = redis.NewScript(`
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return {'missing'} end
if state ~= 'dead' then return {'state', state} end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return {'ok'}
`)

// shelveScript notes of a dead letter whether its task stands in asynq's archive: ARGV mark. It returns the state of the job.
var shelveScript = redis.NewScript(`
local state = redis.call('HGET', KEYS[1], 'state')
if state == 'dead' then redis.call('HSET', KEYS[1], 'shelved', ARGV[1]) end
return {state or ''}
`)

// createScript: ARGV ttl, input, nonce, then fields and values of the entry. It answers with the time when it has made an
// entry, and with the entry when there was one.
// A repetition with the same nonce is the same call, whose answer was lost.
var createScript = redis.NewScript(luaClock + luaEntry() + `
if redis.call('EXISTS', KEYS[1]) == 1 then
	if redis.call('HGET', KEYS[1], 'creator') == ARGV[3] then return {'again', entry()} end
	return {'exists', entry()}
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[1])
redis.call('DEL', KEYS[3], KEYS[4])
redis.call('HSET', KEYS[1], 'state', 'queued', 'created', stamp, 'since', stamp, 'creator', ARGV[3], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'created', stamp}
`)

// claimScript: ARGV worker, ttl, nonce, most bytes of an input, id. It answers with the entry and the input, and tells those
// who watch. A dead letter that was shelved is revived first. An entry that is damaged is claimed too, and if need
// be replaced, so that somebody can finish the job. A fence that is no number is
// replaced by the time, which is larger than any count. The TTLs are renewed when an eighth of them is over.
var claimScript = redis.NewScript(luaClock + luaEntry() + luaHistory + luaRevive + withFields(fmt.Sprintf(`
local how, h = 'claimed', few()
if h.err then
	redis.call('DEL', KEYS[1])
elseif not $state and redis.call('EXISTS', KEYS[1]) == 0 then
	return {'missing'}
end
local function answer()
	local input = redis.pcall('GETRANGE', KEYS[2], 0, ARGV[4])
	if type(input) ~= 'string' or #input > tonumber(ARGV[4]) then input = false end
	return {how, h, input}
end
if $state == 'dead' and $shelved == '1' and redis.call('EXISTS', KEYS[2]) == 1 then
	revive(ARGV[2])
	how, h = 'revived', few()
end
if $state == 'finished' or $state == 'canceled' or $state == 'dead' then return {'terminal', $state} end
if $state == 'running' then
	if redis.call('HGET', KEYS[1], 'claim') == ARGV[3] then
		h = entry() -- which tells whether it was damaged
		return answer()
	end
	return {'busy', $worker}
end
local function count(was)
	local n = tonumber(was or 0)
	if n and n >= 0 and n < 2^50 then return ms(n + 1) end
	return stamp
end
if not ($since and now - (tonumber($since) or 0) < ARGV[2] / 8) then
	for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
local damaged = $state ~= 'queued'
$fence, $attempts, $state, $worker, $since, $claimed = count($fence), count($attempts), 'running', ARGV[1], stamp, stamp
redis.call('HSET', KEYS[1], 'fence', $fence, 'attempts', $attempts, 'state', $state, 'worker', $worker, 'claim', ARGV[3],
	'since', stamp, 'claimed', stamp, 'beat', stamp)
if damaged then
	redis.call('HSET', KEYS[1], 'damaged', '1')
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	h = entry()
end
redis.call('PUBLISH', '%s', ARGV[5])
return answer()
`, stateChannel)))

// beatScript: ARGV fence.
var beatScript = redis.NewScript(luaClock + luaHeld + `
redis.call('HSET', KEYS[1], 'beat', stamp)
return {'ok', held[5] or ''}
`)

// releaseScript: ARGV fence, class, ttl, counted. A repetition finds the job queued by the same fence.
var releaseScript = redis.NewScript(luaClock + luaHistory + `
local again = redis.call('HMGET', KEYS[1], 'state', 'released')
if again[1] == 'queued' and again[2] == ARGV[1] then return {'ok'} end
` + luaHeld + `
history(ARGV[1], held[4], stamp, held[3], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[1], 'state', 'queued', 'since', stamp, 'class', ARGV[2], 'released', ARGV[1])
redis.call('HDEL', KEYS[1], 'claim', 'beat')
if ARGV[4] == '0' then redis.call('HINCRBY', KEYS[1], 'attempts', -1) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'ok'}
`)

// reclaimScript: ARGV stale ms, max lost, worker, ttl, nonce. The fence grows, so the lost
// worker cannot come back. A job that was canceled meanwhile, or was lost too often, stays running
// under the caller's own claim, for the caller to end it.
var reclaimScript = redis.NewScript(luaClock + luaEntry() + luaHistory + `
local h = redis.call('HMGET', KEYS[1], 'state', 'fence', 'worker', 'claimed', 'beat', 'cancel')
if not h[1] then return {'missing'} end
if h[1] ~= 'running' then return {'alive'} end
if now - (tonumber(h[5] or '') or 0) < tonumber(ARGV[1]) then return {'alive'} end
history(h[2], h[4], stamp, h[3], 'lost', ARGV[4])
redis.call('HINCRBY', KEYS[1], 'fence', 1)
local lost = redis.call('HINCRBY', KEYS[1], 'lost', 1)
redis.call('HSET', KEYS[1], 'class', 'lost', 'since', stamp)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
if h[6] or lost >= tonumber(ARGV[2]) then
	redis.call('HSET', KEYS[1], 'worker', ARGV[3], 'claim', ARGV[5], 'claimed', stamp, 'beat', stamp)
	return {'claimed', entry()}
end
redis.call('HSET', KEYS[1], 'state', 'queued')
redis.call('HDEL', KEYS[1], 'claim', 'beat')
return {'queued'}
`)

// finishScript: ARGV fence, result, state, status, class, message, ttl of a
// dead letter (0: the job's own retention), default retention, id. A
// repetition finds the job ended by the same fence. A job has no history before its second claim.
var finishScript = redis.NewScript(luaClock + fmt.Sprintf(`
local h = redis.call('HMGET', KEYS[1], 'state', 'fence', 'retention', 'ended')
if not h[1] then return {'missing'} end
if h[1] == 'finished' or h[1] == 'canceled' or h[1] == 'dead' then
	if h[4] == ARGV[1] then return {'ok'} end
	return {'terminal', h[1]}
end
if h[1] ~= 'running' or h[2] ~= ARGV[1] then return {'fenced', h[1]} end
local ttl = tonumber(ARGV[7])
if ttl == 0 then ttl = tonumber(h[3] or '') or 0 end
if ttl <= 0 then ttl = tonumber(ARGV[8]) end
ttl = ms(ttl)
redis.call('SET', KEYS[3], ARGV[2], 'PX', ttl)
redis.call('HSET', KEYS[1], 'state', ARGV[3], 'status', ARGV[4], 'finished', stamp, 'ended', ARGV[1])
redis.call('HDEL', KEYS[1], 'claim', 'beat', 'creator', 'class', 'message')
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'class', ARGV[5], 'message', ARGV[6]) end
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('PEXPIRE', KEYS[2], ttl)
if ARGV[1] ~= '1' then redis.call('PEXPIRE', KEYS[4], ttl) end
redis.call('PUBLISH', '%s', ARGV[9])
return {'ok'}
`, doneChannel))

// cancelScript: ARGV id, default retention, result (empty when the caller thought the job was running).
var cancelScript = redis.NewScript(luaClock + fmt.Sprintf(`
local h = redis.call('HMGET', KEYS[1], 'state', 'retention')
if not h[1] then return {'missing'} end
if h[1] == 'running' then
	redis.call('HSET', KEYS[1], 'cancel', '1')
	redis.call('PUBLISH', '%s', ARGV[1])
	return {'state', 'running'}
end
if h[1] ~= 'queued' then return {'state', h[1]} end
if ARGV[3] == '' then return {'again'} end
local ttl = tonumber(h[2] or '') or 0
if ttl <= 0 then ttl = tonumber(ARGV[2]) end
ttl = ms(ttl)
redis.call('SET', KEYS[3], ARGV[3], 'PX', ttl)
redis.call('HSET', KEYS[1], 'state', 'canceled', 'status', 'canceled', 'finished', stamp)
redis.call('HDEL', KEYS[1], 'creator')
for i = 1, 4 do redis.call('PEXPIRE', KEYS[i], ttl) end
redis.call('PUBLISH', '%s', ARGV[1])
return {'state', 'canceled'}
`, cancelChannel, doneChannel))

// readScript: ARGV max bytes.
var readScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return {'missing'} end
local n = redis.call('STRLEN', KEYS[1])
if n > tonumber(ARGV[1]) then return {'large', string.format('%.0f', n)} end
return {'ok', redis.call('GET', KEYS[1])}
`)

// codeOf splits the answer of a script.
func codeOf(got []any) (code string, rest []any) {
	if len(got) == 0 {
		return "", nil
	}
	code, _ = got[0].(string)
	return code, got[1:]
}

// text returns element i as a string, "" when it is missing or something else.
func text(rest []any, i int) string {
	if i >= len(rest) {
		return ""
	}
	s, _ := rest[i].(string)
	return s
}

// entryOf returns element i, an entry.
func entryOf(rest []any, i int) record {
	if i >= len(rest) {
		return nil
	}
	r, _ := rest[i].([]any)
	return r
}

// fields returns element i, the answer of HGETALL.
func fields(rest []any, i int) hash {
	h := make(hash)
	if i >= len(rest) {
		return h
	}
	pairs, _ := rest[i].([]any)
	for k := 0; k+1 < len(pairs); k += 2 {
		name, _ := pairs[k].(string)
		value, _ := pairs[k+1].(string)
		h[name] = value
	}
	return h
}
