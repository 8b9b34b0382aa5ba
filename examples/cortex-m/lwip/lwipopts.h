/*
 * lwIP for the job of the two other firmwares: TCP over IPv4 on one line, for four connections with
 * buffers of 3 segments for each direction. What is not here is as lwIP comes.
 */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

/* One thread without an operating system below, and nothing but TCP over IPv4. */
#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define LWIP_ICMP 0
#define LWIP_RAW 0
#define LWIP_UDP 0
#define IP_FRAG 0
#define IP_REASSEMBLY 0
#define LWIP_STATS 0

/* Segments are on the firmware's heap, where they are counted as those of the others are. */
#define MEM_LIBC_MALLOC 1
#define MEM_ALIGNMENT 4
#define mem_clib_malloc heap_take
#define mem_clib_calloc heap_take_zeroed
#define mem_clib_free heap_give

#define TCP_MSS 1460
#define TCP_WND (3 * TCP_MSS)
#define TCP_SND_BUF (3 * TCP_MSS)

/*
 * What is small and of one size is in pools of lwIP's own: four connections and as many in
 * TIME-WAIT; for each of the four, 8 segments and 8 references to a page in flash.
 */
#define MEMP_NUM_TCP_PCB 8
#define MEMP_NUM_TCP_PCB_LISTEN 2
#define MEMP_NUM_TCP_SEG 32
#define MEMP_NUM_PBUF 32
/* Packets are received into the heap, each with its own length. */
#define PBUF_POOL_SIZE 0

#endif
