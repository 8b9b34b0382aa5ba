/* Clients in C for situations: options that other programs seldom set. further MODE HOST PORT */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char data[1 << 16];

static int dial(const char *host, const char *port)
{
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(host, port, &hints, &found))
        exit(1);
    int fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (connect(fd, found->ai_addr, found->ai_addrlen))
        exit(2);
    return fd;
}

static void set(int fd, int option, int value)
{
    setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
}

static void answered(int fd)
{
    if (read(fd, data, 1) != 1)
        exit(3);
}

int main(int count, char **args)
{
    if (count < 4)
        return 4;
    int fd = dial(args[2], args[3]);
    if (!strcmp(args[1], "corked")) { /* a message in a cork that is never pulled */
        set(fd, TCP_CORK, 1);
        for (;;) {
            write(fd, data, 8);
            write(fd, data, 120);
            answered(fd);
        }
    } else if (!strcmp(args[1], "more")) { /* the last write says that more follows */
        for (;;) {
            send(fd, data, 8, MSG_MORE);
            send(fd, data, 120, MSG_MORE);
            answered(fd);
        }
    } else if (!strcmp(args[1], "pieces")) { /* two writes, Nagle as the kernel has it */
        for (;;) {
            write(fd, data, 8);
            write(fd, data, 120);
            answered(fd);
        }
    } else if (!strcmp(args[1], "lowat")) { /* writes only while little is unsent */
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        set(fd, TCP_NOTSENT_LOWAT, 16384);
        for (;;) {
            poll(&writable, 1, -1);
            if (write(fd, data, 16384) < 0)
                return 5;
        }
    } else if (!strcmp(args[1], "flood")) { /* ten bytes a write, as fast as possible */
        set(fd, TCP_NODELAY, 1);
        while (write(fd, data, 10) == 10)
            ;
    }
    return 6;
}
