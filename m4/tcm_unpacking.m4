# TCM_UNPACKING: --without-zlib, --without-zstd, --without-bz2. The tools read
# gzip and zip, zstd and bzip2 input with these libraries; without one they say
# which package has it. They are linked statically: replay measures the memory of
# its own process.

# TCM_UNPACK_LIB(NAME, ARCHIVE, HEADER, CALL, KIND, MODULE, PACKAGE): KIND is the
# input that the library reads, PACKAGE the one of Debian that has the library.
AC_DEFUN([TCM_UNPACK_LIB], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--without-$1],
      [do not read $5 input (default: with the static archive $2 if
       found)])],
    [], [with_$1=auto])
  tcm_have_$1=no
  AS_IF([test "x$with_$1" != xno], [
    AC_MSG_CHECKING([for the static archive of $1])
    TCM_STATIC_ARCHIVE([$2], [$6], [[#include <stddef.h>
#include <$3>]], [[return $4;]])
    AC_MSG_RESULT([$tcm_archives])
    AS_IF([test "x$tcm_archives" != xno],
          [UNPACK_STATIC_LIBS="$UNPACK_STATIC_LIBS $tcm_archives"
           tcm_have_$1=yes],
          [test "x$with_$1" = xyes],
          [AC_MSG_ERROR([--with-$1 needs $3 and the static archive $2 (Debian: $7):
$tcm_archive_tried (config.log has more)])])
  ])
])

AC_DEFUN([TCM_UNPACKING], [
  UNPACK_STATIC_LIBS=
  TCM_UNPACK_LIB([zlib], [libz.a], [zlib.h],
                 [inflateReset((z_stream *)NULL) != 0], [gzip], [zlib],
                 [zlib1g-dev])
  TCM_UNPACK_LIB([zstd], [libzstd.a], [zstd.h],
                 [ZSTD_createDStream() != NULL], [zstd], [libzstd],
                 [libzstd-dev])
  TCM_UNPACK_LIB([bz2], [libbz2.a], [bzlib.h],
                 [BZ2_bzlibVersion() != NULL], [bzip2], [bzip2],
                 [libbz2-dev])
  TCM_UNPACK_CPPFLAGS=
  AS_IF([test "x$tcm_have_zlib" = xyes],
        [TCM_UNPACK_CPPFLAGS="$TCM_UNPACK_CPPFLAGS -DTCM_HAVE_ZLIB=1"])
  AS_IF([test "x$tcm_have_zstd" = xyes],
        [TCM_UNPACK_CPPFLAGS="$TCM_UNPACK_CPPFLAGS -DTCM_HAVE_ZSTD=1"])
  AS_IF([test "x$tcm_have_bz2" = xyes],
        [TCM_UNPACK_CPPFLAGS="$TCM_UNPACK_CPPFLAGS -DTCM_HAVE_BZ2=1"])
  AC_SUBST([UNPACK_STATIC_LIBS])
  AC_SUBST([TCM_UNPACK_CPPFLAGS])
  AC_SUBST([TCM_HAVE_ZLIB_TEXT], [$tcm_have_zlib])
  AC_SUBST([TCM_HAVE_ZSTD_TEXT], [$tcm_have_zstd])
  AC_SUBST([TCM_HAVE_BZ2_TEXT], [$tcm_have_bz2])
])
