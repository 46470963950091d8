/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/again.h"

#include "base/bits.h"
#include "base/os_mem.h"
#include "common/main.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

char **replay_again_words(int argc, char **argv) {
    size_t n = argc < 1 ? 1 : (size_t)argc;
    char **words =
        tcm_os_map(tcm_align_up((n + 2) * sizeof(*words), tcm_os_page_size()));
    if (words == NULL || argc < 1)
        return NULL;
    words[0] = argv[0];
    memcpy(words + 2, argv + 1, (n - 1) * sizeof(*words));
    return words;
}

/* The name by which this program was executed: where the loader was called to
   run it, /proc/self/exe is the loader. */
void replay_again(char *const *words, bool preloaded) {
    const char *name = (const char *)getauxval(AT_EXECFN);
    if (!preloaded)
        (void)unsetenv("LD_PRELOAD");
    tool_before_exec();
    execv(name != NULL ? name : "/proc/self/exe", words);
}
