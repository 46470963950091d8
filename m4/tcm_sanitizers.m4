# TCM_SANITIZERS: --enable-sanitizers=address,undefined or =thread. They apply
# to the tools, the parsers and the renamed static build that the unit tests
# link; the preloaded libraries cannot run under them.
AC_DEFUN([TCM_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST],
      [sanitizers for tools and unit tests, e.g. address,undefined])],
    [tcm_sanitizers=$enableval], [tcm_sanitizers=no])
  TCM_SANITIZER_CFLAGS=
  AS_IF([test "x$tcm_sanitizers" = xyes],
        [tcm_sanitizers=address,undefined])
  AS_IF([test "x$tcm_sanitizers" != xno], [
    TCM_SANITIZER_CFLAGS="-fsanitize=$tcm_sanitizers -fno-omit-frame-pointer"
    tcm_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $TCM_SANITIZER_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([$CC cannot link with -fsanitize=$tcm_sanitizers])])
    CFLAGS=$tcm_save_CFLAGS
  ])
  AC_SUBST([TCM_SANITIZER_CFLAGS])
  AC_SUBST([TCM_SANITIZED_TEXT], [$tcm_sanitizers])
  AM_CONDITIONAL([TCM_SANITIZED], [test "x$tcm_sanitizers" != xno])
])
