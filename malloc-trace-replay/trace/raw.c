/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/raw.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/input.h"
#include "trace/raw_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum phase {
    PHASE_FILE,
    PHASE_SPOOL_START,
    PHASE_SPOOL,
    PHASE_END,
    PHASE_FAILED
};

struct tool_raw {
    char *name;
    enum phase phase;
    struct tool_input *in;    /* NULL: the spool alone is read */
    struct tool_ahead *ahead; /* reads IN ahead; NULL: IN is read directly */
    bool read_ahead;          /* wanted, also for the parts to come */
    struct tool_parts parts;  /* of a flight recording; IN is parts.in[at] */
    uint8_t *buffer;          /* of the reader */
    struct mtf_raw_reader reader;
    struct tool_spool spool;
    struct mtf_raw_info info; /* header of the trace, if have_info */
    bool have_info;
    bool growing;
    bool begins_late;
    uint64_t last_barrier;   /* of a growing trace: offset of its last barrier;
                                0: none; UINT64_MAX: the trace is followed */
    bool (*wait)(void *ctx); /* NULL: the trace is not followed */
    void *wait_ctx;
    bool use_spool;  /* the spool is of this recording */
    unsigned checks; /* of the spool's mark against the file that were made */
    bool footer;     /* a footer was read, and no events after it */
    bool exited;     /* the last footer was written at the program's end, and no
                        notice since tells that recording goes on */
    bool torn;       /* exited, and the file may lack the end of its last
                        write */
    uint64_t footer_offset;
    uint64_t account[MTF_ACCOUNT_LIMIT]; /* of the last footer, by field */
    bool has_account[MTF_ACCOUNT_LIMIT];
    bool forced_stop;         /* the last footer or the spool says so */
    uint64_t damages;         /* DAMAGE items so far */
    uint64_t barrier;         /* number of the last barrier, 0: none */
    uint64_t barrier_damages; /* DAMAGE items before it */
    struct mtf_item cut;      /* DAMAGE held back by read_file; kind 0: none */
    struct mtf_item after;    /* the item after it, to be yielded next */
    struct mtf_item failed;
    char text[512]; /* of the last message */
};

/* --- Opening ------------------------------------------------------------ */

static void fail(struct tool_raw *t, enum mtf_status status, int error) {
    t->phase = PHASE_FAILED;
    t->failed.kind = MTF_ITEM_FAILED;
    t->failed.status = status;
    t->failed.error = error;
}

/* Returns the offset of the last barrier in the first SIZE bytes of NAME, or
   0. */
static uint64_t find_last_barrier(struct tool_raw *t, const char *name,
                                  uint64_t size) {
    uint64_t last = 0;
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return 0;
    tool_input_limit(in, size);
    mtf_raw_reader_init(&t->reader, tool_input_source(in), t->buffer);
    struct mtf_item item;
    do {
        mtf_raw_reader_next(&t->reader, &item);
        if (item.kind == MTF_ITEM_BARRIER)
            last = item.file_offset;
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    tool_input_close(in);
    return last;
}

/* Opens the spool of the trace NAME, if there is one. */
static void open_spool(struct tool_raw *t, const char *name) {
    struct tool_spool *s = &t->spool;
    char *spool_name = NULL;
    if (asprintf(&spool_name, "%s.spool", name) < 0) {
        fail(t, MTF_NO_MEMORY, 0);
        return;
    }
    if (!tool_spool_open(s, spool_name)) {
        s->fault.error = errno;
        tool_spool_set_fault(s, MTF_SYSTEM, 0, 0);
        if (s->name == NULL)
            s->name = spool_name, spool_name = NULL;
    }
    free(spool_name);
}

/* Opens the spool of the trace NAME, whose first N bytes are FIRST. The file
   may itself be a spool, which is read alone then. */
static void find_spool(struct tool_raw *t, const char *name,
                       const uint8_t first[8], size_t n) {
    struct tool_spool *s = &t->spool;
    if (n == 8 && memcmp(first, MTF_SPOOL_MAGIC, 8) == 0) {
        bool ok = tool_input_file_size(t->in) != 0 &&
                          !tool_input_is_compressed(t->in) && name != NULL
                      ? tool_spool_open(s, name)
                      : tool_spool_copy(s, t->in);
        if (!ok || s->fd < 0)
            fail(t, MTF_SYSTEM, errno);
        tool_input_close(t->in);
        t->in = NULL;
        t->use_spool = true;
        return;
    }
    struct stat st;
    if (name != NULL &&
        (t->parts.count != 0 || (stat(name, &st) == 0 && S_ISREG(st.st_mode))))
        open_spool(t, name);
}

/* Decides whether the spool is of the recording, once the file's header is
   known (NULL: an empty file has none). */
static void judge_spool(struct tool_raw *t, const struct mtf_raw_info *info) {
    struct tool_spool *s = &t->spool;
    if (s->fd < 0)
        return;
    if (s->status == MTF_OK)
        t->use_spool = info == NULL ||
                       mtf_raw_same_recording(&s->info.fixed, &info->fixed);
    else if (info != NULL &&
             (s->status == MTF_DAMAGED || s->status == MTF_NO_TRACE ||
              s->status == MTF_CUT))
        t->use_spool = true; /* its buffers have checksums */
}

/* Waits for more at the end of what a running recording has written. False: the
   trace ends here. */
static bool wait_for_more(void *ctx) {
    struct tool_raw *t = ctx;
    if (!t->growing)
        return false;
    if (tcm_file_is_locked(t->spool.fd))
        return t->wait(t->wait_ctx);
    /* The recording has ended: all of it is in the file or the spool now. */
    t->growing = false;
    t->use_spool = false;
    tool_spool_close(&t->spool);
    tool_spool_init(&t->spool);
    open_spool(t, t->name);
    if (t->have_info)
        judge_spool(t, &t->info);
    return true;
}

/* Opens the parts of NAME, if it is a flight recording. Returns the name whose
   spool belongs to the trace. */
static const char *open_parts(struct tool_raw *t, const char *name) {
    if (name == NULL)
        return NULL;
    if (!tool_parts_find(&t->parts, name, t->buffer)) {
        fail(t, MTF_NO_MEMORY, 0);
        return name;
    }
    if (t->parts.count == 0)
        return name;
    tool_input_close(t->in);
    t->in = t->parts.in[0];
    t->parts.in[0] = NULL;
    t->begins_late = t->parts.part[0] != 0;
    return t->parts.base;
}

static void open_trace(struct tool_raw *t, const char *name) {
    struct tool_spool *s = &t->spool;
    name = open_parts(t, name);
    if (t->phase == PHASE_FAILED)
        return;
    if (t->in == NULL)
        t->in = tool_input_open(name);
    if (t->in == NULL && errno == ENOENT && name != NULL) {
        char *spool_name = NULL;
        if (asprintf(&spool_name, "%s.spool", name) < 0) {
            fail(t, MTF_NO_MEMORY, 0);
            return;
        }
        if (!tool_spool_open(s, spool_name) || s->fd < 0)
            fail(t, MTF_SYSTEM, ENOENT);
        free(spool_name);
        t->use_spool = true;
    } else if (t->in == NULL) {
        fail(t, errno == ENOMEM ? MTF_NO_MEMORY : MTF_SYSTEM, errno);
    } else {
        uint8_t first[8];
        size_t n = tool_input_peek(t->in, first);
        find_spool(t, name, first, n);
    }
    if (t->phase == PHASE_FAILED)
        return;
    if (t->in == NULL) {
        t->growing = s->locked;
        t->phase = PHASE_SPOOL_START;
        return;
    }
    if (t->parts.count != 0 && s->fd >= 0 && s->locked && s->status == MTF_OK) {
        /* All parts are whole except the last, which may end with a half
           written segment; the reader does not wait for the rest of it. */
        struct tool_input *last =
            t->parts.count == 1 ? t->in : t->parts.in[t->parts.count - 1];
        tool_input_limit(last, tool_input_file_size(last));
        t->growing = true;
    } else if (s->fd >= 0 && s->locked && s->status == MTF_OK &&
               t->wait != NULL && tool_input_file_size(t->in) != 0) {
        tool_input_follow(t->in, wait_for_more, t);
        t->last_barrier = UINT64_MAX;
        t->growing = true;
    } else if (s->fd >= 0 && s->locked && s->status == MTF_OK) {
        uint64_t size = tool_input_file_size(t->in);
        t->last_barrier = find_last_barrier(t, name, size);
        t->growing =
            t->reader.have_header
                ? mtf_raw_same_recording(&t->reader.info.fixed, &s->info.fixed)
                : size == 0;
        if (t->growing)
            tool_input_limit(t->in, size);
    } else if (t->wait != NULL && !tool_input_is_file(t->in)) {
        tool_input_follow(t->in, t->wait, t->wait_ctx);
    }
    mtf_raw_reader_init(&t->reader, tool_input_source(t->in), t->buffer);
}

static struct tool_raw *new_raw(struct tool_input *in, const char *name,
                                bool (*wait)(void *ctx), void *ctx) {
    struct tool_raw *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        tool_input_close(in);
        return NULL;
    }
    t->in = in;
    t->wait = wait;
    t->wait_ctx = ctx;
    tool_spool_init(&t->spool);
    if (name != NULL && strcmp(name, "-") == 0)
        name = NULL;
    t->name = strdup(name == NULL ? "standard input" : name);
    t->failed.file = t->name;
    t->buffer = malloc(MTF_READER_BUFFER);
    if (t->name == NULL || t->buffer == NULL) {
        tool_raw_close(t);
        return NULL;
    }
    open_trace(t, name);
    return t;
}

struct tool_raw *tool_raw_from_input(struct tool_input *in, const char *name) {
    return new_raw(in, name, NULL, NULL);
}

struct tool_raw *tool_raw_open(const char *name) {
    return new_raw(NULL, name, NULL, NULL);
}

struct tool_raw *tool_raw_follow(struct tool_input *in, const char *name,
                                 bool (*wait)(void *ctx), void *ctx) {
    return new_raw(in, name, wait, ctx);
}

bool tool_raw_is_file(const char *name) {
    struct stat st;
    return name != NULL && strcmp(name, "-") != 0 &&
           (stat(name, &st) != 0 || S_ISREG(st.st_mode));
}

/* Makes the reader begin with IN. */
static void start_reader(struct tool_raw *t) {
    TCM_ASSERT(t->in != NULL && t->phase == PHASE_FILE);
    t->ahead = t->read_ahead ? tool_ahead_start(t->in) : NULL;
    mtf_raw_reader_init(&t->reader,
                        t->ahead != NULL ? tool_ahead_source(t->ahead)
                                         : tool_input_source(t->in),
                        t->buffer);
}

void tool_raw_read_ahead(struct tool_raw *t) {
    if (t->wait != NULL) /* wait is called by the thread of the items */
        return;
    t->read_ahead = true;
    if (t->in != NULL && t->phase == PHASE_FILE)
        start_reader(t);
}

void tool_raw_close(struct tool_raw *t) {
    if (t == NULL)
        return;
    tool_ahead_stop(t->ahead);
    tool_input_close(t->in);
    tool_parts_close(&t->parts);
    tool_spool_close(&t->spool);
    free(t->name);
    free(t->buffer);
    free(t);
}

/* Bytes of IN that were read so far, decompressed. */
static uint64_t file_bytes(const struct tool_raw *t) {
    if (t->ahead != NULL)
        return tool_ahead_bytes(t->ahead);
    return t->in == NULL ? 0 : tool_input_bytes(t->in);
}

static uint64_t file_stored_bytes(const struct tool_raw *t) {
    if (t->ahead != NULL)
        return tool_ahead_stored_bytes(t->ahead);
    return t->in == NULL ? 0 : tool_input_stored_bytes(t->in);
}

/* --- File against spool --------------------------------------------------- */

/* Makes ITEM a DAMAGE item, and returns true. */

static bool dispute(struct mtf_item *item, enum mtf_status status,
                    uint64_t offset, uint64_t lost) {
    item->kind = MTF_ITEM_DAMAGE;
    item->status = status;
    item->file_offset = offset;
    item->skipped = lost;
    return true;
}

/* Compares the bytes of the trace that its spool tells of with END, those that
   were found in its file. False: they agree. */
static bool dispute_bytes(struct tool_raw *t, struct mtf_item *item,
                          uint64_t end) {
    const struct tool_spool *s = &t->spool;
    const uint64_t head = sizeof(struct mtf_spool_head);
    uint64_t saved = tcm_max_u64(s->mark.saved, s->emptied);
    if (saved > end && t->in == NULL)
        return dispute(item, MTF_NO_FILE,
                       head + offsetof(struct mtf_spool_mark, saved),
                       saved - end);
    if (saved > end) {
        item->file = t->name;
        item->offset_is_stored = true;
        item->lost_unpacked = tool_raw_frame_name(t) != NULL;
        return dispute(item, MTF_CUT, file_stored_bytes(t), saved - end);
    }
    /* A trace that has its end needs no spool: its age does not matter. */
    if (t->footer)
        return false;
    if (end > s->mark.begun)
        return dispute(item, MTF_NOT_ONE,
                       head + offsetof(struct mtf_spool_mark, begun), 0);
    if (s->emptied > s->mark.saved)
        return dispute(item, MTF_NOT_ONE, s->emptied_at, 0);
    return false;
}

/* Makes the check number CHECK of the spool against the file. False: they
   agree. */
enum { CHECKS = 3 };
static bool is_disputed(struct tool_raw *t, struct mtf_item *item,
                        unsigned check) {
    const struct tool_spool *s = &t->spool;
    const struct mtf_spool_mark *mark = &s->mark;
    uint64_t file =
        t->in == NULL ? 0 : t->reader.info.part_start + file_bytes(t);
    TCM_ASSERT(check < CHECKS && s->has_mark);
    item->file = s->name;
    if (check == 0) /* bytes behind damage were not counted */
        return t->damages == 0 && dispute_bytes(t, item, file);
    if (t->footer)
        return false;
    if (check == 1)
        return s->size < mark->length &&
               dispute(item, MTF_CUT, s->size, mark->length - s->size);
    return (mark->flags & MTF_SPOOL_PRIVATE) != 0 &&
           dispute(item, MTF_PRIVATE,
                   sizeof(struct mtf_spool_head) +
                       offsetof(struct mtf_spool_mark, flags),
                   0);
}

/* Fills ITEM with the next disagreement of file and spool, at the end of the
   file, with a spool that was scanned. False: there is no further one. */
static bool next_dispute(struct tool_raw *t, struct mtf_item *item) {
    while (t->use_spool && t->spool.has_mark && t->checks < CHECKS)
        if (is_disputed(t, item, t->checks++))
            return true;
    return false;
}

/* --- Items ---------------------------------------------------------------- */

static void note_footer(struct tool_raw *t, const struct mtf_item *item) {
    struct mtf_account_value a;
    t->footer = true;
    t->footer_offset = item->file_offset;
    memset(t->has_account, 0, sizeof(t->has_account));
    for (unsigned i = 0; mtf_item_account(item, i, &a); i++)
        if (a.field < MTF_ACCOUNT_LIMIT) {
            t->has_account[a.field] = true;
            t->account[a.field] = a.value;
        }
    uint64_t reason = 0;
    bool has_reason = tool_raw_account(t, MTF_ACCOUNT_END_REASON, &reason);
    t->forced_stop = has_reason && reason == MTF_END_FORCED;
    t->exited = has_reason && reason == MTF_END_EXIT;
}

/* Notes what an item tells of the whole trace. */
static void note_item(struct tool_raw *t, const struct mtf_item *item) {
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        t->info = *item->info;
        t->have_info = true;
        break;
    case MTF_ITEM_DATA:
        t->footer = item->from_spool && t->footer;
        break;
    case MTF_ITEM_FOOTER:
        note_footer(t, item);
        break;
    case MTF_ITEM_NOTICE:
        if (item->number == MTF_NOTICE_END_MODE) {
            t->exited = false;
            t->footer = t->footer && t->use_spool;
        }
        break;
    case MTF_ITEM_DAMAGE:
        t->damages++;
        break;
    default:
        break;
    }
}

/*
 * Tells, at the end of the file, whether the process may have been killed in
 * the middle of the file's last write without a loss. After the footer of a
 * program that ended, every call waits until its events are written, so the
 * call whose event was torn did not return. The kernel cuts the write of a
 * killed process at a page of the file; a file that ends elsewhere was cut
 * later, and the bytes that it lacks are a loss.
 */
static bool is_torn(const struct tool_raw *t) {
    return t->exited && tool_parts_at_last(&t->parts) &&
           file_stored_bytes(t) % MTF_WRITE_UNIT == 0;
}

/*
 * Reads the next item of the file. A process that was killed while it wrote its
 * last frame leaves that frame cut. The cut is no loss if the spool has the
 * frame's events, or if the calls that they belong to did not return. So it is
 * yielded as DAMAGE only if neither holds, or if something follows it.
 */
static void read_file(struct tool_raw *t, struct mtf_item *item) {
    if (t->after.kind != 0) {
        *item = t->after;
        t->after.kind = 0;
        return;
    }
    for (;;) {
        mtf_raw_reader_next(&t->reader, item);
        item->file = t->name;
        bool is_cut = item->kind == MTF_ITEM_DAMAGE && item->status == MTF_CUT;
        if (is_cut && t->cut.kind == 0) {
            t->cut = *item;
            continue;
        }
        if (is_cut) { /* the segment was cut, now its frame */
            t->cut.skipped = tcm_max_u64(t->cut.skipped, item->skipped);
            continue;
        }
        break;
    }
    if (item->kind == MTF_ITEM_END && (t->cut.kind != 0 || !t->footer) &&
        is_torn(t))
        t->torn = t->footer = true;
    if (t->cut.kind == 0)
        return;
    /* In a flight recording, the spool follows the last part only. */
    if (item->kind != MTF_ITEM_END ||
        !(t->torn || (t->use_spool && tool_parts_at_last(&t->parts)))) {
        t->after = *item;
        *item = t->cut;
    }
    t->cut.kind = 0;
}

/* Reads the next item of the file, or of the parts in their order. */
static void read_parts(struct tool_raw *t, struct mtf_item *item) {
    for (;;) {
        read_file(t, item);
        bool is_last = tool_parts_at_last(&t->parts);
        if (item->kind == MTF_ITEM_HEADER && t->parts.at != 0)
            continue;
        if (is_last || item->kind != MTF_ITEM_END)
            return;
        if (tool_parts_skip(&t->parts)) {
            item->kind = MTF_ITEM_DAMAGE;
            item->status = MTF_CUT;
            item->file_offset = file_bytes(t);
            return;
        }
        tool_ahead_stop(t->ahead);
        t->in = tool_parts_advance(&t->parts, t->in);
        start_reader(t);
    }
}

/* Makes a barrier whose number does not follow that of the barrier before a
   DAMAGE item, with the barrier after it: so a loss is found that damaged no
   segment, such as a part that was cut between two segments. */
static void check_barrier(struct tool_raw *t, struct mtf_item *item) {
    uint64_t before = t->barrier;
    bool told = t->damages != t->barrier_damages;
    t->barrier = item->number;
    t->barrier_damages = t->damages;
    /* Every part ends with a barrier. */
    bool whole = before == 0 ? t->parts.at == 0 : item->number <= before + 1;
    if (whole || told)
        return;
    t->after = *item;
    item->kind = MTF_ITEM_DAMAGE;
    item->status = MTF_CUT;
}

/* Fills ITEM with the next item of the file. False: the file is at its end. */
static bool next_of_file(struct tool_raw *t, struct mtf_item *item) {
    read_parts(t, item);
    if (item->kind == MTF_ITEM_BARRIER)
        check_barrier(t, item);
    if (item->kind == MTF_ITEM_DAMAGE && t->growing && t->parts.count != 0 &&
        item->status == MTF_CUT && tool_parts_at_last(&t->parts))
        return false;
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        judge_spool(t, item->info);
        if (t->parts.count != 0)
            return true;
        if (t->last_barrier == UINT64_MAX)
            t->growing = t->growing && t->use_spool;
        if (t->growing && t->last_barrier == 0)
            t->phase = PHASE_END;
        return true;
    case MTF_ITEM_BARRIER:
        if (t->growing && t->parts.count == 0 &&
            item->file_offset >= t->last_barrier)
            t->phase = PHASE_END;
        return true;
    case MTF_ITEM_FAILED:
        if ((item->status != MTF_EMPTY && item->status != MTF_NO_TRACE) ||
            t->spool.fd < 0 || t->spool.status != MTF_OK) {
            t->failed.status = item->status;
            t->failed.error = item->error;
            t->failed.info = item->info;
            t->failed.foreign = item->foreign;
            t->failed.file_offset = item->file_offset;
            t->failed.kind = MTF_ITEM_FAILED;
            t->phase = PHASE_FAILED;
            return true;
        }
        if (item->status == MTF_EMPTY) /* killed before the first write */
            return false;
        item->kind = MTF_ITEM_DAMAGE; /* all copies of the header are lost */
        item->status = MTF_DAMAGED;
        t->phase = PHASE_SPOOL_START;
        return true;
    case MTF_ITEM_END:
        return false;
    default:
        return true;
    }
}

/* Goes on with the spool behind the file. True: ITEM is filled. */
static bool start_spool(struct tool_raw *t, struct mtf_item *item) {
    struct tool_spool *s = &t->spool;
    t->phase = PHASE_SPOOL;
    if (!t->have_info)
        judge_spool(t, NULL);
    /* A trace that has its end needs no spool: a spool that cannot be read is
       no loss. */
    if (t->footer && s->status != MTF_OK)
        s->fault.kind = 0;
    if (s->fd < 0 || !t->use_spool)
        return false;
    struct mtf_spool_head head;
    memcpy(&head, s->page, sizeof(head));
    t->forced_stop |= s->status == MTF_OK && head.end_reason == MTF_END_FORCED;
    item->file = s->name;
    if (!t->have_info && s->status != MTF_OK) {
        fail(t, s->status == MTF_CUT ? MTF_DAMAGED : s->status, 0);
        t->failed.info = s->status == MTF_TOO_NEW ? &s->info : NULL;
        *item = t->failed;
        item->file = s->name;
        return true;
    }
    if (t->growing) {
        t->phase = PHASE_END;
    } else {
        enum mtf_status status = tool_spool_scan(
            s, t->have_info ? t->info.fixed.random : s->info.fixed.random);
        if (status != MTF_OK) {
            fail(t, status, status == MTF_SYSTEM ? errno : 0);
            *item = t->failed;
            item->file = s->name;
            return true;
        }
        if (s->status == MTF_CUT && !t->footer)
            tool_spool_set_fault(s, MTF_CUT, s->size, MTF_SPOOL_UNIT - s->size);
        else if (s->status != MTF_OK && (!t->footer || s->count != 0))
            tool_spool_set_fault(s, MTF_DAMAGED, 0, MTF_SPOOL_UNIT);
    }
    if (t->have_info)
        return false;
    item->kind = MTF_ITEM_HEADER;
    item->info = &s->info;
    item->from_spool = true;
    item->file_offset = head.header_offset;
    item->data = s->page + head.header_offset;
    item->length = s->info.fixed.length;
    return true;
}

void tool_raw_next(struct tool_raw *t, struct mtf_item *item) {
    memset(item, 0, sizeof(*item));
    bool given = false;
    if (t->phase == PHASE_FILE) {
        given = next_of_file(t, item);
        if (!given) {
            memset(item, 0, sizeof(*item));
            t->phase = PHASE_SPOOL_START;
        }
    }
    if (!given && t->phase == PHASE_SPOOL_START)
        given = start_spool(t, item);
    if (!given && t->phase == PHASE_SPOOL) {
        given = next_dispute(t, item);
        if (!given) {
            given = tool_spool_next(&t->spool, item);
            item->file = t->spool.name;
            item->from_spool = true;
        }
        if (!given)
            t->phase = PHASE_END;
    }
    if (!given && t->phase == PHASE_FAILED)
        *item = t->failed;
    else if (!given)
        item->kind = MTF_ITEM_END;
    if (item->file == NULL)
        item->file = t->name;
    note_item(t, item);
}

bool tool_raw_read_header(const char *name, struct mtf_raw_info *info) {
    struct tool_raw *raw = tool_raw_open(name);
    struct mtf_item item = {.kind = MTF_ITEM_DAMAGE};
    while (raw != NULL && item.kind == MTF_ITEM_DAMAGE)
        tool_raw_next(raw, &item);
    bool found = item.kind == MTF_ITEM_HEADER;
    if (found)
        *info = *item.info;
    tool_raw_close(raw);
    return found;
}

/* --- Properties of the trace ---------------------------------------------- */

const char *tool_raw_item_text(struct tool_raw *t,
                               const struct mtf_item *item) {
    char too_new[MTF_TOO_NEW_TEXT];
    const char *why = item->status == MTF_SYSTEM && item->error != 0
                          ? strerror(item->error)
                          : mtf_status_text(item->status);
    if (item->status == MTF_TOO_NEW && item->info != NULL)
        why = mtf_too_new_text(too_new, item->info->fixed.version,
                               MTF_RAW_VERSION,
                               item->info->fixed.must_understand);
    if (item->status == MTF_NO_TRACE && item->foreign != NULL)
        why = item->foreign;
    unsigned long long at = item->file_offset, lost = item->skipped;
    if (item->kind == MTF_ITEM_DAMAGE && lost != 0)
        (void)snprintf(t->text, sizeof(t->text),
                       "%s: byte %llu: %s, %llu bytes%s lost", item->file, at,
                       why, lost,
                       item->lost_unpacked ? " before compression" : "");
    else if (item->status == MTF_SYSTEM && at == 0)
        (void)snprintf(t->text, sizeof(t->text), "%s: %s", item->file, why);
    else
        (void)snprintf(t->text, sizeof(t->text), "%s: byte %llu: %s",
                       item->file, at, why);
    return t->text;
}

bool tool_raw_is_growing(const struct tool_raw *t) {
    return t->growing;
}

bool tool_raw_has_spool(const struct tool_raw *t) {
    return t->use_spool;
}

bool tool_raw_has_file(const struct tool_raw *t) {
    return t->in != NULL;
}

const char *tool_raw_frame_name(const struct tool_raw *t) {
    return t->in != NULL && tool_input_is_compressed(t->in)
               ? tool_input_frame_name(t->in)
               : NULL;
}

bool tool_raw_begins_late(const struct tool_raw *t) {
    return t->begins_late;
}

uint64_t tool_raw_bytes(const struct tool_raw *t) {
    return t->parts.past_bytes + file_bytes(t) + t->spool.bytes;
}

uint64_t tool_raw_stored_bytes(const struct tool_raw *t) {
    uint64_t n = t->parts.past_stored + file_stored_bytes(t);
    if (t->use_spool && t->phase == PHASE_END)
        n += t->spool.used;
    return n;
}

uint64_t tool_raw_total_bytes(const struct tool_raw *t) {
    if (t->last_barrier == UINT64_MAX)
        return 0;
    uint64_t n = t->parts.past_stored +
                 (t->in == NULL ? 0 : tool_input_file_size(t->in));
    return n + tool_parts_left_bytes(&t->parts) +
           (t->use_spool ? t->spool.size : 0);
}

bool tool_raw_complete(const struct tool_raw *t) {
    if (t->damages != 0 || t->growing || !t->have_info ||
        t->phase == PHASE_FAILED)
        return false;
    return !t->forced_stop && (t->footer || t->use_spool);
}

bool tool_raw_forced_stop(const struct tool_raw *t) {
    return t->forced_stop;
}

bool tool_raw_clean_end(const struct tool_raw *t) {
    return t->footer;
}

bool tool_raw_account(const struct tool_raw *t, unsigned field,
                      uint64_t *value) {
    if (field >= MTF_ACCOUNT_LIMIT || !t->has_account[field])
        return false;
    *value = t->account[field];
    return true;
}

uint64_t tool_raw_in_all(const struct tool_raw *t, unsigned field,
                         uint64_t found) {
    uint64_t footer = 0;
    (void)tool_raw_account(t, field, &footer);
    if (t->use_spool && t->spool.status == MTF_OK) {
        struct mtf_spool_lost lost;
        memcpy(&lost, t->spool.page + MTF_SPOOL_UNIT - sizeof(lost),
               sizeof(lost));
        found +=
            field == MTF_ACCOUNT_DROPPED_EVENTS ? lost.dropped : lost.untraced;
    }
    return tcm_max_u64(footer, found);
}

/* --- The footer against the streams -------------------------------------- */

/* Tells whether a count of the FOOTER contradicts the number FOUND in the
   streams. The streams may have less: events of parts that were not kept, and
   of gaps that were open at the end (MAY_BE_LESS). They have more if the
   process was killed after its footer: events that are in the spool, or that
   the next footer would have counted. */
static bool contradicts(const struct tool_raw *t, uint64_t footer,
                        uint64_t found, bool may_be_less) {
    if (found < footer)
        return !may_be_less && !t->begins_late;
    return found > footer && !t->use_spool && !t->torn;
}

static const char *footer_text(struct tool_raw *t, uint64_t footer,
                               const char *what, const char *other,
                               uint64_t found) {
    (void)snprintf(t->text, sizeof(t->text),
                   "%s: byte %llu: the footer counts %llu %s, %s %llu", t->name,
                   (unsigned long long)t->footer_offset,
                   (unsigned long long)footer, what, other,
                   (unsigned long long)found);
    return t->text;
}

const char *tool_raw_footer_problem(struct tool_raw *t,
                                    const struct tool_raw_counts *counts) {
    const struct {
        unsigned field;
        uint64_t found;
        const char *what;
        bool may_be_less;
    } all[] = {
        {MTF_ACCOUNT_MALLOCS, counts->mallocs, "mallocs", false},
        {MTF_ACCOUNT_MEMALIGNS, counts->memaligns, "memaligns", false},
        {MTF_ACCOUNT_REALLOCS, counts->reallocs, "reallocs", false},
        {MTF_ACCOUNT_FREES, counts->frees, "frees", false},
        {MTF_ACCOUNT_FAILED_ALLOCATIONS, counts->failed, "failed", false},
        {MTF_ACCOUNT_UNTRACED_FREES, counts->untraced, "untraced frees", true},
        {MTF_ACCOUNT_DROPPED_EVENTS, counts->dropped, "dropped events", true},
    };
    uint64_t footer = 0, sum = 0;
    bool summed = true;
    if (!t->footer || !tool_raw_complete(t))
        return NULL;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(all); i++) {
        if (!tool_raw_account(t, all[i].field, &footer) ||
            !contradicts(t, footer, all[i].found, all[i].may_be_less))
            continue;
        return footer_text(t, footer, all[i].what, "the trace has",
                           all[i].found);
    }
    for (unsigned f = MTF_ACCOUNT_MALLOCS; f <= MTF_ACCOUNT_FAILED_ALLOCATIONS;
         f++) {
        summed &= tool_raw_account(t, f, &footer);
        sum += footer;
    }
    if (summed && tool_raw_account(t, MTF_ACCOUNT_EVENTS, &footer) &&
        footer != sum)
        return footer_text(t, footer, "events", "but the kinds add up to", sum);
    return NULL;
}

/* --- Threads -------------------------------------------------------------- */

struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id) {
    size_t before = t->ids.count;
    struct raw_thread *r =
        tool_ids_get(&t->ids, &t->thread, sizeof(*t->thread), id);
    if (r == NULL || t->ids.count == before)
        return r;
    r->id = id;
    if (t->begins_late)
        mtf_stream_init_late(&r->stream);
    else
        mtf_stream_init(&r->stream);
    return r;
}

void raw_threads_free(struct raw_threads *t) {
    free(t->thread);
    tool_ids_fini(&t->ids);
}

uint64_t raw_threads_with_events(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++)
        n += t->thread[i].events != 0;
    return n;
}

uint64_t raw_threads_dropped(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++) {
        const struct raw_thread *r = &t->thread[i];
        n += tcm_max_u64(r->gap_events, r->stream.state.dropped);
    }
    return n;
}

uint64_t raw_threads_untraced(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++)
        n += t->thread[i].stream.state.untraced_frees;
    return n;
}

const char *raw_end_problem(const struct tool_raw *t) {
    if (tool_raw_is_growing(t))
        return "still being recorded";
    if (tool_raw_complete(t))
        return NULL;
    return tool_raw_forced_stop(t) ? "recording was forced to stop"
                                   : "ends without a footer, and there is no "
                                     "spool with the rest";
}
