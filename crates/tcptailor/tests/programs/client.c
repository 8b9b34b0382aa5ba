/* Writes each request in two pieces, or a stream, over one connection or several.
   usage: client HOST PORT COUNT [nodelay=N] [sndbuf=BYTES] [bulk=BYTES] [connections=N]
   Prints what the kernel says of the options of its last socket. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

static int number(int argc, char **argv, const char *name, int otherwise) {
    size_t length = strlen(name);
    for (int i = 4; i < argc; i++)
        if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
            return atoi(argv[i] + length + 1);
    return otherwise;
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(fd, level, name, &value, &length);
    return value;
}

static int ask(int fd, int count) {
    char body[100], reply[100];
    memset(body, 'b', sizeof body);
    for (int i = 0; i < count; i++) {
        if (write(fd, "head", 4) != 4 || write(fd, body, 100) != 100) return 6;
        for (ssize_t got = 0; got < 100;) {
            ssize_t part = read(fd, reply, 100 - got);
            if (part <= 0) return 7;
            got += part;
        }
    }
    return 0;
}

static int stream(int fd, long left) {
    static char block[65536];
    while (left > 0) {
        ssize_t part = write(fd, block, sizeof block);
        if (part <= 0) return 8;
        left -= part;
    }
    shutdown(fd, SHUT_WR);
    return read(fd, block, 1) == 0 ? 0 : 9;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    int nodelay = number(argc, argv, "nodelay", -1);
    int sndbuf = number(argc, argv, "sndbuf", 0);
    int connections = number(argc, argv, "connections", 1);
    int bulk = number(argc, argv, "bulk", 0);
    for (int i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf)) return 3;
        if (connect(fd, (struct sockaddr *)&to, sizeof to)) return 4;
        if (nodelay >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay))
            return 5;
        int failed = bulk ? stream(fd, bulk) : ask(fd, atoi(argv[3]));
        if (failed) return failed;
        if (i == connections - 1)
            printf("nodelay %d, buffers locked %d\n", option(fd, IPPROTO_TCP, TCP_NODELAY),
                   option(fd, SOL_SOCKET, SO_BUF_LOCK));
        close(fd);
    }
    return 0;
}
