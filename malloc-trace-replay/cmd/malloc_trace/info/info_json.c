/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace info as JSON. malloc-trace-info(1) describes the keys.
 */
#include "cmd/malloc_trace/info/info_print.h"

#include <inttypes.h>
#include <stdio.h>

static void json_hex(struct tool_json *j, const char *key, uint64_t v) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%016" PRIx64, v);
    tool_json_string(j, key, text);
}

static void json_recording(struct tool_json *j, const struct info_file *f) {
    const struct mtf_raw_header *h = &f->header.fixed;
    tool_json_begin_object(j, "recording");
    tool_json_u64(j, "version", h->version);
    tool_json_u64(j, "pid", h->pid);
    tool_json_u64(j, "process_start", h->process_start);
    json_hex(j, "random", h->random);
    tool_json_u64(j, "parent_pid", h->parent_pid);
    tool_json_u64(j, "parent_start", h->parent_start);
    json_hex(j, "parent_random", h->parent_random);
    tool_json_string(j, "executable", f->header.executable);
    tool_json_string(j, "library", f->header.library);
    tool_json_string(j, "allocator", f->header.allocator);
    tool_json_u64(j, "wall_ns", h->wall_ns);
    tool_json_u64(j, "start_ns", h->start_ns);
    tool_json_u64(j, "last_ns", f->last_ns);
    tool_json_u64(j, "first_token", h->first_token);
    tool_json_u64(j, "page_size", h->page_size);
    tool_json_string(j, "clock",
                     h->clock == MTF_CLOCK_MONOTONIC_NS ? "monotonic_ns"
                                                        : "unknown");
    tool_json_bool(j, "drop_on_overflow",
                   (h->settings & MTF_SETTING_DROP) != 0);
    tool_json_bool(j, "file_a_process",
                   (h->settings & MTF_SETTING_PER_PROCESS) != 0);
    tool_json_bool(j, "call_sites", (h->settings & MTF_SETTING_SITES) != 0);
    tool_json_bool(j, "free_sites",
                   (h->settings & MTF_SETTING_FREE_SITES) != 0);
    tool_json_u64(j, "buffer_bound", h->buffer_bound);
    tool_json_end_object(j);
}

static void json_calls(struct tool_json *j, const struct info_file *f) {
    tool_json_begin_object(j, "calls");
    for (unsigned c = 1; c < MTF_CALL_LIMIT; c++)
        if (f->calls[c] != 0)
            tool_json_u64(j, mtf_call_name(c), f->calls[c]);
    tool_json_end_object(j);
}

static void json_threads(struct tool_json *j, const struct info_file *f) {
    tool_json_begin_array(j, "thread_list");
    for (size_t i = 0; i < f->threads.ids.count; i++) {
        const struct raw_thread *t = &f->threads.thread[i];
        tool_json_begin_object(j, NULL);
        tool_json_u64(j, "thread", t->id);
        tool_json_u64(j, "events", t->events);
        tool_json_u64(j, "kernel_id", t->tid);
        tool_json_string(j, "name", t->name);
        tool_json_u64(j, "first_ns", t->first_ns);
        tool_json_u64(j, "last_ns", t->last_ns);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void json_sizes(struct tool_json *j, const struct info_live *l) {
    tool_json_begin_array(j, "size_histogram");
    for (unsigned b = 0; b < INFO_SIZES; b++)
        if (l->sizes[b] != 0) {
            tool_json_begin_object(j, NULL);
            tool_json_u64(j, "from", info_size_from(b));
            tool_json_u64(j, "to", info_size_to(b));
            tool_json_u64(j, "count", l->sizes[b]);
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
}

static void json_live(struct tool_json *j, const struct info_file *f) {
    const struct info_live *l = &f->live;
    double n = (double)info_event_count(f);
    tool_json_u64(j, "events", info_event_count(f));
    tool_json_u64(j, "requested_bytes", f->requested_bytes);
    tool_json_u64(j, "threads", raw_threads_with_events(&f->threads));
    if (n > 0) {
        tool_json_double(j, "bytes_per_event", (double)f->raw_bytes / n);
        tool_json_double(j, "file_bytes_per_event",
                         (double)f->stored_bytes / n);
    }
    json_sizes(j, l);
    if (l->failed)
        return;
    tool_json_u64(j, "peak_live_bytes", l->peak_bytes);
    tool_json_u64(j, "peak_live_bytes_ns", l->peak_bytes_ns);
    if (f->kind == INFO_RAW)
        tool_json_u64(j, "peak_live_bytes_at_most", info_at_most(f));
    tool_json_u64(j, "peak_live_objects", l->peak_blocks);
    tool_json_u64(j, "peak_live_objects_ns", l->peak_blocks_ns);
    tool_json_u64(j, "live_at_end", l->blocks);
}

static void json_raw(struct tool_json *j, const struct info_file *f) {
    tool_json_bool(j, "from_file", f->from_file);
    tool_json_bool(j, "from_spool", f->from_spool);
    tool_json_u64(j, "spool_buffers", f->spool_buffers);
    json_live(j, f);
    tool_json_u64(j, "failed_allocations", f->events[MTF_EVENT_FAILED]);
    tool_json_u64(j, "untraced_frees", f->untraced);
    tool_json_u64(j, "dropped_events", f->dropped);
    if (f->begins_late && !f->live.failed)
        tool_json_u64(j, "older_frees", f->live.older_frees);
    json_calls(j, f);
    tool_json_begin_object(j, "kinds");
    for (unsigned k = 0; k < INFO_EVENT_KINDS; k++)
        if (mtf_event_name(k) != NULL)
            tool_json_u64(j, mtf_event_name(k), f->events[k]);
    tool_json_end_object(j);
    tool_json_u64(j, "doubled_bytes", f->doubled_bytes);
    tool_json_u64(j, "missing_bytes", f->missing_bytes);
    tool_json_u64(j, "undecodable_bytes", f->undecodable_bytes);
    tool_json_u64(j, "last_barrier_ns", f->last_barrier_ns);
    tool_json_u64(j, "peak_sampled_rss_bytes", f->peak_rss_bytes);
    json_threads(j, f);
    tool_json_begin_array(j, "notices");
    for (uint64_t i = 0; i < f->notice_count && i < INFO_TEXTS; i++)
        if (f->notices[i] != NULL)
            tool_json_string(j, NULL, f->notices[i]);
    tool_json_end_array(j);
    tool_json_begin_object(j, "footer");
    for (unsigned i = 0; i < MTF_ACCOUNT_LIMIT; i++)
        if (f->have_account[i] && mtf_account_name(i) != NULL)
            tool_json_u64(j, mtf_account_name(i), f->account[i]);
    tool_json_end_object(j);
}

static void json_processed(struct tool_json *j, const struct info_file *f) {
    uint64_t ops = 0;
    for (unsigned k = 0; k <= MTF_OP_LAST_OPERATION; k++)
        ops += f->ops[k];
    tool_json_u64(j, "processed_version", f->proc_version);
    if (f->converter[0] != '\0')
        tool_json_string(j, "converter", f->converter);
    tool_json_u64(j, "blocks", f->blocks);
    tool_json_u64(j, "ops", ops);
    json_live(j, f);
    if (f->ops[MTF_OP_PRESENT] != 0) {
        tool_json_u64(j, "large_blocks", f->large_blocks);
        tool_json_u64(j, "large_bytes", f->large_bytes);
        tool_json_u64(j, "large_present_bytes", f->large_present);
    }
    tool_json_u64(j, "failed_allocations", f->ops[MTF_OP_FAILED]);
    json_calls(j, f);
    tool_json_begin_object(j, "kinds");
    for (unsigned k = 0; k < INFO_OP_KINDS; k++)
        if (mtf_op_name(k) != NULL)
            tool_json_u64(j, mtf_op_name(k), f->ops[k]);
    tool_json_end_object(j);
    json_threads(j, f);
    for (int recorder = 0; recorder <= 1; recorder++) {
        tool_json_begin_object(j, recorder != 0 ? "recorder" : "account");
        for (uint64_t i = 0; i < f->proc_account_count; i++) {
            unsigned field = f->proc_fields[i];
            const char *name = NULL;
            if ((field >= MTF_PROC_ACCOUNT_RECORDER) != (recorder != 0))
                continue;
            name = recorder != 0
                       ? mtf_account_name(field - MTF_PROC_ACCOUNT_RECORDER)
                       : mtf_proc_account_name(field);
            if (name != NULL)
                tool_json_u64(j, name, f->proc_values[i]);
        }
        tool_json_end_object(j);
    }
}

void info_json(struct tool_json *j, const struct info_file *f) {
    static const char *const kinds[] = {
        [INFO_UNREADABLE] = "unreadable",
        [INFO_RAW] = "raw",
        [INFO_PROCESSED] = "processed",
    };
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "file", f->name);
    tool_json_string(j, "kind", kinds[f->kind]);
    tool_json_u64(j, "status", (uint64_t)f->status);
    if (f->kind != INFO_UNREADABLE) {
        tool_json_bool(j, "complete", f->complete);
        tool_json_bool(j, "clean_end", f->clean_end);
        tool_json_bool(j, "still_being_recorded", f->growing);
        tool_json_bool(j, "begins_late", f->begins_late);
        tool_json_bool(j, "compressed", f->frame_name != NULL);
        tool_json_u64(j, "bytes", f->raw_bytes);
        tool_json_u64(j, "file_bytes", f->stored_bytes);
        if (f->have_header)
            json_recording(j, f);
        if (f->kind == INFO_RAW)
            json_raw(j, f);
        else
            json_processed(j, f);
    }
    tool_json_u64(j, "damaged_places", f->problem_count);
    tool_json_begin_array(j, "problems");
    for (uint64_t i = 0; i < f->problem_count && i < INFO_TEXTS; i++)
        if (f->problems[i] != NULL)
            tool_json_string(j, NULL, f->problems[i]);
    tool_json_end_array(j);
    tool_json_end_object(j);
}
