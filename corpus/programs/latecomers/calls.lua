-- One call after the other.
local server = require('net.box').connect(arg[1])
while true do server:call('works') end
