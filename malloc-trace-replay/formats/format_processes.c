/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_processes.h"

static bool find(struct format_processes *p, uint64_t pid) {
    struct tool_map_entry *e;
    if (p->rest.count != 0 && p->last == pid)
        return true;
    if (p->rest.count >> (64 - FORMAT_ID_BITS) != 0 || pid == UINT64_MAX ||
        (e = tool_map_get(&p->rest, pid + 1)) == NULL)
        return false;
    if (e->value == 0)
        e->value = p->rest.count;
    p->last = pid;
    p->bits = (e->value - 1) << FORMAT_ID_BITS;
    return true;
}

bool format_of_process(struct format_processes *p, uint64_t pid,
                       struct format_event *e) {
    if ((e->id | e->old) >> FORMAT_ID_BITS != 0 || !find(p, pid))
        return false;
    if (e->id != 0)
        e->id |= p->bits;
    if (e->old != 0)
        e->old |= p->bits;
    return true;
}

void format_processes_fini(struct format_processes *p) {
    tool_map_fini(&p->rest);
}
