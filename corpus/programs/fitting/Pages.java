import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** Pages PORT BYTES THINK_MS: the JDK's own web server, as it comes. It reads what is posted. */
class Pages {
    public static void main(String[] args) throws Exception {
        int bytes = Integer.parseInt(args[1]);
        long think = Long.parseLong(args[2]);
        HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(args[0])), 50);
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            try {
                Thread.sleep(think);
            } catch (InterruptedException stopped) {
                return;
            }
            exchange.sendResponseHeaders(200, bytes);
            exchange.getResponseBody().write(new byte[bytes]);
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }
}
