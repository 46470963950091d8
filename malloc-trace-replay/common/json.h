/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON documents (RFC 8259): a writer, and a reader.
 *
 * The writer puts one value on a line, indented. Text may be any bytes: what is
 * not UTF-8 becomes U+FFFD, so that the document is always valid. Keys come in
 * the order of the calls. KEY is NULL for the elements of arrays and for the
 * outermost value.
 *
 * Invariants: begin and end calls are balanced, which is checked. The first
 * failed write is kept and reported by tool_json_close. Writing allocates
 * nothing.
 * Threads: one for a document that is written.
 */
#ifndef TOOL_COMMON_JSON_H
#define TOOL_COMMON_JSON_H

#include "base/compiler.h"

enum { TOOL_JSON_DEPTH = 32 };

struct tool_json {
    const char *path;
    int fd;
    /* gets the document instead of a file; may be NULL */
    void (*sink)(void *ctx, const char *text, size_t length);
    void *ctx;
    int error; /* errno of the first failed write, or 0 */
    unsigned depth;
    bool dense; /* no new lines */
    bool in_array[TOOL_JSON_DEPTH];
    bool has_items[TOOL_JSON_DEPTH];
    size_t used;
    char buf[8192];
};

/*
 * Opens PATH for writing, "-" for stdout, and truncates it. Call it before the
 * work, so that an error of the path shows at once. PATH must stay valid.
 * false: a message was printed.
 */
bool tool_json_open(struct tool_json *j, const char *path);

/* Opens a document that goes to SINK, piece by piece. */
void tool_json_open_sink(struct tool_json *j,
                         void (*sink)(void *ctx, const char *text,
                                      size_t length),
                         void *ctx);

/* Closes without a document, before any value was written, and removes the file
   if it is regular and still has its name. */
void tool_json_drop(struct tool_json *j);

/* Ends the document and closes. false: something was not written, a message was
   printed. */
bool tool_json_close(struct tool_json *j);

/* Keeps the following values on one line, for long lists; or not. */
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
/* Writes V with the fewest of 15 to 17 digits that read back as V; null if V is
   not finite. */
void tool_json_double(struct tool_json *j, const char *key, double v);
/* Writes as a value the document TEXT, which this writer made. */
void tool_json_document(struct tool_json *j, const char *key, const char *text);

/* --- Reading -------------------------------------------------------------- */

/*
 * The reader takes one document from any source, strictly: UTF-8 without a byte
 * order mark, no character U+0000, numbers that a double can hold, no two
 * members of one name in an object, at most TOOL_JSON_READ_DEPTH arrays and
 * objects inside each other, at most TOOL_JSON_READ_BYTES bytes.
 *
 * Lookups take NULL for a value that is missing, so that they can be nested and
 * only the last result is tested.
 *
 * Invariants: a document is one mapping, so that a program under an allocator
 * that it measures or verifies can read without calling malloc. Time and memory
 * are proportional to the document's length.
 * Threads: any number; nothing changes after reading.
 */

enum { TOOL_JSON_READ_DEPTH = 64, TOOL_JSON_READ_PROBLEM = 200 };
#define TOOL_JSON_READ_BYTES ((size_t)16 << 20)

struct tool_json_value;

/*
 * Reads the N bytes of TEXT, which may be freed afterwards. Returns the
 * outermost value, for tool_json_read_free. NULL: PROBLEM tells the line and
 * the fault, or "out of memory".
 */
const struct tool_json_value *
tool_json_read(const char *text, size_t n,
               char problem[TOOL_JSON_READ_PROBLEM]);
/* Reads the file PATH. NULL: a message that names PATH was printed. */
const struct tool_json_value *tool_json_read_file(const char *path);
/* Frees a document. ROOT: its outermost value, or NULL. */
void tool_json_read_free(const struct tool_json_value *root);

/* Returns the member KEY of OBJECT; NULL: OBJECT is not an object, or has no
   such member. */
const struct tool_json_value *
tool_json_member(const struct tool_json_value *object, const char *key);
/* Walk the elements of an array or the members of an object, in the order of
   the text: `for (v = tool_json_first(a); v != NULL; v =
   tool_json_next(v))`. */
const struct tool_json_value *tool_json_first(const struct tool_json_value *v);
const struct tool_json_value *tool_json_next(const struct tool_json_value *v);
/* Returns the name of a member; NULL: V is not a member. */
const char *tool_json_key(const struct tool_json_value *v);
/* Returns the number of V's elements or members. */
size_t tool_json_count(const struct tool_json_value *v);

/* Returns the value of a number; NAN: V is not a number. */
double tool_json_number(const struct tool_json_value *v);
/* Returns the text of a string, in UTF-8; NULL: V is not a string. */
const char *tool_json_text(const struct tool_json_value *v);
bool tool_json_is_true(const struct tool_json_value *v);
bool tool_json_is_false(const struct tool_json_value *v);
bool tool_json_is_object(const struct tool_json_value *v);

#endif
