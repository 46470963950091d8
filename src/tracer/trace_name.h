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
#ifndef MTR_TRACE_NAME_H
#define MTR_TRACE_NAME_H

#include "tracer/recorder.h"

/* rec->output from the pattern. false: too long. */
bool mtr_name_expand(struct mtr_recorder *rec);
enum mtr_output_kind mtr_name_kind(const char *path);

/* A new temporary name in the output's folder; static memory. */
char *mtr_name_temporary(struct mtr_recorder *rec);
/* rec->name with ".spool"; static memory. NULL: no name yet, or too long. */
const char *mtr_name_spool(struct mtr_recorder *rec);
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
void mtr_name_remove_part(const struct mtr_recorder *rec, uint32_t part);

#endif
