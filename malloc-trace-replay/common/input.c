/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/input.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/queue.h"
#include "common/stop.h"
#include "common/unpack.h"
#include "traceformat/proc_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if TCM_HAVE_LZ4
#include <lz4frame.h>
#endif

/* Largest LZ4 block with its length and checksum, so that the bytes behind a
   broken block's start can be read again. Most of it stays untouched while
   blocks are small. */
#define WINDOW ((size_t)4 << 20 | (size_t)64 << 10)
/* Most bytes that one system call reads. */
#define READ_AHEAD ((size_t)256 << 10)
/* Bytes that may be scanned twice, at the start and more for each new byte: the
   supposed contents of a broken block may be the frames after it. The bound
   keeps hostile input from taking quadratic time. */
#define REWORK_START ((uint64_t)16 << 20)
#define REWORK_BYTE  4u

static const uint32_t frame_magic = 0x184D2204u;
#define FRAME_HEAD_MIN 7u
#define BLOCK_HEAD     4u

enum tool_input_state { BETWEEN_FRAMES, IN_FRAME, RESYNC };

struct tool_input {
    struct mtf_source source;
    int fd;
    char *name;
    bool is_file; /* regular */
    uint64_t file_size;
    uint64_t limit;
    bool (*wait)(void *ctx); /* of tool_input_follow, or NULL */
    void *wait_ctx;
    uint64_t bytes; /* given to the caller */
    /* stored bytes [head, tail) of the window are not used yet; window[0] has
       offset base in the file */
    uint8_t *window;
    size_t head, tail;
    uint64_t base;
    bool at_end;
    bool sniffed;
    bool compressed;
    /* LZ4 */
    enum tool_input_state state;
    enum mtf_status break_status; /* RESYNC: to be reported */
    uint64_t break_offset;
    uint64_t break_from;  /* first stored byte that is lost */
    uint64_t frame_start; /* offset of its magic */
    uint64_t piece_start; /* offset of the piece in the decoder */
    size_t piece_left;    /* bytes of the piece that are not decoded yet */
    size_t hint;          /* bytes that the decoder wants next */
    uint64_t rework;      /* bytes that may still be scanned again */
    uint64_t furthest;    /* offset up to which bytes were scanned */
#if TCM_HAVE_LZ4
    LZ4F_dctx *context;
#endif
    enum tool_packing packing; /* other than LZ4 */
    struct tool_unpack *unpack;
    bool over; /* damage has ended the packed bytes */
    /* of tool_input_of_source; NULL: the bytes are the descriptor's */
    struct mtf_source *from;
    uint64_t (*stored_from)(struct mtf_source *from);
    void (*end_from)(struct mtf_source *from);
    /* bytes that tool_input_peek_bytes has shown and no read has taken */
    uint8_t looked[TOOL_INPUT_PEEK_MAX];
    size_t looked_at, looked_length;
    enum mtf_source_result after_looked; /* result behind them if not DATA */
};

/* --- Opening ------------------------------------------------------------ */

static enum mtf_source_result source_read(struct mtf_source *s, void *buf,
                                          size_t n, size_t *got) {
    return tool_input_read(TCM_CONTAINER_OF(s, struct tool_input, source), buf,
                           n, got);
}

struct tool_input *tool_input_from_fd(int fd, const char *name) {
    struct stat st;
    struct tool_input *in = calloc(1, sizeof(*in));
    if (in == NULL)
        return NULL;
    in->fd = fd;
    in->name = strdup(name);
    in->window = malloc(WINDOW);
    if (in->name == NULL || in->window == NULL) {
        in->fd = -1;
        tool_input_close(in);
        errno = ENOMEM;
        return NULL;
    }
    in->source.read = source_read;
    in->limit = UINT64_MAX;
    in->rework = REWORK_START;
    in->after_looked = MTF_SOURCE_DATA;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        in->is_file = true;
        in->file_size = (uint64_t)st.st_size;
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    return in;
}

struct tool_input *
tool_input_of_source(struct mtf_source *from, const char *name,
                     uint64_t file_bytes,
                     uint64_t (*stored)(struct mtf_source *from),
                     void (*end)(struct mtf_source *from)) {
    struct tool_input *in = calloc(1, sizeof(*in));
    if (in == NULL || (in->name = strdup(name)) == NULL) {
        free(in);
        return NULL;
    }
    in->fd = -1;
    in->source.read = source_read;
    in->limit = UINT64_MAX;
    in->after_looked = MTF_SOURCE_DATA;
    in->file_size = file_bytes;
    in->from = from;
    in->stored_from = stored;
    in->end_from = end;
    return in;
}

struct tool_input *tool_input_open(const char *name) {
    if (name == NULL || strcmp(name, "-") == 0)
        return tool_input_from_fd(STDIN_FILENO, "standard input");
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct tool_input *in = tool_input_from_fd(fd, name);
    if (in == NULL) {
        close(fd);
        errno = ENOMEM;
    }
    return in;
}

#if TCM_HAVE_LZ4
static void free_decoder(struct tool_input *in) {
    LZ4F_freeDecompressionContext(in->context);
}
#else
static void free_decoder(struct tool_input *in) {
    (void)in;
}
#endif

void tool_input_close(struct tool_input *in) {
    if (in == NULL)
        return;
    if (in->from != NULL)
        in->end_from(in->from);
    free_decoder(in);
    tool_unpack_free(in->unpack);
    if (in->fd >= 0)
        close(in->fd);
    free(in->window);
    free(in->name);
    free(in);
}

/* --- Stored bytes ------------------------------------------------------- */

static enum mtf_source_result fail(struct tool_input *in,
                                   enum mtf_status status, int error) {
    in->source.status = status;
    in->source.error = error;
    return MTF_SOURCE_ERROR;
}

static uint64_t head_offset(const struct tool_input *in) {
    return in->base + in->head;
}

/* Tells whether a read would not sleep. */
static bool is_ready(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

/* Works like read(2), but waits on descriptors in non-blocking mode and ends at
   the limit; *GOT is 0 at the end. OFFSET: of the bytes in the file. false: the
   read failed. */
static bool system_read(struct tool_input *in, uint64_t offset, void *buf,
                        size_t n, size_t *got) {
    *got = 0;
    n = (size_t)tcm_min_u64(n, in->limit > offset ? in->limit - offset : 0);
    if (n == 0)
        return true;
    for (;;) {
        bool waits = in->wait != NULL && !in->is_file && !is_ready(in->fd);
        ssize_t r = waits ? 0 : read(in->fd, buf, n);
        if (r == 0 && in->wait != NULL && (waits || in->is_file) &&
            in->wait(in->wait_ctx))
            continue;
        if (r >= 0) {
            *got = (size_t)r;
            return true;
        }
        if (tool_stop_requested() && (errno == EINTR || errno == EAGAIN))
            return true; /* as if the input ended here */
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd p = {.fd = in->fd, .events = POLLIN};
            (void)poll(&p, 1, -1);
        } else if (errno != EINTR) {
            in->source.status = MTF_SYSTEM;
            in->source.error = errno;
            return false;
        }
    }
}

/* Makes N bytes available at head, or as many as there are; keeps the bytes
   from piece_start on in the window. false: a read failed. */
static bool fill(struct tool_input *in, size_t n) {
    TCM_ASSERT(n <= WINDOW);
    while (in->tail - in->head < n && !in->at_end) {
        TCM_ASSERT(in->head <= in->tail && in->tail <= WINDOW);
        size_t keep = in->head;
        if (in->state == IN_FRAME && in->piece_start >= in->base)
            keep = (size_t)tcm_min_u64(keep, in->piece_start - in->base);
        if (in->tail == WINDOW || in->head == in->tail ||
            WINDOW - in->head < n) {
            memmove(in->window, in->window + keep, in->tail - keep);
            in->base += keep;
            in->head -= keep;
            in->tail -= keep;
        }
        size_t room = WINDOW - in->tail;
        if (room == 0)
            return true; /* the window is full with less than N bytes */
        size_t got;
        if (!system_read(in, in->base + in->tail, in->window + in->tail,
                         room < READ_AHEAD ? room : READ_AHEAD, &got))
            return false;
        in->at_end = got == 0;
        in->tail += got;
    }
    return true;
}

/* --- LZ4 ---------------------------------------------------------------- */

static uint32_t word_at(const struct tool_input *in, size_t at) {
    uint32_t w;
    memcpy(&w, in->window + at, sizeof(w));
    return w;
}

static bool is_skippable(uint32_t magic) {
    return (magic & 0xFFFFFFF0u) == 0x184D2A50u;
}

#if TCM_HAVE_LZ4

/* Gives up the bytes from FROM on; resync looks for the next frame from head
   on. */
static void lose(struct tool_input *in, enum mtf_status status, uint64_t offset,
                 uint64_t from) {
    in->state = RESYNC;
    in->break_status = status;
    in->break_offset = offset;
    in->break_from = from;
}

/* Finds the next frame, or the end, and reports the break before it. */
static enum mtf_source_result resync(struct tool_input *in) {
    for (;;) {
        if (!fill(in, FRAME_HEAD_MIN))
            return MTF_SOURCE_ERROR;
        size_t n = in->tail - in->head;
        const uint8_t *from = in->window + in->head;
        const uint8_t *p = memmem(from, n, &frame_magic, sizeof(frame_magic));
        if (p != NULL) {
            /* not the end of the input: the piece had a wrong length */
            in->break_status = MTF_DAMAGED;
            in->head += (size_t)(p - from);
            break;
        }
        if (in->at_end) {
            in->head = in->tail;
            if (in->break_status == MTF_CUT)
                in->break_offset = head_offset(in);
            break;
        }
        in->head += n - (sizeof(frame_magic) - 1);
    }
    in->state = BETWEEN_FRAMES;
    in->source.status = in->break_status;
    in->source.break_offset = in->break_offset;
    in->source.break_skipped = head_offset(in) - in->break_from;
    return MTF_SOURCE_BREAK;
}

/* Handles TRIED bytes at head that the decoder refused, or behind which it
   waits for more than there are. */
static void refuse(struct tool_input *in, size_t tried,
                   enum mtf_status status) {
    uint64_t from = in->piece_start;
    uint64_t consumed = head_offset(in) + tried;
    TCM_ASSERT(in->state == IN_FRAME && tried <= in->tail - in->head);
    uint64_t again = tcm_max_u64(in->piece_start, in->frame_start + 4);
    if (again >= in->base && again <= consumed &&
        consumed - again <= in->rework) {
        in->rework -= consumed - again;
        in->head = (size_t)(again - in->base);
    } else {
        in->head += tried;
    }
    lose(in, status, in->frame_start, from);
}

/* Begins the frame at head. DATA: call again; END: there is none. */
static enum mtf_source_result begin_frame(struct tool_input *in) {
    if (!fill(in, FRAME_HEAD_MIN))
        return MTF_SOURCE_ERROR;
    size_t n = in->tail - in->head;
    if (n == 0)
        return MTF_SOURCE_END;
    uint64_t here = head_offset(in);
    uint32_t magic = n >= 4 ? word_at(in, in->head) : 0;
    if (n < FRAME_HEAD_MIN && in->at_end) {
        lose(in, MTF_CUT, here, here);
        in->head = in->tail;
        return MTF_SOURCE_DATA;
    }
    if (magic != frame_magic && !is_skippable(magic)) {
        lose(in, MTF_DAMAGED, here, here);
        return MTF_SOURCE_DATA;
    }
    if (in->context == NULL && LZ4F_isError(LZ4F_createDecompressionContext(
                                   &in->context, LZ4F_VERSION)))
        return fail(in, MTF_NO_MEMORY, 0);
    LZ4F_resetDecompressionContext(in->context);
    in->state = IN_FRAME;
    in->frame_start = here;
    in->piece_start = here;
    in->piece_left = FRAME_HEAD_MIN;
    in->hint = FRAME_HEAD_MIN;
    return MTF_SOURCE_DATA;
}

/*
 * Begins the next piece. The decoder wants a block together with the next
 * block's header, and keeps decoded bytes that did not fit into BUF. Damage to
 * that header must not cost the block before it, so the header is a piece of
 * its own, begun when the kept bytes are out. true: *GOT of the kept bytes
 * came.
 */
static bool begin_piece(struct tool_input *in, void *buf, size_t n,
                        size_t *got) {
    size_t none = 0;
    *got = n;
    size_t hint = LZ4F_decompress(in->context, buf, got, in->window + in->head,
                                  &none, NULL);
    if (!LZ4F_isError(hint) && *got != 0)
        return true;
    in->piece_start = head_offset(in);
    in->piece_left = in->hint > BLOCK_HEAD ? in->hint - BLOCK_HEAD : in->hint;
    return false;
}

/* Decodes some bytes into BUF; *GOT may be 0. DATA: call again. */
static enum mtf_source_result decode_some(struct tool_input *in, void *buf,
                                          size_t n, size_t *got) {
    if (in->piece_left == 0 && begin_piece(in, buf, n, got))
        return MTF_SOURCE_DATA;
    if (!fill(in, in->piece_left < WINDOW ? in->piece_left : WINDOW))
        return MTF_SOURCE_ERROR;
    size_t stored = in->tail - in->head;
    if (stored > in->piece_left)
        stored = in->piece_left;
    size_t taken = stored;
    *got = n;
    size_t hint = LZ4F_decompress(in->context, buf, got, in->window + in->head,
                                  &taken, NULL);
    if (LZ4F_isError(hint)) {
        *got = 0;
        refuse(in, stored, MTF_DAMAGED);
        return MTF_SOURCE_DATA;
    }
    TCM_ASSERT(taken <= stored && *got <= n);
    in->head += taken;
    in->piece_left -= taken;
    in->hint = hint;
    if (head_offset(in) > in->furthest) {
        in->rework += REWORK_BYTE * (head_offset(in) - in->furthest);
        in->furthest = head_offset(in);
    }
    if (hint == 0) {
        in->state = BETWEEN_FRAMES;
    } else if (taken == 0 && *got == 0) {
        refuse(in, stored, in->at_end && stored == 0 ? MTF_CUT : MTF_DAMAGED);
    }
    return MTF_SOURCE_DATA;
}

static enum mtf_source_result read_frames(struct tool_input *in, void *buf,
                                          size_t n, size_t *got) {
    for (;;) {
        enum mtf_source_result r;
        *got = 0;
        if (in->state == RESYNC)
            return resync(in);
        if (in->state == BETWEEN_FRAMES)
            r = begin_frame(in);
        else
            r = decode_some(in, buf, n, got);
        if (r != MTF_SOURCE_DATA || *got != 0)
            return r;
    }
}

#else

static enum mtf_source_result read_frames(struct tool_input *in, void *buf,
                                          size_t n, size_t *got) {
    (void)buf;
    (void)n;
    *got = 0;
    return fail(in, MTF_NO_LZ4, 0);
}

#endif

/* --- Other packings ----------------------------------------------------- */

/* Reports the stored bytes from head to the end as lost. */
static enum mtf_source_result lose_rest(struct tool_input *in,
                                        enum mtf_status status) {
    uint64_t here = head_offset(in);
    if (status == MTF_NO_MEMORY)
        return fail(in, status, 0);
    in->over = true;
    do {
        in->head = in->tail;
        if (!fill(in, 1))
            return MTF_SOURCE_ERROR;
    } while (in->head != in->tail);
    in->source.status = status;
    in->source.break_offset = here;
    in->source.break_skipped = head_offset(in) - here;
    return MTF_SOURCE_BREAK;
}

static enum mtf_source_result read_packed(struct tool_input *in, void *buf,
                                          size_t n, size_t *got) {
    for (;;) {
        *got = 0;
        if (in->over)
            return MTF_SOURCE_END;
        if (in->head == in->tail && !fill(in, 1))
            return MTF_SOURCE_ERROR;
        size_t stored = in->tail - in->head, taken = stored;
        if (stored == 0 && tool_unpack_is_done(in->unpack))
            return MTF_SOURCE_END;
        *got = n;
        enum mtf_status status = tool_unpack_some(
            in->unpack, in->window + in->head, &taken, in->at_end, buf, got);
        TCM_ASSERT(taken <= stored && *got <= n);
        in->head += taken;
        if (*got != 0)
            return MTF_SOURCE_DATA;
        if (status != MTF_OK)
            return lose_rest(in, status);
        if (stored != 0 && taken == 0)
            return lose_rest(in, MTF_DAMAGED);
    }
}

/* Recognizes a packing and makes its decoder. false: that failed, the source's
   status tells why. */
static bool begin_packed(struct tool_input *in) {
    in->packing = tool_packing_of(in->window + in->head, in->tail - in->head);
    if (in->packing == TOOL_PACKING_NONE)
        return true;
    enum mtf_status status = tool_unpack_new(&in->unpack, in->packing);
    if (status == MTF_OK)
        return true;
    in->packing = TOOL_PACKING_NONE;
    (void)fail(in, status, status == MTF_NO_MEMORY ? ENOMEM : 0);
    return false;
}

/* --- Reading ------------------------------------------------------------ */

/* Tells whether a frame's header follows soon in an input that begins with no
   known magic: its first bytes may be damaged. false also if a read failed. */
static bool has_frame(struct tool_input *in) {
    if (!fill(in, 8) || in->tail - in->head < 8)
        return false;
    const uint8_t *p = in->window + in->head, *end;
    if (memcmp(p, MTF_RAW_MAGIC, 8) == 0 || memcmp(p, MTF_PROC_MAGIC, 8) == 0 ||
        memcmp(p, MTF_SPOOL_MAGIC, 8) == 0 || !fill(in, READ_AHEAD))
        return false;
    p = in->window + in->head;
    end = in->window + in->tail;
    if (mtf_foreign_magic(p, (size_t)(end - p)) != NULL)
        return false;
    for (p = in->window + in->head;
         (p = memmem(p, (size_t)(end - p), &frame_magic, 4)) != NULL; p++)
        if (end - p >= (ptrdiff_t)FRAME_HEAD_MIN && (p[4] & 0xC2) == 0x40 &&
            (p[5] & 0x8F) == 0) /* version 1, no reserved bits */
            return true;
    return false;
}

static enum mtf_source_result read_plain(struct tool_input *in, void *buf,
                                         size_t n, size_t *got) {
    size_t waiting = in->tail - in->head;
    if (waiting != 0) {
        *got = n < waiting ? n : waiting;
        memcpy(buf, in->window + in->head, *got);
        in->head += *got;
        return MTF_SOURCE_DATA;
    }
    in->base += in->tail;
    in->head = in->tail = 0;
    if (!system_read(in, in->base, buf, n, got))
        return MTF_SOURCE_ERROR;
    in->base += *got;
    return *got == 0 ? MTF_SOURCE_END : MTF_SOURCE_DATA;
}

static enum mtf_source_result read_from(struct tool_input *in, void *buf,
                                        size_t n, size_t *got) {
    enum mtf_source_result r = in->from->read(in->from, buf, n, got);
    if (r == MTF_SOURCE_ERROR) {
        in->source.status = in->from->status;
        in->source.error = in->from->error;
    }
    return r;
}

static enum mtf_source_result read_any(struct tool_input *in, void *buf,
                                       size_t n, size_t *got) {
    *got = 0;
    if (in->from != NULL)
        return read_from(in, buf, n, got);
    if (!in->sniffed) {
        if (!fill(in, TOOL_PACKING_BYTES))
            return MTF_SOURCE_ERROR;
        size_t waiting = in->tail - in->head;
        uint32_t magic = waiting >= 4 ? word_at(in, in->head) : 0;
        if (!begin_packed(in))
            return MTF_SOURCE_ERROR;
        in->sniffed = true;
        in->compressed = in->unpack != NULL || magic == frame_magic ||
                         is_skippable(magic) || has_frame(in);
        in->source.framed = in->compressed;
    }
    if (in->unpack != NULL)
        return read_packed(in, buf, n, got);
    return in->compressed ? read_frames(in, buf, n, got)
                          : read_plain(in, buf, n, got);
}

size_t tool_input_peek_bytes(struct tool_input *in, size_t n,
                             const uint8_t **p) {
    TCM_ASSERT(n <= sizeof(in->looked) && in->looked_at == 0);
    while (in->looked_length < n && in->after_looked == MTF_SOURCE_DATA) {
        size_t got;
        in->after_looked = read_any(in, in->looked + in->looked_length,
                                    n - in->looked_length, &got);
        in->looked_length += got;
    }
    *p = in->looked;
    return tcm_min_u64(in->looked_length, n);
}

size_t tool_input_peek(struct tool_input *in, uint8_t first[8]) {
    const uint8_t *p;
    size_t n = tool_input_peek_bytes(in, 8, &p);
    memcpy(first, p, n);
    return n;
}

bool tool_input_is_raw(struct tool_input *in) {
    uint8_t first[8];
    return tool_input_peek(in, first) == sizeof(first) &&
           memcmp(first, MTF_RAW_MAGIC, sizeof(first)) == 0;
}

const char *tool_input_foreign_text(struct tool_input *in) {
    const uint8_t *p;
    size_t n = tool_input_peek_bytes(in, MTF_FOREIGN_BYTES, &p);
    return mtf_foreign_text(p, n);
}

enum mtf_source_result tool_input_read(struct tool_input *in, void *buf,
                                       size_t n, size_t *got) {
    if (in->looked_at != in->looked_length) {
        *got = tcm_min_u64(n, in->looked_length - in->looked_at);
        memcpy(buf, in->looked + in->looked_at, *got);
        in->looked_at += *got;
        in->bytes += *got;
        return MTF_SOURCE_DATA;
    }
    enum mtf_source_result r = in->after_looked;
    in->after_looked = MTF_SOURCE_DATA;
    *got = 0;
    if (r == MTF_SOURCE_DATA)
        r = read_any(in, buf, n, got);
    in->bytes += *got;
    return r;
}

struct mtf_source *tool_input_source(struct tool_input *in) {
    return &in->source;
}

void tool_input_limit(struct tool_input *in, uint64_t limit) {
    in->limit = limit;
}

const char *tool_input_name(const struct tool_input *in) {
    return in->name;
}

void tool_input_follow(struct tool_input *in, bool (*wait)(void *ctx),
                       void *ctx) {
    in->wait = wait;
    in->wait_ctx = ctx;
}

bool tool_input_is_compressed(const struct tool_input *in) {
    return in->compressed;
}

const char *tool_input_frame_name(const struct tool_input *in) {
    return in->packing == TOOL_PACKING_NONE ? "LZ4 frame"
                                            : tool_packing_name(in->packing);
}

enum mtf_status tool_input_status(const struct tool_input *in) {
    return in->source.status;
}

uint64_t tool_input_stored_bytes(const struct tool_input *in) {
    return in->from != NULL ? in->stored_from(in->from) : head_offset(in);
}

uint64_t tool_input_bytes(const struct tool_input *in) {
    return in->bytes;
}

bool tool_input_is_file(const struct tool_input *in) {
    return in->is_file;
}

uint64_t tool_input_file_size(const struct tool_input *in) {
    return tcm_min_u64(in->file_size, in->limit);
}

/* --- Reading ahead -------------------------------------------------------- */

/* Buffers for the results of single reads: gathering several reads in a buffer
   would delay slow input. */
#define BUFFERS      16u
#define BUFFER_BYTES ((size_t)64 << 10)
/* Longest sleep of the user, after which it sees a stop that was requested just
   before. */
#define STOP_NS 100000000u

/* Result of a read, besides the bytes. */
struct read_result {
    enum mtf_source_result result;
    struct mtf_source source;
    uint64_t bytes, stored;
};

struct tool_ahead {
    struct mtf_source source;
    struct tool_input *in;
    struct tool_queue queue;
    pthread_t thread;
    struct read_result results[BUFFERS]; /* one for each buffer of QUEUE */
    uint64_t bytes, stored; /* totals of the last buffer that was taken */
    const uint8_t *rest;    /* of the current buffer; NULL: there is none */
    size_t rest_length;
    enum mtf_source_result last; /* DATA, until END or ERROR has come */
};

static void *run_ahead(void *argument) {
    struct tool_ahead *a = argument;
    enum mtf_source_result r;
    do {
        int before;
        size_t got;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        uint8_t *buffer = tool_queue_free(&a->queue);
        if (buffer == NULL)
            return NULL;
        /* the only place that may sleep for ever */
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
        r = tool_input_read(a->in, buffer, BUFFER_BYTES, &got);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        a->results[tool_queue_index(&a->queue, buffer)] =
            (struct read_result){.result = r,
                                 .source = *tool_input_source(a->in),
                                 .bytes = tool_input_bytes(a->in),
                                 .stored = tool_input_stored_bytes(a->in)};
        tool_queue_give(&a->queue, r == MTF_SOURCE_DATA ? got : 0);
    } while (r == MTF_SOURCE_DATA || r == MTF_SOURCE_BREAK);
    return NULL;
}

/* Makes the next buffer the current one; results other than DATA have none. */
static enum mtf_source_result take_buffer(struct tool_ahead *a) {
    const uint8_t *buffer;
    size_t length;
    if (a->last != MTF_SOURCE_DATA)
        return a->last;
    while ((buffer = tool_queue_full(&a->queue, &length, STOP_NS)) == NULL)
        if (tool_stop_requested())
            return MTF_SOURCE_END;
    const struct read_result *result =
        &a->results[tool_queue_index(&a->queue, buffer)];
    struct mtf_source source = result->source;
    enum mtf_source_result r = result->result;
    source.read = a->source.read;
    a->source = source;
    a->bytes = result->bytes;
    a->stored = result->stored;
    a->rest = buffer;
    a->rest_length = length;
    if (r == MTF_SOURCE_DATA)
        return r;
    if (r != MTF_SOURCE_BREAK)
        a->last = r;
    a->rest = NULL;
    tool_queue_done(&a->queue);
    return r;
}

static enum mtf_source_result ahead_read(struct mtf_source *s, void *buf,
                                         size_t n, size_t *got) {
    struct tool_ahead *a = TCM_CONTAINER_OF(s, struct tool_ahead, source);
    *got = 0;
    if (a->rest == NULL) {
        enum mtf_source_result r = take_buffer(a);
        if (r != MTF_SOURCE_DATA)
            return r;
    }
    TCM_ASSERT(a->rest_length != 0 && a->rest_length <= BUFFER_BYTES);
    *got = n < a->rest_length ? n : a->rest_length;
    memcpy(buf, a->rest, *got);
    a->rest += *got;
    a->rest_length -= *got;
    if (a->rest_length == 0) {
        a->rest = NULL;
        tool_queue_done(&a->queue);
    }
    return MTF_SOURCE_DATA;
}

struct tool_ahead *tool_ahead_start(struct tool_input *in) {
    uint8_t first[8];
    (void)tool_input_peek(in, first); /* recognizes the compression */
    bool is_file = tool_input_file_size(in) != 0;
    if (is_file && !(tool_input_is_compressed(in) && tool_thread_helps()))
        return NULL;
    struct tool_ahead *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return NULL;
    a->in = in;
    a->source = *tool_input_source(in);
    a->source.read = ahead_read;
    a->last = MTF_SOURCE_DATA;
    if (!tool_queue_init(&a->queue, BUFFERS, BUFFER_BYTES) ||
        !tool_thread_start(&a->thread, run_ahead, a)) {
        tool_queue_fini(&a->queue);
        free(a);
        return NULL;
    }
    return a;
}

void tool_ahead_stop(struct tool_ahead *a) {
    if (a == NULL)
        return;
    tool_queue_close(&a->queue);
    pthread_cancel(a->thread);
    pthread_join(a->thread, NULL);
    tool_queue_fini(&a->queue);
    free(a);
}

struct mtf_source *tool_ahead_source(struct tool_ahead *a) {
    return &a->source;
}

uint64_t tool_ahead_bytes(const struct tool_ahead *a) {
    TCM_ASSERT(a->rest_length <= a->bytes &&
               (a->rest != NULL) == (a->rest_length != 0));
    return a->bytes - a->rest_length;
}

uint64_t tool_ahead_stored_bytes(const struct tool_ahead *a) {
    return a->stored;
}
