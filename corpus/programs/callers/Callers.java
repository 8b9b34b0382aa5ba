import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.rmi.Remote;
import java.rmi.RemoteException;
import java.rmi.registry.LocateRegistry;
import java.rmi.server.UnicastRemoteObject;

/** Java's own ways to call: RMI, and objects that are written to a socket. */
public class Callers {
    public interface Pages extends Remote {
        byte[] page(int bytes) throws RemoteException;
    }

    static class Holder implements Pages {
        public byte[] page(int bytes) {
            return new byte[bytes];
        }
    }

    static Object kept;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "rmi-server" -> {
                System.setProperty("java.rmi.server.hostname", args[1]);
                kept = new Holder();
                var stub = UnicastRemoteObject.exportObject((Pages) kept, 5000);
                LocateRegistry.createRegistry(1099).rebind("pages", stub);
                Thread.sleep(3_600_000);
            }
            case "rmi-client" -> {
                var pages = (Pages) LocateRegistry.getRegistry(args[1], 1099).lookup("pages");
                while (true) {
                    pages.page(Integer.parseInt(args[2]));
                    Thread.sleep(Integer.parseInt(args[3]));
                }
            }
            case "takes" -> takes();
            case "gives" -> gives(args[1], Integer.parseInt(args[2]), args.length > 3);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static void takes() throws Exception {
        try (var listener = new ServerSocket(5000)) {
            while (true) {
                try (var socket = listener.accept()) {
                    var in = new ObjectInputStream(socket.getInputStream());
                    while (true) {
                        in.readObject();
                        socket.getOutputStream().write(1);
                    }
                } catch (java.io.IOException gone) {
                    // The next one.
                }
            }
        }
    }

    static void gives(String host, int bytes, boolean nodelay) throws Exception {
        try (var socket = new Socket(host, 5000)) {
            socket.setTcpNoDelay(nodelay);
            var out = new ObjectOutputStream(socket.getOutputStream());
            while (true) {
                out.writeObject(new byte[bytes]);
                out.flush();
                out.reset();
                socket.getInputStream().read();
            }
        }
    }
}
