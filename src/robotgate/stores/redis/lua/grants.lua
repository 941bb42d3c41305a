-- Grants, states of hosts, operator blocks, and records. `robotgate.stores.grants.Grants` is the model of grants.
--
-- The only key is the prefix of a hash tag's keys. Each argument but the first two is a call: a JSON array that begins
-- with the operation. The first reply is the time.
--   exchange session epoch joined number after leaves withdrawals asks claims notices is_last
--     leave: key token visited_ago not_before_in state      (absent values are false)
--     notice: pattern until_in said_ago      (until_in is false where a block is lifted)
--     -> number epoch joined items notices paces
--     item: number key token is_wanted state state_age visited_ago not_before_in lost_ago
--     notice: pattern until_in said_ago number
--     paces: for each ask, the seconds between two visits; false if they are not known, or if it need not wait
--   policy              -> which keys the server evicts when its memory is full: its maxmemory-policy
--   save {{key session token visited_ago not_before_in state}...}
--     the state replaces the known one if the session holds the host; with false as session, if no session holds it;
--     with true, if no state is known
--   load key            -> item, or false for an unknown host
--   forget key          -> whether it was known
--   load_record name              -> seconds since it was checked, as text of 24 characters, and the record
--   save_record name ago milliseconds, and the record behind a line feed    -> whether none was checked later
--   forget_record name            -> whether there was one
-- The first argument is a JSON array of settings: seconds after which a silent session ends, seconds to keep hosts. The
-- second is when the calls were encoded, by this server's clock, or empty if that is not known: a visit was so many
-- seconds ago then. Numbers over 2^46 are text: JSON has 14 digits here.
--
-- Keys:
--   epoch               {run, number, lost_until, seen_at, silence}: which memory this is; see `lost_until`
--                       silence: seconds, in all, in which no session sent anything; see `outlast_silence`
--   serial              the last number given to a grant, a stay, an item or a notice
--   sessions            sorted set: session -> when it ends
--   unsettled           set: the sessions that joined within EXPIRY after a loss; see `settle`
--   inbox:<session>     hash: key -> number of its item; under '' {joined, number}
--   keys:<session>      set: the hosts that it holds or waits for
--   host:<key>          {epoch, owner, token, line, state, saved_at, visited_at, not_before_at, written_at, silence,
--                       lost_at}; lost_at: when the last owner was ended that had not left it
--   robots:<origin>     hash: `r`, a packed record, and `c`, when it was checked by this server's clock
--   blocks              hash: pattern -> {until_at, said_at, number}; under '' the last number

local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
-- If the clock was set meanwhile, a visit must not look much longer ago than it is.
local encoded_at = math.max(math.min(tonumber(ARGV[2]) or now, now), now - 1)
local EXPIRY, KEEP = unpack(cjson.decode(ARGV[1]))
local PREFIX = KEYS[1]
local SESSIONS, UNSETTLED, BLOCKS = PREFIX .. 'sessions', PREFIX .. 'unsettled', PREFIX .. 'blocks'
local MONTH = 31 * 86400 -- seconds to keep keys that must not expire while they are used
local DAY = 86400        -- seconds; longer than any wait, and than the way of a message
local LATE = DAY         -- seconds; a record that was checked earlier than this is saved on purpose
local SLICE = 500        -- hosts of one ended session that one call frees
local SETTLED = 8        -- sessions whose hosts one call grants after a loss

local function info(section, pattern)
  return string.match(redis.call('INFO', section), pattern)
end
-- Memory was lost if the server was restarted, or has evicted a key.
local run = info('server', 'run_id:(%x+)') .. ':' .. info('stats', 'evicted_keys:(%d+)')

local function whole(number)
  return string.format('%.0f', number)
end

local function decoded(text)
  if type(text) == 'string' then
    local is_ours, value = pcall(cmsgpack.unpack, text)
    return is_ours and type(value) == 'table' and value or nil
  end
end

local function read(...)
  return decoded(redis.pcall(...))
end

local function write(key, value, seconds)
  redis.call('SET', key, cmsgpack.pack(value), 'PX', whole(seconds * 1000))
end

local function keep(...)
  for _, key in ipairs({...}) do
    redis.call('PEXPIRE', key, whole(MONTH * 1000))
  end
end

-- Until when sessions may hold hosts by grants of an earlier epoch. If there is no epoch, and the server was never
-- flushed and never a replica, there was none since its start.
local function lost_until(known)
  local is_flushed = info('commandstats', 'cmdstat_flush') or string.sub(run, -2) ~= ':0'
  if known or is_flushed or info('replication', 'second_repl_offset:(%-?%d+)') ~= '-1' then
    return now + EXPIRY
  end
  -- A server that is a moment old may say a second: it counts full seconds of the clock.
  return now - math.max(info('server', 'uptime_in_seconds:(%d+)') - 1, 0) + EXPIRY
end

-- For EXPIRY no session has sent anything: the server was frozen, its clock was set, or all processes have died. By the
-- clocks of the processes it may have been a moment: no session ends by that, and no visit becomes longer ago.
local function outlast_silence(memory)
  local sessions = redis.call('ZRANGEBYSCORE', SESSIONS, '-inf', '+inf', 'WITHSCORES')
  for i = 1, #sessions, 2 do
    -- Some hosts of a session that had ended before may be free already.
    local has_ended = tonumber(sessions[i + 1]) <= memory[4]
    redis.call('ZADD', SESSIONS, has_ended and now or now + EXPIRY, sessions[i])
  end
  if sessions[1] then
    memory[5] = (memory[5] or 0) + math.max(now - memory[4], 0)
  end
  memory[3] = memory[3] > memory[4] and now + EXPIRY or math.min(memory[3], now)
end

-- A new epoch begins if the last one is missing or of another run.
local memory, serial = read('GET', PREFIX .. 'epoch'), PREFIX .. 'serial'
if not memory or memory[1] ~= run then
  local number = whole(math.max(now * 1e6, tonumber(redis.call('GET', serial) or 0) + 1))
  redis.call('SET', serial, number)
  redis.call('DEL', SESSIONS, UNSETTLED)
  memory = {run, number, lost_until(memory), now, memory and memory[5]}
elseif math.abs(now - memory[4]) >= EXPIRY then
  outlast_silence(memory)
end
memory[4] = now
write(PREFIX .. 'epoch', memory, MONTH)
keep(serial)
local EPOCH, LOST_UNTIL, SILENCE = memory[2], memory[3], memory[5] or 0
local IS_LOST = now < LOST_UNTIL
local ASSUMED_AT = LOST_UNTIL > now - DAY and LOST_UNTIL or nil

local function next_number()
  return whole(redis.call('INCR', serial))
end

local function later(host, visited_at, not_before_at)
  host.visited_at = visited_at and math.max(visited_at, host.visited_at or 0) or host.visited_at
  host.not_before_at = not_before_at and math.max(not_before_at, host.not_before_at or 0) or host.not_before_at
end

local hosts, changed = {}, {}

local function read_host(key)
  local host = hosts[key]
  if host then
    return host
  end
  local name = PREFIX .. 'host:' .. key
  host = read('GET', name)
  if not host or type(host.line) ~= 'table' then
    -- The key may hold something else: then the host counts as visited now.
    host = {line = {}, visited_at = redis.call('EXISTS', name) == 1 and now or nil}
  elseif host.epoch ~= EPOCH then
    host.owner, host.token, host.line = nil, nil, {}
  end
  local ahead = (host.written_at or now) - now
  if ahead > 0 then
    -- The clock was set back: waits keep their length.
    for _, instant in ipairs({'saved_at', 'visited_at', 'not_before_at', 'lost_at'}) do
      host[instant] = host[instant] and host[instant] - ahead
    end
  end
  local silence = SILENCE - (host.silence or 0)
  if silence > 0 and host.visited_at then
    host.visited_at = math.max(host.visited_at, math.min(host.visited_at + silence, now))
  end
  host.epoch, host.written_at, host.silence, hosts[key] = EPOCH, now, SILENCE, host
  return host
end

-- As `read_host`, to be changed.
local function change_host(key)
  changed[key] = read_host(key)
  return changed[key]
end

local function write_hosts()
  for key, host in pairs(changed) do
    local binds = math.max((host.not_before_at or now) - now, 0)
    -- A visit before the assumed one need not be kept.
    local is_visited = host.visited_at and host.visited_at > (ASSUMED_AT or 0)
    local is_claimed = IS_LOST and host.token
    if host.owner or host.line[1] or host.state or is_visited or binds > 0 or is_claimed then
      write(PREFIX .. 'host:' .. key, host, binds + (host.owner and math.max(KEEP, MONTH) or KEEP))
    else
      redis.call('DEL', PREFIX .. 'host:' .. key)
    end
  end
end

local function tell(key, host)
  redis.call('HSET', PREFIX .. 'inbox:' .. host.owner, key, next_number())
end

local function grant(key, host, session)
  host.owner, host.token = session, next_number()
  redis.call('SADD', PREFIX .. 'keys:' .. session, key)
  tell(key, host)
end

-- Grant a host that is free, or becomes so, to the first in line. After a loss only that is known to be free which was
-- granted since, to the session that has claimed it.
local function grant_next(key, host)
  host.owner = nil
  if host.line[1] and (host.token or not IS_LOST) then
    if not IS_LOST and (not host.state or host.saved_at < LOST_UNTIL) then
      later(host, ASSUMED_AT)
    end
    grant(key, host, table.remove(host.line, 1))
  end
end

local function place_of(host, session)
  for place, name in ipairs(host.line) do
    if name == session then
      return place
    end
  end
end

local function withdraw(session, key)
  local host = change_host(key)
  local place = place_of(host, session)
  if place then
    table.remove(host.line, place)
    redis.call('SREM', PREFIX .. 'keys:' .. session, key)
  end
end

-- Free up to SLICE hosts of a session that has ended. Returns whether there are no more.
local function free_hosts(session, visited_at)
  local keys = redis.call('SPOP', PREFIX .. 'keys:' .. session, SLICE)
  for _, key in ipairs(keys) do
    withdraw(session, key)
    local host = change_host(key)
    if host.owner == session then
      later(host, visited_at)
      host.lost_at = visited_at or host.lost_at
      grant_next(key, host)
    end
  end
  if #keys < SLICE then
    redis.call('ZREM', SESSIONS, session)
    redis.call('DEL', PREFIX .. 'inbox:' .. session)
    return true
  end
end

local function end_silent_sessions()
  repeat
    local ended = redis.call('ZRANGEBYSCORE', SESSIONS, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)
  until not ended[1] or not free_hosts(ended[1], tonumber(ended[2]))
end

-- When EXPIRY after a loss is over, grant the hosts that sessions have asked for meanwhile, some sessions per call.
local function settle()
  for _, session in ipairs(IS_LOST and {} or redis.call('SPOP', UNSETTLED, SETTLED)) do
    for _, key in ipairs(redis.call('SMEMBERS', PREFIX .. 'keys:' .. session)) do
      local host = change_host(key)
      if not host.owner then
        grant_next(key, host)
      end
    end
  end
end

local function leave(session, is_current, message)
  local key, token, visited_ago, not_before_in, state = unpack(message)
  local host = change_host(key)
  later(host, visited_ago and encoded_at - visited_ago, not_before_in > 0 and encoded_at + not_before_in)
  if is_current and host.owner == session and host.token == token then
    if state then
      host.state, host.saved_at = state, encoded_at
    end
    redis.call('SREM', PREFIX .. 'keys:' .. session, key)
    redis.call('HDEL', PREFIX .. 'inbox:' .. session, key)
    grant_next(key, host)
  end
end

-- Returns the host's pace where the session has to wait, and false where not.
local function ask(session, key)
  local host = change_host(key)
  if host.owner == session then
    tell(key, host)
    return false
  end
  if not place_of(host, session) then
    table.insert(host.line, session)
    redis.call('SADD', PREFIX .. 'keys:' .. session, key)
    if not host.owner then
      grant_next(key, host)
    elseif not host.line[2] then
      tell(key, host)
    end
  end
  local visited_at, not_before_at = host.visited_at, host.not_before_at
  return host.owner ~= session and visited_at and not_before_at and math.max(not_before_at - visited_at, 0) or false
end

local function claim(session, key)
  local host = change_host(key)
  if IS_LOST and not host.owner then
    grant(key, host, session)
  end
end

local function item(key, number)
  local host = read_host(key)
  return {
    number, key, host.token or '0', host.line[1] ~= nil, host.state or false, now - (host.saved_at or now),
    host.visited_at and now - host.visited_at or false, math.max((host.not_before_at or now) - now, 0),
    host.lost_at and now - host.lost_at or false,
  }
end

local function read_inbox(inbox, after)
  local items, news = {}, redis.call('HGETALL', inbox)
  for i = 1, #news, 2 do
    if news[i] ~= '' and tonumber(news[i + 1]) <= after then
      redis.call('HDEL', inbox, news[i])
    elseif news[i] ~= '' then
      items[#items + 1] = item(news[i], news[i + 1])
    end
  end
  return items
end

-- The last notice on a pattern counts. If two differ, it gets a new number, so that all sessions receive it.
local function process_notice(notice)
  local pattern, until_in, said_ago = unpack(notice)
  local known, row = read('HGET', BLOCKS, pattern), {until_in and now + until_in or 0, now - said_ago}
  local is_same = known and math.abs(known[1] - row[1]) <= 1
  row = known and known[2] > row[2] and known or row
  row[3] = is_same and known[3] or next_number()
  redis.call('HSET', BLOCKS, pattern, cmsgpack.pack(row))
  if not is_same then
    redis.call('HSET', BLOCKS, '', row[3])
  end
end

local function notices_after(after)
  local notices = {}
  local last = tonumber(redis.call('HGET', BLOCKS, '') or 0)
  local all = last > after and redis.call('HGETALL', BLOCKS) or {}
  for i = 1, #all, 2 do
    local until_at, said_at, number = unpack(decoded(all[i + 1]) or {})
    if number and math.max(until_at, said_at) + DAY < now then
      redis.call('HDEL', BLOCKS, all[i])
    elseif number and tonumber(number) > after then
      notices[#notices + 1] = {all[i], until_at > now and until_at - now, now - said_at, number}
    end
  end
  return notices
end

local operations = {}
-- What follows the message of the current call.
local payload

function operations.exchange(session, epoch, joined, number, after, leaves, withdrawals, asks, claims, notices, is_last)
  local inbox, keys = PREFIX .. 'inbox:' .. session, PREFIX .. 'keys:' .. session
  end_silent_sessions()
  settle()
  local ends_at = tonumber(redis.call('ZSCORE', SESSIONS, session) or nil)
  local me = ends_at and read('HGET', inbox, '')
  if ends_at and ends_at <= now then
    -- The session has ended, but not all of its hosts are free yet.
    me = {'0', 0}
  elseif not me then
    redis.call('DEL', inbox, keys)
    redis.call('ZADD', SESSIONS, now + EXPIRY, session)
    me = {next_number(), 0}
    redis.call('HSET', inbox, '', cmsgpack.pack(me))
    if IS_LOST then
      redis.call('SADD', UNSETTLED, session)
    end
  end
  local is_current = me[1] ~= '0' and epoch == EPOCH and joined == me[1]
  for _, message in ipairs(leaves) do
    leave(session, is_current, message)
  end
  local items, news_of_blocks, paces = {}, {}, {}
  if is_current then
    if number > me[2] then
      redis.call('ZADD', SESSIONS, now + EXPIRY, session)
      redis.call('HSET', inbox, '', cmsgpack.pack({joined, number}))
      for _, key in ipairs(withdrawals) do
        withdraw(session, key)
      end
      for place, key in ipairs(asks) do
        paces[place] = ask(session, key)
      end
      for _, key in ipairs(claims) do
        claim(session, key)
      end
      for _, notice in ipairs(notices) do
        process_notice(notice)
      end
    end
    items, news_of_blocks = read_inbox(inbox, after), notices_after(after)
  end
  keep(SESSIONS, UNSETTLED, BLOCKS, inbox, keys)
  if is_current and is_last then
    items = {}
    if not free_hosts(session) then
      -- Later calls free the other hosts, which count as visited now.
      redis.call('ZADD', SESSIONS, now, session)
    end
  end
  return {number, EPOCH, me[1], items, news_of_blocks, paces}
end

function operations.save(messages)
  for _, message in ipairs(messages) do
    local key, session, token, visited_ago, not_before_in, state = unpack(message)
    local host = change_host(key)
    later(host, visited_ago and encoded_at - visited_ago, not_before_in > 0 and encoded_at + not_before_in)
    local is_owner = host.owner == session and host.token == token
    if is_owner or not (session or host.owner) or session == true and not host.state then
      host.state, host.saved_at = state, encoded_at
    end
  end
end

local function is_known(host)
  return (host.state or host.visited_at or host.not_before_at) and true or false
end

function operations.load(key)
  return is_known(read_host(key)) and item(key, 0)
end

function operations.forget(key)
  local host = change_host(key)
  local was_known = is_known(host)
  host.state, host.saved_at, host.visited_at, host.not_before_at, host.lost_at = nil, nil, nil, nil, nil
  return was_known
end

function operations.policy()
  return info('memory', 'maxmemory_policy:([%w-]+)') or ''
end

-- Values of another type are ignored.
local function read_record(name)
  local key = PREFIX .. 'robots:' .. name
  local record, checked_at = redis.pcall('HGET', key, 'r'), redis.pcall('HGET', key, 'c')
  if type(record) == 'string' and type(checked_at) == 'string' then
    return record, tonumber(checked_at)
  end
end

function operations.load_record(name)
  local record, checked_at = read_record(name)
  return checked_at and string.format('%24.6f', now - checked_at) .. record or ''
end

function operations.save_record(name, ago, milliseconds)
  local key, _, checked_at = PREFIX .. 'robots:' .. name, read_record(name)
  -- The instants of one record, saved twice, may differ by a little.
  if checked_at and checked_at > now - ago + 1 and checked_at <= now + 1 and ago < LATE then
    return false
  end
  redis.call('DEL', key)
  redis.call('HSET', key, 'r', payload, 'c', string.format('%.6f', now - ago))
  redis.call('PEXPIRE', key, whole(milliseconds))
  return true
end

function operations.forget_record(name)
  return redis.call('DEL', PREFIX .. 'robots:' .. name) == 1
end

local replies = {string.format('%.6f', now)}
for call = 3, #ARGV do
  local message
  message, payload = string.match(ARGV[call], '^([^\n]*)\n?(.*)$')
  local request = cjson.decode(message)
  local reply = operations[request[1]](unpack(request, 2))
  replies[#replies + 1] = type(reply) == 'string' and reply or cjson.encode(reply)
end
write_hosts()
return replies
