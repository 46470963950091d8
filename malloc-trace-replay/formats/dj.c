/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dj and dj-text: recordings of the tracing malloc of glibc's dj/malloc branch.
 *
 * `dj` is an array of records in the recorder's byte order and word size, which
 * the first record tells: its type is MAGIC.
 *
 *     u32 thread, u32 type and path, words: ptr1, ptr2, size, size2, size3
 *
 * A record of 64-bit words has 64 bytes, a record of 32-bit words 36.
 *
 * `dj-text` is the text that early versions wrote, and that trace_dump prints:
 *
 *     N out of M events captured
 *     threadid type     path     ptr1             size             ptr2
 *     00004873 malloc   T------- 0000000000000000 0000000000000018 00007f...
 *
 * All numbers are hexadecimal. The path shows by letters, in the oldest files
 * by digits, which parts of the allocator the call passed. In the newest files
 * two more sizes end the line, the first of them the alignment.
 */
#include "formats/format_reader.h"

#include <string.h>

/* --- Records of both forms ------------------------------------------------ */

enum {
    DJ_UNUSED,
    DJ_MALLOC,
    DJ_CALLOC,
    DJ_FREE,
    DJ_REALLOC,
    DJ_MEMALIGN,
    DJ_VALLOC,
    DJ_PVALLOC,
    DJ_POSIX_MEMALIGN,
    DJ_CALLS,
    DJ_MAGIC = 255
};

struct dj_record {
    uint32_t thread;
    unsigned type;
    uint64_t ptr1, ptr2, size;
    uint64_t size2; /* the alignment, if it is a call with one */
};

/* Kind and call by record type. */
static const struct {
    uint8_t kind, call;
} dj_calls[DJ_CALLS] = {
    [DJ_MALLOC] = {FORMAT_ALLOC, MTF_CALL_MALLOC},
    [DJ_CALLOC] = {FORMAT_ALLOC, MTF_CALL_CALLOC},
    [DJ_FREE] = {FORMAT_FREE, MTF_CALL_FREE},
    [DJ_REALLOC] = {FORMAT_REALLOC, MTF_CALL_REALLOC},
    [DJ_MEMALIGN] = {FORMAT_ALLOC, MTF_CALL_MEMALIGN},
    [DJ_VALLOC] = {FORMAT_ALLOC, MTF_CALL_VALLOC},
    [DJ_PVALLOC] = {FORMAT_ALLOC, MTF_CALL_PVALLOC},
    [DJ_POSIX_MEMALIGN] = {FORMAT_ALLOC, MTF_CALL_POSIX_MEMALIGN},
};

/* Makes an event of the record R. False: R is no call. */
static bool dj_event_of(const struct dj_record *r, struct format_event *e) {
    if (r->type == DJ_UNUSED || r->type >= DJ_CALLS)
        return false;
    e->kind = dj_calls[r->type].kind;
    e->call = dj_calls[r->type].call;
    e->id = r->ptr2;
    e->size = r->size;
    e->thread = r->thread;
    e->flags = FORMAT_THREADED;
    if (r->type == DJ_FREE) {
        e->old = r->ptr1;
        e->id = e->size = 0;
    } else if (r->type == DJ_REALLOC) {
        e->old = r->ptr1;
    } else if (r->type == DJ_POSIX_MEMALIGN && r->ptr1 != 0) {
        e->id = 0; /* ptr1 is an errno: the call failed */
    }
    if (mtf_call_is_aligned_alloc(e->call))
        e->align_log2 = format_align_log2(
            r->type == DJ_PVALLOC && r->size2 == 0 ? 4096 : r->size2);
    return true;
}

/* --- dj ------------------------------------------------------------------- */

#define RECORD_64   ((size_t)64)
#define RECORD_32   ((size_t)36)
#define MAGIC_VALUE 0x1234u

struct state {
    bool known, wide, swapped;
};

static uint32_t load32(const struct state *s, const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return s->swapped ? __builtin_bswap32(v) : v;
}

static uint64_t load_word(const struct state *s, const uint8_t *p, unsigned i) {
    uint64_t v;
    if (!s->wide)
        return load32(s, p + 8 + 4 * (size_t)i);
    memcpy(&v, p + 8 + 8 * (size_t)i, sizeof(v));
    return s->swapped ? __builtin_bswap64(v) : v;
}

static void load(const struct state *s, const uint8_t *p, struct dj_record *r) {
    r->thread = load32(s, p);
    r->type = load32(s, p + 4) & 0xff;
    r->ptr1 = load_word(s, p, 0);
    r->ptr2 = load_word(s, p, 1);
    r->size = load_word(s, p, 2);
    r->size2 = load_word(s, p, 3);
}

/* Finds byte order and word size by the first record, which begins the N bytes
   at P. */
static bool find_layout(struct state *s, const uint8_t *p, size_t n) {
    for (unsigned i = 0; i < 4; i++) {
        struct dj_record r;
        s->wide = (i & 1) == 0;
        s->swapped = (i & 2) != 0;
        if (n < (s->wide ? RECORD_64 : RECORD_32))
            continue;
        load(s, p, &r);
        if (r.type == DJ_MAGIC && r.ptr1 == MAGIC_VALUE &&
            r.size == (s->wide ? 8u : 4u))
            return true;
    }
    return false;
}

static enum format_result next_event(void *state, struct format_reader *reader,
                                     struct format_event *e, const char **why) {
    struct state *s = state;
    struct dj_record r;
    size_t have, bytes;
    const uint8_t *p = format_reader_peek(reader, RECORD_64, &have);
    if (have == 0)
        return FORMAT_END;
    *why = "the first record does not tell the byte order";
    if (!s->known && !find_layout(s, p, have))
        return FORMAT_GIVE_UP;
    s->known = true;
    bytes = s->wide ? RECORD_64 : RECORD_32;
    *why = "ends inside a record";
    if (have < bytes)
        return FORMAT_CUT;
    load(s, p, &r);
    format_reader_take(reader, bytes);
    if (dj_event_of(&r, e))
        return FORMAT_EVENT;
    *why = "unknown type of record";
    return r.type == DJ_UNUSED || r.type == DJ_MAGIC ? FORMAT_NOTHING
                                                     : FORMAT_BAD;
}

/* Reads calls of one thread. Inlined twice: once for the common layout, which
   is then constant. */
static TCM_ALWAYS_INLINE size_t batch_of(const struct state *s,
                                         const uint8_t *p, size_t n,
                                         struct format_batch *b) {
    size_t bytes = s->wide ? RECORD_64 : RECORD_32, at = 0;
    if (n >= bytes)
        b->thread = load32(s, p);
    b->flags = FORMAT_THREADED;
    for (; n - at >= bytes && b->count < FORMAT_BATCH; at += bytes) {
        const uint8_t *r = p + at;
        unsigned type = load32(s, r + 4) & 0xff;
        bool frees = type == DJ_FREE;
        uint64_t old = load_word(s, r, 0);
        uint64_t id = frees ? old : load_word(s, r, 1);
        if (type == DJ_UNUSED || type > DJ_REALLOC || id == 0 ||
            load32(s, r) != b->thread)
            break;
        b->call[b->count++] = (struct format_call){
            .id = id,
            .old = type == DJ_REALLOC ? old : 0,
            .size = frees ? 0 : load_word(s, r, 2),
            .at = (uint32_t)at,
            .kind = dj_calls[type].kind,
            .call = dj_calls[type].call,
        };
    }
    return at;
}

static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    const struct state *s = state;
    static const struct state common = {
        .known = true, .wide = true, .swapped = false};
    if (!s->known)
        return 0;
    return s->wide && !s->swapped ? batch_of(&common, p, n, b)
                                  : batch_of(s, p, n, b);
}

static bool is_dj(const uint8_t *p, size_t n, bool whole) {
    struct state s;
    (void)whole;
    return find_layout(&s, p, n);
}

const struct format_type format_dj = {
    .name = "dj",
    .title = "trace of glibc's dj/malloc branch",
    .has_kernel_ids = true,
    .matches = is_dj,
    .next = next_event,
    .batch = next_batch,
    .state_bytes = sizeof(struct state),
};

/* --- dj-text -------------------------------------------------------------- */

/* Alignments of lines that have none: of valloc and pvalloc, and of others. */
#define PAGE_ALIGN    4096u
#define DEFAULT_ALIGN 16u

/* Takes a word up to the next blank. False: it is empty, or longer than N
   bytes. */
static bool scan_word(const char **p, const char *end, char *word, size_t n) {
    size_t length = 0;
    format_scan_blanks(p, end);
    for (; *p < end && **p != ' '; (*p)++) {
        if (length == n)
            return false;
        word[length++] = **p;
    }
    word[length] = 0;
    return length != 0;
}

static bool type_of(const char *name, unsigned *type) {
    static const char *const names[] = {
        [DJ_UNUSED] = "unused",
        [DJ_MALLOC] = "malloc",
        [DJ_CALLOC] = "calloc",
        [DJ_FREE] = "free",
        [DJ_REALLOC] = "realloc",
        [DJ_MEMALIGN] = "memalign",
        [DJ_VALLOC] = "valloc",
        [DJ_PVALLOC] = "pvalloc",
        [DJ_POSIX_MEMALIGN] = "posix_memalign",
    };
    for (*type = 0; *type < TCM_ARRAY_SIZE(names); ++*type)
        if (strcmp(name, names[*type]) == 0)
            return true;
    *type = DJ_MAGIC;
    return strcmp(name, "magic") == 0;
}

/* Tells whether PATH can be the path that a call took through the allocator.
   Paths are not used. */
static bool is_path(const char *path) {
    return strlen(path) >= 7 && path[strspn(path, "-TcCsMURHuEFf01")] == 0;
}

/* Takes a word of 16 digits; a shorter one is cut. */
static bool scan_word_value(const char **p, const char *end, uint64_t *v) {
    format_scan_blanks(p, end);
    const char *from = *p;
    return format_scan_hex(p, end, v) && *p - from >= 16;
}

static bool read_text_record(const char *p, const char *end,
                             struct dj_record *r) {
    char name[16], path[16];
    uint64_t thread, size3;
    if (!format_scan_hex(&p, end, &thread) || thread > UINT32_MAX || p == end ||
        *p != ' ' || !scan_word(&p, end, name, sizeof(name) - 1) ||
        !type_of(name, &r->type) ||
        !scan_word(&p, end, path, sizeof(path) - 1) || !is_path(path) ||
        !scan_word_value(&p, end, &r->ptr1) ||
        !scan_word_value(&p, end, &r->size) ||
        !scan_word_value(&p, end, &r->ptr2))
        return false;
    r->thread = (uint32_t)thread;
    r->size2 = r->type == DJ_VALLOC || r->type == DJ_PVALLOC ? PAGE_ALIGN
                                                             : DEFAULT_ALIGN;
    return format_scan_at_end(&p, end) ||
           (scan_word_value(&p, end, &r->size2) &&
            scan_word_value(&p, end, &size3) && format_scan_at_end(&p, end));
}

/* Tells whether [P, END) is one of the two lines of the header. */
static bool is_header(const char *p, const char *end) {
    static const char first[] = "threadid ", second[] = " events captured";
    size_t n = (size_t)(end - p);
    return (n >= sizeof(first) - 1 &&
            memcmp(p, first, sizeof(first) - 1) == 0) ||
           memmem(p, n, second, sizeof(second) - 1) != NULL;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct dj_record r;
    (void)state;
    if (is_header(p, end))
        return FORMAT_NOTHING;
    *why = "not a line of trace_dump";
    if (!read_text_record(p, end, &r))
        return FORMAT_BAD;
    return dj_event_of(&r, e) ? FORMAT_EVENT : FORMAT_NOTHING;
}

const struct format_type format_dj_text = {
    .name = "dj-text",
    .title = "trace of glibc's dj/malloc branch, as text",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
