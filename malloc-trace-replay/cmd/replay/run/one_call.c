/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/one_call.h"

#include "cmd/replay/run/exec.h"
#include "traceformat/trace_event.h"

const char *const replay_kind_name[REPLAY_KINDS] = {
    "malloc", "calloc", "realloc", "aligned", "new", "free", "delete"};

static enum replay_kind kind_of_call(unsigned call) {
    if (mtf_call_is_realloc(call))
        return REPLAY_KIND_REALLOC;
    if (mtf_call_is_aligned_alloc(call))
        return REPLAY_KIND_ALIGNED;
    if (mtf_call_is_free(call))
        return call == MTF_CALL_FREE || call == MTF_CALL_CFREE ||
                       call >= MTF_CALL_FREE_SIZED
                   ? REPLAY_KIND_FREE
                   : REPLAY_KIND_DELETE;
    if (call == MTF_CALL_CALLOC)
        return REPLAY_KIND_CALLOC;
    return call == MTF_CALL_MALLOC ? REPLAY_KIND_MALLOC : REPLAY_KIND_NEW;
}

bool replay_one_call_at(const uint64_t *w, struct replay_one_call *c) {
    static const uint8_t kind[] = {
        [REPLAY_MALLOC] = REPLAY_KIND_MALLOC,
        [REPLAY_FREE] = REPLAY_KIND_FREE,
        [REPLAY_CALLOC] = REPLAY_KIND_CALLOC,
        [REPLAY_NEW] = REPLAY_KIND_NEW,
        [REPLAY_NEW_ARRAY] = REPLAY_KIND_NEW,
        [REPLAY_DELETE] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_FREE_SIZED] = REPLAY_KIND_FREE,
    };
    unsigned code = replay_word_code(*w);
    while (code == REPLAY_AWAIT || code == REPLAY_INTO ||
           code == REPLAY_PRESENT)
        code = replay_word_code(*++w);
    c->slot = replay_word_slot(*w);
    if (code == REPLAY_LONG) {
        c->kind = kind_of_call((unsigned)replay_word_size(w[0]));
        c->size = w[1];
        return true;
    }
    if (code == 0 || code >= sizeof(kind))
        return false;
    c->kind = (enum replay_kind)kind[code];
    c->size = replay_word_size(*w);
    return true;
}

/* One thread runs a batch without segments, from its first word to its last; so
   counting goes on from the last place that was asked for. */
uint64_t replay_one_call_place(const struct replay_one_call *c, bool *about) {
    static struct {
        uint64_t first_op, place;
        const uint64_t *at;
    } last;
    struct replay_one_call other;
    *about = c->batch->segments != 0;
    if (*about)
        return c->batch->first_op + 1;
    if (last.at == NULL || last.first_op != c->batch->first_op ||
        last.at < c->batch->word || last.at > c->at) {
        last.first_op = c->batch->first_op;
        last.place = c->batch->first_op + 1;
        last.at = c->batch->word;
    }
    for (; last.at < c->at; last.at += replay_exec_length(last.at))
        last.place += replay_one_call_at(last.at, &other);
    return last.place;
}
