/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of statuses of a trace: one text each, fit to follow a file's name.
 */
#include "traceformat/trace_io.h"

#include "tap.h"

#include <ctype.h>

int main(void) {
    const char *unknown = mtf_status_text((enum mtf_status)(MTF_GROWING + 1));
    bool own = true, plain = true;
    for (int i = MTF_OK; i <= MTF_GROWING; i++) {
        const char *text = mtf_status_text((enum mtf_status)i);
        if (text == NULL)
            tap_bail("status %d has no text", i);
        own &= strcmp(text, unknown) != 0;
        for (int k = MTF_OK; k < i; k++)
            own &= strcmp(text, mtf_status_text((enum mtf_status)k)) != 0;
        size_t n = strlen(text);
        plain &= n != 0 && text[n - 1] != '.' && !isspace((uint8_t)text[n - 1]);
        for (size_t at = 0; at < n; at++)
            plain &= isprint((uint8_t)text[at]) && text[at] != '%';
    }
    tap_ok(own, "every status has a text of its own");
    tap_ok(plain, "of one line, that goes on a sentence");
    tap_is_str(unknown, "unknown status", "a status of a later version");
    tap_is_str(mtf_status_text((enum mtf_status) - 1), unknown, "below all");
    tap_is_str(mtf_status_text(MTF_DAMAGED), "damaged", "damaged");
    tap_ok(strstr(mtf_status_text(MTF_IS_PROCESSED), "processed") != NULL &&
               strstr(mtf_status_text(MTF_IS_RAW), "raw") != NULL &&
               strstr(mtf_status_text(MTF_IS_SPOOL), "spool") != NULL,
           "the other kinds of files are named");
    tap_ok(strstr(mtf_status_text(MTF_NO_LZ4), "LZ4") != NULL,
           "and what a program lacks");
    char too_new[MTF_TOO_NEW_TEXT];
    tap_is_str(mtf_too_new_text(too_new, 7, 1, 0),
               "is of version 7, this program knows version 1", "too new");
    tap_is_str(mtf_too_new_text(too_new, 65535, 65535, 65535),
               "is of version 65535 with must-understand bits 0xffff, this "
               "program knows version 65535",
               "the longest text");
    static const struct {
        const char *bytes;
        size_t n;
        const char *want; /* in the text; NULL: none */
    } foreign[] = {
        {"\x1f\x8b\x08\x08....", 8, "gzip"},
        {"BZh91AY&", 8, "bzip2"},
        {"\xfd"
         "7zXZ\0\0\4",
         8, " xz "},
        {"\x28\xb5\x2f\xfd....", 8, "zstd"},
        {"PK\3\4\24\0\0\0", 8, "zip"},
        {"PK\5\6\0\0\0\0", 8, "zip"},
        {"\x7f"
         "ELF\2\1\1\0",
         8, "ELF"},
        {"\xe4\x63\xbd\x6c\x07\x06 \x1b", 8, "raw trace of gperftools"},
        {"\5\0\0\0\0\0\0\0", 8, "processed trace for gperftools"},
        {"{\n \"a\":", 7, "JSON"},
        {" [1, 2]", 7, "JSON"},
        {"heap_v2/524288\n", 15, "jemalloc: it has sums, no calls"},
        {"heap profile: 1: 2 [", 20, "pprof: it has sums, no calls"},
        {"\n\4\x08\1\x10\2", 6, "pprof: it has sums, no calls"},
        {"desc: --massif-out-file=m\n", 26, "massif: it has sums, no calls"},
        {"{\"dhatFileVersion\":2", 20, "DHAT: it has sums, no calls"},
        {"\nMemory usage summary: heap", 27, "memusage: it has sums, no calls"},
        {"\n\033[01;32mMemory usage summary:", 31, "memusage: it has sums"},
        {"malloc(1)", 9, "text"},
        {"caf\xc3\xa9 a", 7, "text"},
        {"\xc3\xa9t\xc3\xa9", 5, "text"},
        {"x", 1, "text"},
        {"caf\xe9 a", 6, NULL},
        {"caf\xc3", 4, NULL},
        {"\xff\xfe"
         "a b c",
         7, NULL},
        {"PK\3", 3, NULL},
        {"", 0, NULL},
        {"\x89MTRAW\r\n", 8, NULL},
        {"\x89MT", 3, NULL},
        {"\x04\x22\x4d\x18....", 8, "an LZ4 file"},
        {"\5\0\0\0\0\0\0", 7, NULL},
        {"abc\0def", 7, NULL},
        {"\x1f", 1, NULL},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(foreign); i++) {
        const char *text =
            mtf_foreign_text((const uint8_t *)foreign[i].bytes, foreign[i].n);
        tap_ok(foreign[i].want == NULL
                   ? text == NULL
                   : text != NULL && strstr(text, foreign[i].want) != NULL,
               "what is no trace: %s",
               foreign[i].want == NULL ? "unknown" : foreign[i].want);
    }
    static uint8_t window[MTF_FOREIGN_BYTES + 8];
    memset(window, 'a', sizeof(window));
    window[MTF_FOREIGN_BYTES - 1] = 0xc3;
    tap_ok(mtf_foreign_text(window, sizeof(window)) != NULL,
           "what is looked at may end within a character");
    window[MTF_FOREIGN_BYTES - 1] = 0x80;
    tap_ok(mtf_foreign_text(window, sizeof(window)) == NULL,
           "its last byte is looked at");
    memcpy(window + 257, "ustar", 5);
    tap_is_str(mtf_foreign_magic(window, 262),
               "is a tar file, to be unpacked with tar -x", "tar");
    tap_ok(mtf_foreign_magic(window, 261) == NULL, "not without its magic");
    return tap_done();
}
