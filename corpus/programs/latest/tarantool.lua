-- A master with so many rows of 100 kB: tarantool.lua PORT ROWS; a replica: tarantool.lua HOST:PORT
local first, rows = arg[1], tonumber(arg[2])
if rows then
    box.cfg{listen = '0.0.0.0:' .. first, memtx_memory = 2 * 1024 * 1024 * 1024, wal_mode = 'write',
            log_level = 3, checkpoint_interval = 0}
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
    local pages = box.schema.space.create('pages')
    pages:create_index('pk')
    local page = string.rep('x', 100000)
    for i = 1, rows do pages:insert{i, page} end
else
    box.cfg{replication = {first}, memtx_memory = 2 * 1024 * 1024 * 1024, read_only = true,
            replication_timeout = 60, wal_mode = 'write'}
end
