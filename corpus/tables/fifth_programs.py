"""Programs of the fifth seed: none that the four seeds before have at the end that is looked at, with
TLS, uploads, load generators, and socket buffers that programs set by their own options.
"""

import dataclasses

from . import drawn_programs as earlier
from .commands import FILES, NGINX
from .drawn_programs import Kit, at_client, page_file

MINE = "$H/programs/drawn"
PY = f"$FITPY {MINE}/fifth.py"
CERTIFICATE = (("server", "openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=lab "
                          "-keyout key.pem -out cert.pem 2> /dev/null && "
                          "cat key.pem cert.pem > both.pem"),)
CONFIGS = {
    "fifth-merecat.conf": "chroot = false\nusername = \"root\"\n",
    "fifth-stunnel.conf": """
foreground = yes
pid =
cert = @W@/both.pem
#socket
[pages]
accept = 5443
connect = 127.0.0.1:80
""",
    "fifth-proftpd.conf": """
ServerType standalone
Port 2121
PassivePorts 2119 2120
UseIPv6 off
UseReverseDNS off
User root
Group root
RootRevoke off
ScoreboardFile @W@/score
PidFile @W@/proftpd.pid
WtmpLog off
AllowOverwrite on
#options
<Anonymous @W@>
  User nobody
  Group nogroup
  UserAlias anonymous nobody
  RequireValidShell off
  UseFtpUsers off
  #rate
</Anonymous>
""",
    "fifth-server.xml": """<Server port="-1">
  <Service name="Catalina">
    <Connector port="8000" address="0.0.0.0" protocol="HTTP/1.1" connectionTimeout="900000"
      maxKeepAliveRequests="-1" keepAliveTimeout="900000" SNDBUF />
    <Engine name="Catalina" defaultHost="localhost">
      <Host name="localhost" appBase="none" autoDeploy="false">
        <Context path="" docBase="@W@"><Resources allowLinking="true" /></Context>
      </Host>
    </Engine>
  </Service>
</Server>
""",
    "fifth-web.xml": """<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
  <servlet>
    <servlet-name>default</servlet-name>
    <servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
  </servlet>
  <servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
</web-app>
""",
}


@dataclasses.dataclass(frozen=True)
class Web:
    """A server of `/big` and `/page`: what runs, its process, port, scheme and time to start."""

    prepare: tuple
    server: tuple
    comm: str
    port: int
    settle: float
    scheme: str = "http"

    def url(self, path):
        return f"{self.scheme}://$S:{self.port}{path}"


def merecat(size, sndbuf=0):
    return None if sndbuf else Web(
        page_file(size), (("server", "exec merecat -n -p 8000 -f $W/fifth-merecat.conf $W"),),
        "merecat", 8000, 1)


def tomcat(size, sndbuf=0):
    option = f'socket.txBufSize="{sndbuf}"' if sndbuf else ""
    make = (f"mkdir -p cat/conf cat/logs cat/temp && sed 's/SNDBUF/{option}/' fifth-server.xml > "
            "cat/conf/server.xml && cp fifth-web.xml cat/conf/web.xml")
    run = ("exec java -cp /usr/share/tomcat10/bin/bootstrap.jar:/usr/share/tomcat10/bin/tomcat-juli.jar "
           "-Dcatalina.home=/usr/share/tomcat10 -Dcatalina.base=$W/cat -Djava.io.tmpdir=$W/cat/temp "
           "org.apache.catalina.startup.Bootstrap start")
    return Web((*page_file(size), ("server", make)), (("server", run),), "java", 8000, 6)


def node(name, size, think=0, tls=False):
    """Koa or hapi, a stream of so many bytes after so many milliseconds."""
    command = (f"exec node {MINE}/fifth.js {name} 5000 {size or 8_000_000_000} {think} "
               f"{'tls' if tls else ''}")
    return Web(CERTIFICATE if tls else (), (("server", command),), "node", 5000, 2.5,
               "https" if tls else "http")


def stunnel(size, sndbuf=0):
    """nginx behind TLS."""
    edit = (("server", f"sed -i 's/#socket/socket = l:SO_SNDBUF={sndbuf}/' fifth-stunnel.conf"),)
    return Web((*CERTIFICATE, *page_file(size), *(edit if sndbuf else ())),
               (*NGINX, ("server", "exec stunnel4 $W/fifth-stunnel.conf")), "stunnel", 5443, 1.5,
               "https")


def pen(size, sndbuf=0):
    return None if sndbuf else Web(
        page_file(size), (*NGINX, ("server", "exec pen -f -r 5000 127.0.0.1:80")), "pen", 5000, 1.5)


WEB = {
    "merecat": merecat, "tomcat": tomcat, "stunnel": stunnel, "pen": pen,
    "koa": lambda size, sndbuf=0: None if sndbuf else node("koa", size),
    "koa-tls": lambda size, sndbuf=0: None if sndbuf else node("koa", size, tls=True),
    "hapi": lambda size, sndbuf=0: None if sndbuf else node("hapi", size),
}
# What one processor encrypts or copies beside the emulator, Mbit/s.
MOST = {"tomcat": 120, "stunnel": 100, "koa-tls": 100, "koa": 120, "hapi": 120, "pen": 120}


def download(name, client, size=0, sndbuf=0, options=""):
    """Of all there is, or of pages, by curl, hey, bombardier or httperf."""
    web = WEB[name](size, sndbuf)
    if web is None:
        return None
    return downloads(name, web, client, "/page" if size else "/big", options)


def downloads(name, web, client, path, options=""):
    url = web.url(path)
    command = {
        "curl": f"curl -sko /dev/null {options} {url}",
        # As many requests as never end, unless options say so; `hey` has no verification of names.
        "hey": f"hey -t 0 -z 900s {options or '-c 1'} {url}",
        "bombardier": f"bombardier -k -q -t 900s -d 900s {options or '-c 1'} {url}",
        "httperf": f"httperf --server $S --port {web.port} --uri {path} {options}",
    }[client]
    return Kit(f"{name}-{client}", web.prepare, web.server, at_client(command),
               {"server": web.comm, "client": client}, "server", web.settle,
               MOST.get(name, 150))


def proftpd(down, client, *, options="", server="", rate=""):
    """`options` at the client; at the server socket options and a rate, as its directives."""
    edit = f"sed -i 's/#options/{server}/; s/#rate/{rate}/' fifth-proftpd.conf"
    files = ("server", "truncate -s 8G big; mkdir -m 777 up")
    if client == "ncftp":
        run = (f"ncftpget -P 2121 {options} -c $S big > /dev/null" if down
               else f"ncftpput -P 2121 {options} $S up up8g")
        comm = "ncftpget" if down else "ncftpput"
    else:
        run = (f"curl -so /dev/null {options} ftp://$S:2121/big" if down
               else f"curl -sT up8g {options} ftp://$S:2121/up/x")
        comm = "curl"
    # Of its options it reads the modules' place from the environment that starts it.
    start = ("server", "exec proftpd -n -q -c $W/fifth-proftpd.conf")
    return Kit(f"proftpd-{client}", (files, ("server", edit), ("client", "truncate -s 8G up8g")),
               (start,), at_client(f"sh -c 'exec {run}'"), {"server": "proftpd", "client": comm},
               "server" if down else "client", 2)


def tcpserver(down, many=1):
    """ucspi-tcp: programs that write and read a socket as their standard output and input."""
    serve = "cat $W/big" if down else "sh -c \"exec cat > /dev/null\""
    take = "cat <&6 > /dev/null" if down else "cat /dev/zero >&7"
    client = at_client(f"tcpclient -RHl0 $S 5000 sh -c 'exec {take}'")
    return Kit("tcpserver", FILES, (("server", f"exec tcpserver -RHl0 0 5000 {serve}"),), many * client,
               {"server": "cat", "client": "cat"}, "server" if down else "client")


def tcpserver_paced(kilobytes, by):
    """`pv` at the end that sends, at the end that reads, or before a pipe of the one that sends."""
    serve = f"sh -c \"exec pv -qL {kilobytes}k > /dev/null\"" if by == "reader" else (
        "sh -c \"exec cat > /dev/null\"")
    send = {"reader": "exec cat /dev/zero >&7", "sender": f"exec pv -qL {kilobytes}k /dev/zero >&7",
            "pipe": f"pv -qL {kilobytes}k /dev/zero | cat >&7"}[by]
    comm = {"server": "pv" if by == "reader" else "cat", "client": "pv" if by == "sender" else "cat"}
    return Kit(f"tcpserver-{by}", (), (("server", f"exec tcpserver -RHl0 0 5000 {serve}"),),
               at_client(f"tcpclient -RHl0 $S 5000 sh -c '{send}'"), comm, "client")


def socat_tls(sndbuf=0, rcvbuf=0):
    """An upload through TLS."""
    listen = "OPENSSL-LISTEN:5000,reuseaddr,cert=$W/both.pem,verify=0" + (
        f",rcvbuf={rcvbuf}" if rcvbuf else "")
    connect = "OPENSSL:$S:5000,verify=0" + (f",sndbuf={sndbuf}" if sndbuf else "")
    return Kit("socat-tls", CERTIFICATE, (("server", f"exec socat -u {listen} OPEN:/dev/null"),),
               at_client(f"socat -u -b 65536 OPEN:/dev/zero {connect}"),
               {"server": "socat", "client": "socat"}, "client", 1.5, 100)


def websockets(what, *, size=65536, pause=0.0, think=0.0):
    """Python's websockets: `bulk`, `ticks` of the server each `pause`, `asks` that take `think`."""
    return Kit(f"websockets-{what}", (),
               (("server", f"exec {PY} serve 5000 {what} {size} {pause} {think}"),),
               at_client(f"{PY} take $S 5000 {what} {size}"),
               {"server": "python", "client": "python"}, "server", 2, 80)


def upload(name, tls=False):
    """curl to Koa or hapi, which reads and forgets."""
    web = node(name, 100, tls=tls)
    run = f"sh -c 'exec curl -sko /dev/null -T - {web.url('/up')} < /dev/zero'"
    return Kit(f"{name}-upload", web.prepare, web.server, at_client(run),
               {"server": "node", "client": "curl"}, "client", web.settle, 80)


def php_posts(size):
    """Head and body of a request written apart, on a kept connection, to Koa."""
    web = node("koa", 20)
    return Kit("php-posts", web.prepare, web.server,
               at_client(f"php {MINE}/posts.php $S 5000 {size}"),
               {"server": "node", "client": "php"}, "client", web.settle)


assert earlier.Kit is Kit
