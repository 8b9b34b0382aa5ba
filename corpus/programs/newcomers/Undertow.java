import java.nio.ByteBuffer;

/** Undertow, a page of so many bytes. Arguments: port, bytes. */
class Undertow {
    public static void main(String[] asked) {
        var page = ByteBuffer.allocateDirect(Integer.parseInt(asked[1]));
        io.undertow.Undertow.builder()
                .addHttpListener(Integer.parseInt(asked[0]), "0.0.0.0")
                .setHandler(exchange -> exchange.getResponseSender().send(page.duplicate()))
                .build().start();
    }
}
