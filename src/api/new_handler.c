/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Catching C++ exceptions in C: a function has a handler if its frame
 * description names a personality routine. Ours claims every exception in the
 * search phase; in the cleanup phase, when all frames below are gone, it jumps
 * back into the function, which ends the exception with functions of libstdc++.
 * One call there can throw, so no table of call sites is needed; and the
 * unwinder's library need not be linked, because none of its functions is
 * called.
 */
#include "api/new_handler.h"
#include "api/export.h"
#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <unwind.h>

typedef void (*new_handler)(void);

/* std::get_new_handler(), std::__throw_bad_alloc() */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));
extern void *__cxa_begin_catch(void *exception) __attribute__((weak));
extern void __cxa_end_catch(void) __attribute__((weak));

/* A call that may throw, of this thread; the innermost is first. */
struct catcher {
    struct catcher *outer;
    struct _Unwind_Exception *caught;
    jmp_buf place;
};

static TCM_TLS struct catcher *catchers;
static TCM_TLS bool in_look_up;

/*
 * Function NAME of a libstdc++ that was loaded after this library; NULL: none.
 * A failed look-up allocates, for dlerror; if that allocation fails too, there
 * must be no second look-up.
 */
static void *look_up(const char *name) {
    if (in_look_up)
        return NULL;
    in_look_up = true;
    void *found = dlsym(RTLD_DEFAULT, name);
    in_look_up = false;
    return found;
}

static new_handler current_handler(void) {
    new_handler (*get)(void) = _ZSt15get_new_handlerv;
    if (get == NULL)
        *(void **)&get = look_up("_ZSt15get_new_handlerv");
    return get == NULL ? NULL : get();
}

void tcm_throw_bad_alloc(void) {
    void (*throw)(void) = _ZSt17__throw_bad_allocv;
    if (throw == NULL)
        *(void **)&throw = look_up("_ZSt17__throw_bad_allocv");
    if (throw != NULL)
        throw();
    tcm_die("operator new: out of memory, and no C++ runtime to throw");
}

/* ------------------------------------------------------------------------ */
/* Catching                                                                 */

/* Destroys EXCEPTION, as the end of a catch block does. */
static void end_exception(struct _Unwind_Exception *exception) {
    void *(*begin)(void *) = __cxa_begin_catch;
    void (*end)(void) = __cxa_end_catch;
    if (begin == NULL || end == NULL) {
        *(void **)&begin = look_up("__cxa_begin_catch");
        *(void **)&end = look_up("__cxa_end_catch");
    }
    if (begin != NULL && end != NULL) {
        begin(exception);
        end();
    } else if (exception->exception_cleanup != NULL) {
        exception->exception_cleanup(_URC_FOREIGN_EXCEPTION_CAUGHT, exception);
    }
}

_Unwind_Reason_Code tcm_catch_personality(int version, _Unwind_Action actions,
                                          _Unwind_Exception_Class kind,
                                          struct _Unwind_Exception *exception,
                                          struct _Unwind_Context *context)
    __attribute__((used, visibility("hidden")));

/* Personality routine of tcm_call_catching, which names it. A thread that is
   being cancelled is not stopped: it goes on unwinding. */
_Unwind_Reason_Code tcm_catch_personality(int version, _Unwind_Action actions,
                                          _Unwind_Exception_Class kind,
                                          struct _Unwind_Exception *exception,
                                          struct _Unwind_Context *context) {
    (void)version, (void)kind, (void)context;
    if (actions & _UA_SEARCH_PHASE)
        return _URC_HANDLER_FOUND;
    struct catcher *catcher = catchers;
    TCM_ASSERT(catcher != NULL);
    catchers = catcher->outer;
    if ((actions & _UA_FORCE_UNWIND) || !(actions & _UA_HANDLER_FRAME))
        return _URC_CONTINUE_UNWIND;
    catcher->caught = exception;
    _longjmp(catcher->place, 1);
}

TCM_NOINLINE bool tcm_call_catching(void (*call)(void *), void *argument) {
    struct catcher catcher = {.outer = catchers};
    /* 0x1b: encoded as an offset of four bytes from its place */
    __asm__ volatile(".cfi_personality 0x1b, tcm_catch_personality");
    if (_setjmp(catcher.place) == 0) {
        catchers = &catcher;
        call(argument);
        TCM_ASSERT(catchers == &catcher);
        catchers = catcher.outer;
        return true;
    }
    end_exception(catcher.caught);
    return false;
}

static void call_handler(void *handler) {
    (*(new_handler *)handler)();
}

bool tcm_new_handler_call(bool catches) {
    TCM_ASSERT(tcm_locks_held == 0);
    new_handler handler = current_handler();
    if (handler == NULL)
        return false;
    if (catches)
        return tcm_call_catching(call_handler, (void *)&handler);
    handler();
    return true;
}

/* ------------------------------------------------------------------------ */
/* New mode                                                                 */

static int new_mode;

int TCM_EXPORT(tc_set_new_mode)(int flag);
int TCM_EXPORT(tc_query_new_mode)(void);

bool tcm_new_mode(void) {
    return tcm_load_relaxed(&new_mode) != 0;
}

/* Returns the previous mode. */
TCM_PUBLIC int TCM_EXPORT(tc_set_new_mode)(int flag) {
    int before = tcm_load_relaxed(&new_mode);
    /* Publishes nothing else; the reader is tcm_new_mode. */
    tcm_store_relaxed(&new_mode, flag);
    return before;
}

TCM_PUBLIC int TCM_EXPORT(tc_query_new_mode)(void) {
    return tcm_load_relaxed(&new_mode);
}
