/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a JSON document. One that is accepted is written by the writer
 * and read again, and nothing has changed then.
 */
#include "tests/fuzz/fuzz.h"

#include "base/fmt.h"
#include "common/json.h"

#include <math.h>
#include <string.h>

const struct fuzz_target fuzz_target = {.corpus = "json", .runs = 3000};

static char *written;
static size_t length, room;

static void take(void *ctx, const char *text, size_t n) {
    (void)ctx;
    if (room - length < n) {
        room = 2 * (room + n);
        written = realloc(written, room);
        FUZZ_CHECK(written != NULL);
    }
    memcpy(written + length, text, n);
    length += n;
}

static void check_text(const char *text) {
    size_t left = strlen(text);
    for (size_t n; left != 0; text += n, left -= n) {
        n = tcm_utf8_length((const uint8_t *)text, left);
        FUZZ_CHECK(n != 0);
    }
}

/* Writes V, without the values that are nested too deeply for the writer. */
static void put(struct tool_json *j, const struct tool_json_value *v) {
    const char *key = tool_json_key(v), *text = tool_json_text(v);
    double n = tool_json_number(v);
    bool is_object = tool_json_is_object(v);
    if (key != NULL)
        check_text(key);
    if (text != NULL) {
        check_text(text);
        tool_json_string(j, key, text);
    } else if (!isnan(n)) {
        FUZZ_CHECK(isfinite(n));
        tool_json_double(j, key, n);
    } else if (tool_json_is_true(v) || tool_json_is_false(v)) {
        tool_json_bool(j, key, tool_json_is_true(v));
    } else if (is_object || tool_json_first(v) != NULL) {
        (is_object ? tool_json_begin_object : tool_json_begin_array)(j, key);
        for (v = tool_json_first(v); v != NULL; v = tool_json_next(v)) {
            FUZZ_CHECK((tool_json_key(v) != NULL) == is_object);
            if (j->depth + 1 < TOOL_JSON_DEPTH || tool_json_first(v) == NULL)
                put(j, v);
        }
        (is_object ? tool_json_end_object : tool_json_end_array)(j);
    } else {
        tool_json_null(j, key);
    }
}

static bool is_same(const struct tool_json_value *a,
                    const struct tool_json_value *b) {
    const char *text[] = {tool_json_text(a), tool_json_text(b)};
    const char *key[] = {tool_json_key(a), tool_json_key(b)};
    double n[] = {tool_json_number(a), tool_json_number(b)};
    if ((text[0] == NULL) != (text[1] == NULL) ||
        (text[0] != NULL && strcmp(text[0], text[1]) != 0) ||
        (key[0] == NULL) != (key[1] == NULL) ||
        (key[0] != NULL && strcmp(key[0], key[1]) != 0) ||
        (n[0] != n[1] && !(isnan(n[0]) && isnan(n[1]))) ||
        tool_json_is_true(a) != tool_json_is_true(b) ||
        tool_json_is_object(a) != tool_json_is_object(b) ||
        tool_json_count(a) != tool_json_count(b))
        return false;
    for (a = tool_json_first(a), b = tool_json_first(b); a != NULL && b != NULL;
         a = tool_json_next(a), b = tool_json_next(b))
        if (!is_same(a, b))
            return false;
    return a == NULL && b == NULL;
}

static size_t depth_of(const struct tool_json_value *v) {
    size_t most = 0;
    for (v = tool_json_first(v); v != NULL; v = tool_json_next(v)) {
        size_t depth = depth_of(v) + 1;
        most = depth > most ? depth : most;
    }
    return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char problem[TOOL_JSON_READ_PROBLEM] = "";
    struct tool_json j;
    const struct tool_json_value *root =
        tool_json_read((const char *)data, size, problem);
    FUZZ_CHECK((root == NULL) == (problem[0] != '\0'));
    if (root == NULL)
        return 0;
    FUZZ_CHECK(depth_of(root) <= TOOL_JSON_READ_DEPTH);
    length = 0;
    tool_json_open_sink(&j, take, NULL);
    put(&j, root);
    FUZZ_CHECK(tool_json_close(&j));
    const struct tool_json_value *again =
        tool_json_read(written, length, problem);
    FUZZ_CHECK(again != NULL);
    if (depth_of(root) + 1 < TOOL_JSON_DEPTH)
        FUZZ_CHECK(is_same(root, again));
    tool_json_read_free(again);
    tool_json_read_free(root);
    return 0;
}
