/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/raw_reader.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/checksum.h"
#include "traceformat/proc_layout.h"

#include <string.h>

/* Bytes behind the buffer's last used one that can be read. */
#define PADDING 8u

/*
 * Bounds of the checksums computed in damage. There, every sync word may begin
 * a segment of 1 MiB, whose checksum must be computed to refuse it. So the
 * bytes that may be summed are bounded in proportion to the bytes skipped,
 * which suffices for any trace that is not forged.
 */
#define BUDGET_START ((uint64_t)16 << 20)
#define BUDGET_BYTE  32u
/* Bytes without a magic that are searched for a copy of the header before the
   file counts as no trace. */
#define DOUBT_BYTES ((uint64_t)2 * MTF_RAW_FRAME_BYTES)

#define HEADER_MIN (sizeof(struct mtf_raw_header) + 8)
/* must-understand bits this reader knows. */
#define KNOWN_BITS 0u

/* --- Header ------------------------------------------------------------- */

static void copy_text(char out[256], const uint8_t *p, size_t n) {
    n = n < 255 ? n : 255;
    memcpy(out, p, n);
    out[n] = '\0';
}

static void parse_fields(const uint8_t *p, const uint8_t *end,
                         struct mtf_raw_info *info) {
    while (end - p >= 4) {
        uint16_t tag, n;
        memcpy(&tag, p, 2);
        memcpy(&n, p + 2, 2);
        p += 4;
        if (tag == MTF_TAG_END || n > end - p)
            return;
        if (tag == MTF_TAG_EXECUTABLE)
            copy_text(info->executable, p, n);
        else if (tag == MTF_TAG_LIBRARY)
            copy_text(info->library, p, n);
        else if (tag == MTF_TAG_ALLOCATOR)
            copy_text(info->allocator, p, n);
        else if (tag == MTF_TAG_PART && n == sizeof(info->part)) {
            info->is_part = true;
            memcpy(&info->part, p, sizeof(info->part));
        } else if (tag == MTF_TAG_PART_START && n == sizeof(info->part_start))
            memcpy(&info->part_start, p, sizeof(info->part_start));
        else if (tag == MTF_TAG_FORK && n == sizeof(info->fork))
            memcpy(&info->fork, p, sizeof(info->fork));
        p += n;
    }
}

static bool is_too_new(const struct mtf_raw_info *info) {
    return info->fixed.version > MTF_RAW_VERSION ||
           (info->fixed.must_understand & ~KNOWN_BITS) != 0;
}

enum mtf_status mtf_raw_parse_header(const uint8_t *p, size_t n,
                                     struct mtf_raw_info *info) {
    memset(info, 0, sizeof(*info));
    if (n < sizeof(info->fixed.magic) ||
        memcmp(p, MTF_RAW_MAGIC, sizeof(info->fixed.magic)) != 0)
        return MTF_NO_TRACE;
    if (n < HEADER_MIN)
        return MTF_CUT;
    memcpy(&info->fixed, p, sizeof(info->fixed));
    size_t length = info->fixed.length;
    if (length < HEADER_MIN || length > MTF_RAW_HEADER_MAX || length % 8 != 0)
        return MTF_DAMAGED;
    if (length > n)
        return MTF_CUT;
    uint64_t sum;
    memcpy(&sum, p + length - 8, sizeof(sum));
    if (tcm_checksum_of(p, length - 8, 0) != sum || info->fixed.version == 0)
        return MTF_DAMAGED;
    if (is_too_new(info))
        return MTF_TOO_NEW;
    parse_fields(p + sizeof(info->fixed), p + length - 8, info);
    return MTF_OK;
}

bool mtf_raw_same_recording(const struct mtf_raw_header *a,
                            const struct mtf_raw_header *b) {
    return a->pid == b->pid && a->process_start == b->process_start &&
           a->random == b->random;
}

/* --- Window on the source ----------------------------------------------- */

void mtf_raw_reader_init(struct mtf_raw_reader *r, struct mtf_source *source,
                         void *buffer) {
    memset(r, 0, sizeof(*r));
    r->source = source;
    r->buffer = buffer;
    r->check_budget = BUDGET_START;
}

/* Makes N bytes (at most a segment) available at head, or as many as there are.
   false: the source failed. */
static bool make_available(struct mtf_raw_reader *r, size_t n) {
    size_t capacity = MTF_READER_BUFFER - PADDING;
    TCM_ASSERT(n <= capacity / 2);
    TCM_ASSERT(r->head <= r->tail && r->tail <= capacity);
    while (r->tail - r->head < n && !r->at_break && !r->at_end) {
        if (capacity - r->head < n || r->head == r->tail) {
            memmove(r->buffer, r->buffer + r->head, r->tail - r->head);
            r->base += r->head;
            r->tail -= r->head;
            r->head = 0;
        }
        size_t got = 0;
        switch (r->source->read(r->source, r->buffer + r->tail,
                                capacity - r->tail, &got)) {
        case MTF_SOURCE_DATA:
            TCM_ASSERT(got != 0 && got <= capacity - r->tail);
            r->tail += got;
            break;
        case MTF_SOURCE_BREAK:
            r->at_break = true;
            break;
        case MTF_SOURCE_END:
            r->at_end = true;
            break;
        case MTF_SOURCE_ERROR:
            return false;
        }
    }
    return true;
}

static size_t available(const struct mtf_raw_reader *r) {
    return r->tail - r->head;
}

/* --- One segment -------------------------------------------------------- */

/* Result of a check for a segment. */
enum segment_check {
    SEGMENT_VALID,
    SEGMENT_BAD,
    SEGMENT_CUT, /* cut by the end or a break of the source */
    SEGMENT_ERROR
};

static bool may_check(struct mtf_raw_reader *r, size_t bytes) {
    if (!r->lost)
        return true;
    if (r->check_budget < bytes)
        return false;
    r->check_budget -= bytes;
    return true;
}

/* Checks for a valid segment at head. */
static enum segment_check check_segment(struct mtf_raw_reader *r,
                                        struct mtf_segment *head) {
    if (!make_available(r, sizeof(*head)))
        return SEGMENT_ERROR;
    if (available(r) < sizeof(*head))
        return SEGMENT_CUT;
    memcpy(head, r->buffer + r->head, sizeof(*head));
    if (head->sync != MTF_SEGMENT_SYNC || head->length > MTF_SEGMENT_MAX)
        return SEGMENT_BAD;
    bool is_header = head->kind == MTF_SEGMENT_HEADER;
    if (!is_header && !r->have_header)
        return SEGMENT_BAD;
    size_t bytes = sizeof(*head) + head->length;
    if (!make_available(r, bytes))
        return SEGMENT_ERROR;
    if (available(r) < bytes)
        return SEGMENT_CUT;
    if (!may_check(r, bytes))
        return SEGMENT_BAD;
    const uint8_t *p = r->buffer + r->head;
    struct tcm_checksum sum;
    tcm_checksum_begin(&sum, is_header ? 0 : r->info.fixed.random);
    tcm_checksum_add(&sum, p, offsetof(struct mtf_segment, checksum));
    tcm_checksum_add(&sum, p + sizeof(*head), head->length);
    return tcm_checksum_end(&sum) == head->checksum ? SEGMENT_VALID
                                                    : SEGMENT_BAD;
}

/* --- Damage ------------------------------------------------------------- */

static void begin_loss(struct mtf_raw_reader *r, enum mtf_status status) {
    if (!r->lost) {
        r->lost = true;
        r->lost_from = r->base + r->head;
        r->lost_bytes = 0;
        r->lost_status = status;
    }
    if (status == MTF_DAMAGED)
        r->lost_status = status;
}

/* Skips one byte, and on to the next sync word or the end of the bytes in
   memory. */
static void skip_to_sync(struct mtf_raw_reader *r) {
    const uint32_t sync = MTF_SEGMENT_SYNC;
    const uint8_t *from = r->buffer + r->head;
    const uint8_t *end = r->buffer + r->tail;
    if (from == end)
        return;
    const uint8_t *p =
        memmem(from + 1, (size_t)(end - from) - 1, &sync, sizeof(sync));
    if (p == NULL) {
        /* A sync word may be cut here. */
        size_t keep = r->at_end || r->at_break ? 0 : sizeof(sync) - 1;
        p = (size_t)(end - from) > keep ? end - keep : from + 1;
    }
    size_t n = (size_t)(p - from);
    TCM_ASSERT(n != 0 && p <= end);
    r->head += n;
    r->lost_bytes += n;
    r->check_budget += BUDGET_BYTE * (uint64_t)n;
}

static void give_loss(struct mtf_raw_reader *r, struct mtf_item *item) {
    TCM_ASSERT(r->lost);
    item->kind = MTF_ITEM_DAMAGE;
    item->status = r->lost_status;
    item->file_offset = r->lost_from;
    item->skipped = r->lost_bytes;
    r->lost = false;
}

static void give_break(struct mtf_raw_reader *r, struct mtf_item *item) {
    item->kind = MTF_ITEM_DAMAGE;
    item->status = r->source->status;
    item->file_offset = r->source->break_offset;
    item->skipped = r->source->break_skipped;
    item->offset_is_stored = true;
    r->at_break = false;
}

/* --- Items -------------------------------------------------------------- */

static void give_failure(struct mtf_raw_reader *r, struct mtf_item *item,
                         enum mtf_status status, int error) {
    r->over = true;
    r->failure = status;
    item->kind = MTF_ITEM_FAILED;
    item->status = status;
    item->error = error;
    item->info = status == MTF_TOO_NEW ? &r->info : NULL;
    item->foreign = status == MTF_NO_TRACE ? r->foreign : NULL;
    item->file_offset = r->base + r->head;
}

static void give_header(struct mtf_raw_reader *r, struct mtf_item *item,
                        const uint8_t *bytes) {
    r->have_header = true;
    r->header_given = true;
    item->kind = MTF_ITEM_HEADER;
    item->info = &r->info;
    item->data = bytes;
    item->length = r->info.fixed.length;
}

/* Yields a copy of the header in place of a lost one. *BAD: it is not valid. */
static bool give_header_copy(struct mtf_raw_reader *r, struct mtf_item *item,
                             const uint8_t *p, uint32_t length, bool *bad) {
    enum mtf_status status = mtf_raw_parse_header(p, length, &r->info);
    if (status == MTF_TOO_NEW) {
        give_failure(r, item, status, 0);
        return true;
    }
    *bad = status != MTF_OK;
    if (!*bad)
        give_header(r, item, p);
    return !*bad;
}

/* Fills ITEM from a valid segment. false: nothing to yield, or the segment
   contradicts itself (*BAD). */
static bool give_segment(struct mtf_raw_reader *r, struct mtf_item *item,
                         const struct mtf_segment *head, bool *bad) {
    const uint8_t *payload = r->buffer + r->head + sizeof(*head);
    item->file_offset = r->base + r->head;
    item->data = payload;
    item->length = head->length;
    item->time_lo = head->time_lo;
    item->time_hi = tcm_max_u64(head->time_lo, head->time_hi);
    *bad = false;
    switch (head->kind) {
    case MTF_SEGMENT_DATA:
        item->kind = MTF_ITEM_DATA;
        item->thread = head->thread;
        item->offset = head->offset;
        item->buffer_start = head->buffer_start;
        *bad = head->thread == MTF_THREAD_NONE || head->length == 0 ||
               head->offset > MTF_STREAM_OFFSET_MAX ||
               head->buffer_start > head->offset;
        break;
    case MTF_SEGMENT_BARRIER:
        item->kind = MTF_ITEM_BARRIER;
        *bad = head->length < 8;
        item->number = mtf_load_le64(payload);
        break;
    case MTF_SEGMENT_SAMPLE:
        item->kind = MTF_ITEM_SAMPLE;
        break;
    case MTF_SEGMENT_NOTICE:
        item->kind = MTF_ITEM_NOTICE;
        *bad = head->length < 2;
        item->number = mtf_load_le64(payload) & 0xFFFF;
        break;
    case MTF_SEGMENT_FOOTER:
        item->kind = MTF_ITEM_FOOTER;
        break;
    case MTF_SEGMENT_PRESENT:
        item->kind = MTF_ITEM_PRESENT;
        break;
    case MTF_SEGMENT_SITES:
        item->kind = MTF_ITEM_SITES;
        break;
    case MTF_SEGMENT_HEADER:
        if (r->header_given)
            return false;
        return give_header_copy(r, item, payload, head->length, bad);
    default:
        return false; /* of a later version */
    }
    return !*bad;
}

bool mtf_item_account(const struct mtf_item *item, unsigned i,
                      struct mtf_account_value *account) {
    if ((item->kind != MTF_ITEM_SAMPLE && item->kind != MTF_ITEM_FOOTER) ||
        i >= item->length / MTF_ACCOUNT_BYTES)
        return false;
    *account = mtf_get_account(item->data + (size_t)MTF_ACCOUNT_BYTES * i);
    return true;
}

bool mtf_item_present(const struct mtf_item *item, unsigned i,
                      struct mtf_present *present) {
    if (item->kind != MTF_ITEM_PRESENT || i >= item->length / sizeof(*present))
        return false;
    memcpy(present, item->data + sizeof(*present) * i, sizeof(*present));
    return true;
}

bool mtf_item_site_def(const struct mtf_item *item, uint32_t *at,
                       struct mtf_event *e) {
    struct mtf_raw_state state = {0};
    if (item->kind != MTF_ITEM_SITES)
        return false;
    while (*at < item->length) {
        int n = mtf_raw_decode_slow(&state, item->data + *at,
                                    item->data + item->length, e);
        if (n <= 0)
            return false;
        *at += (uint32_t)n;
        if (e->kind == MTF_EVENT_SITE_DEF)
            return true;
    }
    return false;
}

/* --- The sequence ------------------------------------------------------- */

static enum mtf_status kind_of_magic(const uint8_t *p) {
    if (memcmp(p, MTF_SPOOL_MAGIC, 8) == 0)
        return MTF_IS_SPOOL;
    if (memcmp(p, MTF_PROC_MAGIC, 8) == 0)
        return MTF_IS_PROCESSED;
    return MTF_NO_TRACE;
}

/* True if the source broke here because of damage, not because it ends. */
static bool is_broken(const struct mtf_raw_reader *r) {
    return r->at_break && r->source->status == MTF_DAMAGED;
}

/* Makes the header available, or the bytes in its place. Requests no more than
   the header has: in a trace that grows, further bytes may take a long time. */
static bool make_header_available(struct mtf_raw_reader *r) {
    struct mtf_raw_header h;
    if (!make_available(r, sizeof(h)))
        return false;
    if (available(r) >= sizeof(h)) {
        memcpy(&h, r->buffer + r->head, sizeof(h));
        if (memcmp(h.magic, MTF_RAW_MAGIC, sizeof(h.magic)) == 0 &&
            h.length <= MTF_RAW_HEADER_MAX)
            return make_available(r, h.length);
    }
    return make_available(r, MTF_RAW_HEADER_MAX);
}

/* Reads the beginning of the trace. true: ITEM is filled. false: segments
   follow. */
static bool read_start(struct mtf_raw_reader *r, struct mtf_item *item) {
    r->started = true;
    if (!make_header_available(r)) {
        give_failure(r, item, r->source->status, r->source->error);
        return true;
    }
    const uint8_t *p = r->buffer + r->head;
    enum mtf_status status = mtf_raw_parse_header(p, available(r), &r->info);
    switch (status) {
    case MTF_OK:
        give_header(r, item, p);
        r->head += r->info.fixed.length;
        return true;
    case MTF_TOO_NEW:
        give_failure(r, item, status, 0);
        return true;
    case MTF_NO_TRACE:
        r->foreign = mtf_foreign_text(p, available(r));
        if (available(r) >= 8)
            status = kind_of_magic(p);
        else if (available(r) == 0)
            status = MTF_EMPTY;
        /* The first bytes may be damaged, and copies of the header follow. */
        if (r->at_break && available(r) < 8)
            return false;
        if (!is_broken(r) && mtf_foreign_magic(p, available(r)) != NULL) {
            give_failure(r, item, status, 0);
            return true;
        }
        if (is_broken(r) || (status == MTF_NO_TRACE &&
                             (r->source->framed || available(r) >= 8))) {
            r->doubtful = !is_broken(r);
            return false;
        }
        give_failure(r, item, status, 0);
        return true;
    default:
        begin_loss(r, status);
        return false;
    }
}

/* Handles HOW, by which no valid segment begins at head. true: ITEM is filled.
 */
static bool handle_fault(struct mtf_raw_reader *r, struct mtf_item *item,
                         enum segment_check how) {
    r->doubtful = r->doubtful && !r->have_header && !is_broken(r);
    if (r->doubtful && (available(r) == 0 || r->lost_bytes > DOUBT_BYTES)) {
        give_failure(r, item, MTF_NO_TRACE, 0);
        item->file_offset = 0;
        return true;
    }
    if (available(r) != 0) {
        begin_loss(r, how == SEGMENT_BAD ? MTF_DAMAGED : MTF_CUT);
        skip_to_sync(r);
        return false;
    }
    if (r->lost)
        give_loss(r, item);
    else if (r->at_break)
        give_break(r, item);
    else {
        r->over = true;
        item->kind = MTF_ITEM_END;
    }
    return true;
}

void mtf_raw_reader_next(struct mtf_raw_reader *r, struct mtf_item *item) {
    memset(item, 0, sizeof(*item));
    if (r->over) {
        item->kind = r->failure == MTF_OK ? MTF_ITEM_END : MTF_ITEM_FAILED;
        item->status = r->failure;
        item->error = r->source->error;
        item->foreign = r->failure == MTF_NO_TRACE ? r->foreign : NULL;
        return;
    }
    if (!r->started && read_start(r, item))
        return;
    for (;;) {
        struct mtf_segment head;
        enum segment_check check = check_segment(r, &head);
        if (check == SEGMENT_ERROR) {
            give_failure(r, item, r->source->status, r->source->error);
            return;
        }
        if (check != SEGMENT_VALID) {
            if (handle_fault(r, item, check))
                return;
            continue;
        }
        if (r->lost) {
            give_loss(r, item);
            return;
        }
        bool bad;
        bool given = give_segment(r, item, &head, &bad);
        size_t bytes = sizeof(head) + head.length;
        if (bad) {
            item->kind = MTF_ITEM_DAMAGE;
            item->status = MTF_DAMAGED;
            item->skipped = bytes;
        }
        r->head += bytes;
        if (given || bad)
            return;
    }
}

/* --- Spool -------------------------------------------------------------- */

enum mtf_status mtf_spool_parse_head(const uint8_t *page, size_t n,
                                     struct mtf_raw_info *info) {
    struct mtf_spool_head head;
    memset(info, 0, sizeof(*info));
    if (n < 8 || memcmp(page, MTF_SPOOL_MAGIC, 8) != 0)
        return MTF_NO_TRACE;
    if (n < MTF_SPOOL_UNIT)
        return MTF_CUT;
    memcpy(&head, page, sizeof(head));
    if (tcm_checksum_of(page, offsetof(struct mtf_spool_head, checksum), 0) !=
            head.checksum ||
        head.version == 0 || head.header_offset < sizeof(head) ||
        head.header_offset > n - HEADER_MIN)
        return MTF_DAMAGED;
    info->fixed.version = head.version;
    info->fixed.must_understand = head.must_understand;
    if (is_too_new(info))
        return MTF_TOO_NEW;
    enum mtf_status status = mtf_raw_parse_header(page + head.header_offset,
                                                  n - head.header_offset, info);
    return status == MTF_NO_TRACE ? MTF_DAMAGED : status;
}

bool mtf_spool_get_mark(const uint8_t *page, struct mtf_spool_mark *mark) {
    struct mtf_spool_head head;
    memcpy(&head, page, sizeof(head));
    memset(mark, 0, sizeof(*mark));
    if (head.header_offset < sizeof(head) + sizeof(*mark))
        return false;
    memcpy(mark, page + sizeof(head), sizeof(*mark));
    return true;
}

bool mtf_spool_parse_buffer(const uint8_t *p, uint64_t random,
                            struct mtf_spool_buffer *head) {
    memcpy(head, p, sizeof(*head));
    if (head->sync == 0) /* not in use */
        return false;
    head->sync = MTF_SPOOL_BUFFER_SYNC; /* the checksum decides */
    return head->size > sizeof(*head) && head->size <= MTF_SEGMENT_MAX &&
           head->thread != MTF_THREAD_NONE &&
           head->offset <= MTF_STREAM_OFFSET_MAX &&
           tcm_checksum_of(head, offsetof(struct mtf_spool_buffer, checksum),
                           random) == head->checksum;
}

/* --- Streams ------------------------------------------------------------ */

void mtf_stream_init(struct mtf_stream *s) {
    memset(s, 0, sizeof(*s));
    s->lost = true;
}

void mtf_stream_init_late(struct mtf_stream *s) {
    mtf_stream_init(s);
    s->may_be_late = true;
}

void mtf_stream_lose(struct mtf_stream *s) {
    s->lost = true;
}

void mtf_stream_place(struct mtf_stream *s, const struct mtf_item *item,
                      struct mtf_placement *out) {
    memset(out, 0, sizeof(*out));
    out->data = item->data;
    uint64_t start = item->offset;
    uint64_t end = start + item->length;
    TCM_ASSERT(item->kind == MTF_ITEM_DATA);
    TCM_ASSERT(item->buffer_start <= start && start <= MTF_STREAM_OFFSET_MAX);
    if (s->may_be_late) {
        s->may_be_late = false;
        s->before = start != item->buffer_start;
        s->next_offset = start;
    }
    if (end <= s->next_offset) {
        out->doubled = item->length;
        return;
    }
    if (start > s->next_offset) {
        out->gap = start - s->next_offset;
        s->next_offset = start;
        s->lost = true;
    }
    uint64_t at = s->next_offset;
    out->doubled = at - start;
    s->next_offset = end;
    const uint8_t *data = item->data + out->doubled;
    TCM_ASSERT(out->doubled <= item->length);
    if (at == item->buffer_start)
        s->lost = !mtf_raw_is_buffer_event(data, item->data + item->length);
    if (s->lost) {
        if (s->before && at != item->buffer_start)
            out->before = end - at;
        else
            out->undecodable = end - at;
        return;
    }
    s->before = false;
    out->data = data;
    out->length = (size_t)(end - at);
}
