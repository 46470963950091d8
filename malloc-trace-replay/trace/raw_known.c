/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a raw trace beside its items: messages, sizes, and whether
 * it is whole.
 */
#include "trace/raw_state.h"

#include "base/bits.h"

#include <stdio.h>
#include <string.h>

uint64_t tool_raw_file_bytes(const struct tool_raw *t) {
    if (t->ahead != NULL)
        return tool_ahead_bytes(t->ahead);
    return t->in == NULL ? 0 : tool_input_bytes(t->in);
}

static uint64_t file_stored_bytes(const struct tool_raw *t) {
    if (t->ahead != NULL)
        return tool_ahead_stored_bytes(t->ahead);
    return t->in == NULL ? 0 : tool_input_stored_bytes(t->in);
}

/* --- File and spool ------------------------------------------------------ */

static bool dispute(struct mtf_item *item, enum mtf_status status,
                    uint64_t offset, uint64_t lost) {
    item->kind = MTF_ITEM_DAMAGE;
    item->status = status;
    item->file_offset = offset;
    item->skipped = lost;
    return true;
}

/* END bytes of the trace were found in its file. */
static bool dispute_bytes(struct tool_raw *t, struct mtf_item *item,
                          uint64_t end) {
    const struct tool_spool *s = &t->spool;
    const uint64_t head = sizeof(struct mtf_spool_head);
    uint64_t saved = tcm_max_u64(s->mark.saved, s->emptied);
    if (saved > end && t->in == NULL)
        return dispute(item, MTF_NO_FILE,
                       head + offsetof(struct mtf_spool_mark, saved),
                       saved - end);
    if (saved > end) {
        item->file = t->name;
        item->offset_is_stored = true;
        item->lost_unpacked = tool_raw_is_compressed(t);
        return dispute(item, MTF_CUT, file_stored_bytes(t), saved - end);
    }
    /* What has its end needs no spool, of whatever age. */
    if (t->footer)
        return false;
    if (end > s->mark.begun)
        return dispute(item, MTF_NOT_ONE,
                       head + offsetof(struct mtf_spool_mark, begun), 0);
    if (s->emptied > s->mark.saved)
        return dispute(item, MTF_NOT_ONE, s->emptied_at, 0);
    return false;
}

/* CHECK 0 to CHECKS - 1. */
enum { CHECKS = 3 };
static bool is_disputed(struct tool_raw *t, struct mtf_item *item,
                        unsigned check) {
    const struct tool_spool *s = &t->spool;
    const struct mtf_spool_mark *mark = &s->mark;
    uint64_t file =
        t->in == NULL ? 0 : t->reader.info.part_start + tool_raw_file_bytes(t);
    item->file = s->name;
    if (check == 0) /* what is behind damage is not counted */
        return t->damages == 0 && dispute_bytes(t, item, file);
    if (t->footer)
        return false;
    if (check == 1)
        return s->size < mark->length &&
               dispute(item, MTF_CUT, s->size, mark->length - s->size);
    return (mark->flags & MTF_SPOOL_PRIVATE) != 0 &&
           dispute(item, MTF_PRIVATE,
                   sizeof(struct mtf_spool_head) +
                       offsetof(struct mtf_spool_mark, flags),
                   0);
}

bool tool_raw_next_dispute(struct tool_raw *t, struct mtf_item *item) {
    while (t->use_spool && t->spool.has_mark && t->checks < CHECKS)
        if (is_disputed(t, item, t->checks++))
            return true;
    return false;
}

const char *tool_raw_item_text(struct tool_raw *t,
                               const struct mtf_item *item) {
    char too_new[MTF_TOO_NEW_TEXT];
    const char *why = item->status == MTF_SYSTEM && item->error != 0
                          ? strerror(item->error)
                          : mtf_status_text(item->status);
    if (item->status == MTF_TOO_NEW && item->info != NULL)
        why = mtf_too_new_text(too_new, item->info->fixed.version,
                               MTF_RAW_VERSION,
                               item->info->fixed.must_understand);
    if (item->status == MTF_NO_TRACE && item->foreign != NULL)
        why = item->foreign;
    unsigned long long at = item->file_offset, lost = item->skipped;
    if (item->kind == MTF_ITEM_DAMAGE && lost != 0)
        (void)snprintf(t->text, sizeof(t->text),
                       "%s: byte %llu: %s, %llu bytes%s lost", item->file, at,
                       why, lost,
                       item->lost_unpacked ? " before compression" : "");
    else if (item->status == MTF_SYSTEM && at == 0)
        (void)snprintf(t->text, sizeof(t->text), "%s: %s", item->file, why);
    else
        (void)snprintf(t->text, sizeof(t->text), "%s: byte %llu: %s",
                       item->file, at, why);
    return t->text;
}

/* --- What is known ------------------------------------------------------ */

bool tool_raw_is_growing(const struct tool_raw *t) {
    return t->growing;
}

bool tool_raw_has_spool(const struct tool_raw *t) {
    return t->use_spool;
}

bool tool_raw_has_file(const struct tool_raw *t) {
    return t->in != NULL;
}

bool tool_raw_is_compressed(const struct tool_raw *t) {
    return t->in != NULL && tool_input_is_compressed(t->in);
}

bool tool_raw_begins_late(const struct tool_raw *t) {
    return t->begins_late;
}

uint64_t tool_raw_bytes(const struct tool_raw *t) {
    return t->parts.past_bytes + tool_raw_file_bytes(t) + t->spool.bytes;
}

uint64_t tool_raw_stored_bytes(const struct tool_raw *t) {
    uint64_t n = t->parts.past_stored + file_stored_bytes(t);
    if (t->use_spool && t->phase == PHASE_END)
        n += t->spool.used;
    return n;
}

uint64_t tool_raw_total_bytes(const struct tool_raw *t) {
    uint64_t n = t->parts.past_stored +
                 (t->in == NULL ? 0 : tool_input_file_size(t->in));
    return n + tool_parts_left_bytes(&t->parts) +
           (t->use_spool ? t->spool.size : 0);
}

bool tool_raw_complete(const struct tool_raw *t) {
    if (t->damages != 0 || t->growing || !t->have_info ||
        t->phase == PHASE_FAILED)
        return false;
    return !t->forced_stop && (t->footer || t->use_spool);
}

bool tool_raw_forced_stop(const struct tool_raw *t) {
    return t->forced_stop;
}

bool tool_raw_clean_end(const struct tool_raw *t) {
    return t->footer;
}

bool tool_raw_account(const struct tool_raw *t, unsigned field,
                      uint64_t *value) {
    if (field >= MTF_ACCOUNT_LIMIT || !t->has_account[field])
        return false;
    *value = t->account[field];
    return true;
}

uint64_t tool_raw_in_all(const struct tool_raw *t, unsigned field,
                         uint64_t found) {
    uint64_t footer = 0;
    (void)tool_raw_account(t, field, &footer);
    if (t->use_spool && t->spool.status == MTF_OK) {
        struct mtf_spool_lost lost;
        memcpy(&lost, t->spool.page + MTF_SPOOL_UNIT - sizeof(lost),
               sizeof(lost));
        found +=
            field == MTF_ACCOUNT_DROPPED_EVENTS ? lost.dropped : lost.untraced;
    }
    return tcm_max_u64(footer, found);
}

/* --- The footer against the streams -------------------------------------- */

/* The streams may have less: events of parts that were not kept, and what is
   counted of gaps that were open at the end. They have more if the process was
   killed behind its footer and the spool has what came then. */
static bool contradicts(const struct tool_raw *t, uint64_t footer,
                        uint64_t found, bool may_be_less) {
    if (found < footer)
        return !may_be_less && !t->begins_late;
    return found > footer && !t->use_spool;
}

static const char *footer_text(struct tool_raw *t, uint64_t footer,
                               const char *what, const char *other,
                               uint64_t found) {
    (void)snprintf(t->text, sizeof(t->text),
                   "%s: byte %llu: the footer counts %llu %s, %s %llu", t->name,
                   (unsigned long long)t->footer_offset,
                   (unsigned long long)footer, what, other,
                   (unsigned long long)found);
    return t->text;
}

const char *tool_raw_footer_problem(struct tool_raw *t,
                                    const struct tool_raw_counts *counts) {
    const struct {
        unsigned field;
        uint64_t found;
        const char *what;
        bool may_be_less;
    } all[] = {
        {MTF_ACCOUNT_MALLOCS, counts->mallocs, "mallocs", false},
        {MTF_ACCOUNT_MEMALIGNS, counts->memaligns, "memaligns", false},
        {MTF_ACCOUNT_REALLOCS, counts->reallocs, "reallocs", false},
        {MTF_ACCOUNT_FREES, counts->frees, "frees", false},
        {MTF_ACCOUNT_FAILED_ALLOCATIONS, counts->failed, "failed", false},
        {MTF_ACCOUNT_UNTRACED_FREES, counts->untraced, "untraced frees", true},
        {MTF_ACCOUNT_DROPPED_EVENTS, counts->dropped, "dropped events", true},
    };
    uint64_t footer = 0, sum = 0;
    bool summed = true;
    if (!t->footer || !tool_raw_complete(t))
        return NULL;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(all); i++) {
        if (!tool_raw_account(t, all[i].field, &footer) ||
            !contradicts(t, footer, all[i].found, all[i].may_be_less))
            continue;
        return footer_text(t, footer, all[i].what, "the trace has",
                           all[i].found);
    }
    for (unsigned f = MTF_ACCOUNT_MALLOCS; f <= MTF_ACCOUNT_FAILED_ALLOCATIONS;
         f++) {
        summed &= tool_raw_account(t, f, &footer);
        sum += footer;
    }
    if (summed && tool_raw_account(t, MTF_ACCOUNT_EVENTS, &footer) &&
        footer != sum)
        return footer_text(t, footer, "events", "those of each kind are", sum);
    return NULL;
}
