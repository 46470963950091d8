/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The new-handler and std::bad_alloc of C++, for failed calls of operator new
 * and, in new mode (tc_set_new_mode), of the malloc family. This library uses
 * the program's libstdc++, if there is one, and links none.
 *
 * Threads: any. Callers hold no lock and have left the recorder: a handler is
 * the program's code and may allocate, free and throw.
 */
#ifndef TCM_API_NEW_HANDLER_H
#define TCM_API_NEW_HANDLER_H

#include "base/compiler.h"

/*
 * Calls the current new-handler. false: there is none, or CATCHES is true and
 * it threw; the exception has been ended. Without CATCHES an exception passes
 * through the caller.
 */
bool tcm_new_handler_call(bool catches);

/* Calls CALL(ARGUMENT). false: it threw; the exception has been ended. */
bool tcm_call_catching(void (*call)(void *), void *argument);

TCM_NORETURN void tcm_throw_bad_alloc(void);

/* True if malloc and its family call the handler too. */
bool tcm_new_mode(void);

#endif
