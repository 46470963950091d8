/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_input.h"

#include "common/main.h"

void report_input_init(struct report_input *in) {
    in->skip.match = in->match;
    in->skips =
        (struct tool_opt_list){.at = in->skip_text, .room = REPORT_INPUT_LIST};
    in->files =
        (struct tool_opt_list){.at = in->file, .room = REPORT_INPUT_LIST};
}

static int compile_skips(struct report_input *in) {
    char problem[160];
    struct report_skip *s = &in->skip;
    for (; s->count < in->skips.count; s->count++) {
        const char *text = in->skip_text[s->count];
        regex_t *match = &s->match[s->count];
        int error = regcomp(match, text, REG_EXTENDED | REG_NOSUB);
        if (error != 0) {
            regerror(error, match, problem, sizeof(problem));
            return tool_usage_error("--skip: \"%s\": %s", text, problem);
        }
    }
    return TOOL_OK;
}

int report_input_take(struct report_input *in, const struct tool_opts *o) {
    if ((size_t)o->operand_count > TOOL_SITE_TRACES)
        return tool_usage_error("more than %u traces", TOOL_SITE_TRACES);
    if (in->skip.off && in->skips.count != 0)
        return tool_usage_error("--skip and --no-skip exclude each other");
    in->traces = (const char *const *)o->operand;
    in->count = (size_t)o->operand_count;
    int status = compile_skips(in);
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
