# TCM_COMPRESSION: --enable-trace-compression. The recorder links liblz4
# statically, so that the program under the preload sees no second library;
# the tools link it as they find it.
AC_DEFUN([TCM_COMPRESSION], [
  AC_ARG_ENABLE([trace-compression],
    [AS_HELP_STRING([--enable-trace-compression],
      [LZ4 frames around traces; needs liblz4 and its static archive
       (default: on if found)])],
    [], [enable_trace_compression=auto])
  tcm_have_lz4=no
  LZ4_STATIC_LIBS=
  # In a library: past libtool, which would put the archive into our own.
  LZ4_SHARED_LIBS=
  # In pkg-config's file, for programs that are linked statically.
  LZ4_PRIVATE_LIBS=
  AS_IF([test "x$enable_trace_compression" != xno], [
    tcm_lz4_missing=
    AC_CHECK_HEADER([lz4frame.h], [], [tcm_lz4_missing="lz4frame.h"])
    AS_IF([test -z "$tcm_lz4_missing"], [
      AC_CACHE_CHECK([for the static archive of liblz4], [tcm_cv_lz4_static], [
        tcm_save_LIBS=$LIBS
        tcm_cv_lz4_static=no
        # By its path: libtool moves -Wl,-Bstatic away from -l options.
        tcm_try=`$CC $CFLAGS $LDFLAGS -print-file-name=liblz4.a`
        LIBS="$tcm_try $tcm_save_LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#define LZ4F_STATIC_LINKING_ONLY
#include <stddef.h>
#include <lz4frame.h>
]], [[LZ4F_CustomMem mem = {0};
      return LZ4F_createCompressionContext_advanced(mem, LZ4F_VERSION) != 0;]])],
          [tcm_cv_lz4_static=$tcm_try])
        LIBS=$tcm_save_LIBS
      ])
      AS_IF([test "x$tcm_cv_lz4_static" = xno],
            [tcm_lz4_missing="the static archive liblz4.a (1.9.4 or newer)"],
            [LZ4_STATIC_LIBS=$tcm_cv_lz4_static
             LZ4_SHARED_LIBS=-Wl,$tcm_cv_lz4_static
             LZ4_PRIVATE_LIBS=-llz4
             tcm_have_lz4=yes])
    ])
    AS_IF([test "x$tcm_have_lz4" = xno &&
           test "x$enable_trace_compression" = xyes],
      [AC_MSG_ERROR([--enable-trace-compression needs $tcm_lz4_missing;
install the package liblz4-dev (Debian, Ubuntu), lz4-devel and lz4-static
(Fedora), or configure with --disable-trace-compression])])
  ])
  AS_IF([test "x$tcm_have_lz4" = xyes],
        [TCM_LZ4_CPPFLAGS=-DTCM_HAVE_LZ4=1],
        [TCM_LZ4_CPPFLAGS=-DTCM_HAVE_LZ4=0])
  AC_SUBST([LZ4_STATIC_LIBS])
  AC_SUBST([LZ4_SHARED_LIBS])
  AC_SUBST([LZ4_PRIVATE_LIBS])
  AC_SUBST([TCM_LZ4_CPPFLAGS])
  AC_SUBST([TCM_HAVE_LZ4_TEXT], [$tcm_have_lz4])
  AM_CONDITIONAL([TCM_LZ4], [test "x$tcm_have_lz4" = xyes])
])
