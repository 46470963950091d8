# TCM_JANSSON: --without-jansson. malloc-trace compare reads the results of runs
# with this library; without it the program says so.
AC_DEFUN([TCM_JANSSON], [
  AC_ARG_WITH([jansson],
    [AS_HELP_STRING([--without-jansson],
      [build malloc-trace without compare, which reads JSON
       (default: with the library if found)])],
    [], [with_jansson=auto])
  tcm_have_jansson=no
  JANSSON_LIBS=
  TCM_JANSSON_CPPFLAGS=
  AS_IF([test "x$with_jansson" != xno], [
    AC_CHECK_HEADER([jansson.h],
      [AC_CHECK_LIB([jansson], [json_load_file],
        [tcm_have_jansson=yes
         JANSSON_LIBS=-ljansson
         TCM_JANSSON_CPPFLAGS=-DTCM_HAVE_JANSSON=1])])
    AS_IF([test "x$with_jansson$tcm_have_jansson" = xyesno],
          [AC_MSG_ERROR([--with-jansson needs jansson.h and libjansson])])
  ])
  AC_SUBST([JANSSON_LIBS])
  AC_SUBST([TCM_JANSSON_CPPFLAGS])
  AC_SUBST([TCM_HAVE_JANSSON_TEXT], [$tcm_have_jansson])
])
