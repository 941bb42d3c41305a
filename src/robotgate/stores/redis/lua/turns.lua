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
local HOST = '<BBHHd'           -- kept only here: layout, is known, how many turns and places, kept_until; then all of these
local HELD = '<c16dddddd'       -- kept only here: a turn, reserved_at, expires_at, delay, began_at, last and next before it
local PLACE = '<c8ddd'          -- kept only here: worker, since when in the line, when he asks again, and his delay
local EPOCH = '<dd'             -- kept only here: at, kept_until; the server's run follows
local HEAD_SIZE = 26
local HOST_SIZE = 14
local STATE_SIZE = 64
local HELD_SIZE = 64
local PLACE_SIZE = 32
local LAYOUT = 1                -- of a host; who finds another reads nothing in it

local ESTABLISHED, EVICTING, UNUSED, LEAVING, LOOKING = 1, 2, 4, 8, 16
local GO, WAIT, MISSING = 0, 1, 2

local NEVER = -1                -- an instant that never was, and what is no news
local UNKNOWN = -2              -- what was before a turn that we did not book ourselves
local FORGIVEN_AFTER = 1800     -- seconds after a block from which on its failures no longer count
local CLOCK_GRAIN = 1e-6        -- seconds; instants closer than this are the same
local AGREEMENT = 2             -- seconds that an established fleet has to tell again what it has under way
local GRACE = 0.25              -- seconds for which a place is kept, at the most, whose holder does not come
local LEAST_POLL, MOST_POLL, POLLS = 0.02, 1, 4
local KEPT_ENOUGH = 0.99        -- of the time to keep a host: only below, it is begun anew, for that costs a lot
local WORKER_GONE = 5           -- seconds after a worker's last sign of life

local pack, unpack, max, min, floor = struct.pack, struct.unpack, math.max, math.min, math.floor

local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

local function has(flags, flag)
  return floor(flags / flag) % 2 == 1
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
    at, kept_until = unpack(EPOCH, known)
  else
    at, kept_until = now, 0
    if has(flags, ESTABLISHED) then
      at = now + AGREEMENT
    end
  end
  if kept_until < now + keep / 2 then
    local octets = pack(EPOCH, at, now + keep) .. run_of_server()
    redis.call('SET', key, octets, 'PX', string.format('%.0f', keep * 1000))
  end
  epochs[key] = at
  return at
end

-- A host ------------------------------------------------------------------------------------------------------------

local function state_of(octets, from)
  local last, next, blocked_at, blocked_until, failures, visits, bytes_read, latency =
    unpack(STATE, octets, from)
  return {
    last = last, next = next, blocked_at = blocked_at, blocked_until = blocked_until,
    failures = failures, visits = visits, bytes_read = bytes_read, latency = latency,
  }
end

local function octets_of(s)
  return pack(
    STATE, s.last, s.next, s.blocked_at, s.blocked_until, s.failures, s.visits, s.bytes_read, s.latency)
end

local function visit(s, at, delay)
  s.last = max(s.last, at)
  s.next = max(s.next, at + delay)
end

-- Nothing is known of a host, and nobody has come yet.
local function new_host(key)
  return {
    key = key, was = false, is_known = false, kept_until = 0, turns = {}, places = {}, octets = false,
    state = {
      last = NEVER, next = 0, blocked_at = 0, blocked_until = 0,
      failures = 0, visits = 0, bytes_read = 0, latency = NEVER,
    },
  }
end

-- All that is known of a host: one string. Turns whose lease is over are: such a request may have ended just then.
local function read(key)
  local octets = redis.call('GET', key)
  if not octets then
    return new_host(key)
  end
  local layout, is_known, turns, places, kept_until = LAYOUT - 1, 0, 0, 0, 0
  if #octets >= HOST_SIZE then
    layout, is_known, turns, places, kept_until = unpack(HOST, octets)
  end
  if layout ~= LAYOUT or #octets ~= HOST_SIZE + STATE_SIZE + turns * HELD_SIZE + places * PLACE_SIZE then
    -- Damaged, or another version's: what is missing counts as visited now.
    local host = new_host(key)
    host.was, host.is_known, host.state.last = octets, true, now
    return host
  end
  local host = {
    key = key, was = octets, is_known = is_known == 1, kept_until = kept_until, turns = {}, places = {}, octets = false,
    state = state_of(octets, HOST_SIZE + 1),
  }
  local from = HOST_SIZE + STATE_SIZE + 1
  for _ = 1, turns do
    local id, reserved_at, expires_at, delay, began_at, last, next = unpack(HELD, octets, from)
    from = from + HELD_SIZE
    if expires_at <= now then
      visit(host.state, expires_at, delay)
    else
      host.turns[id] = {
        reserved_at = reserved_at, expires_at = expires_at, delay = delay, began_at = began_at,
        last = last, next = next,
      }
    end
  end
  for _ = 1, places do
    local worker, since, asks_at, delay = unpack(PLACE, octets, from)
    from = from + PLACE_SIZE
    host.places[worker] = {since = since, asks_at = asks_at, delay = delay}
  end
  return host
end

-- Write what has changed. A host is kept for as long as it binds anybody, and `keep` seconds more.
local function save(host, keep)
  local s, turns, places, rest = host.state, 0, 0, ''
  local until_at = max(now, s.next, s.blocked_until)
  for id, turn in pairs(host.turns) do
    turns = turns + 1
    rest = rest .. pack(
      HELD, id, turn.reserved_at, turn.expires_at, turn.delay, turn.began_at, turn.last, turn.next)
    until_at = max(until_at, turn.expires_at + turn.delay)
  end
  for worker, place in pairs(host.places) do
    places = places + 1
    rest = rest .. pack(PLACE, worker, place.since, place.asks_at, place.delay)
    until_at = max(until_at, place.asks_at)
  end
  host.octets = octets_of(s)
  if not host.is_known and turns + places == 0 then
    if host.was then
      redis.call('DEL', host.key)
    end
    return
  end
  local is_kept = host.kept_until >= until_at + KEPT_ENOUGH * keep
  local kept_until = is_kept and host.kept_until or until_at + keep
  local octets = pack(HOST, LAYOUT, host.is_known and 1 or 0, turns, places, kept_until) .. host.octets .. rest
  if not is_kept then
    redis.call('SET', host.key, octets, 'PX', string.format('%.0f', (kept_until - now) * 1000))
  elseif octets ~= host.was then
    redis.call('SET', host.key, octets, 'KEEPTTL')
  end
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
    local patience = max(delay, LEAST_POLL, (now - place.since) / POLLS)
    if late > GRACE then
      host.places[name] = nil
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
  local due = max(s.next, s.blocked_until, epoch + delay)
  if s.last ~= NEVER then
    due = max(due, s.last + delay)
  end
  for _, turn in pairs(host.turns) do
    open = open + 1
    oldest = min(oldest, turn.reserved_at)
    is_pending = is_pending or turn.began_at == NEVER
  end
  if open >= slots then
    if slots == 1 and delay > 0 then
      -- The one under way could end now, and the delay counts from its end: nobody who asks then comes too late.
      return max(due, now + max(delay, LEAST_POLL))
    end
    return max(due, now + min(max((now - oldest) / POLLS, LEAST_POLL), MOST_POLL))
  end
  if is_pending and delay > 0 then
    -- It could be sent now.
    return max(due, now + delay)
  end
  return due
end

-- Operations: each is given a head (worker and turn, flags, keep, epoch), the host's key and its argument ------------

local function done(head, status)
  return pack(DONE, status or GO, now, head.epoch)
end

local function told(head, host, status, again_at)
  return pack(TOLD, status, now, head.epoch, again_at or 0) .. (host.octets or octets_of(host.state))
end

local function reserve(head, key, argument)
  local slots, delay, lease = unpack(RESERVE, argument, HEAD_SIZE + 1)
  local host, worker = read(key), head.worker
  if host.turns[head.id] then
    -- Its answer was lost.
    return told(head, host, GO)
  end
  if not host.is_known and (has(head.flags, EVICTING) or run_of_server() == '') then
    -- It may have been thrown out a moment ago.
    visit(host.state, now, delay)
  end
  host.is_known = host.is_known or host.state.last ~= NEVER
  local at, rank, expected = earliest(host, head.epoch, slots, delay), 0, 0
  if delay > 0 then
    rank, expected = rank_of(host, worker, delay)
  end
  if expected == 0 and at - now <= CLOCK_GRAIN then
    local s = host.state
    host.places[worker] = nil
    host.turns[head.id] = {
      reserved_at = now, expires_at = now + lease, delay = delay, began_at = NEVER, last = s.last, next = s.next,
    }
    visit(s, now, delay)
    s.visits = s.visits + 1
    host.is_known = true
    save(host, head.keep)
    return told(head, host, GO)
  end
  -- Whoever is before us takes the delay at the least. How long their requests take is not guessed: who comes too late
  -- leaves the host idle, who comes too soon only asks once more.
  local again_at = max(at, now) + rank * delay
  if delay > 0 then
    local place = host.places[worker] or {since = now}
    place.asks_at, place.delay = again_at, delay
    host.places[worker] = place
  end
  save(host, head.keep)
  return told(head, host, WAIT, again_at)
end

-- A turn is open: its lease counts from now. Told again where it was forgotten, here or by a server that was lost.
local function hold(head, key, argument)
  local delay, lease, reserved_at, began_at = unpack(TURN, argument, HEAD_SIZE + 1)
  local host = read(key)
  local turn = host.turns[head.id] or {last = UNKNOWN, next = UNKNOWN}
  turn.reserved_at, turn.began_at = reserved_at, began_at
  turn.expires_at, turn.delay = now + lease, max(delay, turn.delay or 0)
  host.turns[head.id] = turn
  host.is_known = true
  -- At the latest now: what is under way was under way just now.
  visit(host.state, min(max(reserved_at, began_at), now), delay)
  save(host, head.keep)
  return done(head)
end

-- A request is sent, and the delay counts from here.
local function began(head, key, argument)
  local delay, lease, reserved_at, began_at, next_after = unpack(TURN, argument, HEAD_SIZE + 1)
  local host, at = read(key), min(began_at, now)
  local turn = host.turns[head.id] or {
    reserved_at = reserved_at, expires_at = now + lease, delay = delay, last = UNKNOWN, next = UNKNOWN,
  }
  turn.began_at = at
  host.turns[head.id] = turn
  host.is_known = true
  visit(host.state, at, max(delay, next_after))
  save(host, head.keep)
  return done(head)
end

-- A request was never sent: unless somebody has booked since, nothing was.
local function give_back(host, id)
  local turn, s = host.turns[id], host.state
  if not turn then
    return
  end
  s.visits = max(s.visits - 1, 0)
  local is_last = s.last == max(turn.last, turn.reserved_at)
    and s.next == max(turn.next, turn.reserved_at + turn.delay)
  if turn.last ~= UNKNOWN and is_last then
    s.last, s.next = turn.last, turn.next
  end
  host.turns[id] = nil
end

local function finish(head, key, argument)
  local delay, ended_at, next_after, bytes_read, latency = unpack(FINISH, argument, HEAD_SIZE + 1)
  local host = read(key)
  local s, turn = host.state, host.turns[head.id]
  if has(head.flags, LEAVING) then
    host.places[head.worker] = nil
  end
  if has(head.flags, UNUSED) then
    give_back(host, head.id)
    save(host, head.keep)
    return done(head)
  end
  if turn then
    -- Once: what was counted is not counted again.
    s.bytes_read = s.bytes_read + bytes_read
    host.turns[head.id] = nil
  end
  if latency ~= NEVER then
    s.latency = latency
  end
  if ended_at ~= NEVER then
    visit(s, min(ended_at, now), max(delay, next_after))
    host.is_known = true
  end
  save(host, head.keep)
  return done(head)
end

local function withdraw(head, key)
  local host = read(key)
  if host.places[head.worker] then
    host.places[head.worker] = nil
    save(host, head.keep)
  end
  return done(head)
end

-- Failures are the most that anybody knows of; they are forgiven where it is time, whoever says so.
local function failures_of(s, told_failures)
  if told_failures ~= NEVER and told_failures < s.failures and now - s.blocked_until >= FORGIVEN_AFTER then
    return told_failures
  end
  return max(s.failures, told_failures)
end

local function merge(head, key, argument)
  local host, news = read(key), state_of(argument, HEAD_SIZE + 1)
  local s = host.state
  host.is_known = true
  s.failures = failures_of(s, news.failures)
  for _, name in ipairs({'last', 'next', 'blocked_at', 'blocked_until', 'visits', 'bytes_read'}) do
    s[name] = max(s[name], news[name])
  end
  if news.latency ~= NEVER then
    s.latency = news.latency
  end
  save(host, head.keep)
  return done(head)
end

local function load(head, key)
  local host = read(key)
  return told(head, host, host.is_known and GO or MISSING)
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
  return pack(BEAT, GO, now, head.epoch, redis.call('ZCARD', key), looked)
end

local OPERATIONS = {reserve, began, hold, finish, withdraw, merge, load, look, beat}

local replies = {}
for i, argument in ipairs(ARGV) do
  local operation, flags, id, keep = unpack(HEAD, argument)
  local head = {flags = flags, id = id, keep = keep, worker = id:sub(1, 8), epoch = 0}
  head.epoch = epoch_of(KEYS[2 * i - 1], flags, keep)
  replies[i] = OPERATIONS[operation](head, KEYS[2 * i], argument)
end
return replies
