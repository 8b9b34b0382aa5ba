import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** A client of Java's HttpClient that takes its time, and a server with a small receive buffer. */
public class Judged {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("slow")) {
            slow(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        } else {
            sink(Integer.parseInt(args[1]), Integer.parseInt(args[2]));
        }
    }

    /** Reads so many bytes at a time, with a pause after each. */
    static void slow(String url, int bytes, int ms) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
        InputStream body = client.send(request, HttpResponse.BodyHandlers.ofInputStream()).body();
        while (body.readNBytes(bytes).length > 0) {
            Thread.sleep(ms);
        }
    }

    static void sink(int port, int buffer) throws Exception {
        ServerSocket server = new ServerSocket();
        server.setReceiveBufferSize(buffer);
        server.bind(new InetSocketAddress(port));
        Socket socket = server.accept();
        byte[] bytes = new byte[65536];
        while (socket.getInputStream().read(bytes) >= 0) {
        }
    }
}
