# TCM_FOLDERS: libtool and the makefiles take a blank in the name of a folder, to
# build in or to install to, for its end, and the shell's signs for its own. Most
# of them only after everything was built. Of the sources' folder automake says so.
AC_DEFUN([TCM_FOLDERS], [
  for tcm_folder in prefix exec_prefix bindir libdir includedir datarootdir \
      datadir mandir docdir; do
    AS_VAR_COPY([tcm_value], [$tcm_folder])
    # A reference as in ${prefix}/lib is expanded in the makefile.
    tcm_rest=`AS_ECHO(["$tcm_value"]) | sed 's/\${[[A-Za-z_]]*}//g'`
    AS_CASE(["$tcm_rest"],
      [*[[\	\ \"\'\`\\\;\&\|\(\)\<\>\*\?\#\$]]*],
      [AC_MSG_ERROR([--$tcm_folder='$tcm_value': no file can be installed to a
folder with a blank, a quote or one of \\ ; & | ( ) < > * ? @%:@ $ in its name;
choose another one, and link to it by the name that you want])])
  done
  AS_CASE(["`pwd`"], [*[[\	\ ]]*],
    [AC_MSG_ERROR([a folder with a blank in its name cannot be built in:
`pwd`
(quickstart.sh and check.sh build elsewhere then)])])
])
