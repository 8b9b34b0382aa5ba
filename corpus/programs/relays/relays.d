/// Ordinary blocking programs in D, for `tables/relays.py`: `relays COMMAND ...`.
import core.thread : Thread;
import core.time : msecs;
import std.algorithm : min;
import std.conv : to;
import std.socket;

/// SO_MAX_PACING_RATE and TCP_CORK, which std.socket has no names for.
enum pacing = cast(SocketOption) 47, cork = cast(SocketOption) 3;

void exactly(Socket s, size_t count)
{
    static ubyte[65536] buffer;
    while (count > 0)
    {
        auto got = s.receive(buffer[0 .. min(count, buffer.length)]);
        if (got <= 0)
            throw new Exception("the other end has closed");
        count -= got;
    }
}

void all(Socket s, size_t count)
{
    static ubyte[65536] data;
    while (count > 0)
    {
        auto sent = s.send(data[0 .. min(count, data.length)]);
        if (sent <= 0)
            throw new Exception("the other end has closed");
        count -= sent;
    }
}

void eachOf(ushort port, void delegate(Socket) serve)
{
    auto listener = new TcpSocket();
    listener.setOption(SocketOptionLevel.SOCKET, SocketOption.REUSEADDR, 1);
    listener.bind(new InternetAddress(port));
    listener.listen(100);
    while (true)
    {
        auto one = listener.accept();
        (Socket s) {
            new Thread({
                scope (exit) s.close();
                try serve(s); catch (Exception) {}
            }).start();
        }(one);
    }
}

Socket to_(string host, string port)
{
    return new TcpSocket(new InternetAddress(host, port.to!ushort));
}

void main(string[] args)
{
    switch (args[1])
    {
    case "serve": // PORT BYTES SNDBUF: bytes to whoever asks with one byte
        eachOf(args[2].to!ushort, (s) {
            if (args[4] != "0")
                s.setOption(SocketOptionLevel.SOCKET, SocketOption.SNDBUF, args[4].to!int);
            exactly(s, 1);
            all(s, args[3].to!size_t);
        });
        break;
    case "answer": // PORT REQUEST REPLY
        eachOf(args[2].to!ushort, (s) {
            s.setOption(SocketOptionLevel.TCP, SocketOption.TCP_NODELAY, 1);
            while (true)
            {
                exactly(s, args[3].to!size_t);
                all(s, args[4].to!size_t);
            }
        });
        break;
    case "answer-corked": // PORT REQUEST REPLY
        eachOf(args[2].to!ushort, (s) {
            s.setOption(SocketOptionLevel.TCP, cork, 1);
            while (true)
            {
                exactly(s, args[3].to!size_t);
                all(s, args[4].to!size_t);
            }
        });
        break;
    case "ahead": // HOST PORT REQUEST REPLY COUNT: so many requests in one write, then as many answers
        auto a = to_(args[2], args[3]);
        a.setOption(SocketOptionLevel.TCP, SocketOption.TCP_NODELAY, 1);
        immutable count = args[6].to!size_t;
        while (true)
        {
            all(a, args[4].to!size_t * count);
            exactly(a, args[5].to!size_t * count);
        }
    case "ask": // HOST PORT nagle|nodelay|cork FIRST SECOND REPLY: two writes, then an answer
        auto s = to_(args[2], args[3]);
        if (args[4] == "nodelay")
            s.setOption(SocketOptionLevel.TCP, SocketOption.TCP_NODELAY, 1);
        if (args[4] == "cork")
            s.setOption(SocketOptionLevel.TCP, cork, 1);
        while (true)
        {
            all(s, args[5].to!size_t);
            all(s, args[6].to!size_t);
            exactly(s, args[7].to!size_t);
        }
    case "get": // HOST PORT BYTES RCVBUF PAUSE_MS: new connections, one after the other
        while (true)
        {
            auto g = new TcpSocket(AddressFamily.INET);
            if (args[5] != "0")
                g.setOption(SocketOptionLevel.SOCKET, SocketOption.RCVBUF, args[5].to!int);
            g.connect(new InternetAddress(args[2], args[3].to!ushort));
            all(g, 1);
            exactly(g, args[4].to!size_t);
            g.close();
            Thread.sleep(args[6].to!int.msecs);
        }
    case "give": // HOST PORT BLOCK PAUSE_MS PACING
        auto w = to_(args[2], args[3]);
        if (args[6] != "0")
            w.setOption(SocketOptionLevel.SOCKET, pacing, args[6].to!int);
        while (true)
        {
            all(w, args[4].to!size_t);
            Thread.sleep(args[5].to!int.msecs);
        }
    case "take": // PORT BLOCK PAUSE_MS
        eachOf(args[2].to!ushort, (s) {
            while (true)
            {
                exactly(s, args[3].to!size_t);
                if (args[4] != "0")
                    Thread.sleep(args[4].to!int.msecs);
            }
        });
        break;
    default:
        throw new Exception("serve, answer, answer-corked, ahead, ask, get, give or take");
    }
}
