# TCM_LIBC: names of glibc that it has since 2.28, the oldest version to build
# with; other C libraries may be without them as well. The sources see
# TCM_HAVE_NAME as 0 or 1.
#
# tcm_cv_newer_libc=no also hides the names that are looked for at run time,
# since a library may run with a newer C library than it was built with: the
# build of the tests has fallbacks alone.

# TCM_LIBC_NAME(NAME, HEADER)
AC_DEFUN([TCM_LIBC_NAME], [
  AC_CACHE_CHECK([whether $2 declares $1], [tcm_cv_libc_$1], [
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <$2>]], [[(void)&$1;]])],
      [tcm_cv_libc_$1=yes], [tcm_cv_libc_$1=no])
  ])
  AS_IF([test "x$tcm_cv_libc_$1" = xyes], [tcm_define=1], [tcm_define=0])
  TCM_LIBC_CPPFLAGS="$TCM_LIBC_CPPFLAGS -DTCM_HAVE_[]m4_toupper([$1])=$tcm_define"
])

AC_DEFUN([TCM_LIBC], [
  TCM_LIBC_CPPFLAGS=
  TCM_LIBC_NAME([_dl_find_object], [dlfcn.h])
  TCM_LIBC_NAME([mallinfo], [malloc.h])
  TCM_LIBC_NAME([mallinfo2], [malloc.h])
  TCM_LIBC_NAME([strerrordesc_np], [string.h])
  AC_CACHE_CHECK([whether a newer C library is made use of],
    [tcm_cv_newer_libc], [tcm_cv_newer_libc=yes])
  AS_IF([test "x$tcm_cv_newer_libc" = xyes],
        [TCM_LIBC_CPPFLAGS="$TCM_LIBC_CPPFLAGS -DTCM_NEWER_LIBC=1"],
        [TCM_LIBC_CPPFLAGS="$TCM_LIBC_CPPFLAGS -DTCM_NEWER_LIBC=0"])
  # The word of a mutex in which the kernel notes that its owner has died.
  AC_CHECK_MEMBER([pthread_mutex_t.__data.__lock], [tcm_word=__data.__lock],
    [AC_CHECK_MEMBER([pthread_mutex_t.__u.__vi],
      [tcm_word='__u.__vi@<:@1@:>@'], [tcm_word=], [[#include <pthread.h>]])],
    [[#include <pthread.h>]])
  AS_IF([test "x$tcm_word" != x],
        [TCM_LIBC_CPPFLAGS="$TCM_LIBC_CPPFLAGS '-DTCM_MUTEX_WORD=$tcm_word'"])
  # A library of its own before glibc 2.34, and then it allocates. With the
  # header: a build may have it included in every file.
  AC_CACHE_CHECK([for the library of dlsym], [tcm_cv_lib_dlsym],
    [tcm_cv_lib_dlsym=-ldl
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <dlfcn.h>]],
       [[return dlsym((void *)0, "main") != (void *)0;]])],
       [tcm_cv_lib_dlsym="none required"])])
  AS_IF([test "x$tcm_cv_lib_dlsym" = x-ldl], [LIBS="-ldl $LIBS"])
  AS_IF([test "x$tcm_cv_lib_dlsym$tcm_cv_newer_libc" = "xnone requiredyes"],
        [tcm_define=1], [tcm_define=0])
  TCM_LIBC_CPPFLAGS="$TCM_LIBC_CPPFLAGS -DTCM_QUIET_DLSYM=$tcm_define"
  AC_SUBST([TCM_LIBC_CPPFLAGS])
  AC_SUBST([TCM_NEWER_LIBC_TEXT], [$tcm_cv_newer_libc])
])
