/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps of pages. The page map leads from an address to its span, and for small
 * objects straight to their size class and object words. The class map has the
 * size classes of most pages once more, for the fast paths.
 *
 *    address   |47 ....... 31|30 .......... 13|12 .. 0|
 *               root index     leaf index      in page
 *
 *    root[ ] -> leaf { entry[2^18], span[2^18] }       (lazily touched)
 *
 *    entry     |63 .... 48|47 ................... 0|
 *               class      address of the object word of the first object that
 *                          starts in this page (0: no table)
 *
 * An entry without a class is 0 or a note (tcm_page_set_note).
 *
 * The table address of each page is advanced by the objects that start before
 * the page, so the word of an object is table[(address % page) / size] whatever
 * the span's length is. Entries have no class for large blocks, free spans, the
 * private arena and foreign addresses.
 *
 * Threads: readers take no lock. The owner of the pages writes: under the page
 * heap lock, as the one thread that knows of a MOVING span, or, for the table
 * of a SMALL span, under the central list's lock. A reader looks up only blocks
 * that it owns, so the entry was stored before the block was handed out. The
 * table half of an entry may be added while objects are in use: by one 8-byte
 * release store of the whole entry, after the table was zeroed; an address
 * dependency follows the load. Leaves are never freed.
 */
#ifndef TCM_CORE_PAGE_MAP_H
#define TCM_CORE_PAGE_MAP_H

#include "base/atomic.h"
#include "base/check.h"
#include "core/core_config.h"
#include "core/size_class.h"

/* --- The class map -------------------------------------------------------- */

/*
 * The class map: size classes of the pages of the heap's first range, one byte
 * per page. free reads it instead of the page map, which has the classes of all
 * pages: a look-up takes three instructions and touches a sixty-fourth of the
 * cache lines, which matters when a large heap is freed in random order.
 *
 *     base                 base + TCM_CLASS_MAP_BYTES
 *      +--------------------+--------------------------- ... ------+
 *      | a byte per page    | the heap                             |
 *      +--------------------+--------------------------- ... ------+
 *      |<------------------- TCM_CLASS_MAP_RANGE ----------------->|
 *
 * The bytes are at the low end of the range that they describe, so that one
 * address finds both. A byte is the scaled class (size_class.h), or 0 for a
 * page without class, and for addresses that the heap has not grown to.
 *
 * Invariants: only pages of the heap have bytes other than 0, and those in this
 * range have the page map's class. There is no map (tcm_class_map_base ==
 * TCM_NO_BASE) in a small address space, as under RLIMIT_AS below 1 GiB.
 *
 * Threads: as for the page map. The base is set once, before any thread has a
 * cache; the length of the writable part changes under the growth lock.
 */
#define TCM_CLASS_MAP_RANGE ((size_t)64 << 30)
#define TCM_CLASS_MAP_PAGES (TCM_CLASS_MAP_RANGE >> TCM_PAGE_SHIFT)
#define TCM_CLASS_MAP_BYTES TCM_CLASS_MAP_PAGES
/* Base of no map: no address that a program frees, not even a wrong or tagged
   one (aarch64), is likely to lie within a range of this base. */
#define TCM_NO_BASE ((uintptr_t)0xb5d37a9000000000)

extern TCM_LOCAL uintptr_t tcm_class_map_base;

/* Number of ADDRESS's page, counted from BASE; TCM_CLASS_MAP_PAGES or more if
   it is not in the range. */
static TCM_ALWAYS_INLINE size_t tcm_class_map_page(uintptr_t base,
                                                   const void *address) {
    return ((uintptr_t)address - base) >> TCM_PAGE_SHIFT;
}

static TCM_ALWAYS_INLINE uint8_t tcm_class_map_get(uintptr_t base,
                                                   size_t page) {
    TCM_ASSERT(page < TCM_CLASS_MAP_PAGES);
    return tcm_load_relaxed((const uint8_t *)base + page);
}

/* Stores the scaled class of the page at ADDRESS, which the caller owns. A
   thread that gets a block of the page sees the class by the synchronisation
   that handed over the block. */
static inline void tcm_class_map_set(uintptr_t address, uint8_t scaled) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    TCM_ASSERT(page >= TCM_CLASS_MAP_PAGES ||
               page >= TCM_CLASS_MAP_BYTES / TCM_PAGE_SIZE);
    if (page < TCM_CLASS_MAP_PAGES)
        tcm_store_relaxed((uint8_t *)tcm_class_map_base + page, scaled);
}

/*
 * The word map, in builds with object words: for the pages of the class map, in
 * other memory, the table half of the page map's entry. NULL when there is no
 * class map. Unlike the class map it is not touched for pages that never had a
 * table.
 */
extern TCM_LOCAL uint64_t *tcm_word_map;

static inline void tcm_word_map_set(uintptr_t address, uint64_t table) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    if (page >= TCM_CLASS_MAP_PAGES)
        return;
    TCM_ASSERT(tcm_word_map != NULL && table % sizeof(uint64_t) == 0);
    /* Pairs with the freeing thread's load, which an address dependency
       follows: the table is zeroed. */
    if (table != 0 || tcm_load_relaxed(&tcm_word_map[page]) != 0)
        tcm_store_release(&tcm_word_map[page], table);
}

/* Maps the bytes at the low end of the range at BASE, all 0, to be read, and
   sets tcm_class_map_base. false: out of memory, or something is mapped
   there. */
bool tcm_class_map_init(uintptr_t base);
/* Makes the bytes of the heap's pages in [START, START + LENGTH) writable.
   false: out of memory. The growth lock is held. */
bool tcm_class_map_cover(uintptr_t start, size_t length);

/* --- The page map --------------------------------------------------------- */

struct tcm_span;

#define TCM_LEAF_BITS   18
#define TCM_LEAF_PAGES  ((size_t)1 << TCM_LEAF_BITS)
#define TCM_ROOT_SHIFT  (TCM_PAGE_SHIFT + TCM_LEAF_BITS)
#define TCM_ROOT_SIZE   ((size_t)1 << (TCM_ADDRESS_BITS - TCM_ROOT_SHIFT))
#define TCM_ENTRY_SHIFT 48
#define TCM_ENTRY_TABLE (((uint64_t)1 << TCM_ENTRY_SHIFT) - 1)

struct tcm_page_leaf {
    uint64_t entry[TCM_LEAF_PAGES];
    struct tcm_span *span[TCM_LEAF_PAGES];
};

extern struct tcm_page_leaf *tcm_page_root[TCM_ROOT_SIZE];

/* Entry of ADDRESS, 0 when it is not inside a span of small objects. */
static TCM_ALWAYS_INLINE uint64_t tcm_page_entry(const void *address) {
    uintptr_t a = (uintptr_t)address;
    if (TCM_UNLIKELY(a >> TCM_ADDRESS_BITS))
        return 0;
    struct tcm_page_leaf *leaf =
        tcm_load_relaxed(&tcm_page_root[a >> TCM_ROOT_SHIFT]);
    if (TCM_UNLIKELY(leaf == NULL))
        return 0;
    return tcm_load_relaxed(
        &leaf->entry[(a >> TCM_PAGE_SHIFT) & (TCM_LEAF_PAGES - 1)]);
}

/* Size class of the page with ENTRY, 0 if it has none. */
static TCM_ALWAYS_INLINE unsigned tcm_entry_class(uint64_t entry) {
    return (unsigned)(entry >> TCM_ENTRY_SHIFT);
}

/* The word of OBJECT of SIZE_CLASS. TABLE: word of the first object that begins
   in its page. */
static TCM_ALWAYS_INLINE uint64_t *
tcm_table_word(uint64_t *table, unsigned size_class, const void *object) {
    uint64_t offset = (uintptr_t)object & (TCM_PAGE_SIZE - 1);
    return table + (offset * tcm_class_reciprocal[size_class] >> 32);
}

/* The word of OBJECT, which lies on the page with ENTRY; NULL if its span has
   no table. */
static TCM_ALWAYS_INLINE uint64_t *tcm_entry_word(uint64_t entry,
                                                  const void *object) {
    uint64_t *table = (uint64_t *)(uintptr_t)(entry & TCM_ENTRY_TABLE);
    if (TCM_UNLIKELY(table == NULL))
        return NULL;
    TCM_ASSERT(tcm_entry_class(entry) != 0);
    return tcm_table_word(table, tcm_entry_class(entry), object);
}

/* Span that holds ADDRESS, or NULL. */
static inline struct tcm_span *tcm_page_span(const void *address) {
    uintptr_t a = (uintptr_t)address;
    if (TCM_UNLIKELY(a >> TCM_ADDRESS_BITS))
        return NULL;
    struct tcm_page_leaf *leaf =
        tcm_load_acquire(&tcm_page_root[a >> TCM_ROOT_SHIFT]);
    if (TCM_UNLIKELY(leaf == NULL))
        return NULL;
    return tcm_load_acquire(
        &leaf->span[(a >> TCM_PAGE_SHIFT) & (TCM_LEAF_PAGES - 1)]);
}

/* True if the page map has SPAN, which may be NULL, at both ends of [START,
   END). For assertions. */
static inline bool tcm_page_map_holds(uintptr_t start, uintptr_t end,
                                      const struct tcm_span *span) {
    return tcm_page_span((const void *)start) == span &&
           tcm_page_span((const void *)(end - TCM_PAGE_SIZE)) == span;
}

/*
 * Functions of writers. The leaves exist (tcm_page_map_cover), and the caller
 * owns the page.
 */
static inline void tcm_page_map_set_span(uintptr_t a, struct tcm_span *span) {
    struct tcm_page_leaf *leaf =
        tcm_load_relaxed(&tcm_page_root[a >> TCM_ROOT_SHIFT]);
    TCM_ASSERT(leaf != NULL && a % TCM_PAGE_SIZE == 0);
    /* Pairs with the load in tcm_page_span: the record is complete. */
    tcm_store_release(&leaf->span[(a >> TCM_PAGE_SHIFT) & (TCM_LEAF_PAGES - 1)],
                      span);
}

static inline void tcm_page_map_set_entry(uintptr_t a, uint64_t entry) {
    struct tcm_page_leaf *leaf =
        tcm_load_relaxed(&tcm_page_root[a >> TCM_ROOT_SHIFT]);
    TCM_ASSERT(leaf != NULL && a % TCM_PAGE_SIZE == 0);
    TCM_ASSERT(entry == 0 || (tcm_entry_class(entry) != 0 &&
                              tcm_entry_class(entry) < TCM_MAX_CLASSES));
    /* Pairs with the load in tcm_page_entry: the table is zeroed. */
    tcm_store_release(
        &leaf->entry[(a >> TCM_PAGE_SHIFT) & (TCM_LEAF_PAGES - 1)], entry);
    tcm_class_map_set(a, tcm_class_scale(tcm_entry_class(entry)));
    if (tcm_object_words)
        tcm_word_map_set(a, entry & TCM_ENTRY_TABLE);
}

/*
 * Note of a page: the object word that the large block which last began there
 * had when it was freed. 0: none, also if the word did not fit the note, or if
 * small objects lay there since, whose entries replace notes. The block's owner
 * sets the note. A reader that follows a wrong pointer does not own the page:
 * it sees an old note or the new one.
 */
static inline void tcm_page_set_note(uintptr_t a, uint64_t word) {
    struct tcm_page_leaf *leaf =
        tcm_load_relaxed(&tcm_page_root[a >> TCM_ROOT_SHIFT]);
    TCM_ASSERT(leaf != NULL && a % TCM_PAGE_SIZE == 0);
    uint64_t *entry =
        &leaf->entry[(a >> TCM_PAGE_SHIFT) & (TCM_LEAF_PAGES - 1)];
    uint64_t note = word <= TCM_ENTRY_TABLE ? word : 0;
    TCM_ASSERT(tcm_entry_class(tcm_load_relaxed(entry)) == 0);
    /* Most notes are 0 and stay 0: their entries are not touched and need no
       memory. */
    if (tcm_load_relaxed(entry) != note)
        tcm_store_relaxed(entry, note);
}

static inline uint64_t tcm_page_note(const void *address) {
    uint64_t entry = tcm_page_entry(address);
    return (uintptr_t)address % TCM_PAGE_SIZE == 0 &&
                   tcm_entry_class(entry) == 0
               ? entry
               : 0;
}

/* Makes the leaves of [START, START + LENGTH). false: out of memory. */
bool tcm_page_map_cover(const void *start, size_t length);

/* Calls VISIT for each leaf, for the class map and for the word map. */
void tcm_page_map_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                       void *ctx);

#endif
