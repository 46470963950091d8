/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace info --timeline: memory over time as a line of blocks for each
 * figure, or as a file of the form of replay --timeline.
 *
 * A block stands for the largest value of its span of time, so no peak is lost,
 * in parts of the largest of the line. A sample counts until the next one.
 */
#include "cmd/malloc_trace/info/info_print.h"

#include "base/check.h"
#include "common/files.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info_course.h"
#include "model/untouched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Columns of a line where standard output is no terminal, and those of its
   label; the fewest and most of a timeline. */
#define INDENT 16
#define LEAST  16
#define MOST   ((int)INFO_COLUMNS)

/* --- Values --------------------------------------------------------------- */

/* Values of columns: 0 where there is none. */
struct series {
    uint64_t value[INFO_COLUMNS];
};

/* Fills LIVE with the most live bytes of each column. */
static void find_live(const struct info_course *c, struct series *live) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < info_course_columns(c); i++) {
        const struct info_column *from = &c->column[i];
        uint64_t most = bytes;
        bytes += from->bytes;
        most = most > bytes ? most : bytes;
        live->value[i] = most > from->most_bytes ? most : from->most_bytes;
    }
}

/* Fills RSS with the last sample in each column, or before it. */
static void find_rss(const struct info_course *c, struct series *rss) {
    uint64_t last = 0;
    for (unsigned i = 0; i < info_course_columns(c); i++) {
        if (c->column[i].sampled)
            last = c->column[i].rss_bytes;
        rss->value[i] = last;
    }
}

/* Replaces the COUNT values of S by WIDTH ones. Each is the largest of those
   that it stands for. */
static void resample(struct series *s, unsigned count, unsigned width) {
    struct series from = *s;
    TCM_ASSERT(count != 0 && width <= INFO_COLUMNS);
    for (unsigned i = 0; i < width; i++) {
        unsigned first = i * count / width, end = (i + 1) * count / width;
        s->value[i] = from.value[first];
        for (unsigned k = first + 1; k < end; k++)
            if (from.value[k] > s->value[i])
                s->value[i] = from.value[k];
    }
}

/* --- The terminal --------------------------------------------------------- */

/* Tells whether the locale has UTF-8. Its name says so also where it is not
   installed, as in containers; the terminal has it nevertheless. */
static bool has_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(names); i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || *value == '\0')
            continue;
        const char *dot = strchr(value, '.');
        return dot != NULL && (strncasecmp(dot, ".utf-8", 6) == 0 ||
                               strncasecmp(dot, ".utf8", 5) == 0);
    }
    return false;
}

static int timeline_width(void) {
    int columns = (int)tool_text_columns(STDOUT_FILENO) - INDENT - 1;
    return columns < LEAST ? LEAST : columns > MOST ? MOST : columns;
}

/* --- Lines ---------------------------------------------------------------- */

/* The place of the first value of S that is the largest. */
static int place_of_most(const struct series *s, int width) {
    int place = 0;
    for (int i = 1; i < width; i++)
        if (s->value[i] > s->value[place])
            place = i;
    return place;
}

static void put_blocks(const char *label, const struct series *s, int width) {
    static const char plain[] = " .:-=+*#@";
    const unsigned levels = sizeof(plain) - 2;
    bool utf8 = has_utf8();
    uint64_t most = s->value[place_of_most(s, width)];
    int used = width;
    while (used > 0 && s->value[used - 1] == 0)
        used--;
    printf("  %-13s%s", label, used == 0 ? "" : " ");
    for (int i = 0; i < used; i++) {
        unsigned __int128 scaled = (unsigned __int128)s->value[i] * levels;
        unsigned level = most == 0 ? 0 : (unsigned)((scaled + most - 1) / most);
        TCM_ASSERT(level <= levels);
        if (utf8 && level != 0)
            printf("\xe2\x96%c", (char)(0x80 + level)); /* U+2580 + level */
        else
            putchar(plain[level]);
    }
    putchar('\n');
}

/* Prints TEXT below place AT, with a mark there. */
static void put_mark(const char *text, int at, int width) {
    int length = (int)strlen(text), left = INDENT + at - length - 1;
    if (at + 2 + length <= width)
        printf("%*s^ %s\n", INDENT + at, "", text);
    else
        printf("%*s%s ^\n", left > 0 ? left : 0, "", text);
}

/* Text of position AT of C: a time since SINCE_NS, or a number of
   operations. */
static const char *position_text(const struct info_course *c, uint64_t at,
                                 uint64_t since_ns, char text[64]) {
    struct tool_text t;
    uint64_t ns = c->start_ns + at;
    if (c->has_times)
        snprintf(text, 64, "%s",
                 tool_text_ns(&t, ns > since_ns ? ns - since_ns : 0));
    else
        snprintf(text, 64, "%s operations", tool_text_count(&t, at + 1));
    return text;
}

static void put_axis(const struct info_course *c, uint64_t since_ns,
                     int width) {
    char start[64], end[64];
    position_text(c, 0, since_ns, start);
    position_text(c, c->end, since_ns, end);
    int room = width - (int)strlen(start);
    printf("%*s%s%*s\n", INDENT, "", c->has_times ? start : "",
           c->has_times ? room : width, end);
}

/* Prints the values of S and marks the first that is the largest. PEAK: this
   value where its position is known more exactly than by its column, else 0. */
static void put_series(const struct info_course *c, const char *label,
                       struct series *s, uint64_t peak, uint64_t since_ns,
                       int width) {
    unsigned columns = info_course_columns(c);
    int first = place_of_most(s, (int)columns);
    uint64_t most = s->value[first];
    uint64_t at =
        most == peak ? c->peak : info_course_position(c, (unsigned)first);
    char text[128], when[64];
    struct tool_text t;
    snprintf(text, sizeof(text), "%s after %s", tool_text_bytes(&t, most),
             position_text(c, at, since_ns, when));
    resample(s, columns, (unsigned)width);
    put_blocks(label, s, width);
    put_mark(text, place_of_most(s, width), width);
}

/* Says where the samples contradict that all live bytes were in use. */
static void put_untouched(const struct info_course *c) {
    struct untouched u = {0};
    char text[UNTOUCHED_TEXT];
    uint64_t bytes = 0;
    for (unsigned i = 0; i < info_course_columns(c); i++) {
        bytes += c->column[i].bytes;
        const struct untouched_sample s = {
            .ns = c->has_times ? info_course_position(c, i) : 0,
            .bytes = bytes,
            .resident_bytes = c->column[i].rss_bytes,
            .heap_bytes = c->column[i].heap_bytes};
        if (c->column[i].sampled)
            untouched_add(&u, &s);
    }
    if (untouched_text(&u, UNTOUCHED_SHOWN, text) != NULL)
        printf("  %s\n", text);
}

void info_timeline_print(const struct info_file *f, uint64_t since_ns) {
    const struct info_course *c = f->course;
    static struct series live, rss;
    int width = timeline_width();
    if (f->live.failed || info_course_columns(c) == 0) {
        printf("  %-13s %s\n", "live heap",
               f->live.failed ? "unknown, not enough memory" : "no events");
        return;
    }
    find_live(c, &live);
    put_series(c, "live heap", &live, c->peak_bytes, since_ns, width);
    if (c->has_samples) {
        find_rss(c, &rss);
        put_series(c, "RSS", &rss, 0, since_ns, width);
    }
    put_axis(c, since_ns, width);
    put_untouched(c);
}

/* --- Files ---------------------------------------------------------------- */

/* A row of the file: the state at the end of a column. */
struct row {
    uint64_t operations, live_bytes, live_blocks;
};

static void row_advance(struct row *r, const struct info_column *c) {
    r->operations += c->operations;
    r->live_bytes += c->bytes;
    r->live_blocks += c->blocks;
}

static bool write_csv(const struct info_course *c, const struct series *live,
                      const char *name) {
    FILE *out = tool_file_stream(name);
    struct row r = {0};
    if (out == NULL)
        return false;
    fputs("operation,recorded_ns,live_bytes,live_blocks,most_live_bytes", out);
    fputs(c->has_samples ? ",recorded_rss_bytes,recorded_heap_bytes\n" : "\n",
          out);
    for (unsigned i = 0; i < info_course_columns(c); i++) {
        const struct info_column *from = &c->column[i];
        row_advance(&r, from);
        fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
                r.operations, c->has_times ? info_course_position(c, i) : 0,
                r.live_bytes, r.live_blocks, live->value[i]);
        if (from->sampled)
            fprintf(out, ",%" PRIu64 ",%" PRIu64, from->rss_bytes,
                    from->heap_bytes);
        else if (c->has_samples)
            fputs(",,", out);
        fputc('\n', out);
    }
    return tool_file_stream_end(out, name);
}

static bool write_json(const struct info_course *c, const struct series *live,
                       const char *name) {
    static struct tool_json j;
    struct row r = {0};
    if (!tool_json_open(&j, name))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_begin_array(&j, "timeline");
    for (unsigned i = 0; i < info_course_columns(c); i++) {
        const struct info_column *from = &c->column[i];
        row_advance(&r, from);
        tool_json_begin_object(&j, NULL);
        tool_json_u64(&j, "operation", r.operations);
        tool_json_u64(&j, "recorded_ns",
                      c->has_times ? info_course_position(c, i) : 0);
        tool_json_u64(&j, "live_bytes", r.live_bytes);
        tool_json_u64(&j, "live_blocks", r.live_blocks);
        tool_json_u64(&j, "most_live_bytes", live->value[i]);
        if (from->sampled) {
            tool_json_u64(&j, "recorded_rss_bytes", from->rss_bytes);
            tool_json_u64(&j, "recorded_heap_bytes", from->heap_bytes);
        }
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

bool info_timeline_write(const struct info_file *f, const char *name) {
    static struct series live;
    size_t n = strlen(name);
    bool is_json = n >= 5 && strcmp(name + n - 5, ".json") == 0;
    if (f->live.failed) {
        tool_error("%s: not enough memory to count live bytes", f->name);
        return false;
    }
    find_live(f->course, &live);
    return (is_json ? write_json : write_csv)(f->course, &live, name);
}
