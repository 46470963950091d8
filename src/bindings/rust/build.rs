// SPDX-License-Identifier: BSD-3-Clause
//! Finds the static library libtcmalloc_minimal_tracing.a: in the folder that
//! MALLOC_TRACE_LIB_DIR names, else by pkg-config. The libraries that it needs
//! are those of pkg-config's file, or of MALLOC_TRACE_LIBS ("-llz4").

use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

const NAME: &str = "tcmalloc_minimal_tracing";
const PACKAGE: &str = "libtcmalloc_minimal_tracing";

fn fail(why: &str) -> ! {
    eprintln!("malloc_trace: {}", why);
    exit(1)
}

fn pkg_config() -> Vec<String> {
    let tool = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let hint = "install the library, or name the folder of \
                libtcmalloc_minimal_tracing.a in MALLOC_TRACE_LIB_DIR";
    let output = match Command::new(&tool)
        .args(["--static", "--libs", PACKAGE])
        .output()
    {
        Ok(output) => output,
        Err(e) => fail(&format!("cannot run {}: {}; {}", tool, e, hint)),
    };
    if !output.status.success() {
        fail(&format!("{} does not know {}; {}", tool, PACKAGE, hint));
    }
    split_flags(&String::from_utf8_lossy(&output.stdout))
}

/// Splits TEXT at blanks, without those after a backslash, which pkg-config
/// puts before a blank in a name.
fn split_flags(text: &str) -> Vec<String> {
    let mut flags = vec![String::new()];
    let mut rest = text.trim().chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => flags.last_mut().unwrap().extend(rest.next()),
            c if c.is_whitespace() => flags.push(String::new()),
            c => flags.last_mut().unwrap().push(c),
        }
    }
    flags
}

/// Passes on the libraries that the archive needs, and their folders.
fn link_needed(flags: &[String]) {
    for flag in flags {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(name) = flag.strip_prefix("-l") {
            if name != NAME {
                println!("cargo:rustc-link-lib={}", name);
            }
        } else if Path::new(flag).extension().map_or(false, |e| e == "a") {
            println!("cargo:rustc-link-arg={}", flag);
        }
    }
}

fn main() {
    for name in [
        "MALLOC_TRACE_LIB_DIR",
        "MALLOC_TRACE_LIBS",
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
    ] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let folders: Vec<PathBuf>;
    let flags: Vec<String>;
    if let Ok(folder) = env::var("MALLOC_TRACE_LIB_DIR") {
        folders = vec![PathBuf::from(folder)];
        let needed = env::var("MALLOC_TRACE_LIBS");
        flags = split_flags(&needed.unwrap_or_else(|_| "-llz4".into()));
    } else {
        flags = pkg_config();
        folders = flags
            .iter()
            .filter_map(|flag| flag.strip_prefix("-L"))
            .map(PathBuf::from)
            .collect();
    }
    let file = format!("lib{}.a", NAME);
    match folders.iter().find(|folder| folder.join(&file).exists()) {
        Some(folder) => {
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rerun-if-changed={}", folder.join(&file).display());
        }
        None => fail(&format!("no {} in {:?}", file, folders)),
    }
    println!("cargo:rustc-link-lib=static:-bundle={}", NAME);
    link_needed(&flags);
}
