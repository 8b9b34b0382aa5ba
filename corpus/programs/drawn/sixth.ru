# For Puma: `/page` of $SIZE bytes after $THINK seconds, `/big` without end.
PAGE = Random.bytes((ENV["SIZE"] || 1000).to_i)
BLOCK = "\0" * 262_144
THINK = (ENV["THINK"] || 0).to_f

class Big
  def each
    loop { yield BLOCK }
  end
end

run(lambda do |env|
  next [200, {}, Big.new] if env["PATH_INFO"] == "/big"
  sleep THINK
  [200, { "Content-Length" => PAGE.bytesize.to_s }, [PAGE]]
end)
