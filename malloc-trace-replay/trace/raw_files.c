/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/raw_files.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/collections.h"
#include "common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Parts ---------------------------------------------------------------- */

struct candidate {
    struct mtf_raw_info info;
    bool is_one;
};

static void name_of(char *out, size_t cap, const char *base, unsigned i) {
    (void)snprintf(out, cap, "%s.k%u", base, i);
}

/* Reads the header of the part NAME, or a copy of it behind damage. False: NAME
   is no part. */
static bool read_header(const char *name, uint8_t *buffer,
                        struct mtf_raw_info *info) {
    struct mtf_raw_reader r;
    struct mtf_item item;
    struct tool_input *in = tool_input_open(name);
    bool found = false;
    if (in == NULL)
        return false;
    mtf_raw_reader_init(&r, tool_input_source(in), buffer);
    do {
        mtf_raw_reader_next(&r, &item);
        if (item.kind == MTF_ITEM_HEADER) {
            *info = *item.info;
            found = info->is_part;
        }
    } while (item.kind == MTF_ITEM_DAMAGE);
    tool_input_close(in);
    return found;
}

/* Returns the index of the part that was recorded last, -1: none. It decides
   which recording has the name. */
static int newest(const struct candidate *c) {
    int best = -1;
    for (unsigned i = 0; i < MTF_PARTS; i++)
        if (c[i].is_one &&
            (best < 0 || c[i].info.fixed.wall_ns > c[best].info.fixed.wall_ns))
            best = (int)i;
    return best;
}

/* Opens the parts of the recording with the header WHOSE, ordered by number.
   NAME: scratch memory for a name, CAP bytes. */
static void take(struct tool_parts *p, const struct candidate *c,
                 const struct mtf_raw_header *whose, char *name, size_t cap) {
    for (unsigned i = 0; i < MTF_PARTS; i++) {
        if (!c[i].is_one || !mtf_raw_same_recording(&c[i].info.fixed, whose))
            continue;
        name_of(name, cap, p->base, i);
        struct tool_input *in = tool_input_open(name);
        if (in == NULL)
            continue;
        TCM_ASSERT(p->count < MTF_PARTS);
        unsigned at = p->count++;
        for (; at > 0 && p->part[at - 1] > c[i].info.part; at--) {
            p->part[at] = p->part[at - 1];
            p->in[at] = p->in[at - 1];
        }
        p->part[at] = c[i].info.part;
        p->in[at] = in;
    }
}

bool tool_parts_find(struct tool_parts *p, const char *name, uint8_t *buffer) {
    memset(p, 0, sizeof(*p));
    bool is_part = tool_file_is_part(name);
    if (!is_part && access(name, F_OK) == 0)
        return true;
    struct candidate *c = calloc(MTF_PARTS, sizeof(*c));
    size_t cap = strlen(name) + 16;
    char *path = malloc(cap);
    p->base = strdup(name);
    bool ok = c != NULL && path != NULL && p->base != NULL;
    if (ok) {
        int whose = -1;
        if (is_part) {
            whose = name[strlen(name) - 1] - '0';
            p->base[strlen(name) - 3] = '\0';
        }
        for (unsigned i = 0; i < MTF_PARTS; i++) {
            name_of(path, cap, p->base, i);
            c[i].is_one = read_header(path, buffer, &c[i].info);
        }
        if (!is_part)
            whose = newest(c);
        if (whose >= 0 && c[whose].is_one)
            take(p, c, &c[whose].info.fixed, path, cap);
    }
    if (p->count == 0) {
        free(p->base);
        p->base = NULL;
    }
    free(path);
    free(c);
    return ok;
}

bool tool_parts_at_last(const struct tool_parts *p) {
    return p->at + 1 >= p->count;
}

bool tool_parts_skip(struct tool_parts *p) {
    TCM_ASSERT(p->at + 1 < p->count);
    uint32_t *number = &p->part[p->at];
    bool skips = number[0] + 1 != number[1];
    number[0] = number[1] - 1;
    return skips;
}

struct tool_input *tool_parts_advance(struct tool_parts *p,
                                      struct tool_input *in) {
    TCM_ASSERT(p->at + 1 < p->count && p->in[p->at] == NULL);
    p->past_bytes += tool_input_bytes(in);
    p->past_stored += tool_input_stored_bytes(in);
    tool_input_close(in);
    in = p->in[++p->at];
    p->in[p->at] = NULL;
    return in;
}

uint64_t tool_parts_left_bytes(const struct tool_parts *p) {
    uint64_t n = 0;
    for (unsigned i = p->at + 1; i < p->count; i++)
        n += tool_input_file_size(p->in[i]);
    return n;
}

void tool_parts_close(struct tool_parts *p) {
    for (unsigned i = 0; i < p->count; i++)
        tool_input_close(p->in[i]);
    free(p->base);
}

/* --- Spool ---------------------------------------------------------------- */

void tool_spool_init(struct tool_spool *s) {
    memset(s, 0, sizeof(*s));
    s->fd = -1;
    s->status = MTF_SYSTEM;
}

/* --- Spool: opening ------------------------------------------------------- */

/* Reads up to N bytes at OFFSET; short only at the end of the file. False with
   errno on failure. */
static bool read_at(int fd, uint64_t offset, void *buf, size_t n, size_t *got) {
    uint8_t *p = buf;
    *got = 0;
    while (*got < n) {
        ssize_t r = pread(fd, p + *got, n - *got, (off_t)(offset + *got));
        if (r == 0)
            return true;
        if (r < 0 && errno != EINTR)
            return false;
        if (r > 0)
            *got += (size_t)r;
    }
    return true;
}

/* Makes FD, a regular file, the spool's. False: failed, see errno. */
static bool spool_adopt(struct tool_spool *s, int fd, const char *name) {
    struct stat st;
    s->fd = fd;
    s->name = strdup(name);
    if (s->name == NULL || fstat(fd, &st) != 0)
        return false;
    s->size = (uint64_t)st.st_size;
    s->locked = tcm_file_is_locked(fd);
    size_t got;
    if (!read_at(fd, 0, s->page, sizeof(s->page), &got))
        return false;
    s->status = mtf_spool_parse_head(s->page, got, &s->info);
    s->has_mark = s->status == MTF_OK && mtf_spool_get_mark(s->page, &s->mark);
    return true;
}

bool tool_spool_open(struct tool_spool *s, const char *name) {
    struct stat st;
    if (stat(name, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    if (!S_ISREG(st.st_mode))
        return true;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && spool_adopt(s, fd, name);
}

bool tool_spool_copy(struct tool_spool *s, struct tool_input *in) {
    char path[4096];
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || *dir == '\0')
        dir = "/tmp";
    if (snprintf(path, sizeof(path), "%s/spoolXXXXXX", dir) >=
        (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return false;
    (void)unlink(path);
    static uint8_t chunk[65536];
    size_t got;
    enum mtf_source_result r;
    while ((r = tool_input_read(in, chunk, sizeof(chunk), &got)) ==
           MTF_SOURCE_DATA) {
        if (!tcm_io_write_all(fd, chunk, got)) {
            int error = errno;
            close(fd);
            errno = error;
            return false;
        }
    }
    if (r == MTF_SOURCE_BREAK) {
        s->fault.kind = MTF_ITEM_DAMAGE;
        s->fault.status = tool_input_status(in);
        s->fault.file_offset = tool_input_source(in)->break_offset;
        s->fault.skipped = tool_input_source(in)->break_skipped;
    } else if (r == MTF_SOURCE_ERROR) {
        errno = tool_input_source(in)->error;
        close(fd);
        return false;
    }
    return spool_adopt(s, fd, tool_input_name(in));
}

void tool_spool_close(struct tool_spool *s) {
    if (s->fd >= 0)
        close(s->fd);
    free(s->name);
    free(s->entries);
    free(s->buffer);
}

/* --- Spool: reading ------------------------------------------------------- */

static bool spool_add(struct tool_spool *s, uint64_t position,
                      const struct mtf_spool_buffer *head) {
    if (!tool_array_reserve(&s->entries, &s->capacity, s->count + 1,
                            sizeof(*s->entries)))
        return false;
    s->entries[s->count++] = (struct tool_spool_entry){position, *head};
    return true;
}

static int entry_order(const void *va, const void *vb) {
    const struct tool_spool_entry *a = va, *b = vb;
    if (a->head.thread != b->head.thread)
        return a->head.thread < b->head.thread ? -1 : 1;
    if (a->head.offset != b->head.offset)
        return a->head.offset < b->head.offset ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* Returns the next multiple of the unit, from POSITION on, that is not in a
   hole; UINT64_MAX: only a hole follows. */
static uint64_t skip_hole(int fd, uint64_t position) {
    off_t data = lseek(fd, (off_t)position, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? UINT64_MAX : position;
    return tcm_max_u64(position,
                       tcm_align_down((uint64_t)data, MTF_SPOOL_UNIT));
}

/* Notes how much of the trace had been saved when a buffer was emptied, which
   its head says, whether the buffer is in use or not. */
static void note_emptied(struct tool_spool *s, uint64_t position,
                         const struct mtf_spool_buffer *head) {
    if (head->saved > s->emptied) {
        s->emptied = head->saved;
        s->emptied_at = position;
    }
}

enum mtf_status tool_spool_scan(struct tool_spool *s, uint64_t random) {
    s->buffer = malloc(MTF_SEGMENT_MAX + 8);
    if (s->buffer == NULL)
        return MTF_NO_MEMORY;
    uint64_t at = MTF_SPOOL_UNIT;
    while ((at = skip_hole(s->fd, at)) < s->size) {
        uint8_t bytes[sizeof(struct mtf_spool_buffer)];
        struct mtf_spool_buffer head;
        size_t got;
        if (!read_at(s->fd, at, bytes, sizeof(bytes), &got))
            return MTF_SYSTEM;
        if (got == sizeof(bytes) &&
            mtf_spool_parse_buffer(bytes, random, &head)) {
            if (!spool_add(s, at, &head))
                return MTF_NO_MEMORY;
            note_emptied(s, at, &head);
            at += tcm_align_up(head.size, MTF_SPOOL_UNIT);
        } else {
            /* The sync word is the last of a head to be written and the first
               to be taken away. */
            head.size = 0;
            if (got == sizeof(bytes) && head.sync == 0)
                note_emptied(s, at, &head);
            if (got == sizeof(bytes) && head.sync == MTF_SPOOL_BUFFER_SYNC &&
                !spool_add(s, at, &head))
                return MTF_NO_MEMORY;
            at += MTF_SPOOL_UNIT;
        }
    }
    if (s->count != 0)
        qsort(s->entries, s->count, sizeof(*s->entries), entry_order);
    return MTF_OK;
}

void tool_spool_set_fault(struct tool_spool *s, enum mtf_status status,
                          uint64_t offset, uint64_t skipped) {
    s->fault.kind = MTF_ITEM_DAMAGE;
    s->fault.status = status;
    s->fault.file_offset = offset;
    s->fault.skipped = skipped;
}

/*
 * Tells whether the bytes at P are the beginning of an event that was being
 * written when the process was killed: one store, then zeros. It was not
 * published, so nothing is lost.
 */
static bool is_torn(const uint8_t *p, const uint8_t *end) {
    for (p += 8; p < end; p++)
        if (*p != 0)
            return false;
    return true;
}

/*
 * Cuts ITEM, the events of a buffer of SIZE bytes with its head, where their
 * thread says that it has given memory: the time before which the first piece
 * was published is known.
 */
static void cut_given(struct tool_spool *s, struct mtf_item *item,
                      size_t size) {
    struct mtf_spool_given given;
    bool ended;
    memcpy(&given, s->buffer + size - sizeof(given), sizeof(given));
    size_t from = sizeof(struct mtf_spool_buffer);
    if (given.given <= from || given.given - from > item->length ||
        given.time_ns <= item->time_lo)
        return;
    size_t n = given.given - from;
    /* Nothing guards these bytes: a place inside an event is wrong. */
    if (mtf_raw_events_length(item->data, item->data + n, &ended) != n ||
        !ended)
        return;
    item->time_hi = given.time_ns;
    if (n == item->length)
        return;
    s->rest = *item;
    s->rest.offset += n;
    s->rest.data += n;
    s->rest.length -= (uint32_t)n;
    s->rest.time_lo = given.time_ns;
    s->rest.time_hi = UINT64_MAX;
    item->length = (uint32_t)n;
}

/* Bytes between the first event of E, the entry that is read, and that of the
   next buffer of its thread; UINT64_MAX: there is none. */
static uint64_t room_before_next(const struct tool_spool *s,
                                 const struct tool_spool_entry *e) {
    const struct tool_spool_entry *next = e + 1;
    if (s->next == s->count || next->head.size == 0 ||
        next->head.thread != e->head.thread ||
        next->head.offset <= e->head.offset)
        return UINT64_MAX;
    return next->head.offset - e->head.offset;
}

bool tool_spool_next(struct tool_spool *s, struct mtf_item *item) {
    for (;;) {
        if (s->rest.kind == MTF_ITEM_DATA) {
            *item = s->rest;
            s->rest.kind = 0;
            return true;
        }
        if (s->fault.kind == MTF_ITEM_DAMAGE) {
            *item = s->fault;
            s->fault.kind = 0;
            return true;
        }
        if (s->next == s->count)
            return false;
        const struct tool_spool_entry *e = &s->entries[s->next++];
        size_t got;
        if (e->head.size == 0) {
            tool_spool_set_fault(s, MTF_DAMAGED, e->position, MTF_SPOOL_UNIT);
            continue;
        }
        if (!read_at(s->fd, e->position, s->buffer, e->head.size, &got)) {
            tool_spool_set_fault(s, MTF_SYSTEM, e->position, e->head.size);
            s->fault.error = errno;
            continue;
        }
        size_t from = sizeof(struct mtf_spool_buffer);
        if (got < from) {
            tool_spool_set_fault(s, MTF_CUT, e->position, got);
            continue;
        }
        bool ended;
        memset(s->buffer + got, 0, 8);
        size_t n =
            mtf_raw_events_length(s->buffer + from, s->buffer + got, &ended);
        size_t used = from + n;
        bool cut = got < e->head.size;
        size_t tail = cut ? 0 : sizeof(struct mtf_spool_given);
        bool torn = used < got - tail &&
                    is_torn(s->buffer + used, s->buffer + got - tail);
        if (cut ? !ended || used == got : !ended && !torn)
            tool_spool_set_fault(s, cut ? MTF_CUT : MTF_DAMAGED,
                                 e->position + used, got - used);
        /* A damaged event may seem longer than it is. The next buffer's head,
           which has a checksum, tells where the events of this one end. */
        uint64_t most = room_before_next(s, e);
        if (n > most) {
            tool_spool_set_fault(s, MTF_DAMAGED, e->position + from + most,
                                 n - most);
            n = most;
        }
        if (n == 0)
            continue;
        item->kind = MTF_ITEM_DATA;
        item->thread = e->head.thread;
        item->file_offset = e->position;
        item->offset = e->head.offset;
        item->buffer_start = e->head.offset;
        item->time_lo = e->head.time_lo;
        item->time_hi = UINT64_MAX;
        item->data = s->buffer + from;
        item->length = (uint32_t)n;
        s->bytes += n;
        s->used += used;
        if (!cut && e->head.size > used + sizeof(struct mtf_spool_given))
            cut_given(s, item, got);
        return true;
    }
}
