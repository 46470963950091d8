/* SPDX-License-Identifier: BSD-3-Clause */
#include "symbols/symbol_table.h"

#include "base/check.h"
#include "common/collections.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Symbols before the nearest one that may enclose an address: functions rarely
   lie in each other. */
#define STEPS_BACK 16u
/* Longest map that is read. */
#define MAP_BYTES_MAX ((off_t)1 << 30)

void symbol_table_fini(struct symbol_table *t) {
    free(t->symbol);
    free(t->text);
    *t = (struct symbol_table){0};
}

bool symbol_table_add(struct symbol_table *t, const struct symbol *s) {
    if (!tool_array_reserve(&t->symbol, &t->room, t->count + 1,
                            sizeof(*t->symbol)))
        return false;
    t->symbol[t->count++] = *s;
    return true;
}

static int compare_symbols(const void *a, const void *b) {
    const struct symbol *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

void symbol_table_sort(struct symbol_table *t) {
    if (t->count != 0)
        qsort(t->symbol, t->count, sizeof(*t->symbol), compare_symbols);
    for (size_t i = 1; tcm_debug && i < t->count; i++)
        TCM_ASSERT(t->symbol[i - 1].start <= t->symbol[i].start);
}

const struct symbol *symbol_table_find(const struct symbol_table *t,
                                       uint64_t address) {
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->symbol[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    /* The last one at an address has the highest rank. */
    for (unsigned i = 0; i < STEPS_BACK && low-- != 0; i++) {
        const struct symbol *s = &t->symbol[low];
        if (s->size == 0 ? i == 0 : address - s->start < s->size)
            return s;
    }
    return NULL;
}

/* --- Maps ----------------------------------------------------------------- */

/* The bytes of file NAME and a null byte; NULL: it cannot be read. */
static char *read_file(const char *name) {
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    size_t n = 0;
    ssize_t got = 1;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size <= MAP_BYTES_MAX)
        text = malloc((size_t)st.st_size + 1);
    while (text != NULL && n < (size_t)st.st_size && got > 0)
        if ((got = read(fd, text + n, (size_t)st.st_size - n)) > 0)
            n += (size_t)got;
    if (text != NULL)
        text[n] = '\0';
    close(fd);
    return text;
}

static bool add_line(struct symbol_table *t, char *line, uint32_t number) {
    char *end;
    struct symbol s = {.rank = number};
    s.start = strtoull(line, &end, 16);
    if (end == line || *end != ' ')
        return true;
    line = end;
    s.size = strtoull(line, &end, 16);
    if (end == line || *end != ' ' || end[1] == '\0' || s.size == 0)
        return true;
    s.name = end + 1;
    return symbol_table_add(t, &s);
}

bool symbol_table_read_map(struct symbol_table *t, const char *name) {
    *t = (struct symbol_table){.text = read_file(name)};
    bool good = t->text != NULL;
    char *line = t->text;
    for (uint32_t number = 1; good && *line != '\0'; number++) {
        size_t n = strcspn(line, "\r\n");
        char *next = line + n + (line[n] != '\0');
        line[n] = '\0';
        good = add_line(t, line, number);
        line = next;
    }
    if (!good)
        symbol_table_fini(t);
    symbol_table_sort(t);
    return good;
}
