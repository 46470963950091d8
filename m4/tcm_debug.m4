# TCM_DEBUG: --enable-debug turns assertions, lock ranks, the whole-heap
# verifier and test points on in the installed libraries too.
AC_DEFUN([TCM_DEBUG], [
  AC_ARG_ENABLE([debug],
    [AS_HELP_STRING([--enable-debug], [assertions and heap verification])],
    [tcm_debug=$enableval], [tcm_debug=no])
  AS_IF([test "x$tcm_debug" != xno], [TCM_DEBUG_CPPFLAGS=-DTCM_DEBUG=1],
        [TCM_DEBUG_CPPFLAGS=-DTCM_DEBUG=0])
  AC_SUBST([TCM_DEBUG_CPPFLAGS])
])
