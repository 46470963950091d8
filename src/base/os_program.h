/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that this process runs.
 *
 * Threads: any. No memory is allocated, errno stays.
 */
#ifndef TCM_BASE_OS_PROGRAM_H
#define TCM_BASE_OS_PROGRAM_H

#include "base/compiler.h"

/* The path of the program's file into PATH, which has ROOM bytes, terminated
   and perhaps cut. Also of a program that was given to the loader as an
   argument. Returns its length, 0 if it is not known. */
size_t tcm_os_program_path(char *path, size_t room);

#endif
