// SPDX-License-Identifier: BSD-3-Clause
// Allocations of a Rust program, whose stacks, blocks and bytes valgrind's DHAT
// sees too: vectors, strings, boxes, a map, generic and inlined functions,
// closures, calls through a table, and what is alive at the end. Nothing grows by
// realloc: DHAT shows that where the block was first allocated.
use std::collections::BTreeMap;
use std::hint::black_box;

trait Shape {
    fn grow(&self) -> Vec<u8>;
}

struct Square(usize);
struct Circle(usize);

impl Shape for Square {
    #[inline(never)]
    fn grow(&self) -> Vec<u8> {
        let mut v = Vec::with_capacity(self.0);
        for i in 0..self.0 {
            v.push(i as u8);
        }
        v
    }
}

impl Shape for Circle {
    #[inline(never)]
    fn grow(&self) -> Vec<u8> {
        vec![7; self.0]
    }
}

#[inline(never)]
fn boxes<T: Clone>(one: &T, n: usize) -> Vec<Box<T>> {
    (0..n).map(|_| Box::new(one.clone())).collect()
}

#[inline]
fn name(i: usize) -> String {
    format!("block {}", i)
}

#[inline(never)]
fn words(n: usize) -> BTreeMap<usize, String> {
    let mut map = BTreeMap::new();
    for i in 0..n {
        map.insert(i, name(i));
    }
    map
}

fn main() {
    let shapes: Vec<Box<dyn Shape>> =
        vec![Box::new(Square(1000)), Box::new(Circle(300))];
    for shape in &shapes {
        black_box(shape.grow());
    }
    black_box(boxes(&[1u64; 4], 50));
    black_box(boxes(&String::from("a string of its own"), 20));
    let map = black_box(words(40));
    let kept: Vec<String> = map.values().rev().cloned().collect();
    std::mem::forget(black_box(kept));
}
