/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text that glibc's dj/malloc branch wrote at first, and that its
 * trace_dump prints of a recording:
 *
 *     N out of M events captured
 *     threadid type     path     ptr1             size             ptr2
 *     00004873 malloc   T------- 0000000000000000 0000000000000018 00007f...
 *
 * All numbers are hexadecimal. The oldest lines have digits for the path, the
 * newest ones two sizes more, the first of which is an alignment.
 */
#include "formats/dj_record.h"
#include "formats/format_scan.h"
#include "formats/formats.h"

/* Alignments where the line has none: of pages, and what is right for all. */
#define PAGE  4096u
#define USUAL 16u

/* A word up to the next blank. False: it is longer than N bytes, or empty. */
static bool scan_word(const char **p, const char *end, char *word, size_t n) {
    size_t length = 0;
    scan_blanks(p, end);
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

/* Which ways through the allocator the call took: nothing is made of it. */
static bool is_path(const char *path) {
    return strlen(path) >= 7 && path[strspn(path, "-TcCsMURHuEFf01")] == 0;
}

/* Words have 16 digits; what has fewer is cut. */
static bool scan_word_value(const char **p, const char *end, uint64_t *v) {
    scan_blanks(p, end);
    const char *from = *p;
    return scan_hex(p, end, v) && *p - from >= 16;
}

static bool read_record(const char *p, const char *end, struct dj_record *r) {
    char name[16], path[16];
    uint64_t thread, size3;
    if (!scan_hex(&p, end, &thread) || thread > UINT32_MAX || p == end ||
        *p != ' ' || !scan_word(&p, end, name, sizeof(name) - 1) ||
        !type_of(name, &r->type) ||
        !scan_word(&p, end, path, sizeof(path) - 1) || !is_path(path) ||
        !scan_word_value(&p, end, &r->ptr1) ||
        !scan_word_value(&p, end, &r->size) ||
        !scan_word_value(&p, end, &r->ptr2))
        return false;
    r->thread = (uint32_t)thread;
    r->size2 = r->type == DJ_VALLOC || r->type == DJ_PVALLOC ? PAGE : USUAL;
    return scan_at_end(&p, end) ||
           (scan_word_value(&p, end, &r->size2) &&
            scan_word_value(&p, end, &size3) && scan_at_end(&p, end));
}

static bool is_head(const char *p, const char *end) {
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
    if (is_head(p, end))
        return FORMAT_NOTHING;
    *why = "no line of trace_dump";
    if (!read_record(p, end, &r))
        return FORMAT_BAD;
    return dj_fill(&r, e) ? FORMAT_EVENT : FORMAT_NOTHING;
}

const struct format format_dj_text = {
    .name = "dj-text",
    .title = "trace of glibc's dj/malloc branch, as text",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
