/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/trace_io.h"

#include "base/bits.h"
#include "base/fmt.h"

#include <string.h>

const char *mtf_status_text(enum mtf_status status) {
    switch (status) {
    case MTF_OK:
        return "ok";
    case MTF_SYSTEM:
        return "system error";
    case MTF_EMPTY:
        return "is empty";
    case MTF_NO_TRACE:
        return "is no trace";
    case MTF_IS_RAW:
        return "is a raw trace, not a processed one";
    case MTF_IS_SPOOL:
        return "is the spool of a raw trace, not a processed trace";
    case MTF_IS_PROCESSED:
        return "is a processed trace, not a raw one";
    case MTF_TOO_NEW:
        return "needs a later version of this program";
    case MTF_NO_LZ4:
        return "is compressed with LZ4, which this program was built without "
               "(Debian: liblz4-dev)";
    case MTF_NO_ZLIB:
        return "is a gzip or zip file, and this program was built without zlib "
               "(Debian: zlib1g-dev)";
    case MTF_NO_ZSTD:
        return "is a zstd file, and this program was built without libzstd "
               "(Debian: libzstd-dev)";
    case MTF_NO_BZ2:
        return "is a bzip2 file, and this program was built without libbz2 "
               "(Debian: libbz2-dev)";
    case MTF_NO_MEMORY:
        return "out of memory";
    case MTF_CUT:
        return "ends in the middle";
    case MTF_DAMAGED:
        return "damaged";
    case MTF_NOT_ONE:
        return "file and spool are not of one moment";
    case MTF_NO_FILE:
        return "the file that it belongs to was not read";
    case MTF_PRIVATE:
        return "buffers that were in private memory are lost";
    case MTF_GROWING:
        return "still being recorded";
    }
    return "unknown status";
}

/* --- Files that are no trace of ours ------------------------------------ */

#define OTHER_FORMAT ", which malloc-trace convert reads"

#define TAR_MAGIC_AT ((size_t)257)
#define ZIP          "is a zip file, to be unpacked with unzip"

const char *mtf_foreign_magic(const uint8_t *p, size_t n) {
    static const struct {
        uint8_t bytes[8];
        uint8_t length;
        const char *text;
    } known[] = {
        {{0x04, 0x22, 0x4d, 0x18},
         4,
         "is an LZ4 file, to be decompressed with lz4 -d"},
        {{0x1f, 0x8b}, 2, "is a gzip file, to be decompressed with gzip -d"},
        {"BZh", 3, "is a bzip2 file, to be decompressed with bzip2 -d"},
        {"\xfd"
         "7zXZ",
         6, "is an xz file, to be decompressed with xz -d"},
        {{0x28, 0xb5, 0x2f, 0xfd},
         4,
         "is a zstd file, to be decompressed with zstd -d"},
        {"PK\3\4", 4, ZIP},
        {"PK\5\6", 4, ZIP}, /* an empty archive */
        {"\x7f"
         "ELF",
         4, "is an ELF file (a program, library or core), no trace"},
        {{0xe4, 0x63, 0xbd, 0x6c},
         4,
         "is a raw trace of gperftools' tracing branch" OTHER_FORMAT},
        /* The format has no magic: a switch to thread 0 begins a trace. */
        {{0x05}, 8, "is a processed trace for gperftools' replay" OTHER_FORMAT},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++)
        if (n >= known[i].length &&
            memcmp(p, known[i].bytes, known[i].length) == 0)
            return known[i].text;
    if (n >= TAR_MAGIC_AT + 5 && memcmp(p + TAR_MAGIC_AT, "ustar", 5) == 0)
        return "is a tar file, to be unpacked with tar -x";
    return NULL;
}

/* True if the N bytes are text. Magics of ours and of LZ4 begin with a byte
   that no text begins with. IS_CUT: the last character may go on behind the N
   bytes. */
static bool is_text(const uint8_t *p, size_t n, bool is_cut) {
    while (n != 0) {
        size_t length = tcm_utf8_length(p, n);
        if (length == 0)
            return is_cut && n < 4 && *p >= 0xc2 && *p <= 0xf4;
        if (length == 1 && (*p == 0x7f || (*p < 0x20 && *p != '\n' &&
                                           *p != '\t' && *p != '\r')))
            return false;
        p += length;
        n -= length;
    }
    return true;
}

static bool begins_with(const uint8_t *p, size_t n, const char *text) {
    size_t length = strlen(text);
    return n >= length && memcmp(p, text, length) == 0;
}

/* Names a heap profile, which has sums in place of calls; NULL: it is none. */
static const char *profile_text(const uint8_t *p, size_t n) {
#define SUMS ": it has sums, no calls"
    static const struct {
        const char *start;
        const char *text;
    } known[] = {
        {"heap_v2/", "is a heap profile of jemalloc" SUMS},
        {"heap profile:", "is a heap profile of pprof" SUMS},
        {"desc: ", "is a profile of valgrind's massif" SUMS},
        {"{\"dhatFileVersion\"", "is a profile of DHAT" SUMS},
        {"Memory usage summary:", "is a summary of memusage" SUMS},
        {"\033[01;32mMemory usage summary:", "is a summary of memusage" SUMS},
    };
    /* A protocol buffer whose first field is a sample type, two numbers. */
    if (n >= 6 && begins_with(p, n, "\n\4\x08") && p[4] == 0x10)
        return "is a profile of pprof" SUMS;
    while (n != 0 && (*p == '\n' || *p == ' '))
        p++, n--;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++)
        if (begins_with(p, n, known[i].start))
            return known[i].text;
    return NULL;
#undef SUMS
}

const char *mtf_foreign_text(const uint8_t *p, size_t n) {
    const char *text = mtf_foreign_magic(p, n);
    size_t blank = 0;
    if (text == NULL)
        text = profile_text(p, n);
    if (text != NULL || n == 0)
        return text;
    n = tcm_min_u64(n, MTF_FOREIGN_BYTES);
    if (!is_text(p, n, n == MTF_FOREIGN_BYTES))
        return NULL;
    while (blank < n && p[blank] <= ' ')
        blank++;
    if (blank < n && (p[blank] == '{' || p[blank] == '['))
        return "is JSON, no trace";
    return "is text, no trace";
}

const char *mtf_too_new_text(char text[MTF_TOO_NEW_TEXT], unsigned version,
                             unsigned known, unsigned bits) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, MTF_TOO_NEW_TEXT);
    tcm_fmt_str(&f, "is of version ");
    tcm_fmt_u64(&f, version);
    if (bits != 0) {
        tcm_fmt_str(&f, " with must-understand bits 0x");
        tcm_fmt_hex(&f, bits);
    }
    tcm_fmt_str(&f, ", this program knows version ");
    tcm_fmt_u64(&f, known);
    return text;
}
