"""Programs of the seventh seed: servers of several processes at one port (nginx with `reuseport`, Gunicorn,
uvicorn, uWSGI, Puma, Apache's prefork), relays that fork, HTTP/2 by nghttpx, SMB, nuttcp and CivetWeb.
"""

from .commands import FILES, NGINX
from .drawn_programs import Kit, at_client, looped, page_file
from .fifth_programs import Web
from .fitting_anew import MARIADB, MARIADB_SERVER, SELECT

MINE = "$H/programs/drawn"
PY = f"$FITPY {MINE}/drawn.py"
CONFIGS = {
    "sixth-apache.conf": """
ServerRoot @W@
PidFile @W@/apache.pid
ErrorLog @W@/apache.log
ServerName lab
Listen 8000
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
StartServers 4
MaxKeepAliveRequests 0
#socket
DocumentRoot @W@
<Directory @W@>
  Require all granted
</Directory>
""",
    "sixth-smb.conf": """
[global]
  server role = standalone server
  map to guest = bad user
  guest account = nobody
  disable netbios = yes
  load printers = no
  private dir = @W@/smb
  lock directory = @W@/smb
  state directory = @W@/smb
  cache directory = @W@/smb
  pid directory = @W@/smb
  ncalrpc dir = @W@/smb/rpc
[s]
  path = @W@
  guest ok = yes
""",
}


def reuseport(size, think=0, sndbuf=0):
    """nginx whose three workers have a listener each."""
    held = f" sndbuf={sndbuf}" if sndbuf else ""
    edit = ("server", "sed -i 's/worker_processes 1/worker_processes 3/; "
                      f"s/listen 80 backlog=1024/listen 8000 reuseport{held}/' nginx.conf")
    return None if think else Web((*page_file(size), edit), NGINX, "nginx", 8000, 1)


def python(command, comm, port=8000):
    """`{size}` and `{think}` are in its environment."""
    def make(size, think=0, sndbuf=0):
        run = f"export SIZE={size or 1000} THINK={think}; cd {MINE}; exec {command}"
        return None if sndbuf else Web((), (("server", run),), comm, port, 3)
    return make


def apache(size, think=0, sndbuf=0):
    edit = ("server", f"sed -i 's/#socket/SendBufferSize {sndbuf}/' sixth-apache.conf")
    return None if think else Web((*page_file(size), *((edit,) if sndbuf else ())), (
        ("server", "exec apache2 -D FOREGROUND -f $W/sixth-apache.conf"),), "apache2", 8000, 1.5)


def civetweb(size, think=0, sndbuf=0):
    return None if think or sndbuf else Web(page_file(size), (
        ("server", "exec civetweb -document_root $W -listening_ports 8000 -enable_keep_alive yes "
                    "-keep_alive_timeout_ms 900000"),),
        "civetweb", 8000, 1)


def relay(comm, command):
    """A process for each connection, before nginx."""
    return lambda size, think=0, sndbuf=0: None if think or sndbuf else Web(
        page_file(size), (*NGINX, ("server", f"exec {command}")), comm, 8000, 1)


WEB = {
    "reuseport": reuseport, "apache": apache, "civetweb": civetweb,
    "gunicorn": python("/usr/bin/gunicorn -w 3 -b 0.0.0.0:8000 sixth:application", "gunicorn"),
    "uvicorn": python("/usr/bin/uvicorn --host 0.0.0.0 --workers 2 --no-access-log sixth:asgi", "python3"),
    "uwsgi": python("uwsgi_python311 --http-socket :8000 -L -p 3 -w sixth", "uwsgi"),
    "puma": python("puma -q -w 2 -t 4:4 -b tcp://0.0.0.0:8000 sixth.ru", "puma"),
    "simpleproxy": relay("simpleproxy", "simpleproxy -L 8000 -R 127.0.0.1:80"),
    "redir": relay("redir", "redir -n :8000 127.0.0.1:80"),
}
KEEPS_ALIVE = ("reuseport", "apache", "civetweb", "uvicorn", "simpleproxy")
SENDS = ("reuseport", "apache", "civetweb", "gunicorn", "uvicorn", "uwsgi", "simpleproxy", "redir")
MOST = {"gunicorn": 100, "uvicorn": 60, "uwsgi": 100, "puma": 80, "redir": 100}


def kit(name, client, web, comm, many=1, most=None):
    return Kit(name, web.prepare, web.server, many * client, {"server": web.comm, "client": comm},
               "server", web.settle, most or MOST.get(name.split("-")[0], 120))


def download(name, sndbuf=0, many=1):
    web = WEB[name](0, sndbuf=sndbuf)
    return web and kit(f"{name}-curl", at_client(f"curl -so /dev/null {web.url('/big')}"), web, "curl", many)


def asks(name, size, pause=0, think=0):
    web = WEB[name](size, think)
    return web and kit(f"{name}-asks", at_client(f"{PY} asks $S {web.port} /page {pause}"), web, "python")


def hey(name, size, many=1, think=0, anew=True):
    web = WEB[name](size, think)
    more = "-disable-keepalive" if anew else ""
    return web and kit(f"{name}-hey", at_client(f"hey -t 0 -z 900s -c {many} {more} {web.url('/page')}"), web,
                       "hey")


def curl_pages(name, size):
    """A curl for each page."""
    web = WEB[name](size)
    return web and kit(f"{name}-pages", looped(f"curl -so /dev/null {web.url('/page')}"), web, "curl")


def nghttpx(size=0, many=1):
    """HTTP/2 before nginx, `many` streams of pages or of what never ends."""
    run = ("server", "exec nghttpx --workers=2 -f'0.0.0.0,3000;no-tls' -b127.0.0.1,80")
    path = "page" if size else "big"
    return Kit("nghttpx-h2load", page_file(size), (*NGINX, run),
               at_client(f"h2load -c 1 -m {many} -n 100000000 http://$S:3000/{path}"),
               {"server": "nghttpx", "client": "h2load"}, "server", 2, 80)


def nuttcp(down, held=0):
    """`held`: the buffers that are asked for at both ends, in bytes."""
    window = f"-w{max(1, held // 1024)}" if held else ""
    return Kit("nuttcp", (), (("server", "exec nuttcp -S --nofork"),),
               at_client(f"nuttcp {'-r' if down else '-t'} -T900 {window} $S"),
               {"server": "nuttcp", "client": "nuttcp"}, "server" if down else "client", 1.5, 150)


def smb(down):
    take = "get big /dev/null" if down else "put up8g up"
    return Kit("smb", (("server", "truncate -s 8G big; mkdir -m 777 smb; chmod 777 ."),
                       ("client", "truncate -s 8G up8g")),
               (("server", "exec smbd -F --no-process-group -p 4450 -s $W/sixth-smb.conf -l $W/smb"),),
               at_client(f"smbclient //$S/s -p 4450 -N -s $W/sixth-smb.conf -c '{take}'"),
               {"server": "smbd", "client": "smbclient"}, "server" if down else "client", 2, 100)


def mariadb():
    query = "select repeat(char(65 + seq % 26), 1000) from seq_1_to_2000000000"
    return Kit("mariadb", MARIADB, MARIADB_SERVER,
               at_client(f"{SELECT.removeprefix('exec ')} -e '{query}' mysql > /dev/null"),
               {"server": "mariadbd", "client": "mariadb"}, "server", 6, 60)


def crowd(many, loss):
    """Uploads of `cat` to one port, and one of socat to another, whose packets are dropped at random."""
    drop = ("nft 'add table ip drops; add chain ip drops in { type filter hook prerouting priority -300; }; "
            f"add rule ip drops in tcp dport 5001 numgen random mod 10000 < {round(loss * 100)} drop'")
    return Kit("crowd-socat", (("server", drop),),
               (("server", "exec tcpserver -RHl0 0 5000 sh -c \"exec cat > /dev/null\""),
                ("server", "exec socat -u TCP-LISTEN:5001,reuseaddr OPEN:/dev/null")),
               (*(many * at_client("tcpclient -RHl0 $S 5000 sh -c 'exec cat /dev/zero >&7'")),
                *at_client("socat -u -b 65536 OPEN:/dev/zero TCP:$S:5001")),
               {"server": "socat", "client": "socat"}, "client", 1.5)


assert FILES
