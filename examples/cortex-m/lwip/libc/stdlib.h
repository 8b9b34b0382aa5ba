/* The heap, as src/bin/lwip.rs has it. What is linked calls neither of the last two. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

void *heap_take(size_t bytes);
void heap_give(void *memory);
void *heap_take_zeroed(size_t count, size_t bytes);
int atoi(const char *text);

#endif
