# TCM_LINKER: what not every linker knows, for the libraries.
# -z noseparate-code: two mappings less at the start of each process; gold has
# no such option, and never maps code on its own.
AC_DEFUN([TCM_LINKER], [
  AC_MSG_CHECKING([whether the linker takes -z noseparate-code])
  tcm_save_LDFLAGS=$LDFLAGS
  LDFLAGS="$LDFLAGS -Wl,-z,noseparate-code"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
    [TCM_LIBRARY_LDFLAGS=-Wl,-z,noseparate-code
     AC_MSG_RESULT([yes])],
    [TCM_LIBRARY_LDFLAGS=
     AC_MSG_RESULT([no])])
  LDFLAGS=$tcm_save_LDFLAGS
  AC_SUBST([TCM_LIBRARY_LDFLAGS])
])
