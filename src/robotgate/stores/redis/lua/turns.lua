-- One pace for a whole fleet: who may visit a host now, and who comes next.
--
-- Each call has two keys, the epoch of a bucket and a host (or the fleet's workers), and one argument. All calls of a
-- batch happen at one instant of this server's clock, the only clock by which anything is decided here.
--
-- Every call may come twice, for a batch is sent again when its answer was lost: turns have names of their own, and
-- instants only ever move later.
--
-- The layouts of what comes in and goes out stand in `_wire.py`, too; a test holds the two together.

local HEAD = '<BBc16d'          -- operation, flags, worker and turn, seconds to keep what nobody hears of
local RESERVE = '<ddd'          -- slots, delay, lease
local TURN = '<ddddd'           -- delay, lease, reserved_at, began_at, next_after
local FINISH = '<ddddd'         -- delay, ended_at, next_after, bytes_read, latency
local STATE = '<dddddddd'       -- last, next, blocked_at, blocked_until, failures, visits, bytes_read, latency
local DONE = '<Bdd'             -- status, now, epoch
local TOLD = '<Bddd'            -- status, now, epoch, again_at; a state follows
local BEAT = '<Bdddd'           -- status, now, epoch, workers, evicts
local HELD = '<dddddd'          -- kept only here: reserved_at, expires_at, delay, began_at, and the last and next before
local PLACE = '<ddd'            -- kept only here: since when in the line, when its holder asks again, and his delay
local EPOCH = '<dd'             -- kept only here: at, kept_until; the server's run follows
local HEAD_SIZE = 26
local STATE_SIZE = 64

local ESTABLISHED, EVICTING, UNUSED, LEAVING, LOOKING = 1, 2, 4, 8, 16
local GO, WAIT, MISSING = 0, 1, 2

local NEVER = -1                -- an instant that never was, and what is no news
local UNKNOWN = -2              -- what was before a turn that we did not book ourselves
local FORGIVEN_AFTER = 1800     -- seconds after a block from which on its failures no longer count
local CLOCK_GRAIN = 1e-6        -- seconds; instants closer than this are the same
local AGREEMENT = 2             -- seconds that an established fleet has to tell again what it has under way
local GRACE = 0.25              -- seconds for which a place is kept, at the most, whose holder does not come
local LEAST_POLL, MOST_POLL, POLLS = 0.02, 1, 4
local WORKER_GONE = 5           -- seconds after a worker's last sign of life

local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

local function has(flags, flag)
  return math.floor(flags / flag) % 2 == 1
end

-- The server's run --------------------------------------------------------------------------------------------------

local run

-- What a restart changes, and a failover. Empty where we may not know.
local function run_of_server()
  if not run then
    local info = redis.pcall('INFO', 'server')
    run = type(info) == 'string' and info:match('run_id:(%x+)') or ''
  end
  return run
end

local epochs = {}

-- Since when all that concerns a bucket's hosts is sure to be known here. Before, whatever is missing may have been
-- lost: every host counts as visited at that instant.
local function epoch_of(key, flags, keep)
  if epochs[key] then
    return epochs[key]
  end
  local at, kept_until
  local known = redis.call('GET', key)
  if known and known:sub(17) == run_of_server() then
    at, kept_until = struct.unpack(EPOCH, known)
  else
    at, kept_until = now, 0
    if has(flags, ESTABLISHED) then
      at = now + AGREEMENT
    end
  end
  if kept_until < now + keep / 2 then
    local octets = struct.pack(EPOCH, at, now + keep) .. run_of_server()
    redis.call('SET', key, octets, 'PX', string.format('%.0f', keep * 1000))
  end
  epochs[key] = at
  return at
end

-- A host ------------------------------------------------------------------------------------------------------------

local function state_of(octets, from)
  -- With all fields from the start: a table that grows is slow.
  local s = {
    last = 0, next = 0, blocked_at = 0, blocked_until = 0, failures = 0, visits = 0, bytes_read = 0, latency = 0,
  }
  s.last, s.next, s.blocked_at, s.blocked_until, s.failures, s.visits, s.bytes_read, s.latency =
    struct.unpack(STATE, octets, from or 1)
  return s
end

local function octets_of(s)
  return struct.pack(
    STATE, s.last, s.next, s.blocked_at, s.blocked_until, s.failures, s.visits, s.bytes_read, s.latency)
end

local function visit(s, at, delay)
  s.last = math.max(s.last, at)
  s.next = math.max(s.next, at + delay)
end

local function put(host, field, octets)
  host.puts[#host.puts + 1] = field
  host.puts[#host.puts + 1] = octets
end

local function drop(host, field)
  host.drops[#host.drops + 1] = field
end

local function put_turn(host, id, turn)
  host.turns[id] = turn
  put(host, 't' .. id, struct.pack(
    HELD, turn.reserved_at, turn.expires_at, turn.delay, turn.began_at, turn.last, turn.next))
end

local function drop_turn(host, id)
  host.turns[id] = nil
  drop(host, 't' .. id)
end

-- All that is known of a host. Turns whose lease is over are: such a request may have ended just then.
local function read(key)
  local fields = redis.call('HGETALL', key)
  local host = {key = key, is_missing = true, turns = {}, places = {}, puts = {}, drops = {}}
  for i = 1, #fields, 2 do
    local kind, name, octets = fields[i]:sub(1, 1), fields[i]:sub(2), fields[i + 1]
    if kind == 's' then
      host.was, host.is_missing = octets, false
      host.state = state_of(octets)
    elseif kind == 't' then
      local turn = {reserved_at = 0, expires_at = 0, delay = 0, began_at = 0, last = 0, next = 0}
      turn.reserved_at, turn.expires_at, turn.delay, turn.began_at, turn.last, turn.next = struct.unpack(HELD, octets)
      host.turns[name] = turn
    elseif kind == 'q' then
      local place = {since = 0, asks_at = 0, delay = 0}
      place.since, place.asks_at, place.delay = struct.unpack(PLACE, octets)
      host.places[name] = place
    end
  end
  host.state = host.state or {
    last = NEVER, next = 0, blocked_at = 0, blocked_until = 0,
    failures = 0, visits = 0, bytes_read = 0, latency = NEVER,
  }
  for id, turn in pairs(host.turns) do
    if turn.expires_at <= now then
      visit(host.state, turn.expires_at, turn.delay)
      drop_turn(host, id)
    end
  end
  return host
end

-- Write what has changed. A host is kept for as long as it binds anybody, and `keep` seconds more.
local function save(host, keep)
  host.octets = octets_of(host.state)
  if not host.leaves_state and host.octets ~= host.was then
    put(host, 's', host.octets)
  end
  if #host.drops > 0 then
    redis.call('HDEL', host.key, unpack(host.drops))
  end
  if #host.puts == 0 then
    return
  end
  redis.call('HSET', host.key, unpack(host.puts))
  local until_at = math.max(now, host.state.next, host.state.blocked_until)
  for _, turn in pairs(host.turns) do
    until_at = math.max(until_at, turn.expires_at + turn.delay)
  end
  for _, place in pairs(host.places) do
    until_at = math.max(until_at, place.asks_at)
  end
  redis.call('PEXPIRE', host.key, string.format('%.0f', (until_at - now + keep) * 1000))
end

-- The line ----------------------------------------------------------------------------------------------------------

-- How many others come first, and of how many of them it is to be awaited that they come. Who does not come when he
-- said is passed over, and soon has to queue again: so one that has died costs the others little, and whoever comes in
-- time is never overtaken. The longer somebody has waited, the longer he is waited for: one that is far from here is
-- always a little late, and has his turn all the same.
local function rank_of(host, worker, delay)
  local own, rank, expected = host.places[worker], 0, 0
  for name, place in pairs(host.places) do
    local late = now - place.asks_at
    local patience = math.max(delay, LEAST_POLL, (now - place.since) / POLLS)
    if late > GRACE then
      host.places[name] = nil
      drop(host, 'q' .. name)
    elseif name ~= worker and late <= patience and (
      not own or own.asks_at < now - GRACE or place.since < own.since
      or (place.since == own.since and name < worker)
    ) then
      rank = rank + 1
      -- Who asks later leaves the host to whoever is here; but not if he keeps a longer delay, for then his turn
      -- would never come.
      if late >= 0 or place.delay > delay then
        expected = expected + 1
      end
    end
  end
  return rank, expected
end

-- The first instant at which a turn could begin, as far as is known now.
local function earliest(host, epoch, slots, delay)
  local s, open, is_pending, oldest = host.state, 0, false, now
  local due = math.max(s.next, s.blocked_until, epoch + delay)
  if s.last ~= NEVER then
    due = math.max(due, s.last + delay)
  end
  for _, turn in pairs(host.turns) do
    open = open + 1
    oldest = math.min(oldest, turn.reserved_at)
    is_pending = is_pending or turn.began_at == NEVER
  end
  if open >= slots then
    if slots == 1 and delay > 0 then
      -- The one under way could end now, and the delay counts from its end: nobody who asks then comes too late.
      return math.max(due, now + math.max(delay, LEAST_POLL))
    end
    return math.max(due, now + math.min(math.max((now - oldest) / POLLS, LEAST_POLL), MOST_POLL))
  end
  if is_pending and delay > 0 then
    -- It could be sent now.
    return math.max(due, now + delay)
  end
  return due
end

-- Operations: each is given a head (worker and turn, flags, keep, epoch), the host's key and its argument ------------

local function done(head, status)
  return struct.pack(DONE, status or GO, now, head.epoch)
end

local function told(head, host, status, again_at)
  return struct.pack(TOLD, status, now, head.epoch, again_at or 0) .. (host.octets or octets_of(host.state))
end

local function reserve(head, key, argument)
  local slots, delay, lease = struct.unpack(RESERVE, argument, HEAD_SIZE + 1)
  local host, worker = read(key), head.worker
  if host.turns[head.id] then
    -- Its answer was lost.
    return told(head, host, GO)
  end
  if host.is_missing and (has(head.flags, EVICTING) or run_of_server() == '') then
    -- It may have been thrown out a moment ago.
    visit(host.state, now, delay)
  end
  host.leaves_state = host.is_missing and host.state.last == NEVER
  local at, rank = earliest(host, head.epoch, slots, delay), 0
  local expected = 0
  if delay > 0 then
    rank, expected = rank_of(host, worker, delay)
  end
  if expected == 0 and at - now <= CLOCK_GRAIN then
    if host.places[worker] then
      host.places[worker] = nil
      drop(host, 'q' .. worker)
    end
    local s = host.state
    put_turn(host, head.id, {
      reserved_at = now, expires_at = now + lease, delay = delay, began_at = NEVER, last = s.last, next = s.next,
    })
    visit(s, now, delay)
    s.visits = s.visits + 1
    host.leaves_state = false
    save(host, head.keep)
    return told(head, host, GO)
  end
  -- Whoever is before us takes the delay at the least. How long their requests take is not guessed: who comes too late
  -- leaves the host idle, who comes too soon only asks once more.
  local again_at = math.max(at, now) + rank * delay
  if delay > 0 then
    local place = host.places[worker] or {since = now}
    place.asks_at, place.delay = again_at, delay
    host.places[worker] = place
    put(host, 'q' .. worker, struct.pack(PLACE, place.since, again_at, delay))
  end
  save(host, head.keep)
  return told(head, host, WAIT, again_at)
end

-- A turn is open: its lease counts from now. Told again where it was forgotten, here or by a server that was lost.
local function hold(head, key, argument)
  local delay, lease, reserved_at, began_at = struct.unpack(TURN, argument, HEAD_SIZE + 1)
  local host = read(key)
  local turn = host.turns[head.id] or {last = UNKNOWN, next = UNKNOWN}
  turn.reserved_at, turn.began_at = reserved_at, began_at
  turn.expires_at, turn.delay = now + lease, math.max(delay, turn.delay or 0)
  put_turn(host, head.id, turn)
  -- At the latest now: what is under way was under way just now.
  visit(host.state, math.min(math.max(reserved_at, began_at), now), delay)
  save(host, head.keep)
  return done(head)
end

-- A request is sent, and the delay counts from here.
local function began(head, key, argument)
  local delay, lease, reserved_at, began_at, next_after = struct.unpack(TURN, argument, HEAD_SIZE + 1)
  local host, at = read(key), math.min(began_at, now)
  local turn = host.turns[head.id] or {
    reserved_at = reserved_at, expires_at = now + lease, delay = delay, last = UNKNOWN, next = UNKNOWN,
  }
  turn.began_at = at
  put_turn(host, head.id, turn)
  visit(host.state, at, math.max(delay, next_after))
  save(host, head.keep)
  return done(head)
end

-- A request was never sent: unless somebody has booked since, nothing was.
local function give_back(host, id)
  local turn, s = host.turns[id], host.state
  if not turn then
    return
  end
  s.visits = math.max(s.visits - 1, 0)
  local is_last = s.last == math.max(turn.last, turn.reserved_at)
    and s.next == math.max(turn.next, turn.reserved_at + turn.delay)
  if turn.last ~= UNKNOWN and is_last then
    s.last, s.next = turn.last, turn.next
  end
  drop_turn(host, id)
end

local function finish(head, key, argument)
  local delay, ended_at, next_after, bytes_read, latency = struct.unpack(FINISH, argument, HEAD_SIZE + 1)
  local host = read(key)
  local s, turn = host.state, host.turns[head.id]
  host.leaves_state = host.is_missing
  if has(head.flags, LEAVING) and host.places[head.worker] then
    drop(host, 'q' .. head.worker)
  end
  if has(head.flags, UNUSED) then
    give_back(host, head.id)
    save(host, head.keep)
    return done(head)
  end
  if turn then
    -- Once: what was counted is not counted again.
    s.bytes_read = s.bytes_read + bytes_read
    drop_turn(host, head.id)
    host.leaves_state = false
  end
  if latency ~= NEVER then
    s.latency = latency
  end
  if ended_at ~= NEVER then
    visit(s, math.min(ended_at, now), math.max(delay, next_after))
    host.leaves_state = false
  end
  save(host, head.keep)
  return done(head)
end

local function withdraw(head, key)
  redis.call('HDEL', key, 'q' .. head.worker)
  return done(head)
end

-- Failures are the most that anybody knows of; they are forgiven where it is time, whoever says so.
local function failures_of(s, told_failures)
  if told_failures ~= NEVER and told_failures < s.failures and now - s.blocked_until >= FORGIVEN_AFTER then
    return told_failures
  end
  return math.max(s.failures, told_failures)
end

local function merge(head, key, argument)
  local host, news = read(key), state_of(argument, HEAD_SIZE + 1)
  local s = host.state
  s.failures = failures_of(s, news.failures)
  for _, name in ipairs({'last', 'next', 'blocked_at', 'blocked_until', 'visits', 'bytes_read'}) do
    s[name] = math.max(s[name], news[name])
  end
  if news.latency ~= NEVER then
    s.latency = news.latency
  end
  save(host, head.keep)
  return done(head)
end

local function load(head, key)
  local host = read(key)
  return told(head, host, host.is_missing and MISSING or GO)
end

-- Nothing but the epoch of a bucket.
local function look(head)
  return done(head)
end

-- Whether keys may be thrown out for lack of memory; nobody knows where we may not look.
local function evicts()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then
    return 1
  end
  local bound, policy = info:match('maxmemory:(%d+)'), info:match('maxmemory_policy:([%w-]+)')
  return (bound == '0' or policy == 'noeviction') and 0 or 1
end

-- A worker's sign of life.
local function beat(head, key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.6f', now - WORKER_GONE))
  if has(head.flags, LEAVING) then
    redis.call('ZREM', key, head.worker)
  else
    redis.call('ZADD', key, string.format('%.6f', now), head.worker)
    redis.call('PEXPIRE', key, string.format('%.0f', head.keep * 1000))
  end
  local looked = has(head.flags, LOOKING) and evicts() or NEVER
  return struct.pack(BEAT, GO, now, head.epoch, redis.call('ZCARD', key), looked)
end

local OPERATIONS = {reserve, began, hold, finish, withdraw, merge, load, look, beat}

local replies = {}
for i, argument in ipairs(ARGV) do
  local head = {}
  local operation
  operation, head.flags, head.id, head.keep = struct.unpack(HEAD, argument)
  head.worker = head.id:sub(1, 8)
  head.epoch = epoch_of(KEYS[2 * i - 1], head.flags, head.keep)
  replies[i] = OPERATIONS[operation](head, KEYS[2 * i], argument)
end
return replies
