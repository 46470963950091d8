/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the output and its spool: patterns, and how a file gets its name
 * without taking it from a living recording or a finished one of the same run.
 *
 *   no %p     OUTPUT, replaced; the first free of .1, .2, ... if a living
 *             recording has it. An image that the recorded process execs goes
 *             on with the number after its predecessor's, and a later start
 *             of the same process with the first that is not of its own life
 *   with %p   every process, each the first free of OUTPUT, .1, .2, ...
 *
 * Threads: the one that starts a recording, then the saver.
 */
#ifndef TCM_TRACER_TRACE_NAME_H
#define TCM_TRACER_TRACE_NAME_H

#include "tracer/recorder.h"

/* rec->output and its kind from the pattern. 0, or the errno of what is wrong
   with it. */
int mtr_name_expand(struct mtr_recorder *rec);
/* mtr_name_expand for an output whose kind is not known yet. */
int mtr_name_resolve(struct mtr_recorder *rec);
/* Opens an output that is no file. -1: errno tells. */
int mtr_name_open_output(struct mtr_recorder *rec, int flags);

/*
 * Names below are of files in the output's folder. It is found again, with the
 * same care about the owners of links on the way, each time that one is needed,
 * unless it is held: that is for those who need it often, and have a descriptor
 * table to themselves or let go soon.
 */
bool mtr_folder_hold(struct mtr_recorder *rec);
void mtr_folder_let_go(struct mtr_recorder *rec);
/* A descriptor of it, for mtr_folder_done. -1: errno tells. */
int mtr_folder(struct mtr_recorder *rec);
void mtr_folder_done(struct mtr_recorder *rec, int folder);
/* Opens a file that is there, and is no link. -1: errno tells. */
int mtr_folder_open(struct mtr_recorder *rec, const char *name, int flags);
void mtr_folder_remove(struct mtr_recorder *rec, const char *name);

/* The name of the output itself. */
const char *mtr_name_output(const struct mtr_recorder *rec);
/* A new temporary name; static memory. */
char *mtr_name_temporary(struct mtr_recorder *rec);
/* rec->name with ".spool"; static memory. NULL: no name yet, or too long. */
const char *mtr_name_spool(const struct mtr_recorder *rec);
/* Chooses rec->name and renames the spool TEMP to its spool. */
bool mtr_name_place_spool(struct mtr_recorder *rec, const char *temp);
/* Renames TEMP to the spool of rec->name, if nothing has that name. */
bool mtr_name_renew_spool(struct mtr_recorder *rec, const char *temp);
/* Renames the output TEMP to rec->name, which it chooses if there is no spool.
   false: errno tells. */
bool mtr_name_place_output(struct mtr_recorder *rec, const char *temp);
/* The file of part NUMBER (below MTF_PARTS); static memory. */
const char *mtr_name_part(const struct mtr_recorder *rec, uint32_t number);
/* The same as mtr_name_place_output for part PART of a flight recording. With
   the first part what an earlier recording left under the name goes. */
bool mtr_name_place_part(struct mtr_recorder *rec, const char *temp,
                         uint32_t part);
void mtr_name_remove_part(struct mtr_recorder *rec, uint32_t part);

#endif
