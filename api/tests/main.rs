//! The api over the memory log: every answer, every stream, and what happens to them when things go wrong.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod kit;
