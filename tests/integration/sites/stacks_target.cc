// SPDX-License-Identifier: BSD-3-Clause
// Allocations in all sorts of stacks, of a size each that no other has. For
// each one the return addresses that glibc's backtrace() finds are printed, or
// what is known of them otherwise:
//   SIZE whole ADDRESS...   all of the stack, the innermost first; an
//                           interrupted instruction's own address
//   SIZE open ADDRESS...    what it is called from has no frame information
//   SIZE made ADDRESS...    the outer part of it, without the made code
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csetjmp>
#include <csignal>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP     __asm__ volatile("" ::: "memory")

static const int deepest = 512;
static void *addresses[deepest];

// Where the caller's caller goes on, and so forth.
static NOINLINE void print_stack(size_t size, const char *what) {
    int n = backtrace(addresses, deepest);
    printf("%zu %s", size, what);
    for (int i = 2; i < n; i++)
        printf(" %lx", (unsigned long)addresses[i]);
    printf("\n");
}

static void *volatile last;

// In a coroutine: makecontext's return address is that of no call.
static const char *kind = "whole";

static NOINLINE void take(size_t size, const char *what) {
    free(last);
    last = malloc(size);
    print_stack(size, what);
    KEEP;
}

static NOINLINE void recurse(int n, size_t size) {
    volatile char room[40];
    room[0] = 1;
    if (n == 0)
        take(size, kind);
    else
        recurse(n - 1, size);
    room[1] = room[0];
}

// A frame that moves with its argument is found by its frame pointer.
static NOINLINE void with_alloca(int n, size_t size) {
    volatile char *room =
        static_cast<volatile char *>(__builtin_alloca(n * 16));
    room[0] = 1;
    take(size, "whole");
    if (n > 1)
        with_alloca(n - 1, size + 1);
    room[1] = room[0];
}

struct alignas(64) Wide {
    char bytes[64];
};
static NOINLINE void fill(Wide *w, size_t size) {
    memset(w, 1, sizeof(*w));
    take(size, "whole");
    KEEP;
}
// A realigned stack.
static NOINLINE void with_alignment(int n, size_t size) {
    Wide w;
    volatile char *room =
        static_cast<volatile char *>(__builtin_alloca(n * 24));
    room[0] = 1;
    fill(&w, size);
    room[1] = w.bytes[3];
}

// --- Exceptions and jumps ----------------------------------------------------

static NOINLINE void thrower(int n) {
    KEEP;
    if (n == 0)
        throw std::runtime_error("as wanted");
    thrower(n - 1);
    KEEP;
}
struct Cleaner {
    size_t size;
    ~Cleaner() {
        take(size, "whole");
    }
};
static NOINLINE void with_exceptions(size_t size) {
    for (int i = 0; i < 4; i++) {
        try {
            Cleaner in_flight = {size + 2 * i};
            thrower(i);
        } catch (const std::exception &e) {
            take(size + 2 * i + 1, "whole");
        }
    }
    KEEP;
}

static jmp_buf back;
static NOINLINE void jumper(int n, size_t size) {
    volatile char room[100];
    room[n] = 1;
    if (n == 0) {
        take(size, "whole");
        longjmp(back, 1);
    }
    jumper(n - 1, size);
    room[0] = room[n];
}
static NOINLINE void with_longjmp(size_t size) {
    for (volatile int i = 0; i < 4; i++) {
        if (setjmp(back) == 0)
            jumper(i, size + i);
        take(size + 10 + i, "whole");
    }
}

// --- Signals -----------------------------------------------------------------

static volatile size_t signal_size;
static NOINLINE void on_signal(int) {
    take(signal_size, "whole");
    KEEP;
}
static NOINLINE void interrupted(size_t size) {
    signal_size = size;
    raise(SIGUSR1);
    KEEP;
}
// The interrupted instruction is the first of a function.
extern "C" void trap_at_once();
__asm__(".text\n"
        ".type trap_at_once, @function\n"
        "trap_at_once:\n"
        ".cfi_startproc\n"
#if defined(__aarch64__)
        "udf #0\n"
#else
        "ud2\n"
#endif
        "ret\n"
        ".cfi_endproc\n"
        ".size trap_at_once, .-trap_at_once\n");
static void on_trap(int, siginfo_t *, void *context) {
    take(signal_size, "whole");
    mcontext_t *machine = &static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__aarch64__)
    machine->pc += 4;
#else
    machine->gregs[REG_RIP] += 2;
#endif
}
static void handle(int number, bool other_stack) {
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    if (number == SIGILL) {
        act.sa_sigaction = on_trap;
        act.sa_flags = SA_SIGINFO;
    } else {
        act.sa_handler = on_signal;
    }
    act.sa_flags |= other_stack ? SA_ONSTACK : 0;
    sigaction(number, &act, nullptr);
}
static NOINLINE void with_signals(size_t size) {
    handle(SIGUSR1, false);
    interrupted(size);
    handle(SIGILL, false);
    signal_size = size + 1;
    trap_at_once();
    stack_t other = {};
    other.ss_size = 256 << 10;
    other.ss_sp = mmap(nullptr, other.ss_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&other, nullptr);
    handle(SIGUSR1, true);
    interrupted(size + 2);
    interrupted(size + 3);
    take(size + 4, "whole");
}

// --- Coroutines --------------------------------------------------------------

static ucontext_t main_context, contexts[2];
static NOINLINE void coroutine(int which) {
    for (int i = 0; i < 3; i++) {
        recurse(i, 30000 + 10 * which + i);
        swapcontext(&contexts[which], &main_context);
    }
}
static NOINLINE void with_coroutines() {
    const size_t bytes = 64 << 10;
    void *stacks[2];
    for (int i = 0; i < 2; i++) {
        stacks[i] = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = bytes;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], reinterpret_cast<void (*)()>(coroutine), 1,
                    i);
    }
    kind = "open";
    for (int i = 0; i < 6; i++)
        swapcontext(&main_context, &contexts[i % 2]);
    kind = "whole";
    for (void *stack : stacks)
        munmap(stack, bytes);
    take(30050, "whole");
}

// --- Threads -----------------------------------------------------------------

// The smallest stack that a thread can have.
#if defined(__aarch64__)
static const size_t smallest_stack = 131072;
#else
static const size_t smallest_stack = 16384;
#endif

static void *in_thread(void *arg) {
    size_t size = reinterpret_cast<uintptr_t>(arg);
    recurse(3, size);
    recurse(1, size + 1);
    return nullptr;
}
static NOINLINE void with_threads(size_t size) {
    for (int i = 0; i < 4; i++) {
        pthread_attr_t attr;
        pthread_t id;
        pthread_attr_init(&attr);
        // backtrace() takes much; the last one has it all the same.
        pthread_attr_setstacksize(&attr, i == 0 ? 2 * smallest_stack : 1 << 20);
        if (pthread_create(&id, &attr, in_thread,
                           reinterpret_cast<void *>(size + 2 * i)) != 0)
            abort();
        pthread_join(id, nullptr);
        pthread_attr_destroy(&attr);
    }
}

static void *in_small_thread(void *arg) {
    free(malloc(reinterpret_cast<uintptr_t>(arg)));
    return nullptr;
}
static NOINLINE void with_small_threads(size_t size) {
    pthread_attr_t attr;
    pthread_t id;
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, smallest_stack) != 0)
        abort();
    for (int i = 0; i < 20; i++) {
        if (pthread_create(&id, &attr, in_small_thread,
                           reinterpret_cast<void *>(size)) != 0)
            abort();
        pthread_join(id, nullptr);
    }
}

// Stacks of the program's own, each made inaccessible when its thread ended.
// The frames are more than a walk goes; on the way back, walks from further out
// find some of those that the one from the bottom left, and go on.
static NOINLINE void deep(int n) {
    volatile char *room =
        static_cast<volatile char *>(__builtin_alloca(16 + n % 2 * 16));
    room[0] = 1;
    if (n > 0)
        deep(n - 1);
    if (n == 0 || n == 2 || n == 8 || n == 20 || n == 100) {
        void *volatile block = malloc(40);
        free(block);
    }
    room[1] = room[0];
}
static void *in_own_stack(void *) {
    deep(700);
    return nullptr;
}
static void with_own_stacks(int count) {
    const size_t bytes = 512 << 10;
    for (int i = 0; i < count; i++) {
        void *stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_attr_t attr;
        pthread_t id;
        pthread_attr_init(&attr);
        if (stack == MAP_FAILED ||
            pthread_attr_setstack(&attr, stack, bytes) != 0 ||
            pthread_create(&id, &attr, in_own_stack, nullptr) != 0)
            abort();
        pthread_join(id, nullptr);
        pthread_attr_destroy(&attr);
        if (mmap(stack, bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            abort();
    }
}

// --- Code that lies in no file -----------------------------------------------

#if defined(__aarch64__)
// stp x29, x30, [sp, -16]!; mov x29, sp; blr x1; ldp x29, x30, [sp], 16; ret
static const uint32_t framed[] = {0xA9BF7BFD, 0x910003FD, 0xD63F0020,
                                  0xA8C17BFD, 0xD65F03C0};
// mov x29, 5 instead
static const uint32_t frameless[] = {0xA9BF7BFD, 0xD28000BD, 0xD63F0020,
                                     0xA8C17BFD, 0xD65F03C0};
static const int framed_return = 12, frameless_return = 12;
#else
// push rbp; mov rbp, rsp; call *rsi; pop rbp; ret
static const unsigned char framed[] = {0x55, 0x48, 0x89, 0xE5,
                                       0xFF, 0xD6, 0x5D, 0xC3};
// push rbx; mov ebp, 5; call *rsi; pop rbx; ret, with rbp kept below
static const unsigned char frameless[] = {
    0x55, 0x53, 0x53, 0xBD, 5, 0, 0, 0, 0xFF, 0xD6, 0x5B, 0x5B, 0x5D, 0xC3};
static const int framed_return = 6, frameless_return = 10;
#endif
static NOINLINE void from_made(size_t size) {
    free(last);
    last = malloc(size);
    KEEP;
}
static NOINLINE void with_made_code(size_t size) {
    unsigned char *page = static_cast<unsigned char *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy(page, framed, sizeof(framed));
    memcpy(page + 64, frameless, sizeof(frameless));
    __builtin___clear_cache(page, page + 4096);
    auto call = reinterpret_cast<void (*)(size_t, void (*)(size_t))>(page);
    call(size, from_made);
    print_stack(size, "made");
    auto call2 =
        reinterpret_cast<void (*)(size_t, void (*)(size_t))>(page + 64);
    call2(size + 1, from_made);
    printf("made code at %lx, %lx\n", (unsigned long)page + framed_return,
           (unsigned long)page + 64 + frameless_return);
}

// Hand-written code of a file, without frame information.
extern "C" void plain_call(size_t size, void (*f)(size_t));
__asm__(".text\n"
        ".type plain_call, @function\n"
        "plain_call:\n"
#if defined(__aarch64__)
        "str x30, [sp, -32]!\n"
        "blr x1\n"
        "ldr x30, [sp], 32\n"
#else
        "sub $24, %rsp\n"
        "call *%rsi\n"
        "add $24, %rsp\n"
#endif
        "ret\n"
        ".size plain_call, .-plain_call\n");

// --- Libraries ---------------------------------------------------------------

extern "C" NOINLINE void take_for_plugin(size_t size) {
    take(size, "whole");
    KEEP;
}
static NOINLINE void with_plugins(const char *folder, size_t size) {
    void *places[4];
    for (int i = 0; i < 4; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/stacks_plugin%d.so", folder, i % 2);
        void *lib = dlopen(name, RTLD_NOW);
        if (lib == nullptr) {
            printf("no plugin: %s\n", dlerror());
            return;
        }
        auto f = reinterpret_cast<void (*)(void (*)(size_t), size_t)>(
            dlsym(lib, "plugin"));
        places[i] = reinterpret_cast<void *>(f);
        f(take_for_plugin, size + i);
        f(take_for_plugin, size + 10 + i);
        dlclose(lib);
    }
    printf("plugins at %p %p\n", places[0], places[1]);
}

// --- Many --------------------------------------------------------------------

static unsigned long next = 1;
static unsigned draw(unsigned n) {
    next = next * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(next >> 33) % n;
}
static NOINLINE void walk(int depth);
static NOINLINE void walk_alloca(int depth) {
    volatile char *room =
        static_cast<volatile char *>(__builtin_alloca(16 + draw(8) * 16));
    room[0] = 1;
    walk(depth);
    room[1] = 2;
}
static NOINLINE void walk_deeper(int depth) {
    walk(depth);
    KEEP;
}
static NOINLINE void walk(int depth) {
    for (unsigned i = draw(3); i-- > 0;) {
        last = realloc(last, 16 + draw(200));
        free(malloc(draw(100)));
    }
    if (depth == 0) {
        if (draw(16) == 0)
            throw std::runtime_error("far out");
        if (draw(16) == 0)
            raise(SIGUSR1);
        return;
    }
    if (draw(2))
        walk_alloca(depth - 1);
    else
        walk_deeper(depth - 1);
    free(malloc(draw(1000)));
}
static void quiet(int) {
    free(malloc(24));
}
static NOINLINE void many(long count) {
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    act.sa_handler = quiet;
    sigaction(SIGUSR1, &act, nullptr);
    for (long i = 0; i < count; i++) {
        try {
            walk(draw(40));
        } catch (const std::exception &) {
        }
    }
}

int main(int argc, char **argv) {
    // backtrace() loads what it needs with its first call.
    backtrace(addresses, deepest);
    setvbuf(stdout, static_cast<char *>(malloc(1 << 16)), _IOFBF, 1 << 16);
    if (argc == 3 && strcmp(argv[1], "many") == 0) {
        many(atol(argv[2]));
        printf("%lu\n", next);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "own") == 0) {
        with_own_stacks(atoi(argv[2]));
        printf("own\n");
        return 0;
    }
#if defined(__aarch64__)
    // How the return address of this frame lies on the stack.
    if (argc == 2 && strcmp(argv[1], "signed") == 0) {
        void **record = static_cast<void **>(__builtin_frame_address(0));
        printf("%s\n",
               record[1] != __builtin_return_address(0) ? "signed" : "plain");
        return 0;
    }
#endif
    if (argc != 2)
        return 2;
    for (int i = 0; i < 40; i++)
        recurse(i * 3, 10000 + i);
    for (int i = 0; i < 4; i++)
        recurse(2, 10100 + i);
    with_alloca(9, 11000);
    for (int i = 0; i < 3; i++)
        with_alignment(i + 1, 11500 + i);
    with_exceptions(12000);
    with_longjmp(13000);
    with_signals(14000);
    with_coroutines();
    with_threads(16000);
    with_small_threads(16500);
    with_made_code(17000);
    plain_call(17100, from_made);
    with_plugins(argv[1], 18000);
    if (vfork() == 0)
        _exit(0);
    take(19000, "whole");
    pid_t child = fork();
    if (child == 0) {
        take(19001, "child");
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    take(19002, "whole");
    return 0;
}
