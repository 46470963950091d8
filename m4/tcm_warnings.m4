# TCM_TRY_CFLAG(FLAG, VARIABLE): append FLAG to VARIABLE if the compiler
# takes it.
AC_DEFUN([TCM_TRY_CFLAG], [
  AS_VAR_PUSHDEF([cache], [tcm_cv_cflag_$1])
  AC_CACHE_CHECK([whether $CC takes $1], [cache], [
    tcm_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
    CFLAGS=$tcm_save_CFLAGS
  ])
  AS_VAR_IF([cache], [yes], [$2="$$2 $1"])
  AS_VAR_POPDEF([cache])
])

# TCM_WARNINGS: the warnings this project is clean under, probed one by one.
AC_DEFUN([TCM_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
    [], [enable_werror=no])
  TCM_WARN_CFLAGS=
  m4_foreach_w([tcm_flag], [-Wall -Wextra -Wshadow -Wundef -Wconversion
      -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
      -Wformat=2 -Wwrite-strings -Wnull-dereference],
    [TCM_TRY_CFLAG(tcm_flag, [TCM_WARN_CFLAGS])])
  AS_IF([test "x$enable_werror" = xyes],
        [TCM_WARN_CFLAGS="$TCM_WARN_CFLAGS -Werror"])
  AC_SUBST([TCM_WARN_CFLAGS])
])
