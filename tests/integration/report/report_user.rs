// SPDX-License-Identifier: BSD-3-Clause
// Memory that Rust's library asks for, for a function whose name ends with the
// bytes.
#[inline(never)]
fn open_session_8000(n: u8) -> (Vec<u8>, Vec<u8>) {
    let a = vec![n; 2000];
    let mut b = a.to_vec();
    b.reserve_exact(2000);
    (a, b)
}

fn main() {
    let (a, b) = open_session_8000(std::env::args().count() as u8);
    std::process::exit((a.len() + b.len()) as i32 - 4000);
}
