import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerOptions;

/** Vert.x answers each request with so many bytes, when all of it has come: Vertx PORT BYTES
 * SEND_BUFFER RECEIVE_BUFFER (0: as the system). */
public class Vertx {
    public static void main(String[] args) {
        var options = new HttpServerOptions().setPort(Integer.parseInt(args[0]));
        if (!args[2].equals("0")) {
            options.setSendBufferSize(Integer.parseInt(args[2]));
        }
        if (args.length > 3) {
            options.setReceiveBufferSize(Integer.parseInt(args[3]));
        }
        var page = Buffer.buffer(new byte[Integer.parseInt(args[1])]);
        io.vertx.core.Vertx.vertx().createHttpServer(options)
            .requestHandler(asked -> asked.end().onSuccess(all -> asked.response().end(page)))
            .listen();
    }
}
