/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes one JSON document (RFC 8259), a value a line, indented.
 *
 * Any bytes may be given as text: what is no UTF-8 becomes U+FFFD, so that the
 * document is always valid. Keys come in the order of the calls. KEY is NULL
 * for the elements of arrays and for the outermost value.
 *
 * Invariants: balanced begin and end calls, checked by assertion. The first
 * failed write is kept and reported by tool_json_close. Nothing allocates.
 *
 * Threads: one.
 */
#ifndef TOOL_COMMON_JSON_H
#define TOOL_COMMON_JSON_H

#include "base/compiler.h"

enum { TOOL_JSON_DEPTH = 32 };

struct tool_json {
    const char *path;
    int fd;
    /* takes the document instead of the file; may be NULL */
    void (*sink)(void *ctx, const char *text, size_t length);
    void *ctx;
    int error; /* errno of the first failed write, or 0 */
    unsigned depth;
    bool dense;
    bool in_array[TOOL_JSON_DEPTH];
    bool has_items[TOOL_JSON_DEPTH];
    size_t used;
    char buf[8192];
};

/*
 * Opens PATH for writing, "-" for stdout, and truncates it: call it before the
 * work, so that a path that cannot be written is known at once. PATH must live
 * on. false: a message is out.
 */
bool tool_json_open(struct tool_json *j, const char *path);

/* The same for a document that goes to SINK, piece by piece, not to a file. */
void tool_json_open_sink(struct tool_json *j,
                         void (*sink)(void *ctx, const char *text,
                                      size_t length),
                         void *ctx);

/* Instead of a document, before anything was put: nothing is written, and a
   file of that name goes. */
void tool_json_drop(struct tool_json *j);

/* Ends the document and closes. false: something could not be written, a
   message is out. */
bool tool_json_close(struct tool_json *j);

/* Whether what comes now goes on in the same line: for long lists. */
void tool_json_dense(struct tool_json *j, bool dense);

void tool_json_begin_object(struct tool_json *j, const char *key);
void tool_json_end_object(struct tool_json *j);
void tool_json_begin_array(struct tool_json *j, const char *key);
void tool_json_end_array(struct tool_json *j);

void tool_json_string(struct tool_json *j, const char *key, const char *text);
void tool_json_bytes(struct tool_json *j, const char *key, const void *text,
                     size_t length);
void tool_json_u64(struct tool_json *j, const char *key, uint64_t v);
void tool_json_bool(struct tool_json *j, const char *key, bool v);
void tool_json_null(struct tool_json *j, const char *key);
/* The shortest of 15 to 17 digits that reads back as V; not finite: null. */
void tool_json_double(struct tool_json *j, const char *key, double v);
/* A whole document that these functions wrote. */
void tool_json_document(struct tool_json *j, const char *key, const char *text);

/* --- Reading -------------------------------------------------------------- */

/*
 * Reads one JSON document (RFC 8259) of any origin, strictly: UTF-8 without a
 * byte order mark, no character U+0000, numbers that a double can hold, no two
 * members of one name in an object, at most TOOL_JSON_READ_DEPTH arrays and
 * objects inside each other, at most TOOL_JSON_READ_BYTES bytes.
 *
 * Values are looked at by their address. Each function takes NULL for a value
 * that is missing, so that lookups can be nested and the last one is tested.
 *
 * Invariants: all memory is one mapping, so that a program under an allocator
 * that it measures or verifies can read without calling malloc. Time and memory
 * grow in proportion to the document's length.
 * Threads: any number once read; nothing changes.
 */

enum { TOOL_JSON_READ_DEPTH = 64, TOOL_JSON_READ_PROBLEM = 200 };
#define TOOL_JSON_READ_BYTES ((size_t)16 << 20)

struct tool_json_value;

/*
 * Reads the N bytes of TEXT, of which nothing is needed afterwards. Returns the
 * outermost value, for tool_json_read_free; NULL: PROBLEM has the line and what
 * is wrong with it, "out of memory" among that.
 */
const struct tool_json_value *
tool_json_read(const char *text, size_t n,
               char problem[TOOL_JSON_READ_PROBLEM]);
/* Reads the file PATH. NULL: a message that names it was printed. */
const struct tool_json_value *tool_json_read_file(const char *path);
/* ROOT: what the functions above returned, or NULL. */
void tool_json_read_free(const struct tool_json_value *root);

/* The value of the member KEY; NULL: OBJECT is none, or has no such member. */
const struct tool_json_value *
tool_json_member(const struct tool_json_value *object, const char *key);
/* The elements of an array, or the members of an object, in the order of the
   text: `for (v = tool_json_first(a); v != NULL; v = tool_json_next(v))`. NULL:
   there are no more, or none. */
const struct tool_json_value *tool_json_first(const struct tool_json_value *v);
const struct tool_json_value *tool_json_next(const struct tool_json_value *v);
/* The name of a member; NULL: V is none. */
const char *tool_json_key(const struct tool_json_value *v);
/* How many elements or members V has. */
size_t tool_json_count(const struct tool_json_value *v);

/* A number; NAN: V is none. */
double tool_json_number(const struct tool_json_value *v);
/* A string, UTF-8; NULL: V is none. */
const char *tool_json_text(const struct tool_json_value *v);
bool tool_json_is_true(const struct tool_json_value *v);
bool tool_json_is_false(const struct tool_json_value *v);
bool tool_json_is_object(const struct tool_json_value *v);

#endif
