/*
 * What differs between the lwIP programs is a profile, fixed when they are compiled:
 *   PROFILE_DEFAULT  what lwIP comes with (a window of 4 segments of 536 bytes)
 *   PROFILE_64K      the largest window without scaling
 *   PROFILE_1M       buffers of 1 MiB, window scaling, SACK to the sender
 * SEGMENT is the largest payload of a segment, in bytes.
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
#define LWIP_STATS 0
#define LWIP_TIMEVAL_PRIVATE 0

/* Memory comes from malloc(), so that no pool is the limit. */
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define MEM_ALIGNMENT 8

#if defined(PROFILE_64K) || defined(PROFILE_1M)
#define TCP_MSS SEGMENT
#define TCP_SND_BUF TCP_WND
#define LWIP_WND_SCALE 1
#endif

#if defined(PROFILE_64K)
#define TCP_WND 0xFFFF
#define TCP_RCV_SCALE 0
#define TCP_SND_QUEUELEN 1024
#define MEMP_NUM_TCP_SEG 1024
#elif defined(PROFILE_1M)
#define TCP_WND (1 << 20)
#define TCP_RCV_SCALE 8
#define TCP_SND_QUEUELEN 8192
#define MEMP_NUM_TCP_SEG 8192
/* The defaults derive these from the buffer and do not fit their 16 bits. */
#define TCP_SNDLOWAT 16384
#define TCP_SNDQUEUELOWAT 1024
#define LWIP_TCP_SACK_OUT 1
#elif !defined(PROFILE_DEFAULT)
#error "compile with -DPROFILE_DEFAULT, -DPROFILE_64K or -DPROFILE_1M"
#endif

#endif
