-- LuaSocket: questions and answers on one connection, on one each, and a slow reader.
-- LuaSocket sends what a call is given at once, and leaves Nagle's algorithm on.

local socket = require "socket"
local what, host, port, amount, pause = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4] or 0), tonumber(arg[5] or 0)

local function answer(c, nodelay)
  c:setoption("tcp-nodelay", nodelay)
  while c:receive("*l") do
    c:send(#tostring(amount) .. " ok\r\n")
    c:send(string.rep("x", amount) .. "\n")
  end
  c:close()
end

local function ask(c)
  c:send("page\n")
  c:receive("*l")
  c:receive("*l")
end

if what == "answers" or what == "answers-at-once" then
  local listener = assert(socket.bind(host, port, 64))
  while true do answer(listener:accept(), what == "answers-at-once") end
elseif what == "asks" then
  local c = assert(socket.connect(host, port))
  while true do ask(c) end
elseif what == "asks-anew" then
  while true do
    local c = assert(socket.connect(host, port))
    c:send("GET /small HTTP/1.0\r\n\r\n")
    c:receive("*a")
    c:close()
  end
elseif what == "reads" then
  local c = assert(socket.connect(host, port))
  c:send("GET /big HTTP/1.0\r\n\r\n")
  while true do
    if not c:receive(amount) then return end
    socket.sleep(pause)
  end
end
