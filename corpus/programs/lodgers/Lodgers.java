import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import java.io.OutputStream;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.concurrent.Semaphore;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Jetty (`jetty PORT SNDBUF`), Derby (`rows HOST`) and Hazelcast (`grid`, `puts HOST BYTES AHEAD`). */
class Lodgers {
    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "jetty" -> jetty(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            case "rows" -> rows(words[1]);
            case "grid" -> grid(words[1]);
            default -> puts(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        }
    }

    static void jetty(int port, int sndbuf) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setPort(port);
        connector.setAcceptedSendBufferSize(sndbuf);
        server.addConnector(connector);
        server.setHandler(new AbstractHandler() {
            @Override
            public void handle(String target, Request base, jakarta.servlet.http.HttpServletRequest request,
                    jakarta.servlet.http.HttpServletResponse response) throws java.io.IOException {
                base.setHandled(true);
                byte[] block = new byte[16384];
                OutputStream out = response.getOutputStream();
                while (true) {
                    out.write(block);
                }
            }
        });
        server.start();
        server.join();
    }

    static void rows(String host) throws Exception {
        Connection database = DriverManager.getConnection("jdbc:derby://" + host + ":1527/lab;create=true");
        Statement statement = database.createStatement();
        statement.execute("create table t (a int, b varchar(1000))");
        statement.execute("insert into t values (1, '" + "x".repeat(1000) + "')");
        for (int i = 0; i < 12; i++) {
            statement.execute("insert into t select a + 1, b from t");
        }
        while (true) {
            ResultSet row = statement.executeQuery("select a, b from t");
            while (row.next()) {
                row.getString(2);
            }
            row.close();
        }
    }

    static void grid(String address) {
        Config config = new Config();
        config.getNetworkConfig().setPort(5701).setPublicAddress(address);
        config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
        config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
        Hazelcast.newHazelcastInstance(config);
    }

    static void puts(String host, int bytes, int ahead) throws Exception {
        ClientConfig config = new ClientConfig();
        config.getNetworkConfig().addAddress(host + ":5701");
        var map = HazelcastClient.newHazelcastClient(config).<Integer, byte[]>getMap("lab");
        Semaphore free = new Semaphore(ahead);
        for (int i = 0; ; i++) {
            free.acquire();
            map.setAsync(i % 50, new byte[bytes]).whenComplete((done, error) -> free.release());
        }
    }
}
