/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/main.h"

#include "base/clock.h"
#include "base/linux/os_file.h"
#include "common/text.h"
#include "common/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The build defines these. */
#ifndef TCM_VERSION
#define TCM_VERSION "unknown"
#endif
#ifndef TCM_HAVE_LZ4
#define TCM_HAVE_LZ4 0
#endif
#ifndef TCM_HAVE_LIBDW
#define TCM_HAVE_LIBDW 0
#endif
#ifndef TCM_HAVE_MICROHTTPD
#define TCM_HAVE_MICROHTTPD 0
#endif

static const char *program_name = "malloc-trace";

static bool begun;
static bool quiet;
/* Signals of a write that fails: the error says the same. */
static const int write_signals[] = {SIGPIPE, SIGXFSZ};
static void (*signal_before[TCM_ARRAY_SIZE(write_signals)])(int);
static int stdout_error; /* of the first write that failed */

/* Puts /dev/null in the place of each closed standard descriptor: the next file
   that is opened would get its number, and messages would be written into that
   file. The opposite access mode makes use of the descriptor fail as before;
   close-on-exec keeps it from programs that are run. */
static void take_closed_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0)
            return;
}

void tool_begin(const char *name) {
    program_name = name;
    if (!begun)
        take_closed_descriptors();
    /* malloc-trace calls this again with a subcommand's longer name. */
    for (unsigned i = 0; !begun && i < TCM_ARRAY_SIZE(write_signals); i++)
        signal_before[i] = signal(write_signals[i], SIG_IGN);
    begun = true;
}

void tool_before_exec(void) {
    for (unsigned i = 0; begun && i < TCM_ARRAY_SIZE(write_signals); i++)
        if (signal_before[i] != SIG_ERR)
            signal(write_signals[i], signal_before[i]);
}

bool tool_is_quiet(void) {
    return quiet;
}

void tool_be_quiet(void) {
    quiet = true;
}

void tool_print_version(void) {
    printf("%s (malloc-trace) %s\nOptional libraries: lz4 %s, zlib %s, "
           "zstd %s, bz2 %s, elfutils %s, libiberty %s, microhttpd %s\n",
           program_name, TCM_VERSION,
           TCM_HAVE_LZ4 ? "yes" : "no (traces uncompressed)",
           TCM_HAVE_ZLIB ? "yes" : "no (gzip and zip cannot be read)",
           TCM_HAVE_ZSTD ? "yes" : "no (zstd cannot be read)",
           TCM_HAVE_BZ2 ? "yes" : "no (bzip2 cannot be read)",
           TCM_HAVE_LIBDW ? "yes" : "no (reports have no names)",
           TCM_HAVE_RUST_DEMANGLE ? "yes" : "no (names of Rust stay mangled)",
           TCM_HAVE_MICROHTTPD ? "yes" : "no (reports are not served)");
}

const char *tool_name(void) {
    return program_name;
}

void tool_flush(void) {
    errno = 0;
    if (fflush(stdout) != 0 && stdout_error == 0)
        stdout_error = errno;
}

void tool_stdout_failed(int error) {
    if (stdout_error == 0)
        stdout_error = error;
}

TCM_PRINTF(3, 0)
static void say(const char *prefix, const char *suffix, const char *fmt,
                va_list ap) {
    char text[3072];
    char line[4096];
    const char *parts[] = {program_name, prefix, text};
    int saved = errno;
    vsnprintf(text, sizeof(text), fmt, ap);
    /* leaves room for the suffix and the newline */
    size_t room = sizeof(line) - strlen(suffix) - 1;
    size_t used = 0;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(parts); i++)
        used = tool_text_put_shown(line, used, room, &parts[i]);
    memcpy(line + used, suffix, strlen(suffix));
    used += strlen(suffix);
    line[used++] = '\n';
    /* Text on stdout that was printed before comes first. */
    tool_flush();
    tcm_io_write_all(2, line, used);
    errno = saved;
}

void tool_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(": ", "", fmt, ap);
    va_end(ap);
}

bool tool_out_of_memory(void) {
    tool_error("out of memory");
    return false;
}

void tool_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(": warning: ", "", fmt, ap);
    va_end(ap);
}

int tool_not_judged(const char *what, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tool_error("not judged: %s: %s", what, text);
    return TOOL_DAMAGED;
}

int tool_usage_error(const char *fmt, ...) {
    char hint[128];
    va_list ap;
    snprintf(hint, sizeof(hint), " (try '%s --help')", program_name);
    va_start(ap, fmt);
    say(": ", hint, fmt, ap);
    va_end(ap);
    return TOOL_USAGE;
}

int tool_end(int status) {
    tool_flush();
    if (stdout_error == 0 && ferror(stdout) == 0)
        return status;
    if (stdout_error != 0)
        tool_error("cannot write to standard output: %s",
                   strerror(stdout_error));
    else
        tool_error("cannot write to standard output");
    return TOOL_FAILED;
}

bool tool_own_folder(char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

bool tool_own_program(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (tool_own_folder(folder)) {
        int n =
            snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 100, folder, name);
        if (n > 0 && access(path, X_OK) == 0)
            return true;
    }
    tool_error("there is no program %s beside this one", name);
    return false;
}

/* --- Numbers ----------------------------------------------------------- */

bool tool_parse_u64(const char *text, uint64_t max, uint64_t *value) {
    uint64_t n = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return false;
    }
    if (n > max)
        return false;
    *value = n;
    return true;
}

/* A decimal number: WHOLE and FRACTION / SCALE. */
struct decimal {
    uint64_t whole, fraction, scale;
};

/* Parses a number without sign at *TEXT and advances *TEXT behind it. Only the
   first nine decimal places count. */
static bool parse_decimal(const char **text, struct decimal *d) {
    const char *p = *text;
    size_t digits = 0;
    *d = (struct decimal){.scale = 1};
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        if (__builtin_mul_overflow(d->whole, (uint64_t)10, &d->whole) ||
            __builtin_add_overflow(d->whole, (uint64_t)(*p - '0'), &d->whole))
            return false;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits++)
            if (d->scale < 1000000000u) {
                d->fraction = d->fraction * 10 + (uint64_t)(*p - '0');
                d->scale *= 10;
            }
    *text = p;
    return digits != 0;
}

/* Stores D times UNIT, without decimal places. false: it is too large. */
static bool scale_decimal(const struct decimal *d, uint64_t unit,
                          uint64_t *result) {
    uint64_t product;
    unsigned __int128 rest = (unsigned __int128)d->fraction * unit / d->scale;
    return !__builtin_mul_overflow(d->whole, unit, &product) &&
           !__builtin_add_overflow(product, (uint64_t)rest, result);
}

bool tool_parse_bytes(const char *text, uint64_t max, uint64_t *bytes) {
    static const char prefixes[] = "kmgt";
    struct decimal d;
    uint64_t unit = 1;
    if (!parse_decimal(&text, &d))
        return false;
    const char *prefix = strchr(prefixes, (unsigned char)*text | 0x20);
    if (prefix != NULL) {
        unit = (uint64_t)1024 << 10 * (prefix - prefixes);
        text += strcmp(text + 1, "iB") == 0 ? 3 : 1;
    }
    return *text == '\0' && scale_decimal(&d, unit, bytes) && *bytes <= max;
}

static const struct unit {
    const char *name;
    uint64_t ns;
} units[] = {
    {"ns", 1},          {"us", 1000},          {"ms", 1000000},
    {"s", 1000000000u}, {"m", 60000000000ull}, {"h", 3600000000000ull},
};

/* Parses the unit at *TEXT and advances *TEXT behind it. Returns its length in
   ns: seconds at the end of the text; 0: unknown unit. */
static uint64_t parse_unit(const char **text) {
    size_t length = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    if (length == 0)
        return **text == '\0' ? 1000000000u : 0;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(units); i++)
        if (strlen(units[i].name) == length &&
            memcmp(units[i].name, *text, length) == 0) {
            *text += length;
            return units[i].ns;
        }
    return 0;
}

/* Parses one number with its unit. Decimal places below a nanosecond are
   dropped. */
static bool parse_part(const char **text, uint64_t *ns) {
    struct decimal d;
    if (!parse_decimal(text, &d))
        return false;
    uint64_t unit = parse_unit(text);
    return unit != 0 && scale_decimal(&d, unit, ns);
}

bool tool_parse_time(const char *text, uint64_t *ns) {
    *ns = 0;
    do {
        uint64_t part = 0;
        if (!parse_part(&text, &part) || __builtin_add_overflow(*ns, part, ns))
            return false;
    } while (*text != '\0');
    return true;
}

const char *tool_time_text(char text[32], uint64_t ns) {
    size_t i = TCM_ARRAY_SIZE(units) - 1;
    while (ns % units[i].ns != 0)
        i--;
    snprintf(text, 32, "%llu%s", (unsigned long long)(ns / units[i].ns),
             units[i].name);
    return text;
}

/* --- Progress ------------------------------------------------------------- */

void tool_progress_init(struct tool_progress *p) {
    memset(p, 0, sizeof(*p));
    p->shown = !tool_is_quiet() && isatty(STDERR_FILENO) == 1;
    p->start_ns = tcm_clock_ns();
}

void tool_progress_show(struct tool_progress *p, uint64_t count,
                        const char *unit, uint64_t done, uint64_t total) {
    uint64_t now = tcm_clock_ns();
    if (p->last_ns != 0 && now - p->last_ns < 200000000)
        return;
    p->last_ns = now;
    double seconds = (double)(now - p->start_ns) / 1e9;
    struct tool_text t[2];
    char line[120];
    int n = snprintf(line, sizeof(line), "%s %s, %.1f M/s",
                     tool_text_count(&t[0], count), unit,
                     (double)count / seconds / 1e6);
    if (total > done && done != 0 && n > 0 && n < (int)sizeof(line)) {
        double left = seconds * (double)(total - done) / (double)done;
        snprintf(line + n, sizeof(line) - (size_t)n, ", %u %%, %s left",
                 (unsigned)(done * 100 / total),
                 tool_text_ns(&t[1], (uint64_t)(left * 1e9)));
    }
    tool_progress_line(p, line);
}

void tool_progress_line(struct tool_progress *p, const char *line) {
    fprintf(stderr, "\r%-*s", p->length, line);
    p->length = (int)strlen(line);
}

void tool_progress_clear(struct tool_progress *p) {
    if (p->length != 0)
        fprintf(stderr, "\r%*s\r", p->length, "");
    p->length = 0;
}
