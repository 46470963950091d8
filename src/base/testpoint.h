/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test points: labels after a visible side effect, where a test can stop or run
 * other code to force an interleaving. Only builds for unit tests (tcm_testing)
 * have code for them.
 */
#ifndef TCM_BASE_TESTPOINT_H
#define TCM_BASE_TESTPOINT_H

#include "base/compiler.h"

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
