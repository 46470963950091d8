/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads an interpreter with dlopen.
 *
 * lang_late_target python|perl|ruby LIBRARY ARGUMENT...
 *     does what the interpreter's own program does with ARGUMENTs.
 * lang_late_target rounds LIBRARY OTHER COUNT SCRIPT
 *     opens and closes CPython's LIBRARY COUNT times, in some rounds with OTHER
 *     at its place before, while threads of its own allocate; the interpreter
 *     runs SCRIPT in every 50th round. Prints how often the library was gone,
 *     and SCRIPT's status.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

extern char **environ;

static void *library;

static void *get(const char *name) {
    void *p = dlsym(library, name);
    if (p == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(100);
    }
    return p;
}

static void open_it(const char *name) {
    library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(100);
    }
}

static int run_python(int argc, char **argv) {
    return ((int (*)(int, char **))get("Py_BytesMain"))(argc, argv);
}

static void (*new_xs)(void *, const char *, void *, const char *);
static void add_loader(void *perl) {
    new_xs(perl, "DynaLoader::boot_DynaLoader", get("boot_DynaLoader"), "late");
}

static int run_perl(int argc, char **argv) {
    void (*init)(int *, char ***, char ***) = get("Perl_sys_init3");
    void *(*make)(void) = get("perl_alloc");
    void (*construct)(void *) = get("perl_construct");
    int (*parse)(void *, void (*)(void *), int, char **, char **) =
        get("perl_parse");
    int (*run)(void *) = get("perl_run");
    int (*destruct)(void *) = get("perl_destruct");
    void (*give_back)(void *) = get("perl_free");
    new_xs = get("Perl_newXS");
    init(&argc, &argv, &environ);
    void *perl = make();
    construct(perl);
    int status = parse(perl, add_loader, argc, argv, NULL);
    if (status == 0)
        run(perl);
    status = destruct(perl);
    give_back(perl);
    ((void (*)(void))get("Perl_sys_term"))();
    return status;
}

static int run_ruby(int argc, char **argv) {
    void *base = NULL;
    ((void (*)(int *, char ***))get("ruby_sysinit"))(&argc, &argv);
    ((void (*)(void **))get("ruby_init_stack"))(&base);
    ((void (*)(void))get("ruby_init"))();
    return ((int (*)(void *))get("ruby_run_node"))(
        ((void *(*)(int, char **))get("ruby_options"))(argc, argv));
}

/* --- Rounds --------------------------------------------------------------- */

static pthread_barrier_t opened, used;
static void *(*volatile ask)(size_t);
static int done; /* between barriers alone */

static __attribute__((noinline)) void use(void *(*how)(size_t), int n) {
    for (int i = 0; i < n; i++)
        free(how(100 + (size_t)i % 50));
}

static void *allocate(void *arg) {
    for (;;) {
        pthread_barrier_wait(&opened);
        if (done)
            return arg;
        /* Through the library, then at the same place of the stack without. */
        use(ask, 20);
        pthread_barrier_wait(&used);
        use(malloc, 200);
    }
}

static int run_rounds(const char *name, const char *other, int count,
                      char *script) {
    pthread_t thread[THREADS];
    int gone = 0, status = 0, runs = 0;
    char program[] = "python3", *argv[] = {program, script, NULL};
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    pthread_barrier_init(&used, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, allocate, NULL);
    for (int i = 0; i < count; i++) {
        void *before = i % 3 == 0 ? dlopen(other, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (i % 6 == 0 && before != NULL) {
            dlclose(before);
            before = NULL;
        }
        open_it(name);
        ask = (void *(*)(size_t))get("PyMem_RawMalloc");
        pthread_barrier_wait(&opened);
        pthread_barrier_wait(&used);
        if (i % 50 == 0) {
            status |= run_python(2, argv);
            runs++;
        }
        dlclose(library);
        gone += dlopen(name, RTLD_NOW | RTLD_NOLOAD) == NULL;
        if (before != NULL)
            dlclose(before);
    }
    done = 1;
    pthread_barrier_wait(&opened);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("gone %d runs %d status %d\n", gone, runs, status);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "rounds") == 0)
        return run_rounds(argv[2], argv[3], atoi(argv[4]), argv[5]);
    if (argc < 4)
        return 100;
    open_it(argv[2]);
    argv[2] = argv[1];
    argv += 2;
    argc -= 2;
    return argv[0][1] == 'y'   ? run_python(argc, argv)
           : argv[0][1] == 'e' ? run_perl(argc, argv)
                               : run_ruby(argc, argv);
}
