/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated history as files of each form a recording can have, their damage,
 * and which events that damage may cost.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_DAMAGE_H
#define TESTS_UNIT_TOOLS_ORDER_DAMAGE_H

#include "order_check.h"
#include "order_recorder.h"

#include "prng.h"

enum trace_kind {
    TRACE_PLAIN,
    TRACE_LZ4,
    TRACE_SPOOL,     /* killed: the end is in the spool */
    TRACE_PARTS,     /* of a flight recording */
    TRACE_LATE_PARTS /* the first of them are gone */
};

enum { TRACE_FILES_MAX = 8 };

/* Contents of the bytes [from, to) of a file (in LZ4: of a frame there). */
struct place {
    unsigned file;
    size_t from, to;
    bool is_header; /* or a copy of it */
    bool in_spool;
    bool hit;
    uint32_t thread; /* 0: no data */
    uint64_t offset, buffer_start, length;
};

struct traced {
    const struct history_event *event;
    uint64_t buffer_start;
};

struct trace {
    enum trace_kind kind;
    struct history *history;
    struct bytes files[TRACE_FILES_MAX];
    unsigned file_count;
    struct place *places; /* in the order in which they are read */
    size_t place_count, place_room;
    struct traced *events; /* by stream and offset */
    size_t event_count;
    uint32_t stream_count; /* the greatest thread */
    /* of the present damage */
    bool may_refuse;    /* no header is left, or no magic */
    bool may_be_silent; /* the format cannot show it */
    bool may_invent;    /* bytes without a checksum were changed */
};

struct damage {
    const char *how;
    unsigned file;
    size_t at, length;
    uint8_t *saved; /* bytes that it replaced */
};

void trace_folder_make(void);
void trace_folder_remove(void);

void trace_make(struct trace *t, enum trace_kind kind);
void trace_free(struct trace *t);
/* Name to open. */
const char *trace_name(const struct trace *t);

/* Damages one place of a file, and sets T's effects of the present damage. */
void trace_damage(struct trace *t, struct prng *p, struct damage *d);
/* Makes the events of PLACE, a buffer of a spool, seem longer than they are. */
void trace_lengthen(struct trace *t, const struct place *place,
                    struct damage *d);
void trace_mend(struct trace *t, struct damage *d);
/* Tells whether the damage may have lost the event E. */
bool trace_may_lack(const struct trace *t, const struct traced *e);

#endif
