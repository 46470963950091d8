/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_damage.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { PARTS = 6, PARTS_GONE = 2 };

static char folder[64];

static const char *file_name(enum trace_kind kind, unsigned file) {
    static char name[96];
    if (kind >= TRACE_PARTS)
        snprintf(name, sizeof(name), "%s/t.k%u", folder, file);
    else
        snprintf(name, sizeof(name), "%s/t%s", folder,
                 file == 0 ? "" : ".spool");
    return name;
}

void trace_folder_make(void) {
    snprintf(folder, sizeof(folder), "%s/test_order_damage.XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(folder) == NULL)
        tap_bail("mkdtemp: %s", strerror(errno));
}

void trace_folder_remove(void) {
    if (rmdir(folder) != 0)
        tap_diag("%s stays behind", folder);
}

const char *trace_name(const struct trace *t) {
    static char name[96];
    (void)t;
    snprintf(name, sizeof(name), "%s/t", folder);
    return name;
}

/* --- Pieces of the history's trace ---------------------------------------- */

/* A segment as the saver wrote it, and its buffer up to its end. */
struct piece {
    enum mtf_item_kind kind;
    struct mtf_raw_place place;
    uint64_t buffer_lo; /* of its buffer's first segment */
    uint8_t *buffer;
    size_t from, to; /* of its bytes there */
};

struct pieces {
    struct piece *of;
    size_t count;
};

static void add_piece(struct pieces *list, const struct mtf_item *item) {
    struct piece *piece = &list->of[list->count++];
    memset(piece, 0, sizeof(*piece));
    piece->kind = item->kind;
    piece->place =
        (struct mtf_raw_place){item->thread, item->offset, item->buffer_start,
                               item->time_lo, item->time_hi};
    if (item->kind != MTF_ITEM_DATA)
        return;
    piece->from = (size_t)(item->offset - item->buffer_start);
    piece->to = piece->from + item->length;
    piece->buffer = malloc(piece->to);
    piece->buffer_lo = item->time_lo;
    memcpy(piece->buffer + piece->from, item->data, item->length);
    for (size_t i = list->count - 1; i-- != 0 && piece->from != 0;) {
        const struct piece *before = &list->of[i];
        if (before->place.thread == item->thread &&
            before->place.buffer_start == item->buffer_start) {
            memcpy(piece->buffer, before->buffer, piece->from);
            piece->buffer_lo = before->buffer_lo;
            return;
        }
    }
}

static void pieces_make(struct pieces *list, const struct history *h) {
    struct history_reader r;
    struct mtf_item item;
    list->count = 0;
    list->of = calloc(h->trace.length / sizeof(struct mtf_segment) + 1,
                      sizeof(*list->of));
    history_read_begin(&r, h->trace.data, h->trace.length);
    while (history_read_next(&r, &item))
        if (item.kind != MTF_ITEM_HEADER)
            add_piece(list, &item);
    history_read_end(&r);
}

static void pieces_free(struct pieces *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->of[i].buffer);
    free(list->of);
}

static void write_piece(struct mtf_raw_writer *w, const struct piece *piece,
                        bool repeat) {
    struct mtf_raw_place place = piece->place;
    size_t from = piece->from;
    bool ok = true;
    if (piece->kind == MTF_ITEM_BARRIER) {
        ok = mtf_raw_write_barrier(w, place.time_lo) &&
             mtf_raw_writer_end_frame(w);
    } else if (piece->kind == MTF_ITEM_FOOTER) {
        struct mtf_account_value a = {MTF_ACCOUNT_END_REASON, MTF_END_EXIT};
        ok = mtf_raw_write_footer(w, place.time_lo, &a, 1);
    } else if (piece->kind == MTF_ITEM_DATA) {
        if (repeat && from != 0) {
            from = 0;
            place.offset = place.buffer_start;
            place.time_lo = piece->buffer_lo;
        }
        ok = mtf_raw_write_data(w, &place, piece->buffer + from,
                                piece->to - from);
    }
    if (!ok)
        tap_bail("a segment cannot be written");
}

/* --- Places ----------------------------------------------------------------
 */

static struct place *add_place(struct trace *t, unsigned file, size_t from,
                               size_t to) {
    RECORDER_GROW(t->places, t->place_count, t->place_room);
    struct place *place = &t->places[t->place_count++];
    *place = (struct place){.file = file, .from = from, .to = to};
    return place;
}

static void find_places(struct trace *t, unsigned file) {
    const struct bytes *b = &t->files[file];
    struct mtf_raw_header header;
    memcpy(&header, b->data, sizeof(header));
    add_place(t, file, 0, header.length)->is_header = true;
    for (size_t at = header.length; at < b->length;) {
        struct mtf_segment head;
        memcpy(&head, b->data + at, sizeof(head));
        size_t to = at + sizeof(head) + head.length;
        struct place *place = add_place(t, file, at, to);
        place->is_header = head.kind == MTF_SEGMENT_HEADER;
        place->thread = head.kind == MTF_SEGMENT_DATA ? head.thread : 0;
        place->offset = head.offset;
        place->buffer_start = head.buffer_start;
        place->length = head.length;
        at = to;
    }
}

/* --- Files -----------------------------------------------------------------
 */

/* The header of the recording; PART < 0: not one of a part. */
static size_t build_header(uint8_t *out, int part) {
    struct mtf_raw_header h = example_header();
    uint32_t number = (uint32_t)part;
    return mtf_raw_build_full_header(out, &h, "program", "recorder 1", NULL, 0,
                                     part < 0 ? NULL : &number, 0);
}

static void make_plain(struct trace *t, const struct pieces *list) {
    struct mtf_raw_writer w;
    begin_trace(&w, &t->files[0], false);
    for (size_t i = 0; i < list->count; i++)
        write_piece(&w, &list->of[i], false);
    t->file_count = 1;
    find_places(t, 0);
}

/* A frame is a place for each of its segments; the first two have headers. */
static void make_frames(struct trace *t, const struct pieces *list) {
    struct mtf_raw_writer w;
    struct bytes *out = &t->files[0];
    void *memory = begin_trace(&w, out, true);
    size_t frame = 0, first = 0;
    unsigned frames = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct piece *piece = &list->of[i];
        if (first == t->place_count)
            add_place(t, 0, frame, frame)->is_header = frames < 2;
        write_piece(&w, piece, false);
        if (piece->kind == MTF_ITEM_DATA) {
            struct place *place = add_place(t, 0, frame, frame);
            place->thread = piece->place.thread;
            place->offset = piece->place.offset;
            place->buffer_start = piece->place.buffer_start;
            place->length = piece->to - piece->from;
            continue;
        }
        for (; first < t->place_count; first++)
            t->places[first].to = out->length;
        frame = out->length;
        frames++;
    }
    free(memory);
    t->file_count = 1;
}

/* Makes the trace of a killed process: the file up to the middle of the
   history, and the buffers with the rest in the spool. */
static void make_killed(struct trace *t, const struct pieces *list) {
    const struct history *h = t->history;
    struct mtf_raw_writer w;
    struct bytes *spool = &t->files[1];
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t middle = h->barrier_count / 2, i = 0, at = 0;
    begin_trace(&w, &t->files[0], false);
    for (; at < middle; i++) {
        write_piece(&w, &list->of[i], false);
        at += list->of[i].kind == MTF_ITEM_BARRIER;
    }
    find_places(t, 0);
    size_t n = build_header(header, -1);
    uint8_t *page = bytes_room(spool, MTF_SPOOL_UNIT);
    mtf_spool_put_head(page, header, n, 0);
    mtf_spool_mark_of(page)->begun = UINT64_MAX;
    spool->length += MTF_SPOOL_UNIT;
    add_place(t, 1, 0, 64 + n); /* the file has the header too */
    for (; i < list->count; i++) {
        const struct piece *piece = &list->of[i];
        bool is_last = piece->kind == MTF_ITEM_DATA;
        for (size_t k = i + 1; is_last && k < list->count; k++)
            is_last =
                list->of[k].place.thread != piece->place.thread ||
                list->of[k].place.buffer_start != piece->place.buffer_start;
        if (!is_last)
            continue;
        struct mtf_spool_buffer head = {0};
        mtf_spool_put_buffer(&head, example_header().random, MTF_SPOOL_UNIT,
                             piece->place.thread, piece->place.buffer_start,
                             piece->buffer_lo);
        uint8_t *p = bytes_room(spool, MTF_SPOOL_UNIT);
        memset(p, 0, MTF_SPOOL_UNIT);
        memcpy(p, &head, sizeof(head));
        memcpy(p + sizeof(head), piece->buffer, piece->to);
        struct place *place =
            add_place(t, 1, spool->length, spool->length + sizeof(head));
        spool->length += MTF_SPOOL_UNIT;
        place->in_spool = true;
        place->thread = piece->place.thread;
        place->offset = place->buffer_start = piece->place.buffer_start;
        place->length = piece->to;
    }
    t->file_count = 2;
}

/* Tells whether the buffer of piece I was begun before piece FIRST. */
static bool is_older(const struct pieces *list, size_t i, size_t first) {
    for (size_t k = first; k < i; k++)
        if (list->of[k].kind == MTF_ITEM_DATA &&
            list->of[k].place.thread == list->of[i].place.thread &&
            list->of[k].place.buffer_start == list->of[i].place.buffer_start)
            return false;
    return list->of[i].kind == MTF_ITEM_DATA && list->of[i].from != 0;
}

static void make_parts(struct trace *t, const struct pieces *list) {
    struct mtf_raw_writer w;
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t first = 0, barriers = 0;
    unsigned part = 0, file = 0;
    struct bytes *out = &t->files[0];
    mtf_raw_writer_init(&w, bytes_sink, out, NULL, 0);
    mtf_raw_write_header(&w, header, build_header(header, 0));
    for (size_t i = 0; i < list->count; i++) {
        write_piece(&w, &list->of[i], is_older(list, i, first));
        barriers += list->of[i].kind == MTF_ITEM_BARRIER;
        if (barriers <= (part + 1) * t->history->barrier_count / PARTS ||
            part + 1 == PARTS)
            continue;
        first = i + 1;
        part++;
        if (t->kind == TRACE_LATE_PARTS && part <= PARTS_GONE)
            bytes_free(out);
        else
            file++;
        w.ctx = out = &t->files[file];
        mtf_raw_write_part(&w, header, build_header(header, (int)part));
    }
    t->file_count = file + 1;
    for (file = 0; file < t->file_count; file++)
        find_places(t, file);
}

static void save_file(const struct trace *t, unsigned file) {
    const char *name = file_name(t->kind, file);
    const struct bytes *b = &t->files[file];
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, b->data, b->length) != (ssize_t)b->length ||
        close(fd) != 0)
        tap_bail("%s: %s", name, strerror(errno));
}

/* --- Events ----------------------------------------------------------------
 */

static int by_place(const void *va, const void *vb) {
    const struct history_event *a = ((const struct traced *)va)->event;
    const struct history_event *b = ((const struct traced *)vb)->event;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void find_events(struct trace *t) {
    const struct history *h = t->history;
    t->events = calloc(h->event_count, sizeof(*t->events));
    for (size_t i = 0; i < h->event_count; i++) {
        const struct history_event *e = &h->events[i];
        if (e->thread > t->stream_count)
            t->stream_count = e->thread;
        for (size_t k = 0; k < t->place_count; k++) {
            const struct place *place = &t->places[k];
            if (place->thread != e->stream || e->offset < place->offset ||
                e->offset - place->offset >= place->length)
                continue;
            t->events[t->event_count++] =
                (struct traced){e, place->buffer_start};
            break;
        }
    }
    qsort(t->events, t->event_count, sizeof(*t->events), by_place);
}

void trace_make(struct trace *t, enum trace_kind kind) {
    struct history_options o = {.seed = 11 + kind,
                                .threads = 4,
                                .events = 4000,
                                .buffer_bytes = 384,
                                .end_permille = 5,
                                .saver_seed = kind,
                                .round_ns = 4000,
                                .jitter_ns = 200};
    struct pieces list;
    memset(t, 0, sizeof(*t));
    t->kind = kind;
    t->history = malloc(sizeof(*t->history));
    history_make(t->history, &o);
    pieces_make(&list, t->history);
    if (kind == TRACE_PLAIN)
        make_plain(t, &list);
    else if (kind == TRACE_LZ4)
        make_frames(t, &list);
    else if (kind == TRACE_SPOOL)
        make_killed(t, &list);
    else
        make_parts(t, &list);
    pieces_free(&list);
    find_events(t);
    for (unsigned file = 0; file < t->file_count; file++)
        save_file(t, file);
}

void trace_free(struct trace *t) {
    for (unsigned file = 0; file < t->file_count; file++) {
        (void)unlink(file_name(t->kind, file));
        bytes_free(&t->files[file]);
    }
    history_free(t->history);
    free(t->history);
    free(t->places);
    free(t->events);
}

/* --- Damage ----------------------------------------------------------------
 */

/* A file without any header cannot be read. */
static void miss_header(struct trace *t, unsigned file) {
    bool known = false, any = false;
    for (size_t i = 0; i < t->place_count; i++) {
        struct place *place = &t->places[i];
        if (place->file != file || t->files[file].length == 0)
            continue;
        any = any || place->is_header;
        known = known || (place->is_header && !place->hit);
        place->hit = place->hit || !known;
    }
    if (known || !any)
        return;
    /* a recording in parts is not recognized as one then */
    t->may_refuse = t->kind < TRACE_PARTS;
    t->may_be_silent = true;
}

static void mark_hits(struct trace *t, const struct damage *d, bool cut) {
    size_t end = cut ? SIZE_MAX : d->at + d->length;
    bool spool = t->kind == TRACE_SPOOL && d->file == 1;
    t->may_refuse = false;
    /* A cut between two segments looks like a kill there, and an unused buffer
       of a spool is zeroed. */
    t->may_be_silent = t->kind == TRACE_SPOOL && d->length != 1;
    t->may_invent = spool; /* of events inside its buffers; see below */
    for (size_t i = 0; i < t->place_count; i++) {
        struct place *place = &t->places[i];
        place->hit =
            place->file == d->file && place->to > d->at && place->from < end;
        if (place->hit && d->length == 1)
            t->may_invent = false;
    }
    t->may_be_silent = t->may_be_silent || t->may_invent;
    if (!spool)
        miss_header(t, d->file);
    for (size_t i = 0; spool && i < t->place_count; i++) {
        struct place *place = &t->places[i];
        place->hit |= place->in_spool && place->from < end &&
                      place->from + MTF_SPOOL_UNIT > d->at;
    }
}

static void store(const struct trace *t, const struct damage *d,
                  const uint8_t *bytes, size_t length) {
    const char *name = file_name(t->kind, d->file);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 ||
        pwrite(fd, bytes, d->length, (off_t)d->at) != (ssize_t)d->length ||
        ftruncate(fd, (off_t)length) != 0 || close(fd) != 0)
        tap_bail("%s: %s", name, strerror(errno));
}

void trace_damage(struct trace *t, struct prng *p, struct damage *d) {
    d->file = (unsigned)prng_below(p, t->file_count);
    const struct bytes *b = &t->files[d->file];
    d->at = prng_below(p, b->length);
    unsigned how = (unsigned)prng_below(p, 4);
    size_t length = b->length;
    d->length = 1;
    d->how = "a change";
    if (how == 2) {
        d->how = "zeros";
        d->length = 4096;
    } else if (how == 3) {
        d->how = "a cut";
        d->length = length = b->length - d->at;
        length = d->at;
    } else if (how == 1) { /* a head, which a random offset would seldom hit */
        size_t i = prng_below(p, t->place_count);
        d->file = t->places[i].file;
        b = &t->files[d->file];
        length = b->length;
        d->at = t->places[i].from + prng_below(p, sizeof(struct mtf_segment));
        if (d->at >= length)
            d->at = length - 1;
    }
    if (how != 3 && prng_below(p, 10) == 0) /* magics */
        d->at = prng_below(p, 8);
    if (d->length > b->length - d->at)
        d->length = b->length - d->at;
    d->saved = malloc(d->length);
    memcpy(d->saved, b->data + d->at, d->length);
    uint8_t *bytes = calloc(1, d->length);
    if (how < 2)
        bytes[0] = d->saved[0] ^ (uint8_t)(1 + prng_below(p, 255));
    store(t, d, bytes, length);
    free(bytes);
    mark_hits(t, d, how == 3);
}

void trace_lengthen(struct trace *t, const struct place *place,
                    struct damage *d) {
    static const uint8_t event[] = {0x81}; /* goes on in the zeros behind it */
    const struct bytes *b = &t->files[place->file];
    d->how = "an event at the end";
    d->file = place->file;
    d->at = place->to + place->length;
    d->length = 1;
    d->saved = malloc(1);
    d->saved[0] = b->data[d->at];
    store(t, d, event, b->length);
    mark_hits(t, d, false);
}

void trace_mend(struct trace *t, struct damage *d) {
    store(t, d, d->saved, t->files[d->file].length);
    free(d->saved);
}

bool trace_may_lack(const struct trace *t, const struct traced *e) {
    for (size_t i = 0; i < t->place_count; i++) {
        const struct place *place = &t->places[i];
        if (place->hit && place->thread == e->event->stream &&
            place->buffer_start == e->buffer_start &&
            place->offset <= e->event->offset)
            return true;
    }
    return false;
}
