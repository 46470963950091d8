/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/replay_counters.h"

#include "traceformat/trace_event.h"

#include <stdio.h>
#include <string.h>

/* malloc_info writes into TEXT through STREAM, which is NULL when there is none
   to be read. */
static struct {
    int (*property)(const char *name, size_t *value);
    int (*malloc_info)(int options, FILE *stream);
    FILE *stream;
    char text[16384];
    char buffer[4096];
} source;

/* --- XML ------------------------------------------------------------------ */

/* The value of attribute NAME, which ends in =", of the element at P. Its
   length, 0 when it has none. */
static size_t attribute(const char *p, const char *name, const char **value) {
    size_t element = strcspn(p, ">");
    const char *at = strstr(p, name);
    if (at == NULL || (size_t)(at - p) >= element)
        return 0;
    *value = at + strlen(name);
    return strcspn(*value, "\">");
}

static void parse_counter(const char *p, struct replay_counters *out) {
    const char *name, *value;
    size_t length = attribute(p, " name=\"", &name);
    size_t digits = attribute(p, " value=\"", &value);
    if (length == 0 || digits == 0 || strspn(value, "0123456789") != digits)
        return;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++) {
        const char *mine = mtf_account_name(i);
        if (mine == NULL || strlen(mine) != length ||
            memcmp(mine, name, length) != 0)
            continue;
        uint64_t v = 0;
        for (size_t d = 0; d < digits; d++)
            v = v * 10 + (uint64_t)(value[d] - '0');
        out->value[i] = v;
        out->known |= 1u << i;
    }
}

void replay_counters_parse(const char *xml, struct replay_counters *out) {
    static const char counter[] = "<counter ", library[] = "<library ";
    const char *version = "";
    memset(out, 0, sizeof(*out));
    for (const char *p = xml; (p = strchr(p, '<')) != NULL; p++) {
        if (strncmp(p, counter, sizeof(counter) - 1) == 0)
            parse_counter(p, out);
        if (strncmp(p, library, sizeof(library) - 1) != 0)
            continue;
        size_t length = attribute(p, " version=\"", &version);
        if (length < sizeof(out->version))
            memcpy(out->version, version, length);
    }
}

/* --- Reading -------------------------------------------------------------- */

void replay_counters_open(const struct replay_calls *calls) {
    source.property = calls->property;
    source.malloc_info = calls->malloc_info;
    if (source.malloc_info == NULL)
        return;
    source.stream = fmemopen(source.text, sizeof(source.text), "w");
    if (source.stream != NULL)
        setvbuf(source.stream, source.buffer, _IOFBF, sizeof(source.buffer));
}

static bool read_info(struct replay_counters *out) {
    if (source.stream == NULL)
        return false;
    rewind(source.stream);
    if (source.malloc_info(0, source.stream) != 0 || fflush(source.stream) != 0)
        return false;
    /* What follows is of an earlier, longer text. */
    long length = ftell(source.stream);
    if (length < 0 || (size_t)length >= sizeof(source.text))
        return false;
    source.text[length] = '\0';
    replay_counters_parse(source.text, out);
    return out->known != 0;
}

void replay_counters_read(struct replay_counters *out) {
    memset(out, 0, sizeof(*out));
    if (read_info(out) || source.property == NULL)
        return;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++) {
        const char *name = mtf_account_name(i);
        size_t v;
        if (name != NULL && source.property(name, &v)) {
            out->value[i] = v;
            out->known |= 1u << i;
        }
    }
}

void replay_counters_close(void) {
    if (source.stream != NULL)
        fclose(source.stream);
    source.stream = NULL;
}

void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after) {
    after->known &= before->known;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        after->value[i] -= before->value[i];
}
