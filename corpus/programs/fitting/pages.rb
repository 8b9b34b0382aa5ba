# WEBrick: a page of as many bytes as the second argument says, on the port of the first.
require 'webrick'

server = WEBrick::HTTPServer.new(Port: ARGV[0].to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new(File::NULL))
page = 'x' * ARGV[1].to_i
server.mount_proc('/') { |_, answer| answer.body = page }
server.start
