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
      AC_MSG_CHECKING([for the static archive of liblz4])
      TCM_STATIC_ARCHIVE([liblz4.a], [liblz4], [[
#define LZ4F_STATIC_LINKING_ONLY
#include <stddef.h>
#include <lz4frame.h>
]], [[LZ4F_CustomMem mem = {0};
      return LZ4F_createCompressionContext_advanced(mem, LZ4F_VERSION) != 0;]])
      AC_MSG_RESULT([$tcm_archives])
      AS_IF([test "x$tcm_archives" = xno],
            [tcm_lz4_missing="the static archive liblz4.a (1.9.4 or newer):
$tcm_archive_tried (config.log has more)"],
            [LZ4_STATIC_LIBS=$tcm_archives
             LZ4_SHARED_LIBS=`AS_ECHO(["$tcm_archives"]) | sed 's|^/|-Wl,/|; s| /| -Wl,/|g'`
             LZ4_PRIVATE_LIBS=$tcm_archive_options
             tcm_have_lz4=yes])
    ])
    AS_IF([test "x$tcm_have_lz4" = xno &&
           test "x$enable_trace_compression" = xyes],
      [AC_MSG_ERROR([--enable-trace-compression needs $tcm_lz4_missing
Install the package liblz4-dev (Debian, Ubuntu), lz4-devel and lz4-static
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
