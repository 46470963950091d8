/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the output and its spool: patterns, and how a file gets its name
 * without taking it from a living recording or a finished one of the same run.
 *
 *   no %p     OUTPUT, replaced; the first free one of .1, .2, ... if a living
 *             recording has it. An image that the recorded process execs takes
 *             the number after its predecessor's, and a later start of the same
 *             process the first number that is free or has an older file
 *   with %p   every process, each the first free one of OUTPUT, .1, .2, ...
 *
 * Threads: the one that starts a recording, then the saver.
 */
#ifndef TCM_TRACER_TRACE_NAME_H
#define TCM_TRACER_TRACE_NAME_H

#include "tracer/recorder.h"

/* Sets rec->output and its kind from the pattern. Returns 0 or the errno of
   what is wrong with it. */
int mtr_name_expand(struct mtr_recorder *rec);
/* The second half of mtr_name_expand, for an output whose kind is not known
   yet. */
int mtr_name_resolve(struct mtr_recorder *rec);
/* Opens an output that is not a file. -1: errno says why. */
int mtr_name_open_output(struct mtr_recorder *rec, int flags);

/*
 * The output's folder, which has all files that are named below. It is looked
 * up each time, checking the owners of links on the way, unless it is kept
 * open: by threads with their own descriptor table that need it often, or for a
 * short time.
 */
bool mtr_folder_keep_open(struct mtr_recorder *rec);
void mtr_folder_release(struct mtr_recorder *rec);
/* A descriptor of the folder, for mtr_folder_close. -1: errno says why. */
int mtr_folder(struct mtr_recorder *rec);
void mtr_folder_close(struct mtr_recorder *rec, int folder);
/* Opens an existing file that is not a link. -1: errno says why. */
int mtr_folder_open(struct mtr_recorder *rec, const char *name, int flags);
void mtr_folder_remove(struct mtr_recorder *rec, const char *name);

/* The name of the output itself, without its folder. */
const char *mtr_name_output(const struct mtr_recorder *rec);
/* A new temporary name, in static memory. */
char *mtr_name_temporary(struct mtr_recorder *rec);
/* rec->name with ".spool", in static memory. NULL: there is no name yet, or it
   is too long. */
const char *mtr_name_spool(const struct mtr_recorder *rec);
/* Chooses rec->name and renames TEMP to its spool. */
bool mtr_name_place_spool(struct mtr_recorder *rec, const char *temp);
/* Renames TEMP to the spool of rec->name, if no file has that name. */
bool mtr_name_renew_spool(struct mtr_recorder *rec, const char *temp);
/* Renames the output TEMP to rec->name, which it chooses if there is no spool.
   false: errno says why. */
bool mtr_name_place_output(struct mtr_recorder *rec, const char *temp);
/* The name of part NUMBER, in static memory. */
const char *mtr_name_part(const struct mtr_recorder *rec, uint32_t number);
/* mtr_name_place_output for part PART of a flight recording. With the first
   part it removes what an earlier recording left under the name. */
bool mtr_name_place_part(struct mtr_recorder *rec, const char *temp,
                         uint32_t part);
void mtr_name_remove_part(struct mtr_recorder *rec, uint32_t part);

#endif
