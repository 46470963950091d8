# TCM_LINKER: what not every linker or compiler passes or knows, for the
# libraries.
# -z noseparate-code: two mappings less at the start of each process; gold has
# no such option, and never maps code on its own.
# --eh-frame-hdr: the table by which stacks are walked.
AC_DEFUN([TCM_LINKER], [
  TCM_LIBRARY_LDFLAGS=
  TCM_LINKER_OPTION([-Wl,-z,noseparate-code])
  TCM_LINKER_OPTION([-Wl,--eh-frame-hdr])
  AC_SUBST([TCM_LIBRARY_LDFLAGS])
])

AC_DEFUN([TCM_LINKER_OPTION], [
  AC_MSG_CHECKING([whether the linker takes $1])
  tcm_save_LDFLAGS=$LDFLAGS
  LDFLAGS="$LDFLAGS $1"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
    [TCM_LIBRARY_LDFLAGS="$TCM_LIBRARY_LDFLAGS $1"
     AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])])
  LDFLAGS=$tcm_save_LDFLAGS
])
