# TCM_COMPRESSION: --enable-trace-compression. The recorder links liblz4
# statically: a program under the preload may have another version of liblz4, and
# must not get the recorder's functions, nor the recorder the program's. The
# tools link the same archive.
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
    AC_CHECK_HEADERS([lz4.h lz4hc.h lz4frame.h], [],
                     [tcm_lz4_missing="$ac_header"; break])
    AS_IF([test -z "$tcm_lz4_missing"], [
      AC_MSG_CHECKING([for the static archive of liblz4])
      TCM_STATIC_ARCHIVE([liblz4.a], [liblz4], [[#include <lz4.h>
#include <lz4hc.h>
#include <lz4frame.h>
#if LZ4_VERSION_NUMBER < 10803
#error older than 1.8.3
#endif
static LZ4_stream_t usual;
static LZ4_streamHC_t small;
]], [[LZ4F_dctx *context;
      char out[99];
      return LZ4_compress_fast_continue(&usual, "", out, 1, 99, 1) != 0 &&
             LZ4_compress_HC_continue(&small, "", out, 1, 99) != 0 &&
             LZ4F_createDecompressionContext(&context, LZ4F_VERSION) != 0;]])
      AC_MSG_RESULT([$tcm_archives])
      AS_IF([test "x$tcm_archives" = xno],
            [tcm_lz4_missing="the static archive liblz4.a (1.8.3 or newer):
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
(Fedora), lz4-dev and lz4-static (Alpine), or configure with
--disable-trace-compression])])
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
