/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a processed trace from a description, for the tests of malloc-trace
 * report: stacks of any depth, and names of any bytes.
 *
 *     report_make OUT <DESCRIPTION
 *
 * A line of the description is one of
 *
 *     module ID START END PATH       file SITE PARENT FILE LINE FUNCTION
 *     frame SITE PARENT MODULE ADDRESS    text ID TEXT
 *     site SITE         for what comes then
 *     new BLOCK SIZE    free BLOCK        failed SIZE
 *     time NS           thread ID         mark TEXT
 *     end ID NAME       of a thread
 *     mode MODE MEAN    how sites were chosen
 *
 * Numbers may be hexadecimal. TEXT and PATH go to the end of the line, and
 * "\xHH" in them is a byte. `file` is a line of an interpreter; FILE and
 * FUNCTION are numbers of texts.
 */
#include "memory_sink.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_writer.h"
#include "traceformat/site_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX ((size_t)1 << 22)

struct maker {
    struct mtf_proc_writer w;
    FILE *out;
    struct mtf_proc_object *block;
    uint64_t now;
};

static void die(const char *what) {
    fprintf(stderr, "report_make: %s\n", what);
    exit(99);
}

static bool sink(void *ctx, const void *data, size_t length) {
    struct maker *m = ctx;
    return fwrite(data, 1, length, m->out) == length;
}

static uint64_t number(char **at) {
    char *end;
    uint64_t v = strtoull(*at, &end, 0);
    if (end == *at)
        die("a number is missing");
    *at = end + (*end == ' ');
    return v;
}

/* Bytes for "\xHH"; returns how many there are. */
static size_t unescape(char *text) {
    size_t n = 0;
    for (; *text != '\0'; n++) {
        unsigned byte;
        if (sscanf(text, "\\x%2x", &byte) == 1) {
            text[0] = (char)byte;
            memmove(text + 1, text + 4, strlen(text + 4) + 1);
        }
        text++;
    }
    return n;
}

static void define(struct maker *m, struct mtf_site_def *def, char *text) {
    uint8_t bytes[8192];
    unsigned left, n;
    if (text != NULL) {
        def->path_length = (uint32_t)unescape(text);
        def->path = (const uint8_t *)text;
    }
    n = mtf_site_def_put(bytes, sizeof(bytes), def, &left);
    mtf_proc_put_site_def(&m->w, bytes, n);
    if (left != 0)
        die("a text is too long");
}

static void define_line(struct maker *m, const char *what, char *at) {
    struct mtf_site_def def = {0};
    if (strcmp(what, "module") == 0) {
        def.kind = MTF_SITE_DEF_MODULE;
        def.module = (uint32_t)number(&at);
        def.start = def.bias = number(&at);
        def.end = number(&at);
        define(m, &def, at);
    } else if (strcmp(what, "mode") == 0) {
        def.kind = MTF_SITE_DEF_MODE;
        def.mode = (uint8_t)number(&at);
        def.mean = number(&at);
        define(m, &def, NULL);
    } else if (strcmp(what, "text") == 0) {
        def.kind = MTF_SITE_DEF_TEXT;
        def.text = (uint32_t)number(&at);
        define(m, &def, at);
    } else if (strcmp(what, "frame") == 0) {
        def.kind = MTF_SITE_DEF_FRAME;
        def.site = (uint32_t)number(&at);
        def.parent = (uint32_t)number(&at);
        def.module = (uint32_t)number(&at);
        def.address = number(&at);
        define(m, &def, NULL);
    } else if (strcmp(what, "file") == 0) {
        def.kind = MTF_SITE_DEF_LINE;
        def.language = MTF_LANGUAGE_PYTHON;
        def.site = (uint32_t)number(&at);
        def.parent = (uint32_t)number(&at);
        def.file = (uint32_t)number(&at);
        def.line = (uint32_t)number(&at);
        def.function = (uint32_t)number(&at);
        define(m, &def, NULL);
    } else {
        die(what);
    }
}

static struct mtf_proc_object *block_at(struct maker *m, char **at) {
    uint64_t n = number(at);
    if (n >= BLOCKS_MAX)
        die("too many blocks");
    return &m->block[n];
}

static void take_line(struct maker *m, char *line) {
    char *at = line + strcspn(line, " ");
    if (*at != '\0')
        *at++ = '\0';
    if (*line == '\0' || *line == '#')
        return;
    if (strcmp(line, "new") == 0) {
        struct mtf_proc_object *b = block_at(m, &at);
        mtf_proc_put_alloc(&m->w, MTF_CALL_MALLOC, number(&at), b);
    } else if (strcmp(line, "free") == 0) {
        mtf_proc_put_free(&m->w, MTF_CALL_FREE, block_at(m, &at));
    } else if (strcmp(line, "failed") == 0) {
        mtf_proc_put_failed(&m->w, MTF_CALL_MALLOC, 0, 0, number(&at));
    } else if (strcmp(line, "site") == 0) {
        mtf_proc_put_site(&m->w, (uint32_t)number(&at));
    } else if (strcmp(line, "time") == 0) {
        mtf_proc_put_time(&m->w, number(&at));
    } else if (strcmp(line, "thread") == 0) {
        mtf_proc_put_switch(&m->w, (uint32_t)number(&at));
    } else if (strcmp(line, "end") == 0) {
        uint32_t thread = (uint32_t)number(&at);
        mtf_proc_put_thread_end(&m->w, thread, at, strlen(at));
    } else if (strcmp(line, "mark") == 0) {
        mtf_proc_put_text(&m->w, MTF_PROC_MARK, at, unescape(at));
    } else {
        define_line(m, line, at);
    }
}

int main(int argc, char **argv) {
    static struct maker m;
    uint8_t header[MTF_RAW_HEADER_MAX];
    struct mtf_raw_header fixed = {
        .pid = 4711, .random = 1, .page_size = 4096, .clock = 1};
    char *line = NULL;
    size_t room = 0;
    if (argc != 2)
        die("usage: report_make OUT");
    m.out = fopen(argv[1], "wb");
    m.block = calloc(BLOCKS_MAX, sizeof(*m.block));
    if (m.out == NULL || m.block == NULL)
        die(argv[1]);
    size_t n = mtf_raw_build_header(header, &fixed, "made", "by a test");
    if (!mtf_proc_writer_begin(&m.w, sink, memory_sink_grow, &m, header,
                               (uint32_t)n))
        die("cannot write");
    mtf_proc_put_switch(&m.w, 1);
    while (getline(&line, &room, stdin) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        take_line(&m, line);
    }
    free(line);
    if (!mtf_proc_writer_end(&m.w, NULL, 0) || fclose(m.out) != 0)
        die("cannot write");
    free(m.block);
    return 0;
}
