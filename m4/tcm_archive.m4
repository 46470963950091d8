# TCM_STATIC_ARCHIVE(ARCHIVE, MODULE, PROLOGUE, BODY): the paths of ARCHIVE and
# of the archives that it needs, in tcm_archives, or "no"; their -l options in
# tcm_archive_options; how it went in tcm_archive_tried. The archive is tried
# alone, then with what pkg-config --static names for MODULE.
#
# By their paths: libtool moves -Wl,-Bstatic away from -l options. As for the
# linker, folders that LDFLAGS names come before those of the compiler.
AC_DEFUN([TCM_STATIC_ARCHIVE], [
  AC_REQUIRE([TCM_PKG_CONFIG])
  tcm_archives=no
  tcm_own_folders=`AS_ECHO([" $LDFLAGS "]) | tr ' ' '\n' | sed -n 's/^-L//p' | tr '\n' ' '`
  tcm_archive_options=
  tcm_archive_tried=
  tcm_name=`AS_ECHO(["$1"]) | sed 's/^lib/-l/; s/\.a$//'`
  tcm_named=
  AS_IF([test "x$PKG_CONFIG" != x],
        [tcm_named=`$PKG_CONFIG --static --libs $2 2>/dev/null`])
  for tcm_options in "$tcm_name" "$tcm_named"; do
    tcm_try=
    tcm_folders=
    tcm_is_found=yes
    for tcm_option in $tcm_options; do
      AS_CASE([$tcm_option],
        [-L*], [tcm_folders="$tcm_folders `AS_ECHO(["$tcm_option"]) | sed 's/^-L//'`"
                continue],
        [-l*], [],
        [tcm_try="$tcm_try $tcm_option"
         continue])
      tcm_file=`AS_ECHO(["$tcm_option"]) | sed 's/^-l/lib/; s/$/.a/'`
      tcm_path=
      for tcm_folder in $tcm_own_folders; do
        AS_CASE([$tcm_path], [/*], [],
          [test ! -f "$tcm_folder/$tcm_file" ||
             tcm_path=`cd "$tcm_folder" && pwd`/$tcm_file])
      done
      test -n "$tcm_path" ||
        tcm_path=`$CC $CFLAGS $LDFLAGS -print-file-name=$tcm_file`
      for tcm_folder in $tcm_folders; do
        AS_CASE([$tcm_path], [/*], [],
          [test ! -f "$tcm_folder/$tcm_file" ||
             tcm_path=$tcm_folder/$tcm_file])
      done
      AS_CASE([$tcm_path], [/*], [],
        # Of the system's own libraries no archive is needed.
        [AS_IF([test "x$tcm_option" = "x$tcm_name"], [tcm_is_found=no])
         tcm_path=$tcm_option])
      tcm_try="$tcm_try $tcm_path"
    done
    tcm_try=`AS_ECHO(["$tcm_try"]) | sed 's/^ *//'`
    AS_IF([test "x$tcm_options" = x],
      [AS_IF([test "x$PKG_CONFIG" = x],
        [tcm_archive_tried="$tcm_archive_tried; there is no pkg-config to ask what else it needs"],
        [tcm_archive_tried="$tcm_archive_tried; $PKG_CONFIG --static --libs $2 names nothing"])],
      [test $tcm_is_found = no],
      [tcm_archive_tried="$tcm_archive_tried; $1 is not found by $CC"],
      [tcm_save_LIBS=$LIBS
       LIBS="$tcm_try $tcm_save_LIBS"
       AC_LINK_IFELSE([AC_LANG_PROGRAM([$3], [$4])],
         [tcm_archives=$tcm_try
          tcm_archive_options=$tcm_options],
         [tcm_archive_tried="$tcm_archive_tried; no program links with $tcm_try"])
       LIBS=$tcm_save_LIBS])
    test "x$tcm_archives" = xno || break
  done
  tcm_archive_tried=`AS_ECHO(["$tcm_archive_tried"]) | sed 's/^; //'`
])

AC_DEFUN([TCM_PKG_CONFIG], [
  AC_ARG_VAR([PKG_CONFIG], [pkg-config, which knows what a static archive needs])
  AC_PATH_TOOL([PKG_CONFIG], [pkg-config])
])
