-- Records of robots.txt files.
--
-- A call is one key, a hash of `r`, a record as the fleet packs it, and `c`, when it was checked by this server's
-- clock; and one argument of bytes that begins with the operation:
--   L                     load    -> seconds since it was checked, as text of 24 characters, and the record;
--                                    nothing where there is none
--   S ago ttl record      save    -> 1, or 0 where the record that is stored was checked later. Two doubles,
--                                    seconds since this one was checked and milliseconds to keep it
--   F                     forget  -> 1, or 0 where there was none
-- ARGV begins with settings, as for all scripts; they do not matter here.

local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

local LATE = 86400 -- seconds by which an answer may come late that must not replace a later one

local function read(key, field)
  local found = redis.pcall('HGET', key, field)
  -- What is of another type is not ours, and as good as nothing.
  return type(found) == 'string' and found or nil
end

local replies = {}
for call, key in ipairs(KEYS) do
  local argument = ARGV[call + 1]
  local operation = string.sub(argument, 1, 1)
  local checked_at = tonumber(read(key, 'c'))
  if operation == 'L' then
    local record = read(key, 'r')
    replies[call] = record and checked_at and string.format('%24.6f', now - checked_at) .. record or ''
  elseif operation == 'S' then
    local ago, ttl = struct.unpack('<dd', argument, 2)
    -- The same, saved again, may seem a little earlier or later; and a record of long ago is saved on purpose.
    if checked_at and checked_at > now - ago + 1 and checked_at <= now + 1 and ago < LATE then
      replies[call] = '0'
    else
      redis.call('DEL', key)
      redis.call('HSET', key, 'r', string.sub(argument, 18), 'c', string.format('%.6f', now - ago))
      redis.call('PEXPIRE', key, ttl)
      replies[call] = '1'
    end
  else
    replies[call] = tostring(redis.call('DEL', key))
  end
end
return replies
