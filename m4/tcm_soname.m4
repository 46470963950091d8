# TCM_SONAME: --enable-gperftools-soname. The loader knows a library by its name
# and takes it from the first folder that has one: by gperftools' name, programs
# that are linked with gperftools get this library, in the whole machine.
AC_DEFUN([TCM_SONAME], [
  AC_ARG_ENABLE([gperftools-soname],
    [AS_HELP_STRING([--enable-gperftools-soname],
      [give libtcmalloc_minimal the name that gperftools' has for the loader
       (libtcmalloc_minimal.so.4), so that programs which are linked with that
       load this one (default: a name of its own)])],
    [], [enable_gperftools_soname=no])
  AS_IF([test "x$enable_gperftools_soname" != xno],
    [TCM_SO_RELEASE=
     TCM_SO_SUFFIX=.so.4],
    [TCM_SO_RELEASE="-release $PACKAGE"
     TCM_SO_SUFFIX=-$PACKAGE.so.4])
  AC_SUBST([TCM_SO_RELEASE])
  AC_SUBST([TCM_SO_SUFFIX])
])
