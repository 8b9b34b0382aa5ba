# Sinatra: a page that takes time, and one that comes in pieces.
require "sinatra/base"

class Pages < Sinatra::Base
  get("/work") { sleep(ENV["THINK"].to_f); "ok" }
  get("/pieces") { stream { |out| 100_000.times { out << "x" * 3000; sleep 0.06 } } }
end

run Pages
