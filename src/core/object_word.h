/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The object word of a block: of a small object in a table of its span, which
 * is made when first asked for, of a large block in its span's record.
 *
 * Builds without object words have none: the functions do nothing.
 *
 * Threads: any, for a block that the caller owns.
 */
#ifndef TCM_CORE_OBJECT_WORD_H
#define TCM_CORE_OBJECT_WORD_H

#include "core/core_config.h"

/* Address of the object word of PTR, the start of a block in use; its table is
   made if MAKE. NULL: there is no table. Words of a new table and of a new
   large block are 0. What a small object's word has when it is freed stays
   there until it is allocated again, or its span goes. */
uint64_t *tcm_object_word(const void *ptr, bool make);

/* The word of OBJECT, for an entry. tcm_no_word if there is no memory for a
   table: fast paths store to a word without a check. */
uint64_t *tcm_object_word_or_none(const void *object);
extern uint64_t tcm_no_word;

#endif
