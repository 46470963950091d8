// SPDX-License-Identifier: BSD-3-Clause
//! A global allocator whose calls can be recorded, over the static library
//! libtcmalloc_minimal_tracing, and the control of this program's recording.
//!
//! ```no_run
//! #[global_allocator]
//! static A: malloc_trace::Alloc = malloc_trace::Alloc;
//!
//! fn main() {
//!     malloc_trace::start("t.lz4");
//!     malloc_trace::mark("requests begin");
//!     malloc_trace::stop();
//! }
//! ```
//!
//! The program is recorded from its start when TCMALLOC_TRACE_OUTPUT is set.
//! The library replaces malloc and its family, too, for the program's C code.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CString, OsString};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(n: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize)
        -> c_int;
    fn free_sized(block: *mut c_void, size: usize);
    fn free_aligned_sized(block: *mut c_void, align: usize, size: usize);
    fn malloc_trace_start(path: *const c_char) -> bool;
    fn malloc_trace_stop() -> bool;
    fn malloc_trace_flush() -> bool;
    fn malloc_trace_is_on() -> bool;
    fn malloc_trace_mark(text: *const c_char);
    fn malloc_trace_file(path: *mut c_char, size: usize) -> bool;
}

/// The global allocator.
pub struct Alloc;

/// Tells whether malloc gives a block of SIZE bytes the alignment ALIGN: 16, or
/// 8 to blocks of up to 8 bytes.
#[inline]
fn is_natural(align: usize, size: usize) -> bool {
    align <= 8 || (align == 16 && size > 8)
}

// Layouts have sizes above 0 and alignments that are powers of two.
unsafe impl GlobalAlloc for Alloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.align(), layout.size()) {
            return malloc(layout.size()) as *mut u8;
        }
        let mut block = ptr::null_mut();
        match posix_memalign(&mut block, layout.align(), layout.size()) {
            0 => block as *mut u8,
            _ => ptr::null_mut(),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_natural(layout.align(), layout.size()) {
            free_sized(block as *mut c_void, layout.size());
        } else {
            let (align, size) = (layout.align(), layout.size());
            free_aligned_sized(block as *mut c_void, align, size);
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.align(), layout.size()) {
            return calloc(1, layout.size()) as *mut u8;
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(
        &self,
        block: *mut u8,
        old: Layout,
        size: usize,
    ) -> *mut u8 {
        let align = old.align();
        if is_natural(align, old.size()) && is_natural(align, size) {
            return realloc(block as *mut c_void, size) as *mut u8;
        }
        // realloc keeps no alignment above that of malloc.
        let to = self.alloc(Layout::from_size_align_unchecked(size, align));
        if !to.is_null() {
            ptr::copy_nonoverlapping(block, to, old.size().min(size));
            self.dealloc(block, old);
        }
        to
    }
}

/// Begins a recording to PATH, in which %p stands for the process id. false:
/// one is on already, or it cannot begin, or PATH has a byte 0.
pub fn start<P: AsRef<Path>>(path: P) -> bool {
    match CString::new(path.as_ref().as_os_str().as_bytes()) {
        Ok(path) => unsafe { malloc_trace_start(path.as_ptr()) },
        Err(_) => false,
    }
}

/// Begins a recording to the output that TCMALLOC_TRACE_OUTPUT named at the
/// program's start. false: it named none, or a recording is on already.
pub fn start_default() -> bool {
    unsafe { malloc_trace_start(ptr::null()) }
}

/// Ends the recording; the trace is whole then. false: there was none, or its
/// end could not be written.
pub fn stop() -> bool {
    unsafe { malloc_trace_stop() }
}

/// true: all events so far are in the file.
pub fn flush() -> bool {
    unsafe { malloc_trace_flush() }
}

/// true: a recording is on.
pub fn is_on() -> bool {
    unsafe { malloc_trace_is_on() }
}

/// Puts TEXT and the time into the trace: at most 127 bytes, up to a byte 0.
pub fn mark(text: &str) {
    let mut line = [0u8; 128];
    let length = text.len().min(line.len() - 1);
    line[..length].copy_from_slice(&text.as_bytes()[..length]);
    unsafe { malloc_trace_mark(line.as_ptr() as *const c_char) }
}

/// The absolute name of the file that this program records to, or recorded to
/// last; all events so far are in it. None: there is no file.
pub fn file() -> Option<PathBuf> {
    let mut path: Vec<u8> = vec![0; 4096];
    let to = path.as_mut_ptr() as *mut c_char;
    if !unsafe { malloc_trace_file(to, path.len()) } {
        return None;
    }
    path.truncate(path.iter().position(|&byte| byte == 0)?);
    Some(PathBuf::from(OsString::from_vec(path)))
}
