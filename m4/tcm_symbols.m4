# TCM_SYMBOLS: --without-elfutils. malloc-trace report names functions and lines
# with libdw of elfutils, and demangles C++ names with libstdc++'s
# __cxa_demangle, and Rust's with libiberty. All are linked as they are found: no
# program under test loads them. TCM_LIBDW is the conditional of Makefile.am.
AC_DEFUN([TCM_SYMBOLS], [
  AC_ARG_WITH([elfutils],
    [AS_HELP_STRING([--without-elfutils],
      [no names of functions and lines in malloc-trace report
       (default: with libdw if found)])],
    [], [with_elfutils=auto])
  SYMBOL_LIBS=
  tcm_define_libdw=0
  tcm_define_demangle=0
  tcm_define_rust=0
  tcm_have_libdw=no
  AS_IF([test "x$with_elfutils" != xno], [
    AC_CACHE_CHECK([for libdw], [tcm_cv_libdw], [
      tcm_save_LIBS=$LIBS
      LIBS="-ldw -lelf $tcm_save_LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <elfutils/libdwfl.h>
#include <dwarf.h>]], [[return dwfl_begin((const Dwfl_Callbacks *)0) != 0;]])],
        [tcm_cv_libdw=yes], [tcm_cv_libdw=no])
      LIBS=$tcm_save_LIBS
    ])
    tcm_have_libdw=$tcm_cv_libdw
    AS_IF([test "x$tcm_have_libdw" = xyes],
          [SYMBOL_LIBS="-ldw -lelf"
           tcm_define_libdw=1],
          [test "x$with_elfutils" = xyes],
          [AC_MSG_ERROR([--with-elfutils needs libdw and its headers;
install the package libdw-dev (Debian, Ubuntu) or elfutils-devel (Fedora)])])
  ])
  AS_IF([test "x$tcm_have_libdw" = xyes], [
    AC_CACHE_CHECK([for __cxa_demangle], [tcm_cv_demangle], [
      tcm_save_LIBS=$LIBS
      LIBS="-lstdc++ $tcm_save_LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM(
[[char *__cxa_demangle(const char *, char *, unsigned long *, int *);]],
[[return __cxa_demangle("", 0, 0, 0) != 0;]])],
        [tcm_cv_demangle=yes], [tcm_cv_demangle=no])
      LIBS=$tcm_save_LIBS
    ])
    AS_IF([test "x$tcm_cv_demangle" = xyes],
          [SYMBOL_LIBS="$SYMBOL_LIBS -lstdc++"
           tcm_define_demangle=1])
    AC_CACHE_CHECK([for Rust and D demanglers], [tcm_cv_rust_demangle], [
      tcm_save_LIBS=$LIBS
      LIBS="-liberty $tcm_save_LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <libiberty/demangle.h>]],
        [[return rust_demangle("", 0) != dlang_demangle("", 0);]])],
        [tcm_cv_rust_demangle=yes], [tcm_cv_rust_demangle=no])
      LIBS=$tcm_save_LIBS
    ])
    AS_IF([test "x$tcm_cv_rust_demangle" = xyes],
          [SYMBOL_LIBS="$SYMBOL_LIBS -liberty"
           tcm_define_rust=1])
  ])
  TCM_SYMBOL_CPPFLAGS="-DTCM_HAVE_LIBDW=$tcm_define_libdw"
  TCM_SYMBOL_CPPFLAGS="$TCM_SYMBOL_CPPFLAGS -DTCM_HAVE_DEMANGLE=$tcm_define_demangle"
  TCM_SYMBOL_CPPFLAGS="$TCM_SYMBOL_CPPFLAGS -DTCM_HAVE_RUST_DEMANGLE=$tcm_define_rust"
  AM_CONDITIONAL([TCM_LIBDW], [test "x$tcm_have_libdw" = xyes])
  AC_SUBST([SYMBOL_LIBS])
  AC_SUBST([TCM_SYMBOL_CPPFLAGS])
  AC_SUBST([TCM_HAVE_LIBDW_TEXT], [$tcm_have_libdw])
])
