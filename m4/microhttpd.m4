# TCM_MICROHTTPD: --without-microhttpd. malloc-trace report --serve answers by
# this library; without it the program says so. TCM_MICROHTTPD is also the
# conditional of Makefile.am.
AC_DEFUN([TCM_MICROHTTPD], [
  AC_ARG_WITH([microhttpd],
    [AS_HELP_STRING([--without-microhttpd],
      [build malloc-trace without report --serve, a page in a browser
       (default: with the library if found)])],
    [], [with_microhttpd=auto])
  tcm_have_microhttpd=no
  TCM_MICROHTTPD_CPPFLAGS=
  MICROHTTPD_LIBS=
  AS_IF([test "x$with_microhttpd" != xno], [
    AC_CHECK_HEADER([microhttpd.h],
      [AC_CHECK_LIB([microhttpd], [MHD_run],
        [tcm_have_microhttpd=yes
         MICROHTTPD_LIBS=-lmicrohttpd
         TCM_MICROHTTPD_CPPFLAGS=-DTCM_HAVE_MICROHTTPD=1])])
    AS_IF([test "x$with_microhttpd$tcm_have_microhttpd" = xyesno],
          [AC_MSG_ERROR([--with-microhttpd needs microhttpd.h and libmicrohttpd
(Debian: libmicrohttpd-dev)])])
  ])
  AM_CONDITIONAL([TCM_MICROHTTPD], [test "x$tcm_have_microhttpd" = xyes])
  AC_SUBST([MICROHTTPD_LIBS])
  AC_SUBST([TCM_MICROHTTPD_CPPFLAGS])
  AC_SUBST([TCM_HAVE_MICROHTTPD_TEXT], [$tcm_have_microhttpd])
])
