/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces as files: with and without a spool, plain and in LZ4 frames, from
 * pipes, still growing, damaged; and the outputs of tools.
 */
#include "base/linux/os_file.h"
#include "common/input.h"
#include "common/output.h"
#include "trace/raw.h"

#include "base/checksum.h"
#include "prng.h"
#include "raw_build.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static const char *path_of(const char *name) {
    static char paths[4][128];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof(paths[0]), "%s/%s", folder, name);
    return p;
}

static void save(const char *name, const void *data, size_t n) {
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) != 0)
        tap_bail("%s: %s", name, strerror(errno));
}

/* --- Items of a trace --------------------------------------------------- */

struct result {
    unsigned items[16]; /* by enum mtf_item_kind */
    unsigned mallocs;   /* events of all threads, each once */
    uint64_t doubled, gap, undecodable;
    enum mtf_status status; /* of the last DAMAGE or FAILED */
    bool complete, clean_end, growing, spool, file;
    uint64_t raw_bytes, stored_bytes, total_bytes;
    char text[256];
};

static void count_data(struct result *r, struct mtf_stream *s,
                       const struct mtf_item *item) {
    struct mtf_placement place;
    struct mtf_event e;
    mtf_stream_place(s, item, &place);
    r->doubled += place.doubled;
    r->gap += place.gap;
    r->undecodable += place.undecodable;
    const uint8_t *p = place.data, *end = p + place.length;
    while (p < end) {
        int n = mtf_raw_decode(&s->state, p, end, &e);
        if (n <= 0) {
            r->undecodable += (uint64_t)(end - p);
            mtf_stream_lose(s);
            break;
        }
        r->mallocs += e.kind == MTF_EVENT_ALLOC;
        p += n;
    }
}

static void read_all(struct tool_raw *t, struct result *r) {
    struct mtf_stream streams[8];
    struct mtf_item item;
    memset(r, 0, sizeof(*r));
    for (unsigned i = 0; i < 8; i++)
        mtf_stream_init(&streams[i]);
    do {
        tool_raw_next(t, &item);
        r->items[item.kind]++;
        if (item.kind == MTF_ITEM_DATA)
            count_data(r, &streams[item.thread % 8], &item);
        if (item.kind == MTF_ITEM_DAMAGE || item.kind == MTF_ITEM_FAILED) {
            r->status = item.status;
            snprintf(r->text, sizeof(r->text), "%s",
                     tool_raw_item_text(t, &item));
        }
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    r->complete = tool_raw_complete(t);
    r->clean_end = tool_raw_clean_end(t);
    r->growing = tool_raw_is_growing(t);
    r->spool = tool_raw_has_spool(t);
    r->file = tool_raw_has_file(t);
    r->raw_bytes = tool_raw_bytes(t);
    r->stored_bytes = tool_raw_stored_bytes(t);
    r->total_bytes = tool_raw_total_bytes(t);
    tool_raw_close(t);
}

static void read_name(const char *name, struct result *r) {
    read_all(tool_raw_open(name), r);
}

/* --- A recording -------------------------------------------------------- */

/* Makes BUFFERS buffers of ten mallocs each, of threads 1 and 2 in turn.
   Buffers before SAVED are in the file, buffers from FIRST on in the spool (of
   recording RANDOM), later ones of a thread first. */
struct recording {
    unsigned buffers, saved, first;
    bool compressed, footer;
    bool frames; /* each barrier ends one */
    uint64_t random;
    enum mtf_end_reason reason;
};

static void encode_buffer(struct encoder *e, unsigned i) {
    e->out.length = 0;
    put_buffer(e, 1000 + 100 * i, 0, 0);
    put_tokens(e, 1 + 64 * (uint64_t)i, 6);
    for (unsigned k = 0; k < 10; k++)
        put_alloc(e, 16 + i);
}

static void make_file(const struct recording *rec, struct bytes *out) {
    struct mtf_raw_writer w;
    void *memory = begin_trace(&w, out, rec->compressed);
    struct encoder e[2] = {{.next_token = 1}, {.next_token = 1}};
    uint64_t offset[2] = {0};
    for (unsigned i = 0; i < rec->saved; i++) {
        encode_buffer(&e[i % 2], i);
        struct mtf_raw_place place = {1 + i % 2, offset[i % 2], offset[i % 2],
                                      990 + 100 * i, 1090 + 100 * i};
        mtf_raw_write_data(&w, &place, e[i % 2].out.data, e[i % 2].out.length);
        offset[i % 2] += e[i % 2].out.length;
        mtf_raw_write_barrier(&w, 1095 + 100 * i);
        if (rec->frames)
            mtf_raw_writer_end_frame(&w);
    }
    struct mtf_account_value a = {MTF_ACCOUNT_END_REASON, rec->reason};
    if (rec->footer)
        mtf_raw_write_footer(&w, 9000, &a, 1);
    bytes_free(&e[0].out);
    bytes_free(&e[1].out);
    free(memory);
}

static void make_spool(const struct recording *rec, struct bytes *out) {
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    if (rec->random != 0)
        h.random = rec->random;
    size_t n = mtf_raw_build_header(header, &h, "program", "recorder 1");
    uint8_t *page = bytes_room(out, MTF_SPOOL_UNIT);
    mtf_spool_put_head(page, header, n, 0);
    mtf_spool_mark_of(page)->begun = UINT64_MAX;
    out->length = MTF_SPOOL_UNIT * (size_t)(rec->buffers + 1);
    bytes_room(out, 0);
    memset(out->data + MTF_SPOOL_UNIT, 0, out->length - MTF_SPOOL_UNIT);
    struct encoder e[2] = {{.next_token = 1}, {.next_token = 1}};
    uint64_t offset[2] = {0};
    for (unsigned i = 0; i < rec->buffers; i++) {
        encode_buffer(&e[i % 2], i);
        uint8_t *p = out->data + MTF_SPOOL_UNIT * (size_t)(rec->buffers - i);
        if (i >= rec->first) {
            struct mtf_spool_buffer head = {0};
            mtf_spool_put_buffer(&head, h.random, 4096, 1 + i % 2,
                                 offset[i % 2], 990 + 100 * i);
            memcpy(p, &head, sizeof(head));
            memcpy(p + sizeof(head), e[i % 2].out.data, e[i % 2].out.length);
        }
        offset[i % 2] += e[i % 2].out.length;
    }
    bytes_free(&e[0].out);
    bytes_free(&e[1].out);
}

/* Makes the file "t" and perhaps its spool. */
static void record(const struct recording *rec, bool with_spool) {
    struct bytes b = {0};
    unlink(path_of("t.spool"));
    make_file(rec, &b);
    save("t", b.data, b.length);
    b.length = 0;
    if (with_spool) {
        make_spool(rec, &b);
        save("t.spool", b.data, b.length);
    }
    bytes_free(&b);
}

/* --- Files and spools --------------------------------------------------- */

static void test_whole(bool compressed) {
    const char *how = compressed ? "LZ4" : "plain";
    struct recording rec = {.saved = 6,
                            .compressed = compressed,
                            .footer = true,
                            .reason = MTF_END_EXIT};
    struct result r;
    struct stat st;
    record(&rec, false);
    read_name(path_of("t"), &r);
    stat(path_of("t"), &st);
    tap_ok(r.complete && r.clean_end && r.mallocs == 60 && !r.growing &&
               !r.spool && r.file && r.items[MTF_ITEM_DAMAGE] == 0,
           "%s: a whole trace", how);
    tap_ok(r.stored_bytes == (uint64_t)st.st_size &&
               r.total_bytes == r.stored_bytes &&
               r.raw_bytes >= r.stored_bytes / 2,
           "%s: its sizes", how);
    rec.reason = MTF_END_FORCED;
    record(&rec, false);
    read_name(path_of("t"), &r);
    tap_ok(!r.complete && r.clean_end && r.mallocs == 60,
           "%s: a forced stop lacks something", how);
    rec.reason = MTF_END_STOP;
    record(&rec, false);
    read_name(path_of("t"), &r);
    tap_ok(r.complete && r.clean_end, "%s: a stop by call does not", how);
    rec.footer = false;
    record(&rec, false);
    read_name(path_of("t"), &r);
    tap_ok(!r.complete && !r.clean_end && r.mallocs == 60 &&
               r.items[MTF_ITEM_DAMAGE] == rec.compressed,
           "%s: without footer and spool a frame ends in the middle", how);
    rec.frames = true;
    record(&rec, false);
    read_name(path_of("t"), &r);
    tap_ok(!r.complete && !r.clean_end && r.mallocs == 60 &&
               r.items[MTF_ITEM_DAMAGE] == 0,
           "%s: without footer and spool the end is missing", how);
}

static void test_killed(bool compressed) {
    const char *how = compressed ? "LZ4" : "plain";
    struct recording rec = {
        .buffers = 8, .saved = 5, .first = 3, .compressed = compressed};
    struct result r;
    record(&rec, true);
    read_name(path_of("t"), &r);
    tap_ok(r.mallocs == 80 && r.doubled != 0 && r.gap == 0 &&
               r.undecodable == 0,
           "%s: file and spool give every event once", how);
    tap_ok(r.complete && !r.clean_end && r.spool,
           "%s: complete, without clean end", how);
    struct stat st;
    stat(path_of("t"), &st);
    if (truncate(path_of("t"), st.st_size - 20) != 0)
        tap_bail("truncate: %s", strerror(errno));
    read_name(path_of("t"), &r);
    tap_ok(r.mallocs == 80 && r.gap == 0 && r.items[MTF_ITEM_DAMAGE] == 0 &&
               r.complete && !r.clean_end,
           "%s: a last frame that is cut, but the spool has it", how);
    unlink(path_of("t.spool"));
    read_name(path_of("t"), &r);
    tap_ok(r.items[MTF_ITEM_DAMAGE] == 1 && r.status == MTF_CUT &&
               !r.complete && r.mallocs >= 40 && r.mallocs <= 50,
           "%s: without the spool the cut is told, once", how);
    rec.first = 7;
    record(&rec, true);
    read_name(path_of("t"), &r);
    tap_ok(r.gap != 0 && r.mallocs == 60,
           "%s: a gap between file and spool is seen", how);
    rec.first = 3;
    rec.random = 99;
    record(&rec, true);
    read_name(path_of("t"), &r);
    tap_ok(!r.spool && r.mallocs == 50 && !r.complete,
           "%s: the spool of another recording is left alone", how);
    rec.random = 0;
    record(&rec, true);
    save("t", "", 0);
    read_name(path_of("t"), &r);
    tap_ok(r.items[MTF_ITEM_HEADER] == 1 && r.spool && r.mallocs == 50 &&
               r.gap != 0,
           "%s: an empty file with a spool", how);
}

static void test_spool_alone(void) {
    struct recording rec = {.buffers = 6};
    struct bytes b = {0};
    struct result r;
    unlink(path_of("t"));
    make_spool(&rec, &b);
    save("t.spool", b.data, b.length);
    read_name(path_of("t"), &r);
    tap_ok(r.complete && !r.clean_end && r.mallocs == 60 && r.spool && !r.file,
           "a name of which only the spool exists");
    read_name(path_of("t.spool"), &r);
    tap_ok(r.complete && r.mallocs == 60, "the spool itself");
    save("renamed", b.data, b.length);
    read_name(path_of("renamed"), &r);
    tap_ok(r.complete && r.mallocs == 60, "under another name");

    int in = open(path_of("t.spool"), O_RDONLY), p[2];
    if (in < 0 || pipe(p) != 0)
        tap_bail("pipe: %s", strerror(errno));
    fcntl(p[1], F_SETPIPE_SZ, 1 << 16);
    if (write(p[1], b.data, b.length) != (ssize_t)b.length)
        tap_bail("write to the pipe");
    close(p[1]);
    close(in);
    struct tool_input *input = tool_input_from_fd(p[0], "pipe");
    read_all(tool_raw_from_input(input, NULL), &r);
    tap_ok(r.complete && r.mallocs == 60, "through a pipe");

    b.data[72] ^= 1; /* in the header's copy of page 0 */
    save("t.spool", b.data, b.length);
    read_name(path_of("t.spool"), &r);
    tap_ok(r.items[MTF_ITEM_FAILED] == 1 && r.status == MTF_DAMAGED,
           "a spool whose only header is damaged cannot be read");
    rec.saved = 3;
    struct bytes file = {0};
    make_file(&rec, &file);
    save("t", file.data, file.length);
    read_name(path_of("t"), &r);
    tap_ok(r.mallocs == 60 && r.items[MTF_ITEM_DAMAGE] == 1 && !r.complete,
           "but it can with the file's header, and the damage is told");
    bytes_free(&file);
    b.data[72] ^= 1;
    mtf_spool_put_forced(b.data);
    save("t.spool", b.data, b.length);
    read_name(path_of("t.spool"), &r);
    tap_ok(!r.complete && r.mallocs == 60,
           "a spool that says the recorder had to stop lacks what came after");
    bytes_free(&b);
}

static void test_spool_damage(void) {
    struct recording rec = {.buffers = 6};
    struct bytes b = {0};
    struct result r;
    unlink(path_of("t"));
    make_spool(&rec, &b);
    size_t head = b.length - MTF_SPOOL_UNIT; /* of thread 1's first buffer */
    b.data[head + 20] ^= 1;
    save("t.spool", b.data, b.length);
    read_name(path_of("t"), &r);
    tap_ok(r.gap != 0 && r.mallocs == 50,
           "a buffer whose head is damaged is a gap in its stream");
    b.data[head + 20] ^= 1;
    /* Killed between the two parts of a realloc event: not published. */
    bool ended;
    size_t end =
        head + 48 +
        mtf_raw_events_length(b.data + head + 48, b.data + head + 4096, &ended);
    b.data[end] = 0x0f;
    save("t.spool", b.data, b.length);
    read_name(path_of("t"), &r);
    tap_ok(ended && r.complete && r.mallocs == 60 &&
               r.items[MTF_ITEM_DAMAGE] == 0,
           "an event that was begun when the process was killed");
    b.data[end + 9] = 1;
    save("t.spool", b.data, b.length);
    read_name(path_of("t"), &r);
    tap_ok(!r.complete && r.mallocs == 60 && r.items[MTF_ITEM_DAMAGE] == 1,
           "what cannot be one is damage");
    b.data[end] = b.data[end + 9] = 0;
    save("t.spool", b.data, b.length - 4096 + 80);
    read_name(path_of("t"), &r);
    tap_ok(r.items[MTF_ITEM_DAMAGE] == 1 && r.status == MTF_CUT &&
               r.mallocs < 60,
           "a spool that is cut inside a buffer");
    /* Holes, and no end in sight. */
    save("t.spool", b.data, b.length);
    if (truncate(path_of("t.spool"), (off_t)1 << 40) == 0) {
        read_name(path_of("t"), &r);
        tap_ok(r.complete && r.mallocs == 60, "a sparse spool of 1 TiB");
    } else {
        tap_skip("no sparse files here");
    }
    bytes_free(&b);
}

/* Marks of a spool about its file and about itself. */
static void test_spool_mark(void) {
    struct recording rec = {.buffers = 8, .saved = 5, .first = 3};
    struct bytes b = {0};
    struct stat st;
    struct result r;
    record(&rec, false);
    stat(path_of("t"), &st);
    make_spool(&rec, &b);
    struct mtf_spool_mark *mark = mtf_spool_mark_of(b.data);
    const struct mtf_spool_mark right = {.length = b.length,
                                         .saved = (uint64_t)st.st_size,
                                         .begun = (uint64_t)st.st_size};
    uint64_t *emptied = /* of the first buffer, which is not in use */
        &((struct mtf_spool_buffer *)(void *)(b.data + b.length -
                                              MTF_SPOOL_UNIT))
             ->saved;
    static const struct {
        const char *what;
        struct mtf_spool_mark add; /* to the right value */
        uint64_t emptied;
        enum mtf_status status; /* MTF_OK: no message */
    } cases[] = {
        {"all agree", {0}, 0, MTF_OK},
        {"a buffer that was emptied before", {0}, 100, MTF_OK},
        {"the output has less than it had", {.saved = 1}, 0, MTF_CUT},
        {"the output may have had more", {.begun = 1}, 0, MTF_OK},
        {"the output has more than was begun", {.begun = -1}, 0, MTF_NOT_ONE},
        {"a buffer is newer than page 0", {.saved = -50}, -1, MTF_NOT_ONE},
        {"a buffer says that more was saved", {0}, 1 << 20, MTF_CUT},
        {"the spool was longer", {.length = 4096}, 0, MTF_CUT},
        {"buffers elsewhere", {.flags = MTF_SPOOL_PRIVATE}, 0, MTF_PRIVATE},
        {"unknown bits", {.flags = 2}, 0, MTF_OK},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(cases); i++) {
        mark->length = right.length + cases[i].add.length;
        mark->saved = right.saved + cases[i].add.saved;
        mark->begun = right.begun + cases[i].add.begun;
        mark->flags = cases[i].add.flags;
        *emptied =
            cases[i].emptied == UINT64_MAX ? right.saved : cases[i].emptied;
        save("t.spool", b.data, b.length);
        read_name(path_of("t"), &r);
        bool fine = cases[i].status == MTF_OK;
        tap_ok(r.mallocs == 80 && r.complete == fine &&
                   r.items[MTF_ITEM_DAMAGE] == !fine &&
                   (fine || r.status == cases[i].status),
               "spool and file: %s", cases[i].what);
    }
    /* A spool of an older library: the header is where the mark would be. */
    struct mtf_spool_head head;
    memcpy(&head, b.data, sizeof(head));
    memmove(b.data + sizeof(head), b.data + head.header_offset,
            MTF_RAW_HEADER_MAX);
    head.header_offset = sizeof(head);
    head.checksum =
        tcm_checksum_of(&head, offsetof(struct mtf_spool_head, checksum), 0);
    memcpy(b.data, &head, sizeof(head));
    save("t.spool", b.data, b.length);
    read_name(path_of("t"), &r);
    tap_ok(r.complete && r.mallocs == 80 && r.spool,
           "a spool without a mark is read as before");
    bytes_free(&b);
}

static void test_growing(void) {
    struct recording rec = {.buffers = 8, .saved = 5, .first = 3};
    struct result r;
    for (int compressed = 0; compressed < 2; compressed++) {
        rec.compressed = compressed != 0;
        record(&rec, true);
        /* A frame that is being written. */
        int fd = open(path_of("t"), O_WRONLY | O_APPEND);
        static const uint8_t begun[] = {0x04, 0x22, 0x4D, 0x18, 0x64, 0x40};
        static const uint8_t sync[] = {0xA5, 'S', 'G', 0xF1, 1, 0, 0};
        bool ok = compressed != 0
                      ? write(fd, begun, sizeof(begun)) == sizeof(begun)
                      : write(fd, sync, sizeof(sync)) == sizeof(sync);
        close(fd);
        fd = open(path_of("t.spool"), O_RDWR);
        ok = ok && tcm_file_lock(fd);
        read_name(path_of("t"), &r);
        tap_ok(ok && r.growing && !r.complete && r.mallocs == 50 &&
                   r.items[MTF_ITEM_BARRIER] == 5 &&
                   r.items[MTF_ITEM_DAMAGE] == 0,
               "%s: growing: read up to the last barrier, no damage",
               compressed != 0 ? "LZ4" : "plain");
        unlink(path_of("t"));
        read_name(path_of("t"), &r);
        tap_ok(r.growing && !r.complete && r.mallocs == 0 &&
                   r.items[MTF_ITEM_HEADER] == 1,
               "growing, the spool alone: nothing is certain yet");
        close(fd);
        read_name(path_of("t"), &r);
        tap_ok(!r.growing, "and when the lock is gone it is not");
    }
    /* Readers do not take each other for a recording, nor a process that may
       only read, whatever it locks. */
    record(&rec, true);
    int fd = open(path_of("t.spool"), O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    bool ok = fcntl(fd, F_OFD_SETLK, &lock) == 0 && flock(fd, LOCK_EX) == 0;
    read_name(path_of("t"), &r);
    tap_ok(ok && !r.growing && r.mallocs == 80, "another reader's lock");
    close(fd);
}

static void test_wrong_names(void) {
    struct result r;
    read_name(path_of("missing"), &r);
    tap_ok(r.items[MTF_ITEM_FAILED] == 1 && r.status == MTF_SYSTEM &&
               strstr(r.text, "No such file") != NULL &&
               strstr(r.text, "missing") != NULL,
           "a file that is not there: %s", r.text);
    read_name(folder, &r);
    tap_ok(r.items[MTF_ITEM_FAILED] == 1 && r.status == MTF_SYSTEM,
           "a folder: %s", r.text);
    save("text", "hello, world\n", 13);
    read_name(path_of("text"), &r);
    tap_ok(r.items[MTF_ITEM_FAILED] == 1 && r.status == MTF_NO_TRACE &&
               strstr(r.text, "byte 0") != NULL,
           "a text: %s", r.text);
    save("text", "", 0);
    read_name(path_of("text"), &r);
    tap_ok(r.items[MTF_ITEM_FAILED] == 1 && r.status == MTF_EMPTY,
           "an empty file: %s", r.text);
}

static void test_fifo(void) {
    struct recording rec = {
        .saved = 6, .compressed = true, .footer = true, .reason = MTF_END_EXIT};
    struct bytes b = {0};
    struct result r;
    make_file(&rec, &b);
    if (mkfifo(path_of("fifo"), 0666) != 0)
        tap_bail("mkfifo: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path_of("fifo"), O_WRONLY);
        bool ok = true;
        for (size_t i = 0; i < b.length && ok; i += 100)
            ok = write(fd, b.data + i,
                       b.length - i < 100 ? b.length - i : 100) > 0;
        _exit(ok ? 0 : 1);
    }
    read_name(path_of("fifo"), &r);
    int status = 1;
    waitpid(child, &status, 0);
    tap_ok(status == 0 && r.complete && r.mallocs == 60 && r.total_bytes == 0 &&
               r.stored_bytes == b.length,
           "a FIFO that is written in small pieces");
    bytes_free(&b);
}

/* --- LZ4 frames --------------------------------------------------------- */

/* Reads a file; returns a checksum of its bytes and breaks. */
static bool read_bytes(const char *name, struct bytes *out, unsigned *breaks) {
    struct tool_input *in = tool_input_open(name);
    enum mtf_source_result result;
    size_t got;
    *breaks = 0;
    out->length = 0;
    do {
        uint8_t chunk[777];
        result = tool_input_read(in, chunk, sizeof(chunk), &got);
        bytes_add(out, chunk, got);
        *breaks += result == MTF_SOURCE_BREAK;
    } while (result == MTF_SOURCE_DATA || result == MTF_SOURCE_BREAK);
    tool_input_close(in);
    return result == MTF_SOURCE_END;
}

static void test_input(void) {
    uint8_t first[8], chunk[16];
    size_t got;
    save("plain", "abcdefghijklmnop", 16);
    struct tool_input *in = tool_input_open(path_of("plain"));
    tap_ok(tool_input_peek(in, first) == 8 && memcmp(first, "abcdefgh", 8) == 0,
           "peek");
    tap_ok(tool_input_read(in, chunk, 3, &got) == MTF_SOURCE_DATA && got == 3 &&
               memcmp(chunk, "abc", 3) == 0,
           "takes nothing");
    tap_is_u64(tool_input_bytes(in), 3, "bytes taken");
    tool_input_limit(in, 10);
    size_t all = 3;
    while (tool_input_read(in, chunk, 16, &got) == MTF_SOURCE_DATA)
        all += got;
    tap_ok(all == 16 || all == 10, "a limit after bytes were read ahead");
    tool_input_close(in);
    in = tool_input_open(path_of("plain"));
    tool_input_limit(in, 10);
    for (all = 0; tool_input_read(in, chunk, 16, &got) == MTF_SOURCE_DATA;)
        all += got;
    tap_is_u64(all, 10, "a limit from the start");
    tap_is_u64(tool_input_file_size(in), 10, "is the size");
    tool_input_close(in);
    save("tiny", "xyz", 3);
    in = tool_input_open(path_of("tiny"));
    tap_ok(tool_input_peek(in, first) == 3, "peek into a short file");
    tool_input_close(in);
}

#if TCM_HAVE_LZ4

#include <lz4frame.h>

/* Changes every byte of a trace in frames: other frames must be whole, and
   every loss must be reported. */
static void test_frame_damage(void) {
    struct recording rec = {.saved = 6,
                            .compressed = true,
                            .frames = true,
                            .footer = true,
                            .reason = MTF_END_EXIT};
    struct bytes b = {0};
    struct result r;
    make_file(&rec, &b);
    bool told = true, kept = true;
    for (size_t at = 0; at < b.length; at++) {
        b.data[at] ^= 0x55;
        save("flip", b.data, b.length);
        b.data[at] ^= 0x55;
        read_name(path_of("flip"), &r);
        told = told && r.items[MTF_ITEM_FAILED] == 0 &&
               (r.items[MTF_ITEM_DAMAGE] != 0 ? !r.complete
                                              : r.mallocs == 60 && r.complete);
        /* Each frame has one buffer; a lost frame is a gap before the thread's
           next buffer, which begins anew. */
        kept = kept && r.mallocs >= 50 && r.items[MTF_ITEM_HEADER] == 1;
    }
    tap_ok(told, "LZ4: any changed byte that matters is told");
    tap_ok(kept, "LZ4: it costs no more than its frame");
    told = true;
    for (size_t at = 4; at < b.length; at++) {
        save("cut", b.data, at);
        read_name(path_of("cut"), &r);
        told = told && r.items[MTF_ITEM_FAILED] == 0 && !r.complete;
    }
    tap_ok(told, "LZ4: a cut at any byte is told");
    bytes_free(&b);
}

/* A frame of other tools, with blocks of up to 4 MiB. */
static void add_frame(struct bytes *out, const void *data, size_t n,
                      LZ4F_blockSizeID_t size, bool independent, bool sums) {
    LZ4F_preferences_t p = {
        .frameInfo = {.blockSizeID = size,
                      .blockMode = independent ? LZ4F_blockIndependent
                                               : LZ4F_blockLinked,
                      .contentSize = sums ? n : 0,
                      .contentChecksumFlag = sums ? LZ4F_contentChecksumEnabled
                                                  : LZ4F_noContentChecksum,
                      .blockChecksumFlag = sums ? LZ4F_blockChecksumEnabled
                                                : LZ4F_noBlockChecksum}};
    size_t room = LZ4F_compressFrameBound(n, &p);
    uint8_t *to = bytes_room(out, room);
    out->length += LZ4F_compressFrame(to, room, data, n, &p);
}

static void test_foreign_frames(void) {
    enum { BIG = 5 << 20 };
    uint8_t *data = malloc(BIG);
    struct bytes b = {0}, got = {0};
    struct prng r;
    unsigned breaks;
    prng_seed(&r, 6);
    for (size_t i = 0; i < BIG; i++)
        data[i] = (uint8_t)(i % 1000 < 900 ? i / 1000 : prng_next(&r));
    static const uint8_t skippable[] = {0x5A, 0x2A, 0x4D, 0x18, 5,   0,  0,
                                        0,    'h',  'e',  'l',  'l', 'o'};
    bytes_add(&b, skippable, sizeof(skippable));
    add_frame(&b, data, BIG, LZ4F_max4MB, true, true);
    add_frame(&b, data, 0, LZ4F_max256KB, false, false);
    bytes_add(&b, skippable, sizeof(skippable));
    add_frame(&b, data, 100000, LZ4F_max64KB, false, false);
    size_t last = b.length;
    add_frame(&b, data, 1000, LZ4F_max1MB, true, true);
    save("frames", b.data, b.length);
    bool ok = read_bytes(path_of("frames"), &got, &breaks);
    tap_ok(ok && breaks == 0 && got.length == BIG + 101000 &&
               memcmp(got.data, data, BIG) == 0 &&
               memcmp(got.data + BIG, data, 100000) == 0,
           "frames of other makers, large blocks, skippable frames");
    /* A length that reaches over the frames after it must not swallow them. */
    size_t frame = b.length - last;
    b.length = 0;
    for (int i = 0; i < 50; i++)
        add_frame(&b, data, 1000, LZ4F_max4MB, true, true);
    b.data[15 + 1] = 0x20; /* the first block's size: about 8 KiB */
    save("frames", b.data, b.length);
    ok = read_bytes(path_of("frames"), &got, &breaks);
    tap_ok(ok && breaks == 1 && got.length == 49000,
           "a wrong block length costs its frame only");
    /* Bytes that are no frame, between frames. */
    b.length = 0;
    add_frame(&b, data, 1000, LZ4F_max64KB, true, true);
    bytes_add(&b, data + 400, 12345);
    add_frame(&b, data, 1000, LZ4F_max64KB, true, true);
    save("frames", b.data, b.length);
    struct tool_input *in = tool_input_open(path_of("frames"));
    got.length = 0;
    static uint8_t chunk[4096];
    size_t n;
    tool_input_read(in, chunk, sizeof(chunk), &n);
    enum mtf_source_result result =
        tool_input_read(in, chunk, sizeof(chunk), &n);
    tap_ok(result == MTF_SOURCE_BREAK &&
               tool_input_source(in)->break_offset == frame &&
               tool_input_source(in)->break_skipped == 12345 &&
               tool_input_source(in)->status == MTF_DAMAGED,
           "bytes between frames are told, and how many");
    tap_ok(tool_input_read(in, chunk, sizeof(chunk), &n) == MTF_SOURCE_DATA &&
               n == 1000,
           "and reading goes on");
    tool_input_close(in);
    /* Frames whose block claims all bytes that follow: trying each again would
       take quadratic time. */
    b.length = 0;
    static const uint8_t claim[] = {0x04, 0x22, 0x4D, 0x18, 0x60, 0x70,
                                    0x73, 0x00, 0x00, 0x40, 0x80};
    for (int i = 0; i < 400000; i++)
        bytes_add(&b, claim, sizeof(claim));
    save("frames", b.data, b.length);
    tap_ok(read_bytes(path_of("frames"), &got, &breaks) && breaks != 0,
           "frames that claim each other end");
    bytes_free(&b);
    bytes_free(&got);
    free(data);
}

#endif

/* --- Output ------------------------------------------------------------- */

static void test_output(void) {
    static uint8_t data[600000];
    struct prng r;
    prng_seed(&r, 7);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)prng_next(&r);
    save("out", "something longer than nothing", 29);
    struct tool_output *out =
        tool_output_open(path_of("out"), TOOL_OUTPUT_PLAIN);
    bool ok = out != NULL;
    for (size_t at = 0; ok && at < sizeof(data);) {
        size_t n = 1 + prng_below(&r, prng_below(&r, 9) == 0 ? 300000 : 1000);
        n = n < sizeof(data) - at ? n : sizeof(data) - at;
        ok = tool_output_write(out, data + at, n);
        at += n;
    }
    tap_ok(ok && tool_output_close(out), "a file is truncated and written");
    struct bytes got = {0};
    unsigned breaks;
    ok = read_bytes(path_of("out"), &got, &breaks);
    tap_ok(ok && got.length == sizeof(data) &&
               memcmp(got.data, data, sizeof(data)) == 0,
           "with the same bytes");
    bytes_free(&got);

    out = tool_output_open("/dev/full", TOOL_OUTPUT_PLAIN);
    if (out == NULL) {
        tap_skip("no /dev/full");
    } else {
        tool_output_write(out, data, 10);
        tap_ok(!tool_output_close(out) && errno == ENOSPC,
               "a full disk is told at close");
    }
    out = tool_output_open("/dev/full", TOOL_OUTPUT_PLAIN);
    if (out != NULL) {
        ok = true; /* the writing thread may need a moment to notice */
        for (uint64_t n = 0; ok && n < (uint64_t)1 << 30; n += sizeof(data))
            ok = tool_output_write(out, data, sizeof(data));
        tap_ok(!ok && errno == ENOSPC && tool_output_error(out) == ENOSPC &&
                   !tool_output_write(out, data, 1) && !tool_output_close(out),
               "and soon if much is written, and ever after");
    }
    signal(SIGPIPE, SIG_IGN);
    int p[2];
    char name[64];
    if (pipe(p) != 0)
        tap_bail("pipe: %s", strerror(errno));
    snprintf(name, sizeof(name), "/proc/self/fd/%d", p[1]);
    out = tool_output_open(name, TOOL_OUTPUT_PLAIN);
    close(p[0]);
    close(p[1]);
    ok = tool_output_write(out, data, 10);
    tap_ok(ok && !tool_output_close(out) && errno == EPIPE,
           "a closed pipe is an error");
    errno = 0;
    tap_ok(tool_output_open(path_of("none/out"), TOOL_OUTPUT_PLAIN) == NULL &&
               errno == ENOENT,
           "a folder that is not there");
}

int main(void) {
    snprintf(folder, sizeof(folder), "/tmp/test_raw_files.XXXXXX");
    if (mkdtemp(folder) == NULL)
        tap_bail("mkdtemp: %s", strerror(errno));
    test_whole(false);
    test_killed(false);
    test_spool_alone();
    test_spool_damage();
    test_spool_mark();
    test_wrong_names();
    test_input();
    test_output();
    test_growing();
    test_fifo();
#if TCM_HAVE_LZ4
    test_whole(true);
    test_killed(true);
    test_frame_damage();
    test_foreign_frames();
#endif
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command) != 0)
        tap_diag("%s stays behind", folder);
    return tap_done();
}
