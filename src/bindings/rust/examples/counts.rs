// SPDX-License-Identifier: BSD-3-Clause
//! Makes calls of each kind between two marks, and prints how many: "NAME COUNT
//! BYTES", a line each. With an argument it records itself to that file; else
//! TCMALLOC_TRACE_OUTPUT has to be set.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::ffi::OsStr;

#[global_allocator]
static A: malloc_trace::Alloc = malloc_trace::Alloc;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Fails unless BLOCK is there, has ALIGN and begins with SIZE bytes of VALUE.
unsafe fn check(block: *mut u8, align: usize, size: usize, value: u8) {
    assert!(!block.is_null());
    assert_eq!(block as usize % align, 0, "alignment {}", align);
    for i in 0..size {
        assert_eq!(*block.add(i), value, "byte {} of {}", i, size);
    }
}

unsafe fn plain(size: usize, align: usize, value: u8) -> *mut u8 {
    let block = alloc(layout(size, align));
    check(block, align, 0, 0);
    block.write_bytes(value, size);
    block
}

/// Makes calls whose sizes no other code uses. Returns bytes of (calloc,
/// malloc, posix_memalign, realloc), each of COUNT calls.
unsafe fn run(count: usize) -> [usize; 4] {
    let mut bytes = [0; 4];
    for i in 0..count {
        let size = 1001 + 2 * i;
        let block = plain(size, 1, 7);
        let grown = realloc(block, layout(size, 1), size + 30_000);
        check(grown, 1, size, 7);
        dealloc(grown, layout(size + 30_000, 1));
        let zeroed = alloc_zeroed(layout(size, 8));
        check(zeroed, 8, size, 0);
        dealloc(zeroed, layout(size, 8));
        let align = 32 << (i % 8);
        let aligned = plain(size, align, 9);
        check(aligned, align, size, 9);
        dealloc(aligned, layout(size, align));
        bytes[0] += size;
        bytes[1] += size;
        bytes[2] += size;
        bytes[3] += size + 30_000;
    }
    bytes
}

/// Alignments that malloc does not give, in every call.
unsafe fn exact() {
    for shift in 0..14 {
        let align = 1 << shift;
        for size in [1, 7, 8, 9, 16, 17, 100, 5000] {
            let zeroed = alloc_zeroed(layout(size, align));
            check(zeroed, align, size, 0);
            zeroed.write_bytes(3, size);
            let grown = realloc(zeroed, layout(size, align), size * 3);
            check(grown, align, size, 3);
            let cut = realloc(grown, layout(size * 3, align), (size + 1) / 2);
            check(cut, align, (size + 1) / 2, 3);
            dealloc(cut, layout((size + 1) / 2, align));
        }
    }
}

fn begin(path: &OsStr) {
    assert!(!malloc_trace::is_on() && malloc_trace::file().is_none());
    assert!(!malloc_trace::stop() && !malloc_trace::flush());
    assert!(malloc_trace::start(path));
}

fn main() {
    let path = std::env::args_os().nth(1);
    if let Some(path) = &path {
        begin(path);
    }
    assert!(malloc_trace::is_on() && !malloc_trace::start_default());
    malloc_trace::mark("calls begin");
    let bytes = unsafe { run(500) };
    malloc_trace::mark("calls end");
    unsafe { exact() };
    assert!(malloc_trace::flush());
    let file = malloc_trace::file().expect("a file");
    assert!(malloc_trace::stop() && !malloc_trace::is_on());
    unsafe { exact() };
    for (i, name) in ["calloc", "malloc", "posix_memalign", "realloc"]
        .iter()
        .enumerate()
    {
        println!("{} 500 {}", name, bytes[i]);
    }
    println!("free_aligned_sized 500 0\nfree_sized 1000 0");
    println!("file {}", file.display());
}
