/* lwIP's compiler and platform: a hosted C library on Linux. */
#ifndef CC_H
#define CC_H

#include <stdio.h>
#include <stdlib.h>

#define LWIP_PLATFORM_DIAG(arguments) (void)printf arguments
#define LWIP_PLATFORM_ASSERT(text) (fprintf(stderr, "lwIP: %s\n", text), abort())
#define LWIP_RAND() ((u32_t)random())
/* The fastest of lwIP's own. */
#define LWIP_CHKSUM_ALGORITHM 3

#endif
