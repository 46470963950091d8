/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words for what is wrong with a trace: one text each, fit to stand behind
 * a file's name.
 */
#include "traceformat/trace_status.h"

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
    return tap_done();
}
