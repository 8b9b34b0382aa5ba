// Raw sockets of Java for situations: pieces HOST PORT, buffered HOST PORT, slow PORT MS.
import java.io.*;
import java.net.*;

public class Further {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("slow")) {
            Socket peer = new ServerSocket(Integer.parseInt(args[1])).accept();
            byte[] data = new byte[32768];
            while (peer.getInputStream().read(data) > 0) Thread.sleep(Integer.parseInt(args[2]));
            return;
        }
        Socket socket = new Socket(args[1], Integer.parseInt(args[2]));
        OutputStream raw = socket.getOutputStream();
        DataOutputStream out = new DataOutputStream(
            args[0].equals("buffered") ? new BufferedOutputStream(raw) : raw);
        InputStream in = socket.getInputStream();
        while (true) {
            out.writeInt(120);
            out.writeInt(7);
            out.write(new byte[120]);
            out.flush();
            if (in.read() < 0) return;
        }
    }
}
