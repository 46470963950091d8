/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TAP output of tests in C: one line "ok N - name" or "not ok N - name" for
 * each check, and a plan "1..N" before or after them. A test that dies prints
 * no plan, which the driver counts as a failure.
 *
 * Usage: tap_plan(3) or nothing; checks; `return tap_done();` from main.
 *
 * Threads: any may check. After a fork the child must not check, and must end
 * by _exit.
 */
#ifndef TESTS_LIB_TAP_H
#define TESTS_LIB_TAP_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_PRINTF(fmt, va) __attribute__((unused, format(printf, fmt, va)))

struct tap_state {
    pthread_mutex_t lock;
    long planned; /* 0: no plan was printed */
    long run;
    long failed;
};

static struct tap_state tap_state = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

__attribute__((unused)) static void tap_plan(long n) {
    pthread_mutex_lock(&tap_state.lock);
    tap_state.planned = n;
    printf("1..%ld\n", n);
    fflush(stdout);
    pthread_mutex_unlock(&tap_state.lock);
}

/* Prints a comment, before the check that it explains. */
TAP_PRINTF(1, 2) static void tap_diag(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&tap_state.lock);
    fputs("# ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&tap_state.lock);
    va_end(ap);
}

__attribute__((unused, format(printf, 3, 0))) static bool
tap_result(bool good, const char *directive, const char *fmt, va_list ap) {
    pthread_mutex_lock(&tap_state.lock);
    tap_state.run++;
    if (!good)
        tap_state.failed++;
    printf("%s %ld - ", good ? "ok" : "not ok", tap_state.run);
    vprintf(fmt, ap);
    printf("%s\n", directive);
    /* flushes each line, so that a forked child does not print it again, and a
       crash does not lose it */
    fflush(stdout);
    pthread_mutex_unlock(&tap_state.lock);
    return good;
}

/* Returns COND. */
TAP_PRINTF(2, 3) static bool tap_ok(bool cond, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    tap_result(cond, "", fmt, ap);
    va_end(ap);
    return cond;
}

TAP_PRINTF(3, 4)
static bool tap_is_u64(uint64_t got, uint64_t want, const char *fmt, ...) {
    va_list ap;
    if (got != want)
        tap_diag("got %llu, want %llu", (unsigned long long)got,
                 (unsigned long long)want);
    va_start(ap, fmt);
    tap_result(got == want, "", fmt, ap);
    va_end(ap);
    return got == want;
}

TAP_PRINTF(3, 4)
static bool tap_is_i64(int64_t got, int64_t want, const char *fmt, ...) {
    va_list ap;
    if (got != want)
        tap_diag("got %lld, want %lld", (long long)got, (long long)want);
    va_start(ap, fmt);
    tap_result(got == want, "", fmt, ap);
    va_end(ap);
    return got == want;
}

TAP_PRINTF(3, 4)
static bool tap_is_str(const char *got, const char *want, const char *fmt,
                       ...) {
    bool good =
        got != NULL && want != NULL ? strcmp(got, want) == 0 : got == want;
    va_list ap;
    if (!good)
        tap_diag("got \"%s\", want \"%s\"", got ? got : "(null)",
                 want ? want : "(null)");
    va_start(ap, fmt);
    tap_result(good, "", fmt, ap);
    va_end(ap);
    return good;
}

/* Skips one check that is not possible here; the text tells why. */
TAP_PRINTF(1, 2) static void tap_skip(const char *fmt, ...) {
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&tap_state.lock);
    tap_state.run++;
    printf("ok %ld # SKIP %s\n", tap_state.run, why);
    fflush(stdout);
    pthread_mutex_unlock(&tap_state.lock);
}

/* Skips the whole test: call before any check, and return the result from
   main. */
TAP_PRINTF(1, 2) static int tap_skip_all(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("1..0 # SKIP ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
    return 0;
}

/* Ends the test where no further check can work. */
__attribute__((noreturn))
TAP_PRINTF(1, 2) static void tap_bail(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("Bail out! ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
    exit(99);
}

/* Tells whether an emulator of only the processor, such as qemu-user, runs this
   test: the kernel's limits and advice on memory are not the program's then.
   Who runs the tests in this way sets the variable. */
__attribute__((unused)) static bool tap_emulated(void) {
    return getenv("TCM_EMULATED") != NULL;
}

/* Returns the exit status: 0 if all planned checks ran and passed. */
__attribute__((unused)) static int tap_done(void) {
    if (tap_state.planned == 0)
        tap_plan(tap_state.run);
    return tap_state.failed == 0 && tap_state.run == tap_state.planned &&
                   tap_state.run != 0
               ? 0
               : 1;
}

#endif
