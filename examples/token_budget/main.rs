//! A budget of tokens that several agents spend.

fn main() {}
