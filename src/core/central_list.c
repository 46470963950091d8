/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/central_list.h"
#include "base/check.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_heap.h"
#include "core/page_map.h"

#define PREFETCH_AHEAD 4u /* objects between a span's prefetch and its use */
#define VISIT_MOST     (4u * TCM_MAX_BATCH) /* objects returned at once */

/* Before a thread gets pages that are not resident, or those of another shard,
   it takes objects of lists with more than this. */
#define KEPT_BYTES ((uint64_t)16 << 10)
/* Most chances in a row to do so that are not used after lists had less. */
#define LOOK_WAIT 32u

static unsigned class_of(const struct tcm_central *central) {
    TCM_ASSERT(central == &tcm_central[central->shard][central->size_class]);
    return central->size_class;
}

/* The list that SPAN, SMALL, belongs to. */
static struct tcm_central *list_of(const struct tcm_span *span) {
    TCM_ASSERT(span->home < TCM_PAGE_SHARDS);
    return &tcm_central[span->home][span->size_class];
}

uint32_t tcm_object_home(unsigned size_class, const void *object) {
    const struct tcm_span *span = tcm_page_span(object);
    if (TCM_UNLIKELY(span == NULL || span->state != TCM_SPAN_SMALL ||
                     span->size_class != size_class))
        tcm_die_pointer("attempt to free an invalid pointer", object);
    TCM_ASSERT(span->home < tcm_load_relaxed(&tcm_page_shards));
    return span->home;
}

/* Links the lists of CENTRAL when it is first used. */
static TCM_COLD void link_lists(struct tcm_central *central) {
    for (unsigned b = 0; b < TCM_CENTRAL_BUCKETS; b++)
        tcm_dlist_init(&central->spans[b]);
    central->size_class = (uint8_t)(central - tcm_central[central->shard]);
    TCM_ASSERT(class_of(central) != 0 && class_of(central) < tcm_class_count);
}

/* Prepares CENTRAL, whose lock was taken. */
static TCM_ALWAYS_INLINE void enter(struct tcm_central *central) {
    tcm_lock_assert_held(&central->lock);
    if (TCM_UNLIKELY(central->spans[0].next == NULL))
        link_lists(central);
}

static void lock_list(struct tcm_central *central) {
    tcm_lock(&central->lock);
    enter(central);
}

/* Locks the list that the calling thread takes objects of CLASS from. */
static struct tcm_central *lock_own_list(unsigned size_class) {
    struct tcm_central *central =
        &tcm_central[tcm_class_shard(size_class)][size_class];
    TCM_ASSERT(size_class != 0 && size_class < tcm_class_count);
    if (!tcm_class_lock_try(&central->lock, size_class, &central->heat)) {
        central = &tcm_central[tcm_class_shard(size_class)][size_class];
        tcm_lock(&central->lock);
    }
    enter(central);
    return central;
}

/* ------------------------------------------------------------------------ */
/* Object words                                                             */

/* Page map entry of page PAGE of SPAN: the table's address is advanced by the
   objects that start before the page. */
static uint64_t page_entry(const struct tcm_span *span, size_t page) {
    uint64_t entry = (uint64_t)span->size_class << TCM_ENTRY_SHIFT;
    if (!tcm_object_words || span->words == NULL)
        return entry;
    size_t size = tcm_class[span->size_class].size;
    size_t first = ((page << TCM_PAGE_SHIFT) + size - 1) / size;
    return entry | (uint64_t)(uintptr_t)(span->words + first);
}

static void free_table(struct tcm_central *central, struct tcm_span *span) {
    tcm_lock_assert_held(&central->lock);
    if (!tcm_object_words || span->words == NULL)
        return;
    __builtin_memset(span->words, 0, 8 * (size_t)span->objects);
    *(void **)span->words = central->free_tables;
    central->free_tables = span->words;
    span->words = NULL;
}

static void map_entries(const struct tcm_span *span) {
    for (size_t page = 0; page < span->pages; page++)
        tcm_page_map_set_entry(span->start + (page << TCM_PAGE_SHIFT),
                               page_entry(span, page));
}

/* Makes SPAN's table of object words, if it has none; the caller owns an object
   of it. false: out of memory. */
static bool make_words(struct tcm_span *span) {
    if (!tcm_object_words)
        return false;
    struct tcm_central *central = list_of(span);
    bool done = true;
    lock_list(central);
    TCM_ASSERT(span->state == TCM_SPAN_SMALL && tcm_span_is_valid(span));
    if (span->words == NULL) {
        uint64_t *table = central->free_tables;
        if (table != NULL) {
            central->free_tables = *(void **)table;
            table[0] = 0;
        } else {
            table = tcm_meta_alloc(8 * (size_t)span->objects);
        }
        span->words = table;
        done = table != NULL;
        if (done)
            map_entries(span);
    }
    tcm_unlock(&central->lock);
    return done;
}

uint64_t *tcm_object_word(const void *ptr, bool make) {
    struct tcm_span *span = tcm_object_words ? tcm_page_span(ptr) : NULL;
    if (span == NULL)
        return NULL;
    if (span->state == TCM_SPAN_LARGE)
        return &span->word;
    if (span->state != TCM_SPAN_SMALL)
        return NULL;
    uint64_t *word = tcm_entry_word(tcm_page_entry(ptr), ptr);
    if (word != NULL || !make || !make_words(span))
        return word;
    return tcm_entry_word(tcm_page_entry(ptr), ptr);
}

uint64_t tcm_no_word;

static uint64_t *word_or_none(const void *object) {
    uint64_t *word = tcm_object_word(object, true);
    return word != NULL ? word : &tcm_no_word;
}

uint64_t *tcm_object_word_or_none(const void *object) {
    uint64_t *word = tcm_entry_word(tcm_page_entry(object), object);
    return TCM_LIKELY(word != NULL) ? word : word_or_none(object);
}

/* ------------------------------------------------------------------------ */
/* Spans                                                                    */

/* Bucket of SPAN, by quarters: the share of its objects that are free. */
static unsigned bucket_of(const struct tcm_span *span) {
    TCM_ASSERT(span->free_count != 0 && span->free_count <= span->objects);
    uint64_t scale = tcm_class[span->size_class].bucket_scale;
    return (unsigned)(((span->free_count - 1u) * scale) >> 32);
}

/* Adds SPAN, which is in no list and has free objects, to the list of its
   bucket. */
static void list_insert(struct tcm_central *central, struct tcm_span *span) {
    tcm_lock_assert_held(&central->lock);
    TCM_ASSERT(list_of(span) == central && tcm_span_is_valid(span));
    span->bucket = (uint8_t)bucket_of(span);
    TCM_ASSERT(span->bucket < TCM_CENTRAL_BUCKETS);
    tcm_dlist_push_front(&central->spans[span->bucket], &span->link);
}

/* A span for CENTRAL with all objects free, MOVING. IDLE: of idle pages of the
   thread's shard. No lock is held: the heap may have to grow for it. NULL: out
   of memory, or of idle pages. */
static struct tcm_span *make_span(const struct tcm_central *central,
                                  bool idle) {
    unsigned size_class = class_of(central);
    const struct tcm_class_info *info = &tcm_class[size_class];
    unsigned bit_words = (info->objects + 63u) / 64;
    TCM_ASSERT(!tcm_lock_is_held(&central->lock));
    struct tcm_span *span =
        idle ? tcm_page_heap_alloc_idle(info->pages, bit_words)
             : tcm_page_heap_alloc(info->pages, 1, TCM_SPAN_MOVING, bit_words,
                                   NULL);
    if (span == NULL)
        return NULL;
    /* Atomic: see tcm_central_lock_span. */
    tcm_store_relaxed(&span->size_class, (uint8_t)size_class);
    tcm_store_relaxed(&span->home, (uint8_t)central->shard);
    span->words = NULL;
    span->objects = info->objects;
    span->free_count = span->objects;
    span->first_word = 0;
    for (unsigned w = 0; w < bit_words; w++)
        span->free_bits[w] = ~(uint64_t)0;
    if (info->objects % 64 != 0)
        span->free_bits[bit_words - 1] =
            ((uint64_t)1 << (info->objects % 64)) - 1;
    for (size_t page = 1; page + 1 < span->pages; page++)
        tcm_page_map_set_span(span->start + (page << TCM_PAGE_SHIFT), span);
    map_entries(span);
    return span;
}

/* Adds the new span SPAN to CENTRAL, but to no list: the caller takes objects
   of it, and relists it. */
static void add_span(struct tcm_central *central, struct tcm_span *span) {
    TCM_ASSERT(span->state == TCM_SPAN_MOVING);
    TCM_ASSERT(span->free_count == span->objects);
    /* Threads with a neighbouring span read whether this one is free. */
    tcm_store_relaxed(&span->state, (uint8_t)TCM_SPAN_SMALL);
    tcm_add_owned(&central->span_count, 1);
    tcm_add_owned(&central->free_objects, span->objects);
}

/* Removes SPAN, which is in no list and has all objects free, from CENTRAL.
   Puts it in front of CHAIN, of which no other thread knows. */
static void remove_span(struct tcm_central *central, struct tcm_span *span,
                        struct tcm_span **chain) {
    TCM_ASSERT(span->state == TCM_SPAN_SMALL && tcm_span_is_valid(span));
    TCM_ASSERT(span->free_count == span->objects);
    TCM_ASSERT(central->span_count != 0 &&
               central->free_objects >= span->objects);
    free_table(central, span);
    tcm_store_relaxed(&span->state, (uint8_t)TCM_SPAN_MOVING);
    tcm_add_owned(&central->span_count, -(uint64_t)1);
    tcm_add_owned(&central->free_objects, -(uint64_t)span->objects);
    span->left = *chain;
    *chain = span;
}

/* Returns the spans of CHAIN to the page heap. No lock is held: memory may go
   back to the system. */
static void free_spans(struct tcm_span *chain) {
    while (chain != NULL) {
        struct tcm_span *span = chain;
        chain = span->left;
        TCM_ASSERT(span->state == TCM_SPAN_MOVING);
        TCM_ASSERT(!tcm_lock_is_held(&list_of(span)->lock));
        for (size_t page = 0; page < span->pages; page++)
            tcm_page_map_set_entry(span->start + (page << TCM_PAGE_SHIFT), 0);
        for (size_t page = 1; page + 1 < span->pages; page++)
            tcm_page_map_set_span(span->start + (page << TCM_PAGE_SHIFT), NULL);
        tcm_page_heap_free(span);
    }
}

/* True if free_count bits of SPAN are set, none of them below first_word or
   beyond the last object. */
static bool bits_are_counted(const struct tcm_span *span) {
    unsigned n = 0;
    for (unsigned w = 0; w < span->bit_words; w++) {
        if (w < span->first_word && span->free_bits[w] != 0)
            return false;
        n += (unsigned)__builtin_popcountll(span->free_bits[w]);
    }
    unsigned last = span->objects % 64;
    return n == span->free_count &&
           (last == 0 || span->free_bits[span->bit_words - 1] >> last == 0);
}

/* The first span of the first bucket that has any. NULL: none has. Without a
   branch for each bucket, of which several would be mispredicted. */
static struct tcm_span *fullest_span(struct tcm_central *central) {
    unsigned filled = 0;
    TCM_STATIC_ASSERT(TCM_CENTRAL_BUCKETS == 4, "all buckets are asked");
    tcm_lock_assert_held(&central->lock);
    filled |= (unsigned)!tcm_dlist_empty(&central->spans[0]);
    filled |= (unsigned)!tcm_dlist_empty(&central->spans[1]) << 1;
    filled |= (unsigned)!tcm_dlist_empty(&central->spans[2]) << 2;
    filled |= (unsigned)!tcm_dlist_empty(&central->spans[3]) << 3;
    if (filled == 0)
        return NULL;
    return TCM_CONTAINER_OF(central->spans[__builtin_ctz(filled)].next,
                            struct tcm_span, link);
}

/* ------------------------------------------------------------------------ */
/* Objects                                                                  */

/* Returns the bits of BITS, slots of SIZE bytes, that lie in groups which fill
   whole cache lines and are all set. Only for sizes below a line. */
static uint64_t whole_lines(uint64_t bits, size_t size) {
    /* 2 slots of 32 fill a line, 4 of 16, 4 of 48 three lines, 8 of 8. */
    uint64_t first = 0x5555555555555555u;
    uint64_t all = bits & bits >> 1;
    if (size != 32) {
        first = 0x1111111111111111u;
        all &= all >> 2;
    }
    if (size == 8) {
        first = 0x0101010101010101u;
        all &= all >> 4;
    }
    all &= first;
    all |= all << 1;
    if (size != 32)
        all |= all << 2;
    if (size == 8)
        all |= all << 4;
    return all;
}

/* Word with N ones, at least one, from bit LOW on. */
static TCM_ALWAYS_INLINE uint64_t ones_from(unsigned low, unsigned n) {
    TCM_ASSERT(n != 0 && low + n <= 64);
    return ~(uint64_t)0 >> (64 - n) << low;
}

/* Two places of a bin, for which a processor needs one load, store or sum. */
typedef uint64_t two_places __attribute__((vector_size(2 * sizeof(void *))));
TCM_STATIC_ASSERT(sizeof(void *) == sizeof(uint64_t), "a place is a word");

/* Writes COUNT objects of SIZE bytes from OBJECT on below END, the first one
   highest. Returns the lowest place. */
static TCM_ALWAYS_INLINE void **put_down(void **end, uintptr_t object,
                                         size_t size, unsigned count) {
    two_places next = {object + size, object};
    for (; count >= 4; count -= 4, end -= 4) {
        __builtin_memcpy(end - 2, &next, sizeof(next));
        next += 2 * size;
        __builtin_memcpy(end - 4, &next, sizeof(next));
        next += 2 * size;
    }
    for (object = next[1]; count != 0; count--, object += size)
        *--end = (void *)object;
    return end;
}

/* Writes the objects of BITS below *END, the lowest one highest, until there is
   no room above OUT, and lowers *END. BASE is the object of bit 0. Returns the
   bits that are left. Usually the bits are a few runs, each of which costs few
   instructions. */
static TCM_ALWAYS_INLINE uint64_t take_bits(uint64_t bits, uintptr_t base,
                                            size_t size, void **out,
                                            void ***end) {
    void **at = *end;
    while (bits != 0 && at != out) {
        unsigned low = (unsigned)__builtin_ctzll(bits);
        uint64_t gaps = ~(bits >> low);
        unsigned run = gaps == 0 ? 64 : (unsigned)__builtin_ctzll(gaps);
        unsigned room = (unsigned)(at - out);
        if (run > room)
            run = room;
        at = put_down(at, base + (size_t)low * size, size, run);
        bits &= ~ones_from(low, run);
    }
    *end = at;
    return bits;
}

/* Takes objects of SPAN from lines that are wholly free, until there is no room
   between OUT and END. Returns the new end. */
static void **take_lines(struct tcm_span *span, void **out, void **end) {
    size_t size = tcm_class[span->size_class].size;
    for (unsigned word = span->first_word; word < span->bit_words; word++) {
        uint64_t lines = whole_lines(span->free_bits[word], size);
        uintptr_t base = span->start + (size_t)word * 64 * size;
        uint64_t left = take_bits(lines, base, size, out, &end);
        span->free_bits[word] &= ~(lines ^ left);
        if (end == out)
            break;
    }
    return end;
}

/* Takes up to COUNT free objects of SPAN, the lowest, and writes them below
   END, the lowest one highest. Where several threads allocate and a line holds
   several objects, objects of wholly free lines come first: another thread may
   use the other objects of a line. Returns how many. */
static TCM_ALWAYS_INLINE unsigned take_objects(struct tcm_span *span,
                                               void **end, unsigned count) {
    size_t size = tcm_class[span->size_class].size;
    unsigned word = span->first_word;
    tcm_lock_assert_held(&list_of(span)->lock);
    TCM_ASSERT(tcm_span_is_valid(span) && span->free_count != 0);
    TCM_ASSERT_SLOW(bits_are_counted(span));
    if (count > span->free_count)
        count = span->free_count;
    void **out = end - count;
    if (size < TCM_CACHE_LINE && tcm_load_relaxed(&tcm_cache_count) > 1)
        end = take_lines(span, out, end);
    while (end != out) {
        uint64_t bits = span->free_bits[word];
        uintptr_t base = span->start + (size_t)word * 64 * size;
        bits = take_bits(bits, base, size, out, &end);
        span->free_bits[word] = bits;
        if (bits == 0 && word + 1u < span->bit_words)
            word++;
    }
    span->first_word = (uint8_t)word;
    span->free_count = (uint16_t)(span->free_count - count);
    return count;
}

/* Moves SPAN, of which objects were taken, to the list of its new bucket.
   LISTED: it is in the list of its old one. */
static void relist(struct tcm_central *central, struct tcm_span *span,
                   bool listed) {
    unsigned left = span->free_count;
    if (listed && left != 0 && bucket_of(span) == span->bucket)
        return;
    if (listed)
        tcm_dlist_remove(&span->link);
    if (left != 0)
        list_insert(central, span);
}

/* Takes up to COUNT objects of SPAN, of CENTRAL, for places below END. LISTED:
   it is in the list of its bucket. Returns how many. */
static TCM_ALWAYS_INLINE unsigned take_from(struct tcm_central *central,
                                            struct tcm_span *span, bool listed,
                                            void **end, unsigned count) {
    unsigned n = take_objects(span, end, count);
    TCM_ASSERT(central->free_objects >= n);
    tcm_add_owned(&central->free_objects, -(uint64_t)n);
    relist(central, span, listed);
    return n;
}

/* Takes up to COUNT objects that CENTRAL has, for places below END. Returns how
   many. */
static unsigned take_listed(struct tcm_central *central, void **end,
                            unsigned count) {
    unsigned got = 0;
    struct tcm_span *span;
    while (got < count && (span = fullest_span(central)) != NULL)
        got += take_from(central, span, true, end - got, count - got);
    return got;
}

/* Takes up to COUNT objects, for places below END, of a list of the class of
   CENTRAL that has more than KEPT bytes of them. Returns how many. */
static unsigned take_elsewhere(const struct tcm_central *central, uint64_t kept,
                               void **end, unsigned count) {
    unsigned size_class = class_of(central), got = 0;
    uint32_t n = tcm_class_parts(size_class), shard = central->shard;
    TCM_ASSERT(!tcm_lock_is_held(&central->lock));
    for (uint32_t i = 1; i < n && got == 0; i++) {
        struct tcm_central *other = &tcm_central[(shard + i) % n][size_class];
        if (tcm_load_relaxed(&other->free_objects) *
                tcm_class[size_class].size <=
            kept)
            continue;
        lock_list(other);
        got = take_listed(other, end, count);
        tcm_add_owned(&other->fetches, 1);
        tcm_unlock(&other->lock);
    }
    return got;
}

/* Gets a span for CENTRAL, which has none with free objects: a new one, in no
   list, or NULL. Then *GOT tells how many objects, up to COUNT, were taken of
   other lists instead, for places below END; none: out of memory. The lock is
   dropped meanwhile. */
static struct tcm_span *get_span(struct tcm_central *central, void **end,
                                 unsigned count, unsigned *got) {
    struct tcm_span *span = NULL;
    *got = 0;
    tcm_unlock(&central->lock);
    if (tcm_class_is_parted(class_of(central))) {
        span = make_span(central, true);
        if (span == NULL && !tcm_backoff_waits(&central->looks)) {
            *got = take_elsewhere(central, KEPT_BYTES, end, count);
            tcm_backoff_note(&central->looks, *got != 0, 1, LOOK_WAIT);
        }
    }
    if (span == NULL && *got == 0)
        span = make_span(central, false);
    if (span == NULL && *got == 0)
        *got = take_elsewhere(central, 0, end, count);
    tcm_lock(&central->lock);
    if (span != NULL)
        add_span(central, span);
    return span;
}

unsigned tcm_central_fetch(unsigned size_class, void **out,
                           unsigned count_wanted) {
    struct tcm_central *central = lock_own_list(size_class);
    void **end = out + count_wanted;
    unsigned got = 0;
    while (got < count_wanted) {
        struct tcm_span *span = fullest_span(central);
        unsigned others = 0;
        bool listed = span != NULL;
        if (!listed) {
            span = get_span(central, end - got, count_wanted - got, &others);
            got += others;
            /* Other threads may have returned objects to fuller spans
               meanwhile; but the new span must not stay with all its objects
               free, so it is used. */
            if (span == NULL && others == 0) {
                span = fullest_span(central);
                listed = true;
            }
        }
        if (span != NULL)
            got +=
                take_from(central, span, listed, end - got, count_wanted - got);
        else if (others == 0)
            break;
    }
    tcm_add_owned(&central->fetches, 1);
    tcm_unlock(&central->lock);
    if (TCM_UNLIKELY(got < count_wanted))
        __builtin_memmove(out, end - got, got * sizeof(out[0]));
    return got;
}

/* Ends the program. Gives the lock back first: a SIGABRT handler that
   allocates, as many do, must not wait for it. */
static TCM_NORETURN TCM_COLD void wrong_free(struct tcm_central *central,
                                             const char *message,
                                             const void *object) {
    tcm_lock_assert_held(&central->lock);
    tcm_unlock(&central->lock);
    tcm_die_pointer(message, object);
}

/* Span of OBJECT; dies if OBJECT is of no span of this class. */
static struct tcm_span *span_of(struct tcm_central *central, void *object) {
    struct tcm_span *span = tcm_page_span(object);
    if (TCM_UNLIKELY(span == NULL || span->state != TCM_SPAN_SMALL ||
                     span->size_class != class_of(central)))
        wrong_free(central, "attempt to free an invalid pointer", object);
    return span;
}

/* Marks N slots from SLOT on as free; dies if one is free already. */
static void mark_slots(struct tcm_central *central, struct tcm_span *span,
                       unsigned slot, unsigned n) {
    size_t size = tcm_class[span->size_class].size;
    unsigned word = slot / 64;
    if (word < span->first_word)
        span->first_word = (uint8_t)word;
    for (; n != 0; word++) {
        unsigned low = slot % 64;
        unsigned here = n < 64 - low ? n : 64 - low;
        uint64_t bits = ones_from(low, here);
        uint64_t twice = span->free_bits[word] & bits;
        if (TCM_UNLIKELY(twice != 0))
            wrong_free(
                central, "double free of",
                (void *)(span->start +
                         (word * 64 + (size_t)__builtin_ctzll(twice)) * size));
        span->free_bits[word] |= bits;
        slot += here;
        n -= here;
    }
}

/* Slot of OBJECT; dies if no object of SPAN begins there. */
static TCM_ALWAYS_INLINE unsigned slot_of(struct tcm_central *central,
                                          const struct tcm_span *span,
                                          void *object) {
    const struct tcm_class_info *info = &tcm_class[class_of(central)];
    uint64_t offset = (uintptr_t)object - span->start;
    uint64_t slot = tcm_class_slot(info, offset);
    if (TCM_UNLIKELY(slot >= info->objects || slot * info->size != offset))
        wrong_free(central, "attempt to free an invalid pointer", object);
    return (unsigned)slot;
}

/* How many of the N OBJECTS, from the first on, follow each other at distances
   of STEP. */
static TCM_ALWAYS_INLINE unsigned run_length(void *const *objects, unsigned n,
                                             uintptr_t step) {
    uintptr_t first = (uintptr_t)objects[0];
    two_places next = {first, first + step};
    unsigned run = 0;
    for (; run + 4 <= n; run += 4) {
        two_places differ = {0, 0}, got;
        for (unsigned i = 0; i < 4; i += 2) {
            __builtin_memcpy(&got, objects + run + i, sizeof(got));
            differ |= got ^ next;
            next += 2 * step;
        }
        if ((differ[0] | differ[1]) != 0)
            break;
    }
    for (first += run * step; run < n && (uintptr_t)objects[run] == first;
         run++)
        first += step;
    return run;
}

/* Marks the first of the N OBJECTS, all of SPAN, and the objects that follow it
   at distances of STEP, which is plus or minus their size. Returns how many.
   Apart from its caller, whose loop for single objects needs the registers. */
static TCM_NOINLINE unsigned mark_run(struct tcm_central *central,
                                      struct tcm_span *span,
                                      void *const *objects, unsigned n,
                                      uintptr_t step) {
    const struct tcm_class_info *info = &tcm_class[class_of(central)];
    unsigned slot = slot_of(central, span, objects[0]);
    bool rises = step == info->size;
    unsigned room = rises ? info->objects - slot : slot + 1;
    unsigned most = n < room ? n : room;
    unsigned run = run_length(objects, most, step);
    mark_slots(central, span, rises ? slot : slot - (run - 1), run);
    return run;
}

/* Marks the first of the N OBJECTS and the following ones that are in SPAN, in
   any order. Returns how many. */
static unsigned mark_some(struct tcm_central *central, struct tcm_span *span,
                          void *const *objects, unsigned n, size_t used_bytes) {
    uintptr_t start = span->start;
    unsigned word = 0, i = 0;
    uint64_t bits = span->free_bits[0]; /* copy of that word */
    do {
        unsigned slot = slot_of(central, span, objects[i]);
        if (slot / 64 != word) {
            span->free_bits[word] = bits;
            word = slot / 64;
            bits = span->free_bits[word];
        }
        uint64_t bit = (uint64_t)1 << (slot % 64);
        if (TCM_UNLIKELY(bits & bit))
            wrong_free(central, "double free of", objects[i]);
        bits |= bit;
        if (word < span->first_word)
            span->first_word = (uint8_t)word;
        i++;
    } while (i < n && (uintptr_t)objects[i] - start < used_bytes);
    span->free_bits[word] = bits;
    return i;
}

/* Shortest run of adjacent objects worth marking as one; also the number of
   objects between two checks for a run. */
#define RUN_LEAST 8u

/* +SIZE or -SIZE if the N OBJECTS look like an ascending or descending run
   (checks three of them), else 0. */
static uintptr_t step_of(void *const *objects, unsigned n, size_t size) {
    if (n < RUN_LEAST)
        return 0;
    uintptr_t first = (uintptr_t)objects[0];
    uintptr_t step = (uintptr_t)objects[1] - first;
    bool even =
        (uintptr_t)objects[RUN_LEAST - 1] - first == (RUN_LEAST - 1) * step;
    return even && (step == size || step == 0 - size) ? step : 0;
}

/* Marks the first of the N OBJECTS and the following ones as free, up to the
   first that is not in SPAN. Returns how many. Programs often free neighbours
   one after the other, ascending or descending; these are marked together. */
static unsigned mark_free(struct tcm_central *central, struct tcm_span *span,
                          void *const *objects, unsigned n) {
    const struct tcm_class_info *info = &tcm_class[class_of(central)];
    size_t used_bytes = info->objects * (size_t)info->size;
    unsigned i = 0;
    do {
        uintptr_t step = step_of(objects + i, n - i, info->size);
        unsigned some = n - i < RUN_LEAST ? n - i : RUN_LEAST;
        i += step != 0
                 ? mark_run(central, span, objects + i, n - i, step)
                 : mark_some(central, span, objects + i, some, used_bytes);
    } while (i < n && (uintptr_t)objects[i] - span->start < used_bytes);
    return i;
}

/* Counts N objects of SPAN that were marked free, and moves the span to the
   list of its new bucket or to *EMPTY. */
static void count_freed(struct tcm_central *central, struct tcm_span *span,
                        unsigned n, struct tcm_span **empty) {
    bool listed = span->free_count != 0;
    tcm_lock_assert_held(&central->lock);
    TCM_ASSERT(span->free_count + n <= span->objects);
    TCM_ASSERT(!listed || span->bucket == bucket_of(span));
    span->free_count = (uint16_t)(span->free_count + n);
    bool whole = span->free_count == span->objects;
    TCM_ASSERT_SLOW(bits_are_counted(span));
    if (listed && !whole && bucket_of(span) == span->bucket)
        return;
    if (listed)
        tcm_dlist_remove(&span->link);
    if (whole)
        remove_span(central, span, empty);
    else
        list_insert(central, span);
}

/* The list that OBJECT belongs to. If another thread parts the class just now,
   OBJECT is older than that, since it was handed to this thread by one that had
   not seen the mark. */
static struct tcm_central *list_of_object(unsigned size_class,
                                          const void *object) {
    uint32_t home = tcm_class_is_parted(size_class)
                        ? tcm_object_home(size_class, object)
                        : 0;
    return &tcm_central[home][size_class];
}

/* Returns those of the N OBJECTS that belong to the list of the first. Moves
   the others to REST, which may be OBJECTS, and returns their number. REST
   NULL: returns the number of objects from the first such one on. Adds spans
   that became empty to *EMPTY. */
static unsigned return_some(unsigned size_class, void *const *objects,
                            unsigned n, void **rest, struct tcm_span **empty) {
    struct tcm_central *central = list_of_object(size_class, objects[0]);
    unsigned left = 0;
    lock_list(central);
    for (unsigned i = 0; i < n;) {
        struct tcm_span *span = span_of(central, objects[i]);
        if (TCM_UNLIKELY(span->home != central->shard)) {
            if (rest == NULL) {
                left = n - i;
                break;
            }
            rest[left++] = objects[i++];
            continue;
        }
        unsigned same = mark_free(central, span, objects + i, n - i);
        tcm_add_owned(&central->free_objects, same);
        count_freed(central, span, same, empty);
        i += same;
        if (i + PREFETCH_AHEAD < n) {
            struct tcm_span *ahead = tcm_page_span(objects[i + PREFETCH_AHEAD]);
            if (ahead != NULL)
                __builtin_prefetch(ahead, 1);
        }
    }
    tcm_add_owned(&central->returns, 1);
    tcm_unlock(&central->lock);
    return left;
}

/* Apart from its caller, which does without these 2 KiB of the stack: threads
   may have stacks of a few. */
static TCM_NOINLINE void return_parted(unsigned size_class,
                                       void *const *objects, unsigned n,
                                       struct tcm_span **empty) {
    void *rest[VISIT_MOST];
    TCM_ASSERT(n <= VISIT_MOST);
    unsigned left = return_some(size_class, objects, n, rest, empty);
    while (left != 0)
        left = return_some(size_class, rest, left, rest, empty);
}

void tcm_central_return(unsigned size_class, void *const *objects, unsigned n) {
    struct tcm_span *empty = NULL;
    for (unsigned i = 0; i < n; i += VISIT_MOST) {
        unsigned left = n - i < VISIT_MOST ? n - i : VISIT_MOST;
        void *const *end = objects + i + left;
        if (!tcm_class_is_parted(size_class))
            left = return_some(size_class, objects + i, left, NULL, &empty);
        if (left != 0)
            return_parted(size_class, end - left, left, &empty);
    }
    free_spans(empty);
}

/* A span becomes SMALL, and ceases to be, under the lock of its list, and its
   class and home change only while it is MOVING: so if they are those of the
   list whose lock is held, the span is of that list. */
struct tcm_lock *tcm_central_lock_span(const struct tcm_span *span,
                                       unsigned size_class) {
    uint8_t home = tcm_load_relaxed(&span->home);
    /* A shard that this thread does not know of yet. */
    if (home >= tcm_load_acquire(&tcm_page_shards))
        return NULL;
    struct tcm_lock *lock = &tcm_central[home][size_class].lock;
    tcm_lock(lock);
    if (tcm_load_relaxed(&span->state) == TCM_SPAN_SMALL &&
        tcm_load_relaxed(&span->size_class) == size_class &&
        tcm_load_relaxed(&span->home) == home)
        return lock;
    tcm_unlock(lock);
    return NULL;
}

void tcm_central_figures(unsigned size_class, struct tcm_central_figures *out) {
    uint32_t n = tcm_class_parts(size_class);
    __builtin_memset(out, 0, sizeof(*out));
    for (uint32_t shard = 0; shard < n; shard++) {
        const struct tcm_central *central = &tcm_central[shard][size_class];
        out->spans += tcm_load_relaxed(&central->span_count);
        out->free_objects += tcm_load_relaxed(&central->free_objects);
        out->fetches += tcm_load_relaxed(&central->fetches);
        out->returns += tcm_load_relaxed(&central->returns);
    }
}

void tcm_central_lock_all(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            tcm_lock(&tcm_central[i][size_class].lock);
}

void tcm_central_unlock_all(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            tcm_unlock(&tcm_central[i][size_class].lock);
}
