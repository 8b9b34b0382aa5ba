/* lwIP's compiler and platform: no C library, and no console. */
#ifndef CC_H
#define CC_H

#define LWIP_NO_INTTYPES_H 1
#define LWIP_NO_LIMITS_H 1
#define LWIP_NO_UNISTD_H 1
#define LWIP_NO_CTYPE_H 1

/* As where a product is built: its assertions are for those who look for a mistake. */
#ifndef WITH_ASSERTIONS
#define LWIP_NOASSERT 1
#endif
/* Ends the firmware; src/bin/lwip.rs has it. */
void lwip_failed(const char *text);
#define LWIP_PLATFORM_ASSERT(text) lwip_failed(text)
#define LWIP_PLATFORM_DIAG(arguments) ((void)0)

#endif
