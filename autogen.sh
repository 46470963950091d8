#!/bin/sh
# Generates configure and the Makefile.in files. Needs autoconf, automake and
# libtool.
set -e
cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all,no-obsolete
