/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/objects.h"

#include "cmd/malloc_trace/report/print.h"
#include "common/files.h"
#include "common/main.h"

#include <inttypes.h>
#include <stdlib.h>

struct objects {
    FILE *f;
    struct names *names;
    const struct tool_sites *sites;
};

static bool put_object(void *ctx, const struct tally_object *o) {
    struct objects *w = ctx;
    char *place = rows_location(w->names, w->sites, ROWS_BY_LINE, o->site);
    if (place == NULL) {
        tool_error("out of memory");
        return false;
    }
    fprintf(w->f, "%" PRIu64 ",", o->birth_ns);
    if (o->ended)
        fprintf(w->f, "%" PRIu64, o->death_ns);
    fprintf(w->f, ",%" PRIu64 ",%u,", o->size, o->thread);
    if (o->ended)
        fprintf(w->f, "%u", o->freed_by);
    fprintf(w->f, ",%u,%" PRIu64 ",", o->site, o->life_bytes);
    print_csv_text(w->f, place);
    fputc('\n', w->f);
    free(place);
    return ferror(w->f) == 0;
}

bool objects_write(const char *file, const char *const *traces, size_t count,
                   const struct tallies *t, struct names *names) {
    struct objects w = {tool_file_stream(file), names, &t->sites};
    struct tallies again = {
        .options = {.by = TALLY_BY_THREAD, .object = put_object, .ctx = &w}};
    bool good = w.f != NULL;
    if (!good)
        return false;
    fputs("birth_ns,death_ns,size,thread,freed_by,site,life_bytes,place\n",
          w.f);
    for (size_t i = 0; good && i < count; i++)
        good = tally_read(&again, traces[i]);
    tally_fini(&again);
    return tool_file_stream_end(w.f, file) && good;
}
