/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libdw walks over a whole unit for each address, and finds units only where
 * the compiler wrote a table of them. This index walks over a unit once, at the
 * first look-up in it: the ranges of its functions, inlined ones too, become a
 * sorted list of addresses from which on another function is the innermost.
 */
#include "symbols/symbol_modules.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper scopes, of a damaged file, are left out. */
#define NESTING_MAX 256u

struct scope {
    Dwarf_Die die;
    uint32_t around; /* scope that DIE is inlined into, plus 1; 0: none */
};

struct range {
    Dwarf_Addr low, high;
    uint32_t scope; /* plus 1 */
    uint32_t depth;
};

/* Innermost function from an address on, up to the next change. */
struct change {
    Dwarf_Addr from;
    uint32_t scope; /* plus 1; 0: no function */
};

struct unit {
    Dwarf_Die die;   /* with the lines */
    Dwarf_Die split; /* with the functions */
    bool read;
    struct scope *scope;
    struct change *change;
    size_t scopes, changes, scope_room, change_room;
};

/* Names of a function that has no linker's name, as symbol_frame has them. */
struct local_name {
    char *text; /* NULL: the plain name */
    const char *within;
};

/* Children of a scope that may be functions or have some inside, in the order
   of the file. */
struct children {
    Dwarf_Die *die;
    size_t count, room;
};

struct symbol_debug {
    struct unit *unit;
    struct range *range; /* units by address: scope is the unit plus 1 */
    size_t units, ranges, unit_room, range_room;
    struct tool_map locals; /* key: address of the DIE; value: name plus 1 */
    struct local_name *local;
    size_t local_count, local_room;
    struct tool_map parents; /* key: address of the DIE; value: list plus 1 */
    struct children *list;
    size_t lists, list_room;
    const char *missing; /* see symbol_debug_missing */
};

/* --- Ranges --------------------------------------------------------------- */

struct ranges {
    struct range *range;
    size_t count, room;
};

static bool add_ranges(struct ranges *r, Dwarf_Die *die, uint32_t scope,
                       uint32_t depth) {
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (low >= high)
            continue;
        if (!tool_array_reserve(&r->range, &r->room, r->count + 1,
                                sizeof(*r->range)))
            return false;
        r->range[r->count++] = (struct range){low, high, scope, depth};
    }
    return true;
}

/* Enclosing ranges first. */
static int compare_ranges(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    if (x->high != y->high)
        return x->high > y->high ? -1 : 1;
    return x->depth < y->depth ? -1 : x->depth > y->depth;
}

/* --- A unit --------------------------------------------------------------- */

static bool may_hold_functions(int tag) {
    switch (tag) {
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_imported_unit:
        return true;
    default:
        return false;
    }
}

static bool add_scopes(struct unit *u, struct ranges *r, Dwarf_Die *parent,
                       uint32_t around, uint32_t depth) {
    Dwarf_Die die;
    if (depth == NESTING_MAX || dwarf_child(parent, &die) != 0)
        return true;
    do {
        int tag = dwarf_tag(&die);
        uint32_t inner = around;
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
            size_t before = r->count;
            if (!add_ranges(r, &die, (uint32_t)u->scopes + 1, depth))
                return false;
            if (r->count == before)
                continue; /* no code: a declaration */
            if (!tool_array_reserve(&u->scope, &u->scope_room, u->scopes + 1,
                                    sizeof(*u->scope)))
                return false;
            u->scope[u->scopes++] = (struct scope){die, around};
            inner = (uint32_t)u->scopes;
        } else if (!may_hold_functions(tag)) {
            continue;
        }
        if (!add_scopes(u, r, &die, inner, depth + 1))
            return false;
    } while (dwarf_siblingof(&die, &die) == 0);
    return true;
}

static bool add_change(struct unit *u, Dwarf_Addr from, uint32_t scope) {
    if (u->changes != 0 && u->change[u->changes - 1].from == from) {
        u->change[u->changes - 1].scope = scope;
        return true;
    }
    if (!tool_array_reserve(&u->change, &u->change_room, u->changes + 1,
                            sizeof(*u->change)))
        return false;
    u->change[u->changes++] = (struct change){from, scope};
    return true;
}

/* Turns sorted, nested ranges into the list of changes. */
static bool add_changes(struct unit *u, const struct ranges *r) {
    struct range open[NESTING_MAX + 1];
    size_t depth = 0;
    bool good = true;
    for (size_t i = 0; i < r->count && good; i++) {
        struct range next = r->range[i];
        for (; depth != 0 && open[depth - 1].high <= next.low && good; depth--)
            good = add_change(u, open[depth - 1].high,
                              depth == 1 ? 0 : open[depth - 2].scope);
        if (depth != 0)
            next.high = tcm_min_u64(next.high, open[depth - 1].high);
        if (depth > NESTING_MAX)
            continue;
        good = good && add_change(u, next.low, next.scope);
        open[depth++] = next;
    }
    for (; depth != 0 && good; depth--)
        good = add_change(u, open[depth - 1].high,
                          depth == 1 ? 0 : open[depth - 2].scope);
    return good;
}

static void read_unit(struct unit *u) {
    struct ranges r = {0};
    u->read = true;
    if (!add_scopes(u, &r, &u->split, 0, 0))
        u->changes = 0; /* lines only */
    if (r.count != 0)
        qsort(r.range, r.count, sizeof(*r.range), compare_ranges);
    if (u->scopes != 0 && !add_changes(u, &r))
        u->changes = 0;
    free(r.range);
}

/* --- All units ------------------------------------------------------------ */

static bool add_unit(struct symbol_debug *x, struct ranges *r, Dwarf_Die *die,
                     const Dwarf_Die *split) {
    Dwarf_Attribute a;
    bool skeleton = dwarf_attr(die, DW_AT_dwo_name, &a) != NULL ||
                    dwarf_attr(die, DW_AT_GNU_dwo_name, &a) != NULL;
    if (dwarf_tag((Dwarf_Die *)split) != DW_TAG_compile_unit) {
        split = die;
        if (skeleton && x->missing == NULL)
            x->missing = dwarf_formstring(&a);
    }
    if (!tool_array_reserve(&x->unit, &x->unit_room, x->units + 1,
                            sizeof(*x->unit)))
        return false;
    x->unit[x->units++] = (struct unit){.die = *die, .split = *split};
    return add_ranges(r, die, (uint32_t)x->units, 0);
}

struct symbol_debug *symbol_debug_new(struct Dwarf *dwarf) {
    struct symbol_debug *x = calloc(1, sizeof(*x));
    struct ranges r = {0};
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    Dwarf_Half version;
    uint8_t type;
    bool good = x != NULL;
    while (good &&
           dwarf_get_units(dwarf, cu, &cu, &version, &type, &die, &split) == 0)
        if (dwarf_tag(&die) == DW_TAG_compile_unit ||
            dwarf_tag(&die) == DW_TAG_skeleton_unit)
            good = add_unit(x, &r, &die, &split);
    if (r.count != 0)
        qsort(r.range, r.count, sizeof(*r.range), compare_ranges);
    if (x != NULL) {
        x->range = r.range;
        x->ranges = r.count;
    }
    if (!good) {
        symbol_debug_free(x);
        x = NULL;
    }
    return x;
}

void symbol_debug_free(struct symbol_debug *x) {
    if (x == NULL)
        return;
    for (size_t i = 0; i < x->units; i++) {
        free(x->unit[i].scope);
        free(x->unit[i].change);
    }
    for (size_t i = 0; i < x->local_count; i++)
        free(x->local[i].text);
    for (size_t i = 0; i < x->lists; i++)
        free(x->list[i].die);
    tool_map_fini(&x->locals);
    tool_map_fini(&x->parents);
    free(x->local);
    free(x->list);
    free(x->unit);
    free(x->range);
    free(x);
}

/* --- Looking up ----------------------------------------------------------- */

/* Units do not overlap: the last one that begins at or before ADDRESS. */
static struct unit *unit_at(struct symbol_debug *x, Dwarf_Addr address) {
    size_t low = 0, high = x->ranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->range[middle].low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || x->range[low - 1].high <= address)
        return NULL;
    return &x->unit[x->range[low - 1].scope - 1];
}

static uint32_t scope_at(const struct unit *u, Dwarf_Addr address) {
    size_t low = 0, high = u->changes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (u->change[middle].from <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : u->change[low - 1].scope;
}

/* The linker's name of C++ and Rust, since it has classes and arguments; NULL:
   DIE has none. */
static const char *linker_name(Dwarf_Die *die) {
    Dwarf_Attribute a;
    const char *text = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a) != NULL)
        text = dwarf_formstring(&a);
    return text != NULL &&
                   (strncmp(text, "_Z", 2) == 0 || strncmp(text, "_R", 2) == 0)
               ? text
               : NULL;
}

static const char *plain_name(Dwarf_Die *die) {
    Dwarf_Attribute a;
    return dwarf_attr_integrate(die, DW_AT_name, &a) != NULL
               ? dwarf_formstring(&a)
               : NULL;
}

/* --- Local functions of C++ ----------------------------------------------- */

/*
 * gcc writes no linker's name for a function that only its unit can call: a
 * lambda, a function of a local class or of an unnamed namespace. Its plain
 * name may be that of many, as "operator()" is, so the scopes that it is
 * declared in are put before it.
 */

static bool is_cxx(Dwarf_Die *unit) {
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C_plus_plus:
    case 0x19: /* C++03, C++11, C++14, C++17, C++20 */
    case 0x1a:
    case 0x21:
    case 0x2a:
    case 0x2b:
        return true;
    default:
        return false;
    }
}

/* The declaration of DIE: what it is an instance of, in its class. */
static Dwarf_Die declaration_of(Dwarf_Die *die) {
    static const unsigned names[] = {DW_AT_abstract_origin,
                                     DW_AT_specification};
    Dwarf_Die found = *die, other;
    Dwarf_Attribute a;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(names); i++)
        if (dwarf_attr(&found, names[i], &a) != NULL &&
            dwarf_formref_die(&a, &other) != NULL)
            found = other;
    return found;
}

static bool list_children(struct children *c, Dwarf_Die *parent) {
    Dwarf_Die die;
    if (dwarf_child(parent, &die) != 0)
        return true;
    do {
        int tag = dwarf_tag(&die);
        if (tag != DW_TAG_subprogram && !may_hold_functions(tag))
            continue;
        if (!tool_array_reserve(&c->die, &c->room, c->count + 1,
                                sizeof(*c->die)))
            return false;
        c->die[c->count++] = die;
    } while (dwarf_siblingof(&die, &die) == 0);
    return true;
}

/* NULL: out of memory. */
static const struct children *children_of(struct symbol_debug *x,
                                          Dwarf_Die *parent) {
    struct tool_map_entry *e =
        tool_map_get(&x->parents, (uintptr_t)parent->addr);
    if (e == NULL || !tool_array_reserve(&x->list, &x->list_room, x->lists + 1,
                                         sizeof(*x->list)))
        return NULL;
    if (e->value == 0) {
        x->list[x->lists] = (struct children){0};
        e->value = ++x->lists;
        if (!list_children(&x->list[e->value - 1], parent))
            return NULL;
    }
    return &x->list[e->value - 1];
}

/* Sets *DIE to its child that is the DIE at OFFSET or may have it inside. */
static bool step_towards(struct symbol_debug *x, Dwarf_Die *die,
                         Dwarf_Off offset) {
    const struct children *c = children_of(x, die);
    size_t low = 0, high = c == NULL ? 0 : c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dwarf_dieoffset(&c->die[middle]) <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *die = c->die[low - 1];
    return true;
}

static bool add_text(char **text, const char *separator, const char *more) {
    size_t had = *text == NULL ? 0 : strlen(*text);
    size_t room = had + strlen(separator) + strlen(more) + 1;
    char *longer = realloc(*text, room);
    if (longer == NULL)
        return false;
    snprintf(longer + had, room - had, "%s%s", had == 0 ? "" : separator, more);
    *text = longer;
    return true;
}

/* The name of a scope that is no function, in which NAME is declared; NULL: it
   does not belong to names. */
static const char *scope_name(Dwarf_Die *scope, const char *name) {
    const char *own = plain_name(scope);
    switch (dwarf_tag(scope)) {
    case DW_TAG_namespace:
        return own != NULL ? own : "(anonymous namespace)";
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        return own != NULL                            ? own
               : strncmp(name, "operator()", 10) == 0 ? "{lambda}"
                                                      : "{unnamed}";
    default:
        return NULL;
    }
}

/* The arguments, as far as a name needs some to look like one of C++. */
static const char *arguments_of(Dwarf_Die *function) {
    Dwarf_Attribute a;
    Dwarf_Die die;
    for (int rc = dwarf_child(function, &die); rc == 0;
         rc = dwarf_siblingof(&die, &die))
        if (dwarf_tag(&die) == DW_TAG_formal_parameter &&
            dwarf_attr(&die, DW_AT_artificial, &a) == NULL)
            return "(...)";
    return "()";
}

/* Adds to TEXT the scopes of FUNCTION, called NAME, that are no functions, from
   the function on that it is local to, which becomes *AROUND; its addr is NULL:
   there is none. Of scopes that are not found there are none. False: out of
   memory. */
static bool add_scope_names(struct symbol_debug *x, char **text,
                            Dwarf_Die *function, const char *name,
                            Dwarf_Die *around) {
    Dwarf_Die at;
    Dwarf_Off offset = dwarf_dieoffset(function);
    around->addr = NULL;
    if (dwarf_diecu(function, &at, NULL, NULL) == NULL || !is_cxx(&at))
        return true;
    while (step_towards(x, &at, offset) && dwarf_dieoffset(&at) != offset) {
        const char *scope = scope_name(&at, name);
        if (scope != NULL && !add_text(text, "::", scope))
            return false;
        if (dwarf_tag(&at) == DW_TAG_subprogram) {
            *around = at;
            free(*text);
            *text = NULL;
        }
    }
    if (dwarf_dieoffset(&at) == offset)
        return true;
    free(*text);
    *text = NULL;
    around->addr = NULL;
    return true;
}

/* Names FUNCTION, which has no linker's name. False: out of memory. */
static bool make_local_name(struct symbol_debug *x, struct local_name *n,
                            Dwarf_Die *function, unsigned depth) {
    Dwarf_Die die = declaration_of(function), around;
    const char *name = plain_name(&die);
    char *scopes = NULL;
    if (name == NULL || depth == NESTING_MAX)
        return true;
    bool good = add_scope_names(x, &scopes, &die, name, &around);
    if (good && around.addr != NULL) {
        n->within = linker_name(&around);
        good = n->within != NULL || make_local_name(x, n, &around, depth + 1);
    }
    bool is_local = scopes != NULL || n->text != NULL;
    good = good && (scopes == NULL || add_text(&n->text, "::", scopes)) &&
           add_text(&n->text, "::", name);
    free(scopes);
    return good &&
           (!is_local || n->within != NULL || strchr(n->text, '(') != NULL ||
            add_text(&n->text, "", arguments_of(&die)));
}

/* Fills in the name of the function DIE. */
static void find_name(struct symbol_debug *x, Dwarf_Die *die,
                      struct symbol_frame *frame) {
    frame->function = linker_name(die);
    if (frame->function != NULL)
        return;
    frame->function = frame->plain = plain_name(die);
    Dwarf_Die key = declaration_of(die);
    struct tool_map_entry *e = tool_map_get(&x->locals, (uintptr_t)key.addr);
    if (e == NULL || !tool_array_reserve(&x->local, &x->local_room,
                                         x->local_count + 1, sizeof(*x->local)))
        return;
    if (e->value == 0) {
        struct local_name *n = &x->local[x->local_count];
        *n = (struct local_name){0};
        if (!make_local_name(x, n, die, 0)) {
            free(n->text);
            *n = (struct local_name){0};
        }
        e->value = ++x->local_count;
    }
    const struct local_name *n = &x->local[e->value - 1];
    if (n->text != NULL) {
        frame->function = n->text;
        frame->within = n->within;
    }
}

static Dwarf_Word number_of(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute a;
    Dwarf_Word value;
    return dwarf_attr(die, name, &a) != NULL && dwarf_formudata(&a, &value) == 0
               ? value
               : 0;
}

static void find_line(struct unit *u, Dwarf_Addr address,
                      struct symbol_frame *frame) {
    Dwarf_Line *line = dwarf_getsrc_die(&u->die, address);
    int number = 0;
    if (line == NULL || dwarf_lineno(line, &number) != 0 || number <= 0)
        return;
    frame->file = dwarf_linesrc(line, NULL, NULL);
    frame->line = frame->file == NULL ? 0 : (unsigned)number;
}

/* Fills FRAME with the line that calls the inlined function DIE. */
static void find_call(struct unit *u, Dwarf_Die *die,
                      struct symbol_frame *frame) {
    Dwarf_Files *files;
    size_t count;
    Dwarf_Word file = number_of(die, DW_AT_call_file);
    Dwarf_Word line = number_of(die, DW_AT_call_line);
    if (line == 0 || line > UINT32_MAX ||
        dwarf_getsrcfiles(&u->die, &files, &count) != 0 || file >= count)
        return;
    frame->file = dwarf_filesrc(files, file, NULL, NULL);
    frame->line = frame->file == NULL ? 0 : (unsigned)line;
}

const char *symbol_debug_missing(const struct symbol_debug *x) {
    return x->missing;
}

const char *symbol_debug_file(struct symbol_debug *x, uint64_t address) {
    struct symbol_frame frame = {0};
    struct unit *u = unit_at(x, address);
    if (u != NULL)
        find_line(u, address, &frame);
    return frame.file;
}

unsigned symbol_debug_find(struct symbol_debug *x, uint64_t address,
                           struct symbol_frame frame[SYMBOL_DEPTH]) {
    struct unit *u = unit_at(x, address);
    unsigned count = 0;
    if (u == NULL)
        return 0;
    if (!u->read)
        read_unit(u);
    frame[0] = (struct symbol_frame){0};
    find_line(u, address, &frame[0]);
    uint32_t at = scope_at(u, address);
    frame[0].line_only = at == 0 && u->split.addr == u->die.addr;
    if (at == 0)
        return frame[0].line != 0;
    while (at != 0 && count < SYMBOL_DEPTH) {
        struct scope *s = &u->scope[at - 1];
        find_name(x, &s->die, &frame[count++]);
        if (dwarf_tag(&s->die) != DW_TAG_inlined_subroutine)
            break;
        at = s->around;
        if (at == 0 || count == SYMBOL_DEPTH)
            break;
        frame[count] = (struct symbol_frame){0};
        find_call(u, &s->die, &frame[count]);
    }
    return count;
}
