/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_input.h"

#include "common/main.h"
#include "open/recordings.h"

void report_input_init(struct report_input *in) {
    in->skip.match = in->match;
    in->skips =
        (struct tool_opt_list){.at = in->skip_text, .room = REPORT_INPUT_LIST};
    in->files =
        (struct tool_opt_list){.at = in->file, .room = REPORT_INPUT_LIST};
}

int report_input_compile(const char *option, const char *text, regex_t *match) {
    char problem[160];
    int error = regcomp(match, text, REG_EXTENDED | REG_NOSUB);
    if (error == 0)
        return TOOL_OK;
    regerror(error, match, problem, sizeof(problem));
    return tool_usage_error("%s: \"%s\": %s", option, text, problem);
}

int report_input_take(struct report_input *in, const struct tool_opts *o) {
    if ((size_t)o->operand_count > TOOL_SITE_TRACES)
        return tool_usage_error("more than %u traces", TOOL_SITE_TRACES);
    if (in->skip.off && in->skips.count != 0)
        return tool_usage_error("--skip and --no-skip exclude each other");
    in->traces = (const char *const *)o->operand;
    in->count =
        (size_t)open_recordings_join_spools(o->operand, o->operand_count);
    if (in->count == 1) {
        in->named = in->traces[0];
        in->chosen = open_recordings_choose(in->named, in->chosen_room);
        in->traces = &in->chosen;
    }
    int status = TOOL_OK;
    while (status == TOOL_OK && in->skip.count < in->skips.count) {
        size_t i = in->skip.count;
        status =
            report_input_compile("--skip", in->skip_text[i], &in->match[i]);
        in->skip.count += status == TOOL_OK;
    }
    for (size_t i = 0; status == TOOL_OK && i < in->files.count; i++)
        status = report_suppressions_read(&in->suppressions, in->file[i]);
    return status;
}

bool report_input_read(const struct report_input *in,
                       struct report_tallies *t) {
    for (size_t i = 0; i < in->count; i++)
        if (!report_tally_read(t, in->traces[i]))
            return false;
    return true;
}

void report_input_fini(struct report_input *in) {
    report_suppressions_fini(&in->suppressions);
    for (size_t i = 0; i < in->skip.count; i++)
        regfree(&in->skip.match[i]);
    *in = (struct report_input){0};
}
