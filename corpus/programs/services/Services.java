import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.ServerSocket;

/** Java for situations: source PORT SNDBUF | pages PORT BYTES. */
public class Services {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]), number = Integer.parseInt(args[2]);
        if (args[0].equals("source")) {
            try (var server = new ServerSocket(port); var peer = server.accept()) {
                peer.setSendBufferSize(number);
                for (var data = new byte[1 << 16];;) peer.getOutputStream().write(data);
            }
        }
        var server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", exchange -> {
            exchange.getResponseHeaders().set("Connection", "close");
            exchange.sendResponseHeaders(200, number);
            exchange.getResponseBody().write(new byte[number]);
            exchange.close();
        });
        server.start();
    }
}
