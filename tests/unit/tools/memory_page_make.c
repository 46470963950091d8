/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes pages of malloc-trace memory from made-up figures, which no test
 * could record: a process of a terabyte with holes, very many small holes, and
 * names of any bytes.
 *
 *     memory_page_make terabyte|scattered|odd OUT
 */
#include "cmd/malloc_trace/memory/memory_model.h"
#include "cmd/malloc_trace/memory/memory_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 300, CELL_PAGES = 512 };

/* Alternating pages, the longest text that a cell can have. */
static char alternating[CELL_PAGES + 1];

static struct memory_cell *add_cells(struct memory_cell *cell, size_t *count,
                                     uint64_t from, size_t n, uint64_t step) {
    cell = realloc(cell, (*count + n) * sizeof(*cell));
    for (size_t i = 0; i < n; i++) {
        cell[*count + i] = (struct memory_cell){
            .cell = from + i * step,
            .live = 128,
            .partly = 256,
            .empty = 100,
            .never = 28,
            .free_bytes = 256 * 1000 + i % 7 * 40000,
            .pages = *count + i < 4096 ? alternating : "",
        };
    }
    *count += n;
    return cell;
}

static void add_up(struct memory_moment *m) {
    for (size_t i = 0; i < m->cells; i++) {
        const struct memory_cell *c = &m->cell[i];
        m->live_pages += c->live;
        m->partly_pages += c->partly;
        m->empty_pages += c->empty;
        m->never_pages += c->never;
        m->free_bytes += c->free_bytes;
    }
    m->requested_bytes =
        (m->live_pages + m->partly_pages) * 4096 - m->free_bytes;
    m->empty_bytes = m->empty_pages * 4096;
    m->never_bytes = m->never_pages * 4096;
    m->resident_bytes = m->rss_bytes =
        m->requested_bytes + m->free_bytes + m->empty_bytes + m->never_bytes;
    m->live_bytes = m->requested_bytes;
    m->live_blocks = 1000000;
    m->pinning_blocks = 41000;
}

static void add_rows(struct memory_moment *m, const char *odd) {
    for (int by = 0; by < MEMORY_BYS; by++) {
        struct memory_row *row = calloc(40, sizeof(*row));
        for (size_t i = 0; i < 40; i++) {
            char label[600];
            snprintf(label, sizeof(label), "%s%zu%s",
                     by == MEMORY_BY_SITE ? "cache::insert_" : "row ", i, odd);
            row[i].label = strdup(label);
            row[i].stack = by == MEMORY_BY_SITE ? strdup(label) : NULL;
            row[i].held_bytes = (double)m->free_bytes / (double)(2 << i % 30);
            row[i].requested_bytes = 100 * i;
            row[i].pinning_blocks = 1 + i * 12345;
        }
        m->by[by] = (struct memory_rows){row, 40};
    }
}

static void add_run(struct memory_run *run, const char *mode, const char *odd) {
    static const char *const names[] = {"peak", "waste", "end"};
    static const unsigned roles[] = {MEMORY_PEAK, MEMORY_WASTE, MEMORY_END};
    static const char *const labels[] = {"peak", "most waste", "end"};
    run->point = calloc(POINTS, sizeof(*run->point));
    run->points = POINTS;
    for (size_t i = 0; i < POINTS; i++) {
        uint64_t up = i < 100 ? i : 100;
        run->point[i] = (struct memory_point){
            .operation = i * 40000,
            .recorded_ns = i * 30000000,
            .requested_bytes = (up * 9 - (i > 100 ? (i - 100) * 4 : 0)) << 20,
            .rounding_bytes = up << 18,
            .free_bytes = (i > 100 ? (i - 100) * 3 : 0) << 20,
            .empty_bytes = (i > 200 ? i - 200 : 0) << 20,
            .never_bytes = 5 << 20,
        };
    }
    run->moment = calloc(3, sizeof(*run->moment));
    run->moments = 3;
    for (size_t i = 0; i < 3; i++) {
        struct memory_moment *m = &run->moment[i];
        m->name = names[i];
        m->roles = roles[i];
        m->is_known = true;
        m->label = strdup(labels[i]);
        m->operation = i * 6000000;
        m->recorded_ns = i * 4400000000;
        m->huge_known = true;
        if (strcmp(mode, "scattered") == 0) {
            m->cell = add_cells(NULL, &m->cells, 0x2aaaaaaa, 500000, 2);
        } else {
            m->cell = add_cells(NULL, &m->cells, 0x2aaaaa12, 40, 1);
            m->cell = add_cells(m->cell, &m->cells, 0x3c000000, 3000, 1);
            m->cell = add_cells(m->cell, &m->cells, 0x3ff00000, 300, 6);
        }
        add_up(m);
        add_rows(m, odd);
        m->empty_for[0].bytes = m->empty_bytes / 2;
        m->empty_for[1].lower_ns = 10000000;
        m->empty_for[1].bytes = m->empty_bytes / 2;
        m->empty_fors = 2;
    }
}

int main(int argc, char **argv) {
    struct memory_report r = {.has_times = true,
                              .moment_role = MEMORY_WASTE,
                              .duration_ns = 9000000000,
                              .operations = 12000000};
    struct memory_run run[3] = {0};
    const char *odd = "";
    if (argc != 3)
        return 99;
    for (size_t i = 0; i < CELL_PAGES; i++)
        alternating[i] = "LE.cNa"[i % 6];
    r.trace = "made-up";
    if (strcmp(argv[1], "odd") == 0) {
        r.trace = "</script><b>\x01\xff\"'&";
        odd = "</script><!-- <b>\x01\xff \xe2\x80\xae";
        r.has_times = false;
    }
    for (size_t i = 0; i < 3; i++) {
        run[i].name = i == 0 ? "glibc" : i == 1 ? "jemalloc" : "gone";
        run[i].allocator = "libx.so (glibc 2.36)";
        run[i].page_bytes = 4096;
        run[i].has_sites = i == 0 || odd[0] == '\0';
        run[i].sentence = strdup("of 812 MiB resident 390 are alive");
        if (i < 2)
            add_run(&run[i], argv[1], odd);
        else
            run[i].failure = "no such library";
    }
    r.run = run;
    r.runs = 3;
    return memory_page(&r, argv[2]) ? 0 : 1;
}
