# Pushes to each client a burst of bytes, each so many seconds. Arguments: port, bytes, seconds.
require 'socket'

burst = 'x' * ARGV[1].to_i
Socket.tcp_server_loop('0.0.0.0', ARGV[0].to_i) do |client, _|
  loop do
    client.write(burst)
    sleep(ARGV[2].to_f)
  end
rescue SystemCallError
  client.close
end
