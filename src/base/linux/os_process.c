/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_process.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/linux/os_maps.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/linux/os_file.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

/* --- Environment ---------------------------------------------------------- */

extern char **environ;

const char *tcm_env_get(const char *name) {
    if (environ == NULL || getauxval(AT_SECURE) != 0)
        return NULL;
    size_t length = strlen(name);
    TCM_ASSERT(length != 0 && strchr(name, '=') == NULL);
    for (char **e = environ; *e != NULL; e++) {
        if (strncmp(*e, name, length) == 0 && (*e)[length] == '=')
            return *e + length + 1;
    }
    return NULL;
}

bool tcm_env_bool(const char *name) {
    const char *v = tcm_env_get(name);
    return v != NULL && *v != '\0' && strcmp(v, "0") != 0 &&
           strcmp(v, "no") != 0 && strcmp(v, "false") != 0 &&
           strcmp(v, "off") != 0;
}

uint64_t tcm_env_u64(const char *name, uint64_t fallback, uint64_t low,
                     uint64_t high) {
    TCM_ASSERT(low <= high);
    const char *v = tcm_env_get(name);
    if (v == NULL || *v == '\0')
        return fallback;
    uint64_t n = 0;
    for (; *v != '\0'; v++) {
        if (*v < '0' || *v > '9')
            return fallback;
        if (n > UINT64_MAX / 10 ||
            __builtin_add_overflow(n * 10, (uint64_t)(*v - '0'), &n))
            n = UINT64_MAX; /* stays so if more digits follow */
    }
    return n < low ? low : n > high ? high : n;
}

/* --- The program ---------------------------------------------------------- */

/* Finds the path of the file that is mapped at ADDRESS. Returns its length; 0:
   no file is. */
static size_t path_of_mapping(uintptr_t address, char *path, size_t room) {
    struct tcm_os_maps maps;
    struct tcm_os_mapping m;
    size_t n = 0;
    if (!tcm_os_maps_open(&maps))
        return 0;
    while (tcm_os_maps_next(&maps, &m))
        if (address >= m.start && address < m.end) {
            n = tcm_min_u64(m.length, room - 1);
            memcpy(path, m.path, n);
            break;
        }
    tcm_os_maps_close(&maps);
    return n;
}

size_t tcm_os_program_path(char *path, size_t room) {
    int saved = errno;
    long n = 0;
    TCM_ASSERT(room != 0);
    /* AT_BASE is 0 where the kernel started the loader as the program. The
       loader then sets AT_PHDR to the headers of the program that it was given.
     */
    if (getauxval(AT_BASE) == 0)
        n = (long)path_of_mapping(getauxval(AT_PHDR), path, room);
    if (n == 0)
        n = tcm_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path,
                        room - 1);
    errno = saved;
    path[n < 0 ? 0 : n] = '\0';
    return n < 0 ? 0 : (size_t)n;
}

/* --- stat ----------------------------------------------------------------- */

#define STAT_BYTES 512
/* Numbers of fields, the first is 1. */
#define STAT_FLAGS 9
#define STAT_START 22

/* Reads FOLDER/ID/stat into TEXT (STAT_BYTES bytes). Returns the bracket that
   ends the name, which may hold any bytes, and what follows. NULL: it cannot be
   read. */
static const char *read_stat(const char *folder, uint32_t id, char *text) {
    char path[48];
    struct tcm_fmt f;
    tcm_fmt_init(&f, path, sizeof(path));
    tcm_fmt_str(&f, folder);
    tcm_fmt_u64(&f, id);
    tcm_fmt_str(&f, "/stat");
    return tcm_io_read_file(path, text, STAT_BYTES) <= 0 ? NULL
                                                         : strrchr(text, ')');
}

/* read_stat for process PID. The calling process is found also where /proc
   belongs to another namespace. */
static const char *read_process(uint32_t pid, char *text) {
    if (pid != tcm_os_pid())
        return read_stat("/proc/", pid, text);
    return tcm_io_read_file("/proc/self/stat", text, STAT_BYTES) <= 0
               ? NULL
               : strrchr(text, ')');
}

/* Field NUMBER of process PID, which must be behind the name (field 2); 0:
   unknown. */
static uint64_t stat_field(uint32_t pid, int number) {
    char text[STAT_BYTES];
    const char *p = read_process(pid, text);
    uint64_t value = 0;
    for (int field = 2; p != NULL && field < number; field++)
        p = strchr(p + 1, ' ');
    if (p == NULL)
        return 0;
    for (p++; *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

uint64_t tcm_os_process_start(uint32_t pid) {
    return stat_field(pid, STAT_START);
}

bool tcm_os_is_forked(void) {
    const uint64_t forked_no_exec = 0x40; /* PF_FORKNOEXEC of Linux */
    return (stat_field(tcm_os_pid(), STAT_FLAGS) & forked_no_exec) != 0;
}

/* The exit code is the last field, in the form of wait(). */
int tcm_os_first_exit_code(void) {
    char text[STAT_BYTES];
    const char *p = read_process(tcm_os_pid(), text);
    int code = 0;
    if (p != NULL)
        p = strrchr(p, ' ');
    while (p != NULL && *++p >= '0' && *p <= '9')
        code = code * 10 + (*p - '0');
    return code >> 8;
}

bool tcm_os_process_is_gone(uint32_t pid) {
    char text[STAT_BYTES];
    int saved = errno;
    bool gone = tcm_syscall(SYS_kill, pid, 0) != 0 && errno == ESRCH;
    const char *p = gone ? NULL : read_process(pid, text);
    errno = saved;
    return gone || (p != NULL && (p[2] == 'Z' || p[2] == 'X'));
}

bool tcm_os_thread_is_asleep(uint32_t tid) {
    char text[STAT_BYTES];
    const char *p = read_stat("/proc/self/task/", tid, text);
    return p == NULL || p[1] != ' ' || strchr("RDTt", p[2]) == NULL;
}

/* --- Threads, memory ------------------------------------------------------ */

bool tcm_os_shares_memory(void) {
    int saved = errno;
    long order = tcm_syscall(SYS_kcmp, tcm_os_pid(), tcm_syscall(SYS_getppid),
                             KCMP_VM, 0, 0);
    errno = saved;
    return order <= 0;
}

bool tcm_os_thread_cpu_ns(uint32_t tid, uint64_t *ns) {
    const int per_thread_sched = 6; /* CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED of
                                       Linux */
    struct timespec t;
    int saved = errno;
    long rc =
        tcm_syscall(SYS_clock_gettime, (long)~tid << 3 | per_thread_sched, &t);
    errno = saved;
    if (rc == 0)
        *ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return rc == 0;
}

/* Links of a folder in /proc that has no subfolders. */
#define FOLDER_LINKS 2u

uint64_t tcm_os_thread_count(void) {
    struct stat st;
    int saved = errno;
    bool found = tcm_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0;
    errno = saved;
    return found && st.st_nlink > FOLDER_LINKS ? st.st_nlink - FOLDER_LINKS : 0;
}

static int open_statm(const char *path) {
    int saved = errno;
    long fd = tcm_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    errno = saved;
    return (int)fd;
}

void tcm_statm_open(struct tcm_statm *m) {
    m->fd = open_statm("/proc/self/statm");
    m->first_is_gone = false;
}

void tcm_statm_close(struct tcm_statm *m) {
    int saved = errno;
    if (m->fd >= 0)
        tcm_syscall(SYS_close, m->fd);
    errno = saved;
    m->fd = -1;
}

static bool read_fields(int fd, uint64_t field[3]) {
    char text[128];
    int saved = errno;
    long n =
        fd < 0 ? -1 : tcm_syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);
    errno = saved;
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *p = text;
    for (unsigned i = 0; i < 3; i++) {
        for (field[i] = 0; *p >= '0' && *p <= '9'; p++)
            field[i] = field[i] * 10 + (uint64_t)(*p - '0');
        if (*p == ' ')
            p++;
    }
    return true;
}

bool tcm_statm_read(struct tcm_statm *m, uint64_t field[3]) {
    if (!read_fields(m->fd, field))
        return false;
    if (field[0] == 0 && !m->first_is_gone) {
        tcm_statm_close(m);
        m->fd = open_statm("/proc/thread-self/statm");
        m->first_is_gone = true;
        return read_fields(m->fd, field);
    }
    return true;
}
