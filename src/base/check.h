/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions, the printer of last resort (no malloc, no stdio, no lock), and
 * test points.
 *
 * TCM_STATIC_ASSERT  layout, at compile time
 * TCM_ASSERT         debug builds: cheap conditions
 * TCM_ASSERT_SLOW    debug builds: walks over whole structures
 * TCM_CHECK          always: corruption that must stop the program
 */
#ifndef TCM_BASE_CHECK_H
#define TCM_BASE_CHECK_H

#include "base/compiler.h"

/* Both print "tcmalloc: MESSAGE" on descriptor 2 and abort. tcm_die_pointer
   adds " 0x" and POINTER in hexadecimal. */
TCM_NORETURN TCM_COLD void tcm_die(const char *message);
TCM_NORETURN TCM_COLD void tcm_die_pointer(const char *message,
                                           const void *pointer);
TCM_NORETURN TCM_COLD void tcm_check_failed(const char *condition_and_place);

#define TCM_CHECK(c)                                                           \
    do {                                                                       \
        if (TCM_UNLIKELY(!(c)))                                                \
            tcm_check_failed(#c " at " __FILE__ ":" TCM_TEXT(__LINE__));       \
    } while (0)
#define TCM_ASSERT(c)                                                          \
    do {                                                                       \
        if (tcm_debug && TCM_UNLIKELY(!(c)))                                   \
            tcm_check_failed(#c " at " __FILE__ ":" TCM_TEXT(__LINE__));       \
    } while (0)
#define TCM_ASSERT_SLOW(c) TCM_ASSERT(c)

/* --- Test points ---------------------------------------------------------- */

/*
 * Labels after a visible side effect, where a test can stop or run other code
 * to force an interleaving. Only builds for unit tests (tcm_testing) have code
 * for them.
 */

/* Set by a test, or NULL; called with the label. */
extern void (*tcm_testpoint_hook)(const char *label);
/* Set by a test, or NULL; true: the system call about to be made fails as if
   memory were short. */
extern bool (*tcm_testpoint_refuse)(const char *call);
#define TCM_REFUSED(call)                                                      \
    (tcm_testing && TCM_UNLIKELY(tcm_testpoint_refuse != NULL) &&              \
     tcm_testpoint_refuse(call))
#define TCM_TESTPOINT(label)                                                   \
    do {                                                                       \
        if (tcm_testing && TCM_UNLIKELY(tcm_testpoint_hook != NULL))           \
            tcm_testpoint_hook(label);                                         \
    } while (0)

#endif
