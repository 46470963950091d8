/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/trace_process.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/linux/allocator_signs.h"
#include "base/linux/elf_modules.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/linux/os_file.h"
#include "traceformat/compress.h"
#include "sites/lang/lang.h"
#include "sites/site_table.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack.h"
#include "tracer/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT    "TCMALLOC_TRACE_OUTPUT"
#define OWNER     "TCMALLOC_TRACE_OWNER"
#define ALLOCATOR "TCMALLOC_TRACE_ALLOCATOR"

extern char **environ;

/* --- Identity ------------------------------------------------------------ */

/* More tokens than threads take while a fork copies memory, and few enough for
   2^28 forks in a chain. */
#define FORK_TOKENS ((uint64_t)1 << 36)

uint64_t mtr_process_random(void) {
    uint64_t r = 0;
    if (tcm_syscall(SYS_getrandom, &r, sizeof(r), GRND_NONBLOCK) !=
        (long)sizeof(r))
        r = 0;
    /* Early at boot there may be no randomness yet: use times and an
       address. */
    if (r == 0)
        r = tcm_clock_ns() * 0x9E3779B97F4A7C15u ^
            (uint64_t)tcm_os_pid() << 32 ^ tcm_clock_wall_ns() ^ (uintptr_t)&r;
    return r == 0 ? 1 : r;
}

/* Returns the name by which the program was started, such as that of a link;
   PATH, the program's own file, if the name leads to another file, as that of a
   script does, or is one of the kernel's for an open file. */
static const char *started_name(const char *path) {
    const char *name = (const char *)getauxval(AT_EXECFN);
    struct stat named, own;
    int saved = errno;
    bool same = name != NULL && strncmp(name, "/dev/fd/", 8) != 0 &&
                strncmp(name, "/proc/", 6) != 0 &&
                tcm_fstatat(AT_FDCWD, name, &named, 0) == 0 &&
                tcm_fstatat(AT_FDCWD, path, &own, 0) == 0 &&
                named.st_dev == own.st_dev && named.st_ino == own.st_ino;
    errno = saved;
    return same ? name : path;
}

static void read_executable(void) {
    char scratch[512];
    (void)tcm_os_program_path(scratch, sizeof(scratch));
    const char *name = started_name(scratch);
    const char *slash = strrchr(name, '/');
    struct tcm_fmt f;
    tcm_fmt_init(&f, mtr_config.executable, sizeof(mtr_config.executable));
    tcm_fmt_str(&f, slash == NULL ? name : slash + 1);
}

/* Tells how M, which defines malloc, came into the process. */
static const char *origin_of(const struct link_map *m, const char *file) {
    const char *preloads = tcm_env_get("LD_PRELOAD");
    if (m->l_prev == NULL)
        return "static ";
    return preloads != NULL && strstr(preloads, file) != NULL ? "preloaded "
                                                              : "linked ";
}

/* Takes the allocator that `malloc-trace record` found in the program's file,
   which need not export one symbol of it. Programs that come by exec inherit
   the variable. */
static bool take_found_allocator(void) {
    struct mtr_config *c = &mtr_config;
    const char *found = tcm_env_get(ALLOCATOR);
    const char *slash = found == NULL ? NULL : strrchr(found, '/');
    struct tcm_fmt f;
    if (slash == NULL || strcmp(slash + 1, c->executable) != 0)
        return false;
    tcm_fmt_init(&f, c->allocator, sizeof(c->allocator));
    tcm_fmt_str(&f, "static ");
    tcm_fmt_mem(&f, found, (size_t)(slash - found));
    return true;
}

/* Finds the allocator that the program would have without this library: the
   first module that defines malloc, unless that is the C library. */
static void read_allocator(void) {
    struct tcm_elf_module own;
    struct tcm_elf_symbols s;
    if (take_found_allocator())
        return;
    if (!tcm_elf_module_at((uintptr_t)&read_allocator, &own))
        return;
    for (const struct link_map *m = tcm_elf_loaded(); m != NULL;
         m = m->l_next) {
        if (m->l_ld == own.dynamic ||
            !tcm_elf_symbols_at(&s, m->l_addr, m->l_ld))
            continue;
        if (tcm_elf_find(&s, "gnu_get_libc_version") != NULL)
            return;
        if (tcm_elf_find(&s, "malloc") == NULL)
            continue;
        const char *slash = strrchr(m->l_name, '/');
        const char *file = slash == NULL ? m->l_name : slash + 1;
        const char *known = tcm_allocator_of(&s);
        struct tcm_fmt f;
        tcm_fmt_init(&f, mtr_config.allocator, sizeof(mtr_config.allocator));
        tcm_fmt_str(&f, origin_of(m, file));
        tcm_fmt_str(&f, known != NULL   ? known
                        : *file != '\0' ? file
                                        : "malloc");
        return;
    }
}

void mtr_process_identify(uint32_t pid) {
    struct mtr_config *c = &mtr_config;
    if (c->self.random != 0 && c->self.pid != pid) {
        c->parent = c->self;
        /* Other threads of the parent went on while its memory was copied: a
           word of an inherited block may have a token that they took after the
           counter was copied. They cannot take that many meanwhile. */
        tcm_add_relaxed(&c->token_end, FORK_TOKENS);
    } else if (c->self.random == 0) {
        read_executable();
        read_allocator();
        c->parent.pid = (uint32_t)tcm_syscall(SYS_getppid);
        c->parent.start = tcm_os_process_start(c->parent.pid);
    }
    c->self.pid = pid;
    c->self.start = tcm_os_process_start(pid);
    c->self.random = mtr_process_random();
}

static bool has_filter(void) {
    return tcm_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
}

bool mtr_process_is_confined(void) {
    struct mtr_config *c = &mtr_config;
    if (c->per_process && !c->filtered && !c->confined)
        c->confined = has_filter();
    return c->confined;
}

/* No mask of the kernel's: SIGKILL is never blocked. */
#define NOT_BLOCKED UINT64_MAX

uint64_t mtr_signals_block(void) {
    return mtr_process_is_confined() ? NOT_BLOCKED : tcm_block_signals();
}

uint64_t mtr_signals_block_in_call(void) {
    bool may = mtr_config.per_process || mts_settings.mode > MTS_CALLER;
    return may ? mtr_signals_block() : NOT_BLOCKED;
}

void mtr_signals_restore(uint64_t mask) {
    if (mask != NOT_BLOCKED)
        tcm_restore_signals(mask);
}

bool mtr_process_has_new_filter(void) {
    return !mtr_config.filtered && has_filter();
}

/* Filters belong to threads and come at any time; a process that got one keeps
   it. */
bool mtr_process_may_look(void) {
    struct mtr_config *c = &mtr_config;
    if (!tcm_load_relaxed(&c->present))
        return false;
    int saved = errno;
    if (has_filter())
        tcm_store_relaxed(&c->present, false);
    errno = saved;
    return tcm_load_relaxed(&c->present);
}

/* --- The environment ----------------------------------------------------- */

static const char *parse_u64(const char *p, uint64_t *v) {
    if (p == NULL || *p < '0' || *p > '9')
        return NULL;
    for (*v = 0; *p >= '0' && *p <= '9'; p++)
        *v = *v * 10 + (uint64_t)(*p - '0');
    return p;
}

/*
 * False if another process is the owner. If this process is the owner, it was
 * recorded until it exec'd this image.
 */
static bool may_own(void) {
    const char *owner = tcm_env_get(OWNER);
    if (owner == NULL)
        return true;
    uint64_t pid, start, n;
    const char *p = parse_u64(owner, &pid);
    if (p == NULL || *p != ':' || (p = parse_u64(p + 1, &start)) == NULL ||
        *p != ':')
        return true;
    if (strcmp(++p, "-") == 0)
        n = MTR_NO_NUMBER;
    else if ((p = parse_u64(p, &n)) == NULL || *p != '\0')
        return true;
    if (pid != tcm_os_pid() || start != tcm_os_process_start((uint32_t)pid))
        return false;
    mtr_config.continues = true;
    mtr_config.owner_name = (uint32_t)n;
    return true;
}

void mtr_process_disown(void) {
    mtr_config.named = mtr_config.wanted = false;
    mtr_config.self.pid = 0;
}

bool mtr_process_is_named(void) {
    const char *output = tcm_env_get(OUTPUT);
    return output != NULL && output[0] != '\0';
}

void mtr_process_set_owner(uint32_t name_number) {
    static char text[96];
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, OWNER "=");
    tcm_fmt_u64(&f, mtr_config.self.pid);
    tcm_fmt_char(&f, ':');
    tcm_fmt_u64(&f, mtr_config.self.start);
    tcm_fmt_char(&f, ':');
    if (name_number == MTR_NO_NUMBER)
        tcm_fmt_char(&f, '-');
    else
        tcm_fmt_u64(&f, name_number);
    size_t n = 0;
    for (; environ[n] != NULL; n++) {
        if (strncmp(environ[n], OWNER "=", sizeof(OWNER)) == 0) {
            environ[n] = text;
            return;
        }
    }
    size_t bytes = tcm_align_up((n + 2) * sizeof(char *), tcm_os_page_size());
    char **block = tcm_os_map(bytes);
    if (block == NULL)
        return;
    memcpy(block, environ, n * sizeof(char *));
    block[n] = text;
    environ = block;
}

/* Puts the current folder and a slash into OUT, with every % doubled, because
   it is not part of the pattern. Works in place, because a thread's stack may
   be small. Returns the length; 0: errno says why. */
static size_t put_folder(char *out) {
    long n = tcm_syscall(SYS_getcwd, out, PATH_MAX);
    if (n < 0)
        return 0;
    /* The folder was unmounted, or is not below this process's root. */
    errno = ENOENT;
    if (n <= 1 || out[0] != '/')
        return 0;
    errno = ERANGE;
    size_t length = (size_t)n - 1, doubled = 0;
    for (size_t i = 0; i < length; i++)
        doubled += out[i] == '%';
    if (length + doubled + 2 > PATH_MAX)
        return 0;
    size_t to = length + doubled;
    for (size_t i = length; i-- > 0;) {
        out[--to] = out[i];
        if (out[i] == '%')
            out[--to] = '%';
    }
    length += doubled;
    if (out[length - 1] != '/')
        out[length++] = '/';
    out[length] = '\0';
    return length;
}

/* The pattern is made absolute now: the program may change its folder. */
int mtr_process_pattern(const char *name, char *out, bool *per_process) {
    struct tcm_fmt f;
    size_t folder = 0;
    int error = 0, saved = errno;
    *per_process = false;
    if (name[0] != '/' && (folder = put_folder(out)) == 0)
        error = errno == ERANGE ? ENAMETOOLONG : errno;
    errno = saved;
    tcm_fmt_init(&f, out + folder, PATH_MAX - folder);
    tcm_fmt_str(&f, name);
    for (const char *p = name; *p != '\0'; p++) {
        if (p[0] == '%' && p[1] != '\0') {
            *per_process |= p[1] == 'p';
            p++;
        }
    }
    return f.cut ? ENAMETOOLONG : error;
}

static void remember_stderr(void) {
    struct stat st;
    if (tcm_fstat(2, &st) == 0) {
        mtr_config.stderr_dev = st.st_dev;
        mtr_config.stderr_ino = st.st_ino;
    }
}

/* A walk leaves this library out by its addresses. Where the library is a part
   of the program, these are the program's. */
static bool can_walk(void) {
    return mts_stack_is_possible() && !mts_stack_is_inside(getauxval(AT_PHDR));
}

static void configure_sites(const struct mtr_host *host, const char *text) {
    struct mts_settings *s = &mts_settings;
    if (!mts_settings_parse(text, s))
        mtr_warn("no call sites are recorded, TCMALLOC_TRACE_SITES is", text,
                 0);
    bool walks = s->mode == MTS_STACKS || s->mode == MTS_SAMPLES;
    if (walks && !can_walk()) {
        mtr_warn("callers are recorded, stacks cannot be walked here", NULL, 0);
        s->mode = MTS_CALLER;
    }
    s->native = can_walk() ? MTS_LANG_NATIVE : 0;
    /* A free cannot know that its block was a sample. */
    s->free_sites = s->mode != MTS_NO_SITES && s->mode != MTS_SAMPLES &&
                    tcm_env_bool("TCMALLOC_TRACE_FREE_SITES") && can_walk();
    s->host = (struct mts_host){.has_memory = host->has_memory,
                                .token_of = host->token_of,
                                .complain = mtr_warn};
    if (s->mode != MTS_NO_SITES)
        mts_loader_find();
    if (tcm_env_bool("TCMALLOC_TRACE_CHECK_STACKS"))
        mts_stack_check_all();
    if (s->mode != MTS_LINES)
        return;
    mts_lang_find(s->depth);
    if (mts_lang_notice() != NULL)
        mtr_warn(mts_lang_notice(), NULL, 0);
}

bool mtr_process_choose_sites(const char *text) {
    const struct mts_settings *now = &mts_settings;
    struct mts_settings wanted;
    if (!mts_settings_parse(text, &wanted))
        return false;
    if (wanted.mode == now->mode && wanted.depth == now->depth &&
        wanted.mean == now->mean)
        return true;
    if (mtr_config.starts != 0)
        return false;
    configure_sites(mtr_config.host, text);
    return true;
}

void mtr_process_configure(const struct mtr_host *host) {
    struct mtr_config *c = &mtr_config;
    const char *output = tcm_env_get(OUTPUT);
    c->host = host;
    c->compress = !tcm_env_bool("TCMALLOC_TRACE_UNCOMPRESSED") &&
                  mtf_compress_available();
    c->stats = tcm_env_bool("TCMALLOC_TRACE_STATS");
    const char *present = tcm_env_get("TCMALLOC_TRACE_PRESENT");
    c->present = present == NULL || present[0] == '\0' ||
                 tcm_env_bool("TCMALLOC_TRACE_PRESENT");
    const char *overflow = tcm_env_get("TCMALLOC_TRACE_OVERFLOW");
    c->drops = overflow != NULL && strcmp(overflow, "drop") == 0;
    c->bound_bytes = tcm_env_u64("TCMALLOC_TRACE_BUFFER_MB", 16, 1, 1u << 20)
                     << 20;
    c->limit_bytes = tcm_env_u64("TCMALLOC_TRACE_LIMIT_MB", 0, 0, 1u << 30)
                     << 20;
    c->keep_bytes = tcm_env_u64("TCMALLOC_TRACE_KEEP_MB", 0, 0, 1u << 30) << 20;
    remember_stderr();
    c->control = tcm_env_bool("TCMALLOC_TRACE_CONTROL");
    c->filtered = c->control && has_filter();
    c->check_frees = tcm_env_bool("TCMALLOC_TRACE_CHECK_FREES");
    configure_sites(host, tcm_env_get("TCMALLOC_TRACE_SITES"));
    if (output == NULL || output[0] == '\0')
        return;
    c->pattern_error = mtr_process_pattern(output, c->pattern, &c->per_process);
    if (c->per_process && !c->control)
        c->filtered = has_filter();
    if (!c->per_process && !may_own())
        return;
    c->named = true;
    c->named_pid = tcm_os_pid();
    const char *start = tcm_env_get("TCMALLOC_TRACE_START");
    c->wanted = start == NULL || start[0] == '\0' ||
                tcm_env_bool("TCMALLOC_TRACE_START");
}
