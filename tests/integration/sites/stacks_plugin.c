/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls back from a frame of ROOM bytes. Two builds of it have their code at
   the same place, with frames of different sizes. */
#include <stddef.h>

void plugin(void (*f)(size_t), size_t size);

void plugin(void (*f)(size_t), size_t size) {
    volatile char room[ROOM];
    room[0] = 1;
    f(size);
    room[1] = room[0];
}
