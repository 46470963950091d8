/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers that a raw trace and its spool begin with, and the heads of the
 * spool's buffers. raw_reader.c reads the segments.
 */
#include "traceformat/raw_reader.h"

#include "base/checksum.h"

#include <string.h>

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
        else if (tag == MTF_TAG_PART && n == sizeof(info->part)) {
            info->is_part = true;
            memcpy(&info->part, p, sizeof(info->part));
        } else if (tag == MTF_TAG_PART_START && n == sizeof(info->part_start))
            memcpy(&info->part_start, p, sizeof(info->part_start));
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
    head->sync = MTF_SPOOL_BUFFER_SYNC; /* the checksum tells */
    return head->size > sizeof(*head) && head->size <= MTF_SEGMENT_MAX &&
           head->thread != MTF_THREAD_NONE &&
           head->offset <= MTF_STREAM_OFFSET_MAX &&
           tcm_checksum_of(head, offsetof(struct mtf_spool_buffer, checksum),
                           random) == head->checksum;
}
