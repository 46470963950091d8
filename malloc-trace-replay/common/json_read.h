/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef TOOL_COMMON_JSON_READ_H
#define TOOL_COMMON_JSON_READ_H

#include "base/compiler.h"

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
