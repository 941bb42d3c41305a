-- Hosts that the operator wants left alone, for the whole fleet.
--
-- Two keys a call, in one slot:
--   the words: a hash; under a pattern, until when it is blocked and when that was said, both by this server's clock.
--              An end of 0 lifts the block, and is kept for as long as an older word may still come. Under the empty
--              name, the generation: when the hash began to be;
--   the order: a sorted set of the patterns by their last change, in microseconds, no two the same.
--
-- One argument a call, by its first octet:
--   C keep generation cursor   what has changed -> now, generation, cursor, whether there is more, and the words.
--                              All there are, where the generation is another one, or the cursor is of changes that
--                              were lost
--   W keep words               what was said: of each pattern, the word that was said last holds -> now
-- `keep` is how many seconds all of it outlives the fleet. A word is until, said, and the pattern behind its length.
-- Doing any of them twice does no more than once.

local WORD = '<dd'
local WORD_SIZE = 16
local HEAD = '<ddd'
local LIFTED_FOR = 86400        -- seconds for which a word is kept that has no effect any more
local PAGE = 500                -- words in one reply
local SWEPT = 4                 -- patterns looked at with every write whether they can go

local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

-- When the words began to be; nothing where there are none. What is kept but in part is as good as lost, and what is of
-- another type is not ours.
local function generation_of(words, order)
  local generation, places = redis.pcall('HGET', words, ''), redis.pcall('ZCARD', order)
  if type(generation) == 'string' and #generation == 8 and type(places) == 'number'
    and redis.call('HLEN', words) == places + 1 then
    return (struct.unpack('<d', generation))
  end
  redis.call('DEL', words, order)
end

-- What was said last of a pattern; nothing where it is not as we write it.
local function word_of(words, pattern)
  local word = redis.call('HGET', words, pattern)
  return word and #word == WORD_SIZE and word
end

local function keep_for(seconds, words, order)
  if redis.call('PTTL', words) < seconds * 500 then
    local milliseconds = string.format('%.0f', seconds * 1000)
    redis.call('PEXPIRE', words, milliseconds)
    redis.call('PEXPIRE', order, milliseconds)
  end
end

local function last_change(order)
  local last = redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')
  return tonumber(last[2] or 0)
end

local function changes(words, order, argument)
  local keep, known, cursor = struct.unpack(HEAD, argument, 2)
  local generation = generation_of(words, order)
  if not generation then
    return struct.pack('<dddB', now, 0, 0, 0)
  end
  keep_for(keep, words, order)
  -- A replica that became the master may lack the last changes, and its clock be behind the first one's.
  if generation ~= known or last_change(order) < cursor then
    cursor = 0
  end
  local after = string.format('(%.0f', cursor)
  local found = redis.call('ZRANGEBYSCORE', order, after, '+inf', 'WITHSCORES', 'LIMIT', 0, PAGE)
  local reply = {}
  for i = 1, #found, 2 do
    local word = word_of(words, found[i])
    if word then
      reply[#reply + 1] = word .. struct.pack('<I2', #found[i]) .. found[i]
    end
    cursor = tonumber(found[i + 1])
  end
  local more = #found == 2 * PAGE and 1 or 0
  return struct.pack('<dddB', now, generation, cursor, more) .. table.concat(reply)
end

local function is_over(word)
  if #word ~= WORD_SIZE then
    return true
  end
  local until_at, said_at = struct.unpack(WORD, word)
  return math.max(until_at, said_at) + LIFTED_FOR < now
end

-- Let a few go that have no effect any more: always more than come, as long as there are such.
local function sweep(words, order)
  local found = redis.call('HRANDFIELD', words, SWEPT, 'WITHVALUES')
  for i = 1, #found, 2 do
    if found[i] ~= '' and is_over(found[i + 1]) then
      redis.call('HDEL', words, found[i])
      redis.call('ZREM', order, found[i])
    end
  end
end

local function write(words, order, argument)
  local keep = struct.unpack('<d', argument, 2)
  if not generation_of(words, order) then
    redis.call('HSET', words, '', struct.pack('<d', now))
  end
  local change, from = math.max(last_change(order), now * 1e6), 10
  while from <= #argument do
    local until_at, said_at, size = struct.unpack('<ddI2', argument, from)
    local word = argument:sub(from, from + 15)
    local pattern = argument:sub(from + 18, from + 17 + size)
    from = from + 18 + size
    local known = word_of(words, pattern)
    local known_until, known_said
    if known then
      known_until, known_said = struct.unpack(WORD, known)
    end
    if not known or said_at > known_said then
      redis.call('HSET', words, pattern, word)
      -- Who knows until when need not hear that it was said again.
      if known_until ~= until_at then
        change = change + 1
        redis.call('ZADD', order, string.format('%.0f', change), pattern)
      end
    end
  end
  sweep(words, order)
  keep_for(keep, words, order)
  return struct.pack('<d', now)
end

local replies = {}
for call, argument in ipairs(ARGV) do
  local words, order = KEYS[2 * call - 1], KEYS[2 * call]
  if argument:sub(1, 1) == 'C' then
    replies[call] = changes(words, order, argument)
  else
    replies[call] = write(words, order, argument)
  end
end
return replies
