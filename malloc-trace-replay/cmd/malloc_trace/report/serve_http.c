/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef TCM_HAVE_MICROHTTPD
#include "cmd/malloc_trace/report/serve_http.h"

#include "common/main.h"

#include <dlfcn.h>
#include <string.h>

/* The interface of 0.9 and 1.0. */
#define LIBRARY "libmicrohttpd.so.12"

struct serve_http serve_http;

bool serve_http_load(void) {
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define X(name) {"MHD_" #name, offsetof(struct serve_http, name)},
        SERVE_HTTP_FUNCTIONS(X)
#undef X
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        tool_error("--serve needs %s: %s", LIBRARY, dlerror());
        return false;
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL) {
            tool_error("%s has no %s", LIBRARY, functions[i].name);
            return false;
        }
        memcpy((char *)&serve_http + functions[i].at, &function,
               sizeof(function));
    }
    return true;
}
#else
typedef int serve_http_is_empty; /* a file declares something */
#endif
