/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/trace_status.h"

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
        return "is compressed with LZ4, which this program was built without";
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

/* --- What is no trace of ours ------------------------------------------- */

#define OTHER_FORMAT ", which is another format"

const char *mtf_foreign_magic(const uint8_t *p, size_t n) {
    static const struct {
        uint8_t bytes[8];
        uint8_t length;
        const char *text;
    } known[] = {
        {{0x1f, 0x8b}, 2, "is a gzip file, to be decompressed with gzip -d"},
        {"BZh", 3, "is a bzip2 file, to be decompressed with bzip2 -d"},
        {"\xfd"
         "7zXZ",
         6, "is an xz file, to be decompressed with xz -d"},
        {{0x28, 0xb5, 0x2f, 0xfd},
         4,
         "is a zstd file, to be decompressed with zstd -d"},
        {"\x7f"
         "ELF",
         4, "is an ELF file (a program, library or core), no trace"},
        {{0xe4, 0x63, 0xbd, 0x6c},
         4,
         "is a raw trace of gperftools' tracing branch" OTHER_FORMAT},
        /* It has no magic: a switch to thread 0 begins it. */
        {{0x05}, 8, "is a processed trace for gperftools' replay" OTHER_FORMAT},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++)
        if (n >= known[i].length &&
            memcmp(p, known[i].bytes, known[i].length) == 0)
            return known[i].text;
    return NULL;
}

/* Our magics begin with a byte that no text begins with. */
static bool is_text(uint8_t c) {
    return c >= 0x20 ? c != 0x7f : c == '\n' || c == '\t' || c == '\r';
}

const char *mtf_foreign_text(const uint8_t *p, size_t n) {
    const char *text = mtf_foreign_magic(p, n);
    size_t blank = 0;
    if (text != NULL || n == 0)
        return text;
    for (size_t i = 0; i < n; i++)
        if (!is_text(p[i]) || (p[i] >= 0x80 && i == 0))
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
