-- Tarantool works for 50 ms on each call.
box.cfg{listen = '0.0.0.0:5000', log_level = 1, wal_mode = 'none'}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
function works()
    local ends = os.clock() + 0.05
    while os.clock() < ends do end
    return string.rep('x', 2000)
end
