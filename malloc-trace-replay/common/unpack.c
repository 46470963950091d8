/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/unpack.h"

#include "base/bits.h"
#include "base/check.h"
#include "traceformat/varint.h"

#include <stdlib.h>
#include <string.h>

#if TCM_HAVE_ZLIB
#include <zlib.h>
#endif
#if TCM_HAVE_ZSTD
#include <zstd.h>
#endif
#if TCM_HAVE_BZ2
#include <bzlib.h>
#endif

/* Parts of a zip file. Each file in it has a header, its name, its bytes and
   perhaps a data descriptor; the central directory comes last. */
enum zip_place {
    ZIP_HEAD,
    ZIP_NAME,
    ZIP_BYTES,
    ZIP_DESCRIPTOR,
    ZIP_NEXT,
    ZIP_DIRECTORY,
    ZIP_SKIP,
    ZIP_END
};

#define ZIP_HEAD_BYTES      30u
#define ZIP_DIRECTORY_BYTES 46u
/* Longest data descriptor, which follows bytes whose length was not known when
   their header was written: a magic, which is optional, a checksum, and two
   lengths of 4 or 8 bytes. */
#define ZIP_DESCRIPTOR_MAX 24u

struct zip {
    enum zip_place place;
    uint8_t bytes[ZIP_DIRECTORY_BYTES]; /* gathered part of a structure */
    size_t have;
    uint64_t left;     /* of the name, of stored bytes, of a record */
    uint64_t stored;   /* length of a file's stored bytes */
    uint32_t checksum; /* of the bytes so far */
    uint32_t promised; /* checksum in the header */
    bool deflated, has_descriptor;
    bool filled;  /* a file gave at least one byte */
    bool is_last; /* the record ends the directory */
};

struct tool_unpack {
    bool inside; /* a member or frame has begun and not ended */
    enum mtf_status status;
    /* behaves like tool_unpack_some */
    enum mtf_status (*some)(struct tool_unpack *u, const uint8_t *from,
                            size_t *taken, bool at_end, void *to, size_t *got);
    void (*end)(struct tool_unpack *u);
#if TCM_HAVE_ZLIB
    z_stream zlib;
#endif
#if TCM_HAVE_ZSTD
    ZSTD_DStream *zstd;
#endif
#if TCM_HAVE_BZ2
    bz_stream bz2;
#endif
    struct zip zip;
};

/* Recognizes a file that zlib can unpack: not encrypted; deflated, or stored
   with a known length. */
static bool is_zip(const uint8_t *p, size_t n) {
    return n >= 10 && memcmp(p, "PK\3\4", 4) == 0 && (p[6] & 1) == 0 &&
           p[9] == 0 && (p[8] == 8 || (p[8] == 0 && (p[6] & 8) == 0));
}

/* Recognizes bzip2, also cut after six bytes. */
static bool is_bzip2(const uint8_t *p, size_t n) {
    n = tcm_min_u64(n, 10);
    return n >= 6 && memcmp(p, "BZh", 3) == 0 && p[3] >= '1' && p[3] <= '9' &&
           (memcmp(p + 4, "1AY&SY", n - 4) == 0 ||
            memcmp(p + 4, "\x17rE8P\x90", n - 4) == 0);
}

enum tool_packing tool_packing_of(const uint8_t *p, size_t n) {
    static const uint8_t zstd[4] = {0x28, 0xb5, 0x2f, 0xfd};
    /* skippable frame of 4 bytes before the first frame, as pzstd writes it */
    static const uint8_t skipped[8] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0};
    /* method 8, deflate, is the only one; the other flags are reserved */
    if (n >= 4 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8 &&
        (p[3] & 0xe0) == 0)
        return TOOL_PACKING_GZIP;
    if (n >= 16 && memcmp(p, skipped, sizeof(skipped)) == 0 &&
        memcmp(p + 12, zstd, sizeof(zstd)) == 0)
        return TOOL_PACKING_ZSTD;
    if (n >= sizeof(zstd) && memcmp(p, zstd, sizeof(zstd)) == 0)
        return TOOL_PACKING_ZSTD;
    return is_bzip2(p, n) ? TOOL_PACKING_BZIP2
           : is_zip(p, n) ? TOOL_PACKING_ZIP
                          : TOOL_PACKING_NONE;
}

/* --- gzip and zip --------------------------------------------------------- */

#if TCM_HAVE_ZLIB

static enum mtf_status by_zlib(struct tool_unpack *u, const uint8_t *from,
                               size_t *taken, bool at_end, void *to,
                               size_t *got) {
    size_t n = tcm_min_u64(*taken, UINT32_MAX);
    size_t room = tcm_min_u64(*got, UINT32_MAX);
    *taken = *got = 0;
    if (!u->inside) {
        /* padding of tapes and archives, which are written in blocks */
        while (*taken < n && from[*taken] == 0)
            ++*taken;
        if (n == 0 || *taken != 0)
            return MTF_OK;
        (void)inflateReset(&u->zlib);
        u->inside = true;
    }
    u->zlib.next_in = (Bytef *)(uintptr_t)from;
    u->zlib.avail_in = (uInt)n;
    u->zlib.next_out = to;
    u->zlib.avail_out = (uInt)room;
    int r = inflate(&u->zlib, Z_NO_FLUSH);
    *taken = n - u->zlib.avail_in;
    *got = room - u->zlib.avail_out;
    if (r == Z_STREAM_END)
        u->inside = false;
    if (r == Z_OK || r == Z_STREAM_END)
        return MTF_OK;
    if (r == Z_BUF_ERROR)
        return at_end && *taken == n && *got == 0 ? MTF_CUT : MTF_OK;
    return r == Z_MEM_ERROR ? MTF_NO_MEMORY : MTF_DAMAGED;
}

static void end_zlib(struct tool_unpack *u) {
    (void)inflateEnd(&u->zlib);
}

static bool start_zlib(struct tool_unpack *u) {
    u->some = by_zlib;
    u->end = end_zlib;
    return inflateInit2(&u->zlib, 15 + 16) == Z_OK;
}

static uint32_t zip_u16(const uint8_t *p) {
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t zip_u32(const uint8_t *p) {
    return zip_u16(p) | zip_u16(p + 2) << 16;
}

/* Gathers up to ROOM bytes in Z->bytes. Returns how many it took. */
static size_t zip_gather(struct zip *z, size_t room, const uint8_t *from,
                         size_t n) {
    TCM_ASSERT(z->have <= room && room <= sizeof(z->bytes));
    size_t piece = tcm_min_u64(n, room - z->have);
    memcpy(z->bytes + z->have, from, piece);
    z->have += piece;
    return piece;
}

/* Begins a file whose header is in Z->bytes. false: it cannot be unpacked. */
static bool zip_begin(struct tool_unpack *u) {
    struct zip *z = &u->zip;
    const uint8_t *p = z->bytes;
    if (!is_zip(p, z->have))
        return false;
    z->deflated = p[8] == 8;
    z->has_descriptor = (p[6] & 8) != 0;
    z->promised = zip_u32(p + 14);
    z->checksum = 0;
    z->left = (uint64_t)zip_u16(p + 26) + zip_u16(p + 28);
    z->place = ZIP_NAME;
    z->have = 0;
    z->stored = zip_u32(p + 22);
    if (z->deflated)
        return inflateReset(&u->zlib) == Z_OK;
    /* longer lengths are in an extra field, which is not read */
    return z->stored != UINT32_MAX;
}

/* Ends a file of which all bytes were given. */
static enum mtf_status zip_bytes_end(struct zip *z) {
    z->place = z->has_descriptor ? ZIP_DESCRIPTOR : ZIP_NEXT;
    z->have = 0;
    return z->has_descriptor || z->checksum == z->promised ? MTF_OK
                                                           : MTF_DAMAGED;
}

static enum mtf_status zip_bytes(struct tool_unpack *u, const uint8_t *from,
                                 size_t *taken, uint8_t *to, size_t *got) {
    struct zip *z = &u->zip;
    size_t n = tcm_min_u64(*taken, UINT32_MAX);
    size_t room = tcm_min_u64(*got, UINT32_MAX);
    int r = Z_OK;
    if (!z->deflated) {
        *taken = *got = tcm_min_u64(tcm_min_u64(n, room), z->left);
        memcpy(to, from, *got);
        z->left -= *got;
        r = z->left == 0 ? Z_STREAM_END : Z_OK;
    } else {
        u->zlib.next_in = (Bytef *)(uintptr_t)from;
        u->zlib.avail_in = (uInt)n;
        u->zlib.next_out = to;
        u->zlib.avail_out = (uInt)room;
        r = inflate(&u->zlib, Z_NO_FLUSH);
        *taken = n - u->zlib.avail_in;
        *got = room - u->zlib.avail_out;
    }
    z->checksum = (uint32_t)crc32(z->checksum, to, (uInt)*got);
    z->filled |= *got != 0;
    if (r == Z_STREAM_END)
        return zip_bytes_end(z);
    if (r == Z_OK || r == Z_BUF_ERROR)
        return MTF_OK;
    return r == Z_MEM_ERROR ? MTF_NO_MEMORY : MTF_DAMAGED;
}

/* Returns the length of the descriptor in Z->bytes, behind which the next magic
   has to stand. 0: there is none. */
static size_t zip_descriptor(struct zip *z) {
    size_t at = memcmp(z->bytes, "PK\7\x8", 4) == 0 ? 4 : 0;
    if (zip_u32(z->bytes + at) != z->checksum)
        return 0;
    for (size_t end = at + 12; end <= at + 20; end += 8)
        if (end + 2 <= z->have && memcmp(z->bytes + end, "PK", 2) == 0)
            return end;
    return 0;
}

/* Returns how many bytes tell the length of the directory's record whose magic
   is at P. 0: unknown record. */
static size_t zip_record_head(const uint8_t *p) {
    return memcmp(p, "PK\1\2", 4) == 0   ? ZIP_DIRECTORY_BYTES
           : memcmp(p, "PK\6\6", 4) == 0 ? 12
           : memcmp(p, "PK\6\7", 4) == 0 ? 20
           : memcmp(p, "PK\5\6", 4) == 0 ? 22
                                         : 0;
}

/* Returns the length of the record at P, of which zip_record_head bytes are
   there. */
static uint64_t zip_record_length(const uint8_t *p) {
    if (p[2] == 1)
        return ZIP_DIRECTORY_BYTES + (uint64_t)zip_u16(p + 28) +
               zip_u16(p + 30) + zip_u16(p + 32);
    if (p[2] == 5)
        return 22 + (uint64_t)zip_u16(p + 20);
    return p[3] == 6 ? 12 + mtf_load_le64(p + 4) : 20;
}

static enum mtf_status zip_record(struct zip *z, const uint8_t *from,
                                  size_t *taken) {
    size_t head = zip_record_head(z->bytes), n = *taken;
    *taken = 0;
    if (head == 0)
        return MTF_DAMAGED;
    if (z->have < head)
        *taken = zip_gather(z, head, from, n);
    if (z->have < head)
        return MTF_OK;
    uint64_t length = zip_record_length(z->bytes);
    if (length < z->have)
        return MTF_DAMAGED;
    z->left = length - z->have;
    z->is_last = z->bytes[2] == 5;
    z->place = ZIP_SKIP;
    return MTF_OK;
}

/* Does one step; *TAKEN becomes 0 if it needs more input. */
static enum mtf_status zip_step(struct tool_unpack *u, const uint8_t *from,
                                size_t *taken, void *to, size_t *got) {
    struct zip *z = &u->zip;
    size_t n = *taken, end;
    if (z->place == ZIP_BYTES)
        return zip_bytes(u, from, taken, to, got);
    *got = 0;
    switch (z->place) {
    case ZIP_HEAD:
        *taken = zip_gather(z, ZIP_HEAD_BYTES, from, n);
        u->inside = true;
        if (z->have == ZIP_HEAD_BYTES && !zip_begin(u))
            return MTF_DAMAGED;
        return MTF_OK;
    case ZIP_NAME:
        *taken = tcm_min_u64(n, z->left);
        z->left -= *taken;
        if (z->left != 0)
            return MTF_OK;
        z->place = ZIP_BYTES;
        z->left = z->stored;
        return !z->deflated && z->left == 0 ? zip_bytes_end(z) : MTF_OK;
    case ZIP_DESCRIPTOR:
        /* with the next magic, by which zip_descriptor finds the length */
        *taken = zip_gather(z, ZIP_DESCRIPTOR_MAX + 4, from, n);
        if (z->have < ZIP_DESCRIPTOR_MAX + 4)
            return MTF_OK;
        end = zip_descriptor(z);
        if (end == 0)
            return MTF_DAMAGED;
        memmove(z->bytes, z->bytes + end, z->have - end);
        z->have -= end;
        z->place = ZIP_NEXT;
        return MTF_OK;
    case ZIP_NEXT:
        *taken = z->have < 4 ? zip_gather(z, 4, from, n) : 0;
        if (z->have < 4)
            return MTF_OK;
        u->inside = memcmp(z->bytes, "PK\3\4", 4) == 0;
        z->place = u->inside ? ZIP_HEAD : ZIP_DIRECTORY;
        return u->inside && z->filled ? MTF_DAMAGED : MTF_OK;
    case ZIP_DIRECTORY:
        return zip_record(z, from, taken);
    case ZIP_SKIP:
        *taken = tcm_min_u64(n, z->left);
        z->left -= *taken;
        z->have = 0;
        if (z->left == 0)
            z->place = z->is_last ? ZIP_END : ZIP_NEXT;
        return MTF_OK;
    default:
        /* padding */
        for (*taken = 0; *taken < n && from[*taken] == 0;)
            ++*taken;
        return *taken == n ? MTF_OK : MTF_DAMAGED;
    }
}

static enum mtf_status by_zip(struct tool_unpack *u, const uint8_t *from,
                              size_t *taken, bool at_end, void *to,
                              size_t *got) {
    size_t n = *taken, room = *got, used = 0;
    *taken = *got = 0;
    for (;;) {
        size_t piece = n - used;
        enum zip_place place = u->zip.place;
        *got = room;
        enum mtf_status status = zip_step(u, from + used, &piece, to, got);
        used += piece;
        *taken = used;
        if (status != MTF_OK || *got != 0)
            return status;
        if (piece == 0 && place == u->zip.place)
            break;
    }
    return u->inside && at_end && used == n ? MTF_CUT : MTF_OK;
}

static bool start_zip(struct tool_unpack *u) {
    u->some = by_zip;
    u->end = end_zlib;
    return inflateInit2(&u->zlib, -15) == Z_OK;
}

#else
#define start_zlib NULL
#define start_zip  NULL
#endif

/* --- zstd ----------------------------------------------------------------- */

#if TCM_HAVE_ZSTD

static enum mtf_status by_zstd(struct tool_unpack *u, const uint8_t *from,
                               size_t *taken, bool at_end, void *to,
                               size_t *got) {
    ZSTD_inBuffer in = {from, *taken, 0};
    ZSTD_outBuffer out = {to, *got, 0};
    *taken = *got = 0;
    if (in.size == 0 && !u->inside)
        return MTF_OK;
    size_t r = ZSTD_decompressStream(u->zstd, &out, &in);
    *taken = in.pos;
    *got = out.pos;
    if (ZSTD_isError(r))
        return MTF_DAMAGED;
    u->inside = r != 0;
    return u->inside && at_end && in.pos == in.size && out.pos == 0 ? MTF_CUT
                                                                    : MTF_OK;
}

static void end_zstd(struct tool_unpack *u) {
    ZSTD_freeDStream(u->zstd);
}

static bool start_zstd(struct tool_unpack *u) {
    u->some = by_zstd;
    u->end = end_zstd;
    u->zstd = ZSTD_createDStream();
    return u->zstd != NULL && !ZSTD_isError(ZSTD_initDStream(u->zstd));
}

#else
#define start_zstd NULL
#endif

/* --- bzip2 ---------------------------------------------------------------- */

#if TCM_HAVE_BZ2

static enum mtf_status by_bz2(struct tool_unpack *u, const uint8_t *from,
                              size_t *taken, bool at_end, void *to,
                              size_t *got) {
    size_t n = tcm_min_u64(*taken, UINT32_MAX);
    size_t room = tcm_min_u64(*got, UINT32_MAX);
    *taken = *got = 0;
    if (!u->inside) {
        if (n == 0)
            return MTF_OK;
        (void)BZ2_bzDecompressEnd(&u->bz2);
        memset(&u->bz2, 0, sizeof(u->bz2));
        if (BZ2_bzDecompressInit(&u->bz2, 0, 0) != BZ_OK)
            return MTF_NO_MEMORY;
        u->inside = true;
    }
    u->bz2.next_in = (char *)(uintptr_t)from;
    u->bz2.avail_in = (unsigned)n;
    u->bz2.next_out = to;
    u->bz2.avail_out = (unsigned)room;
    int r = BZ2_bzDecompress(&u->bz2);
    *taken = n - u->bz2.avail_in;
    *got = room - u->bz2.avail_out;
    if (r == BZ_STREAM_END)
        u->inside = false;
    else if (r != BZ_OK)
        return r == BZ_MEM_ERROR ? MTF_NO_MEMORY : MTF_DAMAGED;
    return u->inside && at_end && *taken == n && *got == 0 ? MTF_CUT : MTF_OK;
}

static void end_bz2(struct tool_unpack *u) {
    (void)BZ2_bzDecompressEnd(&u->bz2);
}

static bool start_bz2(struct tool_unpack *u) {
    u->some = by_bz2;
    u->end = end_bz2;
    return BZ2_bzDecompressInit(&u->bz2, 0, 0) == BZ_OK;
}

#else
#define start_bz2 NULL
#endif

/* --- All packings --------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*start)(struct tool_unpack *u); /* false: out of memory */
    enum mtf_status missing;              /* status if START is NULL */
} packings[] = {
    [TOOL_PACKING_NONE] = {"file", NULL, MTF_NO_TRACE},
    [TOOL_PACKING_GZIP] = {"gzip member", start_zlib, MTF_NO_ZLIB},
    [TOOL_PACKING_ZSTD] = {"zstd frame", start_zstd, MTF_NO_ZSTD},
    [TOOL_PACKING_BZIP2] = {"bzip2 stream", start_bz2, MTF_NO_BZ2},
    [TOOL_PACKING_ZIP] = {"zip file", start_zip, MTF_NO_ZLIB},
};

const char *tool_packing_name(enum tool_packing packing) {
    return packings[packing].name;
}

enum mtf_status tool_unpack_new(struct tool_unpack **made,
                                enum tool_packing packing) {
    *made = NULL;
    if (packings[packing].start == NULL)
        return packings[packing].missing;
    struct tool_unpack *u = calloc(1, sizeof(*u));
    if (u == NULL)
        return MTF_NO_MEMORY;
    if (!packings[packing].start(u)) {
        tool_unpack_free(u);
        return MTF_NO_MEMORY;
    }
    *made = u;
    return MTF_OK;
}

void tool_unpack_free(struct tool_unpack *u) {
    if (u == NULL)
        return;
    if (u->end != NULL)
        u->end(u);
    free(u);
}

enum mtf_status tool_unpack_some(struct tool_unpack *u, const uint8_t *from,
                                 size_t *taken, bool at_end, void *to,
                                 size_t *got) {
    size_t n = *taken, room = *got;
    if (u->status == MTF_OK)
        u->status = u->some(u, from, taken, at_end, to, got);
    else
        *taken = *got = 0;
    TCM_ASSERT(*taken <= n && *got <= room);
    return u->status;
}

bool tool_unpack_is_done(const struct tool_unpack *u) {
    return !u->inside;
}
