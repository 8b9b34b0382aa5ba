/* What lwIP has as structures and macros only, for src/bin/lwip.rs: the line, and room to send. */
#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/tcp.h"

/* Sends a packet; src/bin/lwip.rs has it. */
void line_transmit(void *line, const struct pbuf *packet);

static struct netif interface;

static err_t transmit(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to)
{
    (void)to;
    line_transmit(netif->state, packet);
    return ERR_OK;
}

static err_t init_interface(struct netif *netif)
{
    netif->output = transmit;
    netif->name[0] = 's';
    netif->name[1] = 'l';
    return ERR_OK;
}

/* Starts lwIP with one line; false where there is no memory. */
int line_start(void *line, const u8_t *address, u16_t mtu)
{
    ip4_addr_t own, mask, gateway;

    lwip_init();
    IP4_ADDR(&own, address[0], address[1], address[2], address[3]);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    ip4_addr_set_any(&gateway);
    if (!netif_add(&interface, &own, &mask, &gateway, line, init_interface, ip_input))
        return 0;
    interface.mtu = mtu;
    netif_set_default(&interface);
    netif_set_up(&interface);
    netif_set_link_up(&interface);
    return 1;
}

/* A packet came. Without memory it is lost, as on any line. */
void line_receive(const u8_t *bytes, u16_t length)
{
    struct pbuf *packet = pbuf_alloc(PBUF_RAW, length, PBUF_RAM);

    if (!packet)
        return;
    pbuf_take(packet, bytes, length);
    if (interface.input(packet, &interface) != ERR_OK)
        pbuf_free(packet);
}

/* Bytes that a connection takes for sending now. */
u16_t room_to_send(const struct tcp_pcb *connection)
{
    return tcp_sndbuf(connection);
}
