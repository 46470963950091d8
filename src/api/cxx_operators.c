/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C++ operators new and delete, in C, by their mangled names; each definition
 * has its C++ signature above it.
 *
 * All forms honour the new-handler; the throwing ones throw std::bad_alloc
 * (new_handler.h). These C frames lie under a throw, hence -fexceptions.
 *
 * A program may replace some operators. Forms that the standard defines by
 * others ([new.delete.single], [new.delete.array]) then call the program's.
 */
#include "api/export.h"
#include "api/malloc_path.h"
#include "api/new_handler.h"
#include "base/bits.h"

#include <errno.h>

#define OPERATOR TCM_PUBLIC_FAST
#define N(name)  TCM_EXPORT(name)

/* std::nothrow_t is passed by reference, std::align_val_t is a size_t. */
void *N(_Znwm)(size_t size);
void *N(_Znam)(size_t size);
void *N(_ZnwmRKSt9nothrow_t)(size_t size, const void *nt);
void *N(_ZnamRKSt9nothrow_t)(size_t size, const void *nt);
void *N(_ZnwmSt11align_val_t)(size_t size, size_t align);
void *N(_ZnamSt11align_val_t)(size_t size, size_t align);
void *N(_ZnwmSt11align_val_tRKSt9nothrow_t)(size_t size, size_t align,
                                            const void *nt);
void *N(_ZnamSt11align_val_tRKSt9nothrow_t)(size_t size, size_t align,
                                            const void *nt);
void N(_ZdlPv)(void *ptr);
void N(_ZdaPv)(void *ptr);
void N(_ZdlPvm)(void *ptr, size_t size);
void N(_ZdaPvm)(void *ptr, size_t size);
void N(_ZdlPvRKSt9nothrow_t)(void *ptr, const void *nt);
void N(_ZdaPvRKSt9nothrow_t)(void *ptr, const void *nt);
void N(_ZdlPvSt11align_val_t)(void *ptr, size_t align);
void N(_ZdaPvSt11align_val_t)(void *ptr, size_t align);
void N(_ZdlPvmSt11align_val_t)(void *ptr, size_t size, size_t align);
void N(_ZdaPvmSt11align_val_t)(void *ptr, size_t size, size_t align);
void N(_ZdlPvSt11align_val_tRKSt9nothrow_t)(void *ptr, size_t align,
                                            const void *nt);
void N(_ZdaPvSt11align_val_tRKSt9nothrow_t)(void *ptr, size_t align,
                                            const void *nt);

/* ------------------------------------------------------------------------ */
/* Replaced operators                                                       */

/* The forms by which others are defined. */
struct operators {
    void *(*new_)(size_t size);
    void *(*new_array)(size_t size);
    void *(*new_aligned)(size_t size, size_t align);
    void *(*new_array_aligned)(size_t size, size_t align);
    void (*delete_)(void *ptr);
    void (*delete_array)(void *ptr);
    void (*delete_aligned)(void *ptr, size_t align);
    void (*delete_array_aligned)(void *ptr, size_t align);
};

#define BASIC(X)                                                               \
    X(new_, _Znwm)                                                             \
    X(new_array, _Znam)                                                        \
    X(new_aligned, _ZnwmSt11align_val_t)                                       \
    X(new_array_aligned, _ZnamSt11align_val_t)                                 \
    X(delete_, _ZdlPv)                                                         \
    X(delete_array, _ZdaPv)                                                    \
    X(delete_aligned, _ZdlPvSt11align_val_t)                                   \
    X(delete_array_aligned, _ZdaPvSt11align_val_t)

/* Each form has a name for this library's function, and one that the loader
   binds as in the rest of the program, before any code of the program runs. */
#define X(form, symbol)                                                        \
    TCM_OWN(own_##form, symbol);                                               \
    TCM_BOUND(bound_##form, symbol);
BASIC(X)
#undef X

static const struct operators own = {
#define X(form, symbol) own_##form,
    BASIC(X)
#undef X
};
static const struct operators bound = {
#define X(form, symbol) bound_##form,
    BASIC(X)
#undef X
};

/* 0: no operator is replaced; 1: some are; 2: not checked yet. The base is
   tcm_class_map_base if none is replaced, else TCM_NO_BASE. */
static uint8_t replaced_state = 2;
static uintptr_t delete_base = TCM_NO_BASE;

/* Checks for replaced operators. Without a class map, as before the first
   block, the result is not stored. All threads find the same. */
static TCM_COLD bool check_replaced(void) {
    bool same = true;
    const struct operators *bound_forms = &bound;
    /* Without this a compiler may assume that two names are two functions. */
    TCM_FORGET(bound_forms);
#define X(form, symbol) same = same && bound_forms->form == own.form;
    BASIC(X)
#undef X
    if (!same || tcm_class_map_base != TCM_NO_BASE)
        tcm_store_relaxed(&replaced_state, (uint8_t)!same);
    if (same)
        tcm_store_relaxed(&delete_base, tcm_class_map_base);
    return !same;
}

/* Two instructions for derived forms of new; derived forms of delete test
   delete_base instead. */
static TCM_ALWAYS_INLINE bool some_are_replaced(void) {
    return TCM_UNLIKELY(tcm_load_folded(&replaced_state) != 0) &&
           check_replaced();
}

/* Arguments and result of the form that a nothrow form calls. */
struct request {
    void *(*plain)(size_t size);
    void *(*aligned)(size_t size, size_t align);
    size_t size, align;
    void *block;
};

static void call_form(void *argument) {
    struct request *r = argument;
    r->block =
        r->plain != NULL ? r->plain(r->size) : r->aligned(r->size, r->align);
}

/* The block of R's form, or NULL if that throws. */
static TCM_COLD void *call_form_or_null(struct request r) {
    return tcm_call_catching(call_form, &r) ? r.block : NULL;
}

/* ------------------------------------------------------------------------ */
/* Paths                                                                    */

/*
 * The loop of [new.delete.single]: allocate, else call the handler, until there
 * is none. A nothrow form returns NULL also if the handler throws. ALIGN 0: a
 * plain form; an alignment that is no power of two is refused at once.
 */
static TCM_COLD void *new_slow(size_t size, size_t align, enum mtf_call call,
                               bool throws) {
    bool good = align == 0 || tcm_is_pow2(align);
    int saved = errno;
    while (good) {
        void *p = align == 0 ? tcm_alloc_try_slow(size, call)
                             : tcm_alloc_aligned(size, align, call, false);
        if (TCM_LIKELY(p != NULL)) {
            errno = saved;
            return p;
        }
        if (!tcm_new_handler_call(!throws))
            break;
    }
    tcm_alloc_record_failure(size, call,
                             !good        ? TCM_ALIGN_REFUSED
                             : align == 0 ? 0
                                          : tcm_log2_floor(align));
    if (throws)
        tcm_throw_bad_alloc();
    return NULL;
}

/* Local functions of a plain form of new: PREFIX##_slow and PREFIX##_far. */
#define PLAIN_NEW(prefix, call, throws)                                        \
    static TCM_COLD void *prefix##_slow(size_t size) {                         \
        tcm_trace_from_here();                                                 \
        return new_slow(size, 0, call, throws);                                \
    }                                                                          \
    static TCM_ALWAYS_INLINE void *prefix##_far(size_t size) {                 \
        return tcm_alloc_far(size, call, prefix##_slow);                       \
    }

#define NEW_BODY(prefix)                                                       \
    return tcm_alloc_path(size, prefix##_far, prefix##_slow)

PLAIN_NEW(op_new, MTF_CALL_NEW, true)
PLAIN_NEW(op_new_array, MTF_CALL_NEW_ARRAY, true)
PLAIN_NEW(op_new_nothrow, MTF_CALL_NEW_NOTHROW, false)
PLAIN_NEW(op_new_array_nothrow, MTF_CALL_NEW_ARRAY_NOTHROW, false)

#define SLOW_DELETE(prefix, call)                                              \
    static TCM_COLD void prefix##_slow(void *ptr) {                            \
        tcm_free_slow(ptr, call);                                              \
    }

#define PLAIN_DELETE(prefix, call)                                             \
    SLOW_DELETE(prefix, call)                                                  \
    static TCM_ALWAYS_INLINE void prefix##_far(void *ptr) {                    \
        tcm_free_far(ptr, call);                                               \
    }

#define DELETE_BODY(prefix)                                                    \
    tcm_free_path(tcm_class_map_base, ptr, prefix##_far, prefix##_slow)

/* Local functions of a derived form of delete: if the program replaces
   operators, FAR gets all blocks and calls the program's FORM. */
#define DERIVED_DELETE(prefix, call, form)                                     \
    SLOW_DELETE(prefix, call)                                                  \
    static TCM_NOINLINE void prefix##_far(void *ptr) {                         \
        if (TCM_UNLIKELY(some_are_replaced()))                                 \
            bound.form(ptr);                                                   \
        else                                                                   \
            tcm_free_far(ptr, call);                                           \
    }

#define DERIVED_BODY(prefix)                                                   \
    tcm_free_path(delete_base, ptr, prefix##_far, prefix##_slow)

PLAIN_DELETE(op_delete, MTF_CALL_DELETE)
DERIVED_DELETE(op_delete_array, MTF_CALL_DELETE_ARRAY, delete_)
DERIVED_DELETE(op_delete_nothrow, MTF_CALL_DELETE_NOTHROW, delete_)
DERIVED_DELETE(op_delete_array_nothrow, MTF_CALL_DELETE_ARRAY_NOTHROW,
               delete_array)
PLAIN_DELETE(op_delete_aligned, MTF_CALL_DELETE_ALIGNED)
PLAIN_DELETE(op_delete_array_aligned, MTF_CALL_DELETE_ARRAY_ALIGNED)
PLAIN_DELETE(op_delete_aligned_nothrow, MTF_CALL_DELETE_ALIGNED_NOTHROW)
PLAIN_DELETE(op_delete_array_aligned_nothrow,
             MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW)

#define SIZED_DELETE(prefix, call, form)                                       \
    static TCM_COLD void prefix##_slow(void *ptr, size_t size) {               \
        tcm_free_sized_slow(ptr, size, 0, call);                               \
    }                                                                          \
    static TCM_NOINLINE void prefix##_far(void *ptr, size_t size) {            \
        if (TCM_UNLIKELY(some_are_replaced()))                                 \
            bound.form(ptr);                                                   \
        else                                                                   \
            tcm_free_sized_far(ptr, size, call);                               \
    }

static TCM_ALWAYS_INLINE void check_delete(const void *ptr, size_t size,
                                           size_t align) {
    if (tcm_debug && !some_are_replaced())
        tcm_delete_check(ptr, size, align);
}

#define SIZED_DELETE_BODY(prefix)                                              \
    check_delete(ptr, size, 0);                                                \
    tcm_free_sized_path(delete_base, ptr, size, prefix##_far, prefix##_slow)

SIZED_DELETE(op_delete_sized, MTF_CALL_DELETE_SIZED, delete_)
SIZED_DELETE(op_delete_array_sized, MTF_CALL_DELETE_ARRAY_SIZED, delete_array)

/* While recording, aligned and sized aligned forms are served slowly. */
static TCM_ALWAYS_INLINE void *new_aligned(size_t size, size_t align,
                                           enum mtf_call call, bool throws) {
    void *ptr =
        tcm_is_pow2(align) ? tcm_alloc_aligned_plain(size, align) : NULL;
    if (TCM_LIKELY(ptr != NULL))
        return ptr;
    tcm_trace_from_here();
    return new_slow(size, align, call, throws);
}

static TCM_ALWAYS_INLINE void
delete_sized_aligned(void *ptr, size_t size, size_t align, enum mtf_call call) {
    tcm_free_sized_elsewhere(ptr, size, align, call);
}

/* ------------------------------------------------------------------------ */
/* Operators                                                                */

/* operator new(size_t) */
OPERATOR void *N(_Znwm)(size_t size) {
    NEW_BODY(op_new);
}
/* operator new[](size_t) */
OPERATOR void *N(_Znam)(size_t size) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return bound.new_(size);
    NEW_BODY(op_new_array);
}
/* operator new(size_t, const std::nothrow_t &) */
OPERATOR void *N(_ZnwmRKSt9nothrow_t)(size_t size, const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return call_form_or_null(
            (struct request){.plain = bound.new_, .size = size});
    (void)nt;
    NEW_BODY(op_new_nothrow);
}
/* operator new[](size_t, const std::nothrow_t &) */
OPERATOR void *N(_ZnamRKSt9nothrow_t)(size_t size, const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return call_form_or_null(
            (struct request){.plain = bound.new_array, .size = size});
    (void)nt;
    NEW_BODY(op_new_array_nothrow);
}
/* operator new(size_t, std::align_val_t) */
OPERATOR void *N(_ZnwmSt11align_val_t)(size_t size, size_t align) {
    return new_aligned(size, align, MTF_CALL_NEW_ALIGNED, true);
}
/* operator new[](size_t, std::align_val_t) */
OPERATOR void *N(_ZnamSt11align_val_t)(size_t size, size_t align) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return bound.new_aligned(size, align);
    return new_aligned(size, align, MTF_CALL_NEW_ARRAY_ALIGNED, true);
}
/* operator new(size_t, std::align_val_t, const std::nothrow_t &) */
OPERATOR void *N(_ZnwmSt11align_val_tRKSt9nothrow_t)(size_t size, size_t align,
                                                     const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return call_form_or_null((struct request){
            .aligned = bound.new_aligned, .size = size, .align = align});
    (void)nt;
    return new_aligned(size, align, MTF_CALL_NEW_ALIGNED_NOTHROW, false);
}
/* operator new[](size_t, std::align_val_t, const std::nothrow_t &) */
OPERATOR void *N(_ZnamSt11align_val_tRKSt9nothrow_t)(size_t size, size_t align,
                                                     const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced()))
        return call_form_or_null((struct request){
            .aligned = bound.new_array_aligned, .size = size, .align = align});
    (void)nt;
    return new_aligned(size, align, MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW, false);
}
/* operator delete(void *) */
OPERATOR void N(_ZdlPv)(void *ptr) {
    DELETE_BODY(op_delete);
}
/* operator delete[](void *) */
OPERATOR void N(_ZdaPv)(void *ptr) {
    DERIVED_BODY(op_delete_array);
}
/* operator delete(void *, size_t) */
OPERATOR void N(_ZdlPvm)(void *ptr, size_t size) {
    SIZED_DELETE_BODY(op_delete_sized);
}
/* operator delete[](void *, size_t) */
OPERATOR void N(_ZdaPvm)(void *ptr, size_t size) {
    SIZED_DELETE_BODY(op_delete_array_sized);
}
/* operator delete(void *, const std::nothrow_t &) */
OPERATOR void N(_ZdlPvRKSt9nothrow_t)(void *ptr, const void *nt) {
    (void)nt;
    DERIVED_BODY(op_delete_nothrow);
}
/* operator delete[](void *, const std::nothrow_t &) */
OPERATOR void N(_ZdaPvRKSt9nothrow_t)(void *ptr, const void *nt) {
    (void)nt;
    DERIVED_BODY(op_delete_array_nothrow);
}
/* operator delete(void *, std::align_val_t) */
OPERATOR void N(_ZdlPvSt11align_val_t)(void *ptr, size_t align) {
    (void)align;
    DELETE_BODY(op_delete_aligned);
}
/* operator delete[](void *, std::align_val_t) */
OPERATOR void N(_ZdaPvSt11align_val_t)(void *ptr, size_t align) {
    if (TCM_UNLIKELY(some_are_replaced())) {
        bound.delete_aligned(ptr, align);
        return;
    }
    (void)align;
    DELETE_BODY(op_delete_array_aligned);
}
/* operator delete(void *, size_t, std::align_val_t) */
OPERATOR void N(_ZdlPvmSt11align_val_t)(void *ptr, size_t size, size_t align) {
    if (TCM_UNLIKELY(some_are_replaced())) {
        bound.delete_aligned(ptr, align);
        return;
    }
    check_delete(ptr, size, align);
    delete_sized_aligned(ptr, size, align, MTF_CALL_DELETE_SIZED_ALIGNED);
}
/* operator delete[](void *, size_t, std::align_val_t) */
OPERATOR void N(_ZdaPvmSt11align_val_t)(void *ptr, size_t size, size_t align) {
    if (TCM_UNLIKELY(some_are_replaced())) {
        bound.delete_array_aligned(ptr, align);
        return;
    }
    check_delete(ptr, size, align);
    delete_sized_aligned(ptr, size, align, MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED);
}
/* operator delete(void *, std::align_val_t, const std::nothrow_t &) */
OPERATOR void N(_ZdlPvSt11align_val_tRKSt9nothrow_t)(void *ptr, size_t align,
                                                     const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced())) {
        bound.delete_aligned(ptr, align);
        return;
    }
    (void)align, (void)nt;
    DELETE_BODY(op_delete_aligned_nothrow);
}
/* operator delete[](void *, std::align_val_t, const std::nothrow_t &) */
OPERATOR void N(_ZdaPvSt11align_val_tRKSt9nothrow_t)(void *ptr, size_t align,
                                                     const void *nt) {
    if (TCM_UNLIKELY(some_are_replaced())) {
        bound.delete_array_aligned(ptr, align);
        return;
    }
    (void)align, (void)nt;
    DELETE_BODY(op_delete_array_aligned_nothrow);
}

/* Names of the operators in <gperftools/tcmalloc.h>. */
TCM_ALIAS(tc_new, _Znwm);
TCM_ALIAS(tc_newarray, _Znam);
TCM_ALIAS(tc_new_nothrow, _ZnwmRKSt9nothrow_t);
TCM_ALIAS(tc_newarray_nothrow, _ZnamRKSt9nothrow_t);
TCM_ALIAS(tc_new_aligned, _ZnwmSt11align_val_t);
TCM_ALIAS(tc_newarray_aligned, _ZnamSt11align_val_t);
TCM_ALIAS(tc_new_aligned_nothrow, _ZnwmSt11align_val_tRKSt9nothrow_t);
TCM_ALIAS(tc_newarray_aligned_nothrow, _ZnamSt11align_val_tRKSt9nothrow_t);
TCM_ALIAS(tc_delete, _ZdlPv);
TCM_ALIAS(tc_deletearray, _ZdaPv);
TCM_ALIAS(tc_delete_sized, _ZdlPvm);
TCM_ALIAS(tc_deletearray_sized, _ZdaPvm);
TCM_ALIAS(tc_delete_nothrow, _ZdlPvRKSt9nothrow_t);
TCM_ALIAS(tc_deletearray_nothrow, _ZdaPvRKSt9nothrow_t);
TCM_ALIAS(tc_delete_aligned, _ZdlPvSt11align_val_t);
TCM_ALIAS(tc_deletearray_aligned, _ZdaPvSt11align_val_t);
TCM_ALIAS(tc_delete_sized_aligned, _ZdlPvmSt11align_val_t);
TCM_ALIAS(tc_deletearray_sized_aligned, _ZdaPvmSt11align_val_t);
TCM_ALIAS(tc_delete_aligned_nothrow, _ZdlPvSt11align_val_tRKSt9nothrow_t);
TCM_ALIAS(tc_deletearray_aligned_nothrow, _ZdaPvSt11align_val_tRKSt9nothrow_t);
