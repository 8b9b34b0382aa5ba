# Calls by DRb, Ruby's own: a short answer, or a page of some bytes.
require "drb"

class Pages
  def initialize(bytes) = @page = "x" * bytes
  def echo(text) = text.size
  def page = @page
end

case ARGV.shift
when "server"
  host, port, bytes = ARGV
  DRb.start_service("druby://#{host}:#{port}", Pages.new(bytes.to_i), load_limit: 1 << 28)
  DRb.thread.join
when "client"
  host, port, kind, pause = ARGV
  DRb.start_service("druby://127.0.0.1:0", nil, load_limit: 1 << 28)
  pages = DRbObject.new_with_uri("druby://#{host}:#{port}")
  loop do
    kind == "page" ? pages.page : pages.echo("x" * 300)
    sleep(pause.to_f) if pause
  end
end
