"""Situations of services: brokers, databases, proxies, players, and shapers at Linux interfaces.

Labels were written down before any of them was run.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, client, iperf, programs
from .further import from_client
from .model import *
from .seeming import PAGES, RESTARTS, TRAVELS

PY_SERVICES = "$PY $H/programs/services/services.py"
NODE_SERVICES = "node $H/programs/services/services.js"
CONFIGS = {
    "rabbitmq.conf": "loopback_users = none\nlisteners.tcp.default = 5672\n",
    "pgbouncer.ini": """
[databases]
postgres = host=127.0.0.1 port=5432 user=postgres
[pgbouncer]
listen_addr = *
listen_port = 6432
auth_type = any
default_pool_size = 1
unix_socket_dir =
logfile =
""",
    "pgbench-sleep.sql": "select pg_sleep(0.05);\n",
}
POSTGRES = (
    ("server", "mkdir pg && chown postgres pg && cd / && su postgres -s /bin/sh -c "
               "\"initdb -D $W/pg -A trust --no-sync >/dev/null && "
               "echo host all all all trust >> $W/pg/pg_hba.conf\""),
)
POSTGRES_SERVER = ("server", "cd / && exec su postgres -s /bin/sh -c \"exec postgres -D $W/pg "
                             "-h '*' -k $W/pg -c fsync=off\"")
RABBIT = (
    ("server", "mkdir m l && cp rabbitmq.conf m/ && chown -R rabbitmq m l && "
               "RABBITMQ_CONFIG_FILE=$W/m/rabbitmq.conf RABBITMQ_MNESIA_BASE=$W/m "
               "RABBITMQ_LOG_BASE=$W/l RABBITMQ_NODENAME=r@localhost "
               "RABBITMQ_ENABLED_PLUGINS_FILE=$W/m/plugins exec rabbitmq-server"),
)
CERTIFICATE = (
    ("server", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
               "-keyout tls.key -out tls.crt -days 2 -subj /CN=x 2>/dev/null"),
)
# A pair of interfaces beside the emulated path, with no emulator between, and CUBIC on it.
DIRECT = (
    ("client", "ip link add direct0 type veth peer name direct1 netns $SN && "
               "ip addr add 10.79.0.1/24 dev direct0 && ip link set direct0 up && "
               "ip route change 10.79.0.0/24 dev direct0 src 10.79.0.1 congctl cubic"),
    ("server", "ip addr add 10.79.0.2/24 dev direct1 && ip link set direct1 up && "
               "ip route change 10.79.0.0/24 dev direct1 src 10.79.0.2 congctl cubic && sleep 0.5"),
)
# What arrives at the interface beyond a rate is dropped (the kernel here has no `act_police`).
POLICE = ("nft 'add table ip police; add chain ip police in {{ type filter hook prerouting "
          "priority -300; }}; add rule ip police in iif {dev} limit rate over {rate} "
          "burst {burst} drop'")
RUBY_PIECES = ("ruby -rsocket -e 's = TCPSocket.new(ENV[\"S\"], 5000); "
               "loop { s.write(\"a\" * 8); s.write(\"b\" * 120); s.read(1) }'")
ANSWER_128 = programs("answer 5000 --request 128 --reply 1")
POLICED = healthy("policed", "path-full")
# Of a block or a message that is asked for when the one before has come.
ONE_BY_ONE = healthy("round-trip-bound", "app-limited", "unknown", "idle")


def to_direct(label, port=None):
    dport = f" and dport = :{port}" if port else ""
    return {"client": Watched(f"dst 10.79.0.2{dport}", label)}


def at_direct_server(label, port):
    return {"server": Watched(f"src 10.79.0.2 and sport = :{port}", label)}


SITUATIONS = [
    # Shapers and policers at Linux interfaces.
    Situation(
        "veth-tbf-nc", program="nc",
        prepare=(*DIRECT, ("client", "tc qdisc replace dev direct0 root tbf rate 50mbit burst 16kb "
                                     "latency 20ms")),
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; exec nc 10.79.0.2 5000 < /dev/zero"),), warm_up=5,
        why="the sender's own interface is shaped to 50 Mbit/s",
        watch=to_direct(FULL, 5000),
    ),
    Situation(
        "veth-htb-curl", program="nginx",
        prepare=(*DIRECT, *FILES,
                 ("server", "tc qdisc replace dev direct1 root handle 1: htb default 10 && "
                            "tc class add dev direct1 parent 1: classid 1:10 htb rate 10mbit "
                            "burst 200k")),
        server=NGINX,
        client=(("client", "exec curl -so /dev/null http://10.79.0.2/big"),), warm_up=5,
        why="the server's own interface is shaped to 10 Mbit/s by HTB with a burst of 200 kB",
        watch=at_direct_server(FULL, 80),
    ),
    Situation(
        "veth-police", program="iperf3",
        prepare=(*DIRECT, ("server", POLICE.format(dev="direct1", rate="5 mbytes/second",
                                                    burst="200 kbytes"))),
        server=IPERF_SERVER,
        client=(("client", "sleep 0.3; exec iperf3 -c 10.79.0.2 -t 100"),), warm_up=5,
        why="what exceeds 40 Mbit/s is dropped on arrival, and no queue comes before",
        watch=to_direct(POLICED, 5201),
    ),
    Situation(
        "police-60ms", program="nc", rate="200mbit", rtt="60ms", queue="2000p",
        prepare=(("server", POLICE.format(dev="lab0", rate="3750 kbytes/second",
                                          burst="60 kbytes")),),
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; exec nc $S 5000 < /dev/zero"),), warm_up=6, look=8,
        why="what exceeds 30 Mbit/s is dropped on arrival: a policer with a burst of 60 kB",
        watch=at_sender(5000, POLICED),
    ),
    Situation(
        "router-htb-pfifo", program="nc", rate="200mbit", rtt="40ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc replace dev far0 root handle 1: htb default 10 && "
                            "tc class add dev far0 parent 1: classid 1:10 htb rate 20mbit "
                            "burst 30k && tc qdisc add dev far0 parent 1:10 pfifo limit 60"),),
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; exec nc $S 5000 < /dev/zero"),), warm_up=6, look=8,
        why="a router shapes to 20 Mbit/s with a queue of about one BDP",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "router-tiny-pfifo", program="iperf3", rate="400mbit", rtt="20ms", queue="2000p",
        router=True,
        prepare=(("router", "tc qdisc replace dev far0 root handle 1: htb default 10 && "
                            "tc class add dev far0 parent 1: classid 1:10 htb rate 60mbit "
                            "burst 15k && tc qdisc add dev far0 parent 1:10 pfifo limit 20"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6, look=8,
        why="a router shapes to 60 Mbit/s with a queue of 20 packets, which overflows by itself",
        watch=at_sender(5201, POLICED),
    ),
    Situation(
        "thin-way-back", program="nc", rate=None, rtt="40ms", queue=None,
        path=("--set", "path.forward.rate=50mbit", "--set", "path.reverse.rate=300kbit",
              "--set", "path.forward.queue=1bdp", "--set", "path.reverse.queue=50p"),
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; exec nc $S 5000 < /dev/zero"),), warm_up=6,
        why="an upload at 50 Mbit/s whose ACKs come back through 300 kbit/s",
        watch=at_sender(5000, healthy("path-full", "unknown", "bufferbloat",
                                      also=("bufferbloat",))),
    ),
    Situation(
        "beside-four-others", program="nc", rate="20mbit", rtt="40ms", queue="2bdp",
        server=(*IPERF_SERVER, ("server", "nc -l -p 5000 > /dev/null")),
        client=(*iperf("-P 4"), ("client", "sleep 1; exec nc $S 5000 < /dev/zero")),
        warm_up=7, look=8, why="an upload shares 20 Mbit/s with four others",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "satellite-rsync", program="rsync", rate="10mbit", rtt="600ms", queue="1bdp", cc="bbr",
        prepare=(("client", "truncate -s 4G big"),),
        server=(("server", "printf '[f]\\npath = %s\\nuid = 0\\nread only = no\\n"
                           "use chroot = no\\n' $W > rsyncd.conf; "
                           "exec rsync --daemon --no-detach --config=rsyncd.conf --port=8730"),),
        client=(("client", "sleep 0.5; exec rsync -W big rsync://$S:8730/f/got"),),
        warm_up=10, look=8, why="an upload over a satellite by BBR", watch=at_sender(8730, FULL),
    ),
    # Programs that write as much as they want to.
    Situation(
        "chunks-20ms", rtt="20ms",
        server=(("server", f"exec {PY_SERVICES} chunks 5000 32000 0.02"),),
        client=from_client("nc -d $S 5000 > /dev/null"),
        why="32 kB each 20 ms: 12 of 50 Mbit/s", watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "curl-upload-limit", program="curl", rtt="30ms",
        server=(("server", "exec $W/go serve 5000"),),
        prepare=(("server", "go build -o $W/go $H/programs/further/further.go"),),
        client=from_client("sh -c 'exec curl --limit-rate 800K -so /dev/null -T - "
                           "http://$S:5000/upload </dev/zero'"), warm_up=5,
        why="curl limits its own upload to 6.5 of 50 Mbit/s", watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "xz-nc", program="nc", rate="200mbit", rtt="10ms", queue="1bdp",
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; xz -6 -c /dev/urandom | nc $S 5000"),), warm_up=6,
        why="xz compresses a few MB a second, the path takes 25",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "video-frames", rtt="40ms", server=programs("sink 5000"),
        client=from_client(f"{PY_SERVICES} frames $S 5000 30 15000 60000"), warm_up=5,
        why="thirty frames of 15 to 60 kB a second: 9 of 50 Mbit/s",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "telemetry-8k", rtt="100ms", server=programs("sink 5000"),
        client=client("source $S 5000 --request 8000 --pause 1"), look=8,
        why="8 kB a second fit into the initial window, after whatever pause",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "syslog-lines", program="logger", rtt="30ms",
        server=(("server", "nc -l -p 5140 > /dev/null"),),
        client=(("client", "sleep 0.3; (i=0; while :; do echo line $i of the log; i=$((i+1)); "
                           "sleep 0.02; done) | exec logger -T -n $S -P 5140"),), warm_up=4,
        why="some thirty lines of a log a second, unanswered", watch=both(5140, PACED, TAKES),
    ),
    Situation(
        "subscriber-quiet", program="redis", rtt="20ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no "
                           "--tcp-keepalive 1"),),
        client=(("client", "exec redis-cli -h $S subscribe news"),), warm_up=4,
        why="a subscriber to whom nothing is said; keepalive alone", watch=both(6379, IDLE, IDLE),
    ),
    # Questions and answers.
    Situation(
        "insert-rows", program="postgres", rtt="20ms", prepare=POSTGRES, server=(POSTGRES_SERVER,),
        settle=2, client=(("client", f"exec {PY_SERVICES} rows $S"),), warm_up=4,
        why="a row is inserted and committed each round trip",
        watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "rabbit-confirms", program="rabbitmq", rtt="30ms", server=RABBIT, settle=16,
        client=(("client", f"exec {PY_SERVICES} publish $S 1"),), warm_up=5,
        why="each message waits for its confirmation, one round trip",
        watch=both(5672, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "rabbit-prefetch-1", program="rabbitmq", rtt="10ms", server=RABBIT, settle=16,
        client=(("server", f"exec {PY_SERVICES} publish 127.0.0.1 0"),
                ("client", f"sleep 2; exec {PY_SERVICES} consume $S 0.08")), warm_up=6,
        why="a consumer works 80 ms on each message and then gets the next one",
        watch={"client": Watched("dport = :5672", THINKS_HERE),
               "server": Watched("sport = :5672 and dst 10.77.0.1", THINKS)},
    ),
    Situation(
        "pgbouncer-queue", program="pgbouncer", rtt="10ms", prepare=POSTGRES,
        server=(POSTGRES_SERVER, ("server", "sleep 2; cd / && exec su nobody -s /bin/sh -c "
                                            "\"exec pgbouncer $W/pgbouncer.ini\"")),
        settle=4,
        client=(("client", "cd / && exec pgbench -n -h $S -p 6432 -U postgres -c 4 -T 100 "
                           "-f $W/pgbench-sleep.sql postgres"),), warm_up=4,
        why="four clients wait for one connection of the pool, whose queries take 50 ms",
        watch=both(6432, THINKS, THINKS_HERE),
    ),
    Situation(
        "nbd-depth-1", program="nbdkit", rtt="20ms",
        server=(("server", "exec nbdkit -f -p 10809 pattern 8G"),),
        client=(("client", "sleep 0.5; exec nbdcopy --connections=1 --threads=1 --requests=1 "
                           "--request-size=65536 nbd://$S null:"),), warm_up=5,
        why="a block of 64 KiB is asked for when the one before has come",
        watch=both(10809, ONE_BY_ONE, healthy(*ONE_BY_ONE.accept, "path-full")),
    ),
    Situation(
        "wrk-works-300ms", program="go", rtt="15ms",
        prepare=(("server", "go build -o $W/go $H/programs/further/further.go"),),
        server=(("server", "exec $W/go serve 5000"),),
        client=from_client("wrk -t 1 -c 8 -d 100 http://$S:5000/page?ms=300"),
        why="eight connections, each answered after 300 ms of work",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "pool-of-thirty", program="redis", rtt="15ms", server=REDIS,
        client=(("client", f"exec {PY_SERVICES} pool $S 6379 30"),), warm_up=4,
        why="thirty connections, three of which take turns to ask",
        watch=both(6379, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "jitter-questions", rtt="30ms", path=("--set", "path.jitter=10ms"),
        server=programs("answer 5000 --nodelay"),
        client=client("ask $S 5000 --nodelay --pause 0.03"),
        why="a question each 30 ms after an answer, over a path that jitters",
        watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "ftp-small-files", program="vsftpd", rtt="40ms",
        prepare=(("server", "mkdir small && for i in $(seq 400); do head -c 2000 /dev/urandom > "
                            "small/$i; done; printf 'listen=YES\\nbackground=NO\\n"
                            "anonymous_enable=YES\\nno_anon_password=YES\\nanon_root=%s/small\\n"
                            "secure_chroot_dir=%s\\nseccomp_sandbox=NO\\nisolate=NO\\n"
                            "isolate_network=NO\\nftp_username=root\\nlisten_port=2121\\n' "
                            "$W $W > vsftpd.conf; chmod 555 small"),),
        server=(("server", "exec vsftpd $W/vsftpd.conf"),),
        client=(("client", "sleep 0.5; exec lftp -e 'set net:timeout 10; mirror / got; exit' "
                           "ftp://$S:2121"),), warm_up=4,
        why="small files, each with a dialogue and a connection of its own: round trips",
        watch={"client": Watched("dst 10.77.0.2",
                                 healthy("round-trip-bound", "app-limited", "unknown", "idle"))},
    ),
    Situation(
        "ab-close-30ms", program="nginx", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("ab -q -c 20 -n 100000000 http://$S/page100"), warm_up=4,
        why="a connection for each page of 100 bytes: two round trips each",
        watch=both(80, healthy("round-trip-bound", "unknown", "app-limited", "idle"),
                   SOME_TRAFFIC),
    ),
    Situation(
        "posts-2mb", program="go", rate="40mbit", rtt="30ms",
        prepare=(("server", "go build -o $W/go $H/programs/further/further.go"),),
        server=(("server", "exec $W/go serve 5000"),),
        client=from_client(f"{PY_SERVICES} posts http://$S:5000/upload?bytes=65536 2000000"),
        warm_up=5, why="bodies of 2 MB one after the other fill the path nearly all the time",
        watch=both(5000, healthy("path-full", "app-limited", "unknown"), TAKES),
    ),
    Situation(
        "player", program="nginx", rate="30mbit", rtt="80ms",
        prepare=(("server", "head -c 1000000 /dev/urandom > piece"),), server=NGINX,
        client=from_client(f"{PY_SERVICES} player http://$S/piece 1.5"), look=12,
        why="pieces of 1 MB after pauses of 1.5 s: the server's window restarts with each",
        watch=both(80, PAGES, RESTARTS),
    ),
    Situation(
        "java-pages-200k", program="java", rtt="100ms",
        prepare=(("server", "javac -d $W $H/programs/services/Services.java"),),
        server=(("server", "exec java -cp $W Services pages 5000 200000"),), settle=2,
        client=(("client", "while :; do curl -so /dev/null http://$S:5000/; done"),),
        warm_up=4, look=8,
        why="200 kB on new connections take four round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    ),
    # Small writes.
    Situation(
        "node-pieces", program="node", **LAN, server=ANSWER_128, settle=1,
        client=from_client(f"{NODE_SERVICES} pieces $S 5000"), warm_up=4,
        why="node's sockets have Nagle on: two writes a message, in two turns of the loop",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "ruby-pieces", program="ruby", rtt="5ms", rate="100mbit", queue="1bdp", server=ANSWER_128,
        settle=1, client=from_client(RUBY_PIECES), warm_up=4,
        why="two writes a message in ruby, with Nagle on", watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "tls-pieces", rtt="10ms", prepare=CERTIFICATE,
        server=(("server", f"exec {PY_SERVICES} tls-answer 5000"),), settle=1,
        client=from_client(f"{PY_SERVICES} tls-pieces $S 5000"), warm_up=4,
        why="two TLS records a message, with Nagle on", watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "pieces-80ms", rtt="80ms", server=ANSWER_128,
        client=client("ask $S 5000 --request 128 --writes 2 --reply 1"), look=8,
        why="two writes a message with Nagle on, over 80 ms",
        watch=at_sender(5000, fault("nagle-delack-stall", "nagle-rtt-serialised")),
    ),
    Situation(
        "cork-works", rtt="10ms", server=(("server", f"exec {PY_SERVICES} cork-works 5000 0.15"),),
        client=client("ask $S 5000 --reply 800 --nodelay"), warm_up=4,
        why="the server corks, works 150 ms and uncorks in time: work, and no timer",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    # Windows, buffers and readers.
    Situation(
        "tls-rcvbuf", prepare=CERTIFICATE,
        server=(("server", f"exec {PY_SERVICES} tls-sink 5000 20000"),), settle=1,
        client=from_client(f"{PY_SERVICES} tls-source $S 5000"), warm_up=4,
        why="SO_RCVBUF of 20000 on a TLS listener, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "java-sndbuf-16k", program="java",
        prepare=(("server", "javac -d $W $H/programs/services/Services.java"),),
        server=(("server", "exec java -cp $W Services source 5000 16384"),), settle=2,
        client=from_client("nc -d $S 5000 > /dev/null"), warm_up=4,
        why="setSendBufferSize(16384), the BDP is 250 kB",
        watch=at_server(5000, fault("sndbuf-locked")),
    ),
    Situation(
        "node-proxy-slow-far", program="node", rtt="20ms",
        server=(("server", f"exec {NODE_SERVICES} proxy 9000 127.0.0.1 5000"),
                *programs("sink 5000 --rate 500000")), settle=1.5,
        client=from_client("nc $S 9000 < /dev/zero"), warm_up=12,
        why="a proxy pipes to a program that reads 0.5 MB/s of the 6 that the path takes",
        watch=both(9000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "node-proxy-slow-client", program="node", rtt="20ms", prepare=FILES,
        server=(*NGINX, ("server", f"exec {NODE_SERVICES} proxy 9000 127.0.0.1 80")), settle=1.5,
        client=from_client("curl --limit-rate 400K -so /dev/null http://$S:9000/big"), warm_up=12,
        why="curl reads 400 kB/s of what a proxy sends, which holds nginx as well",
        watch={"client": Watched("dport = :9000", SLOW_READER),
               "server": Watched("( sport = :9000 or sport = :80 )", SLOW_READER)},
    ),
    Situation(
        "xz-sink", program="nc", prepare=DIRECT,
        server=(("server", "nc -l -p 5000 | xz -6 > /dev/null"),),
        client=(("client", "sleep 0.3; exec nc 10.79.0.2 5000 < /dev/urandom"),), warm_up=8,
        why="what arrives is compressed at a few MB a second; the path takes gigabits",
        watch={**to_direct(SLOW_READER, 5000), **at_direct_server(SLOW_READER, 5000)},
    ),
    Situation(
        "large-rcvbuf-slow", rtt="20ms",
        server=programs("sink 5000 --rate 1000000 --rcvbuf 2000000"),
        client=client("source $S 5000 --request 65536"), warm_up=12,
        why="the server reads 8 of 50 Mbit/s from a receive buffer of 2 MB",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "small-rcvbuf-trickle", rtt="20ms",
        server=(("server", f"exec {PY_SERVICES} trickle 5000 8192 1000 0.05"),),
        client=from_client("nc $S 5000 < /dev/zero"), warm_up=5,
        why="the server reads 20 kB/s; its receive buffer of 8 KiB would allow 400",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "veth-redis-pipelines", program="redis", prepare=DIRECT, server=REDIS,
        client=from_client("redis-benchmark -h 10.79.0.2 -c 50 -P 16 -n 1000000000 -t get -q"),
        warm_up=4, why="the processors are the limit of fifty pipelined connections",
        watch=to_direct(healthy(*SOME_TRAFFIC.accept, "cpu-bound"), 6379),
    ),
    Situation(
        "pgbench-rack", program="postgres", rtt="2ms", rate="1gbit", queue="1000p",
        prepare=POSTGRES, server=(POSTGRES_SERVER,), settle=2,
        client=(("client", "cd / && exec pgbench -n -h $S -U postgres -S -i -q postgres "
                           ">/dev/null 2>&1; exec pgbench -n -h $S -U postgres -S -c 10 -T 100 "
                           "postgres"),), warm_up=7,
        why="ten connections of a database in a rack, answered at once",
        watch=both(5432, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
]
