/*
 * lwIP on a TUN device under the contract of the peers: it discards on port 5001, sends without end
 * on 5002 and echoes on 5003. One thread, lwIP's raw API.
 *
 * usage: lwip-PROFILE-MTU MTU
 */
#include <err.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

enum { DISCARD = 5001, CHARGEN, ECHO };
/* Packets taken in before timers have their turn. */
enum { BATCH = 256 };
/* Pieces of a packet in one write. */
enum { PIECES = 64 };
/* lwIP takes lengths of 16 bits. */
enum { STEP = 32768 };

static int tun;
static u16_t mtu;
static const char data[STEP];

/* lwIP's clock, milliseconds. */
u32_t sys_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u32_t)(time.tv_sec * 1000 + time.tv_nsec / 1000000);
}

static void open_tun(void)
{
    struct ifreq request = {.ifr_name = "stack0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0)
        err(1, "opening /dev/net/tun");
    if (ioctl(tun, TUNSETIFF, &request) < 0)
        err(1, "making the TUN device");
}

/* A packet that the kernel does not take is lost, as on any link. */
static err_t transmit(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to)
{
    struct iovec pieces[PIECES];
    int count = 0;
    (void)netif, (void)to;
    for (; packet; packet = packet->next) {
        if (count == PIECES)
            return ERR_BUF;
        pieces[count++] = (struct iovec){packet->payload, packet->len};
    }
    return writev(tun, pieces, count) < 0 ? ERR_IF : ERR_OK;
}

static err_t init_netif(struct netif *netif)
{
    netif->output = transmit;
    netif->mtu = mtu;
    netif->name[0] = 't';
    netif->name[1] = 'n';
    return ERR_OK;
}

/* Gives waiting packets to lwIP; returns how many there were. */
static int receive(struct netif *netif)
{
    int count;
    for (count = 0; count < BATCH; count++) {
        struct pbuf *packet = pbuf_alloc(PBUF_RAW, mtu, PBUF_RAM);
        ssize_t length = packet ? read(tun, packet->payload, mtu) : 0;
        if (length <= 0) {
            if (packet)
                pbuf_free(packet);
            break;
        }
        packet->len = packet->tot_len = (u16_t)length;
        if (netif->input(packet, netif) != ERR_OK)
            pbuf_free(packet);
    }
    return count;
}

/* Sends as much as the buffer takes, without copying. */
static err_t fill(void *port, struct tcp_pcb *pcb, u16_t acknowledged)
{
    (void)port, (void)acknowledged;
    while (tcp_sndbuf(pcb) > 0) {
        tcpwnd_size_t room = tcp_sndbuf(pcb);
        if (tcp_write(pcb, data, (u16_t)LWIP_MIN(room, STEP), 0) != ERR_OK)
            break;
    }
    return tcp_output(pcb);
}

/* What came in was used: the window opens again. */
static void consume(struct tcp_pcb *pcb, struct pbuf *received)
{
    tcp_recved(pcb, received->tot_len);
    pbuf_free(received);
}

static err_t on_receive(void *port, struct tcp_pcb *pcb, struct pbuf *received, err_t error)
{
    struct pbuf *piece;
    (void)error;
    if (!received) {
        if ((long)port != CHARGEN)
            return tcp_close(pcb);
        /* The buffer is never empty: closing would never end. */
        tcp_abort(pcb);
        return ERR_ABRT;
    }
    if ((long)port == ECHO) {
        /* All or nothing; what does not fit is offered again later. */
        if (tcp_sndbuf(pcb) < received->tot_len)
            return ERR_MEM;
        for (piece = received; piece; piece = piece->next)
            if (tcp_write(pcb, piece->payload, piece->len, TCP_WRITE_FLAG_COPY) != ERR_OK)
                errx(1, "out of memory");
        tcp_output(pcb);
    }
    consume(pcb, received);
    return ERR_OK;
}

static err_t on_accept(void *port, struct tcp_pcb *pcb, err_t error)
{
    if (error != ERR_OK || !pcb)
        return ERR_VAL;
    tcp_nagle_disable(pcb);
    tcp_arg(pcb, port);
    tcp_recv(pcb, on_receive);
    if ((long)port != CHARGEN)
        return ERR_OK;
    tcp_sent(pcb, fill);
    return fill(port, pcb, 0);
}

static void listen_on(long port)
{
    struct tcp_pcb *pcb = tcp_new();
    if (!pcb || tcp_bind(pcb, IP_ADDR_ANY, (u16_t)port) != ERR_OK || !(pcb = tcp_listen(pcb)))
        errx(1, "cannot listen on port %ld", port);
    tcp_arg(pcb, (void *)port);
    tcp_accept(pcb, on_accept);
}

int main(int count, char **arguments)
{
    struct netif netif;
    ip4_addr_t address, mask, gateway;
    struct pollfd wait = {.events = POLLIN};
    long port;

    mtu = (u16_t)(count > 1 ? atoi(arguments[1]) : 1500);
    open_tun();
    wait.fd = tun;
    lwip_init();
    IP4_ADDR(&address, 10, 77, 0, 2);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&gateway, 10, 77, 0, 1);
    if (!netif_add(&netif, &address, &mask, &gateway, NULL, init_netif, ip_input))
        errx(1, "out of memory");
    netif_set_default(&netif);
    netif_set_up(&netif);
    netif_set_link_up(&netif);
    for (port = DISCARD; port <= ECHO; port++)
        listen_on(port);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (receive(&netif) == 0) {
            u32_t sleep = sys_timeouts_sleeptime();
            poll(&wait, 1, (int)LWIP_MIN(sleep, 100));
        }
        sys_check_timeouts();
    }
}
