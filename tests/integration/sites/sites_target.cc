// SPDX-License-Identifier: BSD-3-Clause
// Asks for memory at places whose counts are known: each function whose name
// begins with at_ makes N blocks of known sizes, N being part of its name. Each
// has one call of the malloc family, not at its end. Usage: sites_target WHAT.
#include <dlfcn.h>
#include <fcntl.h>
#include <initializer_list>
#include <link.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE extern "C" __attribute__((noinline, used)) void

static thread_local void *volatile sink; // threads free what is theirs

PLACE at_malloc_500() {
    for (int i = 0; i < 500; i++) {
        sink = malloc(40);
        free(sink);
    }
}
PLACE at_malloc_7() {
    for (int i = 0; i < 7; i++)
        sink = malloc(24);
}
PLACE at_calloc_300() {
    for (int i = 0; i < 300; i++)
        sink = calloc(3, 8);
}
PLACE at_calloc_large_3() {
    for (int i = 0; i < 3; i++)
        sink = calloc(3, 100000);
}
PLACE at_realloc_400() {
    void *p = nullptr;
    for (size_t i = 0; i < 400; i++)
        sink = p = realloc(p, 16 + 100 * i);
}
PLACE at_reallocarray_20() {
    for (size_t i = 0; i < 20; i++)
        sink = reallocarray(nullptr, i + 1, 3);
}
PLACE at_memalign_30() {
    for (int i = 0; i < 30; i++)
        sink = memalign(256, 100);
}
PLACE at_aligned_alloc_31() {
    for (int i = 0; i < 31; i++)
        sink = aligned_alloc(64, 128);
}
PLACE at_posix_memalign_32() {
    for (int i = 0; i < 32; i++) {
        void *p;
        if (posix_memalign(&p, 512, 20) == 0)
            sink = p;
    }
}
PLACE at_valloc_33() {
    for (int i = 0; i < 33; i++)
        sink = valloc(10);
}
PLACE at_new_200() {
    for (int i = 0; i < 200; i++)
        sink = ::operator new(48);
}
PLACE at_new_array_201() {
    for (int i = 0; i < 201; i++)
        sink = ::operator new[](72);
}
PLACE at_new_nothrow_202() {
    for (int i = 0; i < 202; i++)
        sink = ::operator new(80, std::nothrow);
}
PLACE at_new_aligned_50() {
    for (int i = 0; i < 50; i++)
        sink = ::operator new(90, std::align_val_t(128));
}
PLACE at_large_4() {
    for (int i = 0; i < 4; i++)
        sink = malloc(3 << 20);
}
/* Mixed with each other, so that sites follow each other in many ways. */
PLACE at_mixed_a_999(int i) {
    for (int k = 0; k < i % 3; k++)
        sink = malloc(8);
}
PLACE at_mixed_b_1000() {
    sink = malloc(16);
}
PLACE at_refused_5() {
    for (int i = 0; i < 5; i++)
        sink = malloc((size_t)1 << 62);
}

static void all() {
    at_malloc_500();
    at_malloc_7();
    at_calloc_300();
    at_calloc_large_3();
    at_realloc_400();
    at_reallocarray_20();
    at_memalign_30();
    at_aligned_alloc_31();
    at_posix_memalign_32();
    at_valloc_33();
    at_new_200();
    at_new_array_201();
    at_new_nothrow_202();
    at_new_aligned_50();
    at_large_4();
    for (int i = 0; i < 1000; i++) {
        at_mixed_a_999(i);
        at_mixed_b_1000();
        sink = nullptr;
    }
    at_refused_5();
}

static void *run(void *) {
    all();
    return nullptr;
}

static int threads() {
    pthread_t t[4];
    for (pthread_t &x : t)
        if (pthread_create(&x, nullptr, run, nullptr) != 0)
            return 1;
    for (pthread_t &x : t)
        pthread_join(x, nullptr);
    return 0;
}

/* Each plugin makes as many blocks as its place in the list; tells where its
   function lay. */
static int plugins(int count, char **names) {
    for (int i = 0; i < count; i++) {
        void *h = dlopen(names[i], RTLD_NOW);
        if (h == nullptr) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void *f = dlsym(h, "plugin_block");
        for (int k = 0; k <= i; k++)
            sink = reinterpret_cast<void *(*)()>(f)();
        printf("%p\n", f);
        dlclose(h);
    }
    return 0;
}

/* How many bytes the library at START has. */
struct place {
    uintptr_t start;
    size_t bytes;
};
static int measure(struct dl_phdr_info *info, size_t, void *ctx) {
    place *p = static_cast<place *>(ctx);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_addr == p->start && info->dlpi_phdr[i].p_type == PT_LOAD)
            p->bytes = (info->dlpi_phdr[i].p_vaddr +
                        info->dlpi_phdr[i].p_memsz + 4095) &
                       ~size_t{4095};
    return 0;
}

/* A library is closed, and while nothing is recorded, because no buffer is
   free, another comes to its place. FULL is made when none is, and READ comes
   when there is one again. */
static int gap(const char *first, const char *second, const char *full,
               const char *read) {
    void *f = nullptr;
    for (const char *name : {first, second}) {
        void *h = dlopen(name, RTLD_NOW);
        if (h == nullptr)
            return 1;
        f = dlsym(h, "plugin_block");
        sink = reinterpret_cast<void *(*)()>(f)();
        printf("%p\n", f);
        if (name == second)
            break;
        /* Nobody else comes there. */
        Dl_info info;
        dladdr(f, &info);
        place p = {reinterpret_cast<uintptr_t>(info.dli_fbase), 0};
        dl_iterate_phdr(measure, &p);
        dlclose(h);
        void *held = mmap(info.dli_fbase, p.bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 2000000; i++) {
            sink = malloc(1 + i % 100);
            free(sink);
        }
        munmap(held, p.bytes);
    }
    close(open(full, O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 10000 && access(read, F_OK) != 0; i++)
        usleep(1000);
    for (int i = 0; i < 200; i++) {
        sink = reinterpret_cast<void *(*)()>(f)();
        usleep(1000);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "all") == 0) {
        all();
    } else if (strcmp(what, "threads") == 0) {
        return threads();
    } else if (strcmp(what, "fork") == 0) {
        all();
        pid_t pid = fork();
        if (pid == 0) {
            all();
            exit(0);
        }
        int status;
        return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
    } else if (strcmp(what, "kill") == 0) {
        all();
        kill(getpid(), SIGKILL);
    } else if (strcmp(what, "flight") == 0) {
        for (int i = 0; i < 4000; i++)
            all();
    } else if (strcmp(what, "gap") == 0 && argc == 6) {
        return gap(argv[2], argv[3], argv[4], argv[5]);
    } else if (strcmp(what, "plugins") == 0) {
        return plugins(argc - 2, argv + 2);
    } else {
        return 2;
    }
    return 0;
}
