"""Servers and clients that several tables of situations have."""

NGINX = (("server", "exec nginx -p $W -c $W/nginx.conf"),)
IPERF_SERVER = (("server", "exec iperf3 -s"),)
REDIS = (("server", "exec redis-server --save '' --appendonly no --protected-mode no"),)
SSHD = (
    ("server", "mkdir -p /run/sshd && ssh-keygen -qt ed25519 -N '' -f host && "
               "ssh-keygen -qt ed25519 -N '' -f key && cp key.pub allowed && chmod 600 allowed"),
)
FILES = (("server", "truncate -s 8G big; head -c 60000 /dev/urandom > page60k; "
                    "head -c 10000 /dev/urandom > page10k; head -c 100 /dev/urandom > page100"),)


def iperf(options=""):
    return (("client", f"exec iperf3 -c $S -t 100 {options}"),)


def programs(command):
    return (("server", f"exec $P {command}"),)


def client(command):
    return (("client", f"exec $P {command}"),)
