import java.sql.DriverManager;

/** H2 over TCP: Rows serve PORT DIR | Rows insert HOST PORT | Rows select HOST PORT. */
public class Rows {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("serve")) {
            org.h2.tools.Server.createTcpServer("-tcpPort", args[1], "-tcpAllowOthers", "-ifNotExists",
                "-baseDir", args[2]).start();
            return;
        }
        var url = "jdbc:h2:tcp://" + args[1] + ":" + args[2] + "/mem:rows;DB_CLOSE_DELAY=-1";
        try (var wire = DriverManager.getConnection(url, "sa", ""); var make = wire.createStatement()) {
            if (args[0].equals("insert")) {
                make.execute("create table if not exists t (n int, s varchar(200))");
                var row = wire.prepareStatement("insert into t values (?, ?)");
                for (int n = 0; ; n++) {
                    row.setInt(1, n);
                    row.setString(2, "x".repeat(100));
                    row.executeUpdate();
                }
            }
            make.setFetchSize(1000);
            for (;;) {
                var rows = make.executeQuery("select x, repeat('x', 20000) from system_range(1, 100000)");
                while (rows.next()) {
                    rows.getString(2);
                }
            }
        }
    }
}
