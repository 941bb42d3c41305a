-- Robots.txt records, and who may ask for one.
--
-- Three keys a call, in one slot:
--   the record: a hash of `r`, a record as the fleet packs it, and `f`, the fencing token it was saved by;
--   the lease:  the holder's id (16 octets), its token (8), and whether anybody has asked for it meanwhile (1);
--   the tokens: the last one that was drawn in this bucket.
--
-- A token is a double: the server's microseconds, or one more than the last where its clock was set back. So tokens
-- grow also after a flush, which leaves nothing to count from.
--
-- One argument a call, by its first octet:
--   L                          load      -> the record; nothing where there is none; `?` where the key is no hash
--   S token ttl record         save      -> 1, or 0 where what is stored was saved by a later token.
--                                           Token 0: by nobody's lease. It always counts, and as the latest.
--   T id token ttl             take      -> 1 and the token; or 0 and for how many milliseconds more it is another's.
--                                           Token 0: a new one. Else a lease that is held is renewed, and is there again
--                                           if it was lost and is nobody's.
--   N id token ttl known       take, or hear of news -> as T; but 2 and a token where the record that is stored is of
--                                           another token than is known. Behind a 0 comes that token as well; known -1:
--                                           none has been told yet.
--   R id channel               release   -> 1, or 0 where it is another's. Who waits is told by which token the record
--                                           that is there was saved: 16 digits, and the lease's key
--   F                          forget the record -> 1, or 0 where there was none
-- Doing any of them twice does no more than once.

local LEASE = 25
local WAITED_FOR = 24
local NOT_TOLD = -1
local TOKENS_TTL = 31 * 24 * 3600 * 1000

local function token_in(text)
  if not text or #text ~= 8 then
    return 0
  end
  local token = struct.unpack('<d', text)
  -- Beyond this, one more is the same number.
  return token >= 0 and token < 2 ^ 53 and token or 0
end

-- Reads a key. What is of another type is not ours, and as good as nothing.
local function read(...)
  local found = redis.pcall(...)
  if type(found) == 'table' and found.err then
    if string.find(found.err, 'WRONGTYPE', 1, true) then
      return false
    end
    -- Once more, so that it fails as it would anywhere.
    return redis.call(...)
  end
  return found
end

local function drawn(tokens, least)
  local time = redis.call('TIME')
  local token = math.max(time[1] * 1000000 + time[2], token_in(read('GET', tokens)) + 1, least + 1)
  redis.call('SET', tokens, struct.pack('<d', token), 'PX', TOKENS_TTL)
  return token
end

local function stored_token(record)
  return token_in(read('HGET', record, 'f'))
end

local function load_record(record)
  -- A key without it is somebody else's.
  return read('HGET', record, 'r') or (redis.call('EXISTS', record) == 1 and '?' or '')
end

local function save(record, tokens, argument)
  local token, ttl = struct.unpack('<dd', argument, 2)
  local stored = stored_token(record)
  if token == 0 then
    token = drawn(tokens, stored)
  elseif stored > token then
    return '0'
  end
  local kind = redis.call('TYPE', record).ok
  if kind ~= 'hash' and kind ~= 'none' then
    redis.call('DEL', record)
  end
  redis.call('HSET', record, 'r', string.sub(argument, 18), 'f', struct.pack('<d', token))
  redis.call('PEXPIRE', record, ttl)
  return '1'
end

local function take(record, lease, tokens, argument, known)
  local id = string.sub(argument, 2, 17)
  local token, ttl = struct.unpack('<dd', argument, 18)
  local held = read('GET', lease)
  -- Of a lease that was not written here, or never ends, nobody is the holder.
  local is_held = held and #held == LEASE
  if is_held and string.sub(held, 1, 16) == id then
    redis.call('PEXPIRE', lease, ttl)
    return '1' .. string.sub(held, 17, 24)
  end
  local stored = stored_token(record)
  if known and known ~= NOT_TOLD and known ~= stored then
    return '2' .. struct.pack('<d', stored)
  end
  if is_held then
    local left = redis.call('PTTL', lease)
    if left >= 0 then
      redis.call('SETRANGE', lease, WAITED_FOR, '\1')
      return '0' .. struct.pack('<d', left) .. (known and struct.pack('<d', stored) or '')
    end
  end
  if token == 0 then
    token = drawn(tokens, stored)
  end
  local packed = struct.pack('<d', token)
  redis.call('SET', lease, id .. packed .. '\0', 'PX', ttl)
  return '1' .. packed
end

local function release(record, lease, argument)
  local held = read('GET', lease)
  if not held or #held ~= LEASE or string.sub(held, 1, 16) ~= string.sub(argument, 2, 17) then
    return '0'
  end
  redis.call('DEL', lease)
  if string.byte(held, LEASE) == 1 then
    -- Who may not publish costs the others the time until they look again.
    redis.pcall('PUBLISH', string.sub(argument, 18), string.format('%016.0f', stored_token(record)) .. lease)
  end
  return '1'
end

local replies = {}
for call, argument in ipairs(ARGV) do
  local record, lease, tokens = KEYS[3 * call - 2], KEYS[3 * call - 1], KEYS[3 * call]
  local operation = string.sub(argument, 1, 1)
  if operation == 'L' then
    replies[call] = load_record(record)
  elseif operation == 'S' then
    replies[call] = save(record, tokens, argument)
  elseif operation == 'T' then
    replies[call] = take(record, lease, tokens, argument)
  elseif operation == 'N' then
    replies[call] = take(record, lease, tokens, argument, (struct.unpack('<d', argument, 34)))
  elseif operation == 'R' then
    replies[call] = release(record, lease, argument)
  else
    replies[call] = tostring(redis.call('DEL', record))
  end
end
return replies
